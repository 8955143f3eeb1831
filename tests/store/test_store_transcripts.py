"""Transcripts: every event survives, a torn end is cut and counted, nothing else is ever dropped."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from teamwright.core.data import event as events
from teamwright.core.data.code import SavedTree, TreeSaved
from teamwright.core.data.conversation.history import fold
from teamwright.core.data.event import AgentStarted, Durable, ModeChanged, Reminded, Replied, ToolEnded, ToolStarted
from teamwright.core.data.message import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, Usage, user
from teamwright.core.errors import StoreError
from teamwright.core.ids import CallId, SessionId
from teamwright.core.permissions.consent import MODES
from teamwright.store.files.transcripts import Transcript, TranscriptTail, read

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
COUNT = st.integers(0, 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
RAW = OBJECT.map(lambda value: Raw(msgspec.json.encode(value)))
CONTENT = st.lists(st.builds(Text, TEXT) | st.builds(Image, TEXT, TEXT), max_size=3).map(tuple)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT)
BLOCK = (
    st.builds(Text, TEXT)
    | st.builds(Thinking, TEXT, TEXT)
    | st.builds(Image, TEXT, TEXT)
    | st.builds(ToolCall, TEXT, TEXT, RAW, TEXT)
    | st.builds(ToolResult, TEXT, CONTENT, st.booleans())
    | st.builds(Opaque, RAW)
)
MESSAGE = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCK, max_size=4).map(tuple), TEXT)
MESSAGES = st.lists(MESSAGE, max_size=2).map(tuple)
STOP = st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "pause"])
EFFORT = st.none() | st.integers(0, 10**6) | st.sampled_from(["low", "medium", "high", "xhigh", "max"])
END = st.sampled_from(["done", "max_turns", "max_budget", "interrupted", "refused", "failed"])
SEEN = st.lists(st.builds(events.Seen, TEXT, COUNT, COUNT), max_size=2).map(tuple)
KINDS: dict[type, st.SearchStrategy[Any]] = {
    AgentStarted: st.builds(AgentStarted, TEXT, TEXT, TEXT, st.just(1), TEXT, TEXT, st.none() | TEXT, COUNT),
    events.Resumed: st.builds(events.Resumed, TEXT, COUNT),
    events.Rendered: st.builds(events.Rendered, TEXT, TEXT, TEXT, EFFORT),
    events.LettersTaken: st.builds(events.LettersTaken, st.lists(TEXT, max_size=3).map(tuple), MESSAGE),
    Reminded: st.builds(Reminded, MESSAGE),
    Replied: st.builds(Replied, MESSAGE, STOP, USAGE, TEXT, COUNT),
    events.Compacted: st.builds(
        events.Compacted, st.lists(MESSAGE, max_size=3).map(tuple), st.sampled_from(["auto", "manual", "too_long"]),
        COUNT, USAGE,
    ),
    events.Rewound: st.builds(
        events.Rewound, COUNT, COUNT, st.booleans(), st.lists(TEXT, max_size=2).map(tuple), COUNT, MESSAGES
    ),
    events.Mended: st.builds(
        events.Mended, st.lists(st.builds(events.Replaced, COUNT, MESSAGE), max_size=3).map(tuple)
    ),
    TreeSaved: st.builds(
        TreeSaved, st.builds(SavedTree, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=2), TEXT, st.booleans())
    ),
    ToolStarted: st.builds(ToolStarted, TEXT),
    ToolEnded: st.builds(
        ToolEnded, TEXT, CONTENT, st.booleans(), st.none() | OBJECT, SEEN, TEXT, st.none() | OBJECT
    ),
    events.Denied: st.builds(events.Denied, TEXT, TEXT, OBJECT, TEXT),
    ModeChanged: st.builds(ModeChanged, st.sampled_from(MODES)),
    events.TurnEnded: st.builds(events.TurnEnded, END, TEXT, TEXT, st.none() | STOP, st.none() | COUNT),
    events.AgentEnded: st.builds(events.AgentEnded, st.sampled_from(["completed", "failed", "killed"]), TEXT, TEXT),
}  # fmt: skip

STARTED = AgentStarted(SessionId("s"), "/work", "1")
SOME: list[Durable] = [
    STARTED,
    Reminded(user("grüß\n\u2028Gott")),
    Replied(
        Message("assistant", (ToolCall(CallId("c"), "Bash", Raw(b'{"command":"ls"}')),), "m"), "tool_use", Usage(1)
    ),
    ToolEnded(CallId("c"), (Text("a\nb"),), data={"n": 1}),
]


def write(path: Path, some: list[Durable]) -> None:
    transcript = Transcript.create(path)
    assert [transcript.append(event, at) for at, event in enumerate(some)] == list(range(1, len(some) + 1))
    transcript.close()


def reopen(path: Path) -> tuple[list[Durable], int]:
    transcript, found, torn = Transcript.open(path)
    transcript.close()
    return found, torn


def test_there_is_a_strategy_for_every_durable_event() -> None:
    assert set(KINDS) == set(Durable.__args__)


@pytest.mark.spec("O2")
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.one_of(*KINDS.values()), max_size=6))
def test_every_event_survives(tmp_path: Path, some: list[Durable]) -> None:
    path = tmp_path / f"{os.urandom(8).hex()}.jsonl"
    write(path, some)
    assert reopen(path) == (some, 0)
    assert [(n, line.at, line.event) for n, line in read(path)] == [(n + 1, n, e) for n, e in enumerate(some)]


@pytest.mark.spec("O2")
def test_a_transcript_is_private_one_line_an_event(tmp_path: Path) -> None:
    path = tmp_path / "p" / "t.jsonl"
    write(path, SOME)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.read_bytes().count(b"\n") == len(SOME)


def test_a_block_kept_verbatim_may_hold_line_ends(tmp_path: Path) -> None:
    odd = Opaque(Raw(b'{\n  "type": "odd",\r\n "x": "a\\nb"\n}'))
    write(tmp_path / "t", [STARTED, Reminded(Message("assistant", (odd,)))])
    found, torn = reopen(tmp_path / "t")
    assert torn == 0
    assert isinstance(found[1], Reminded)
    block = found[1].message.blocks[0]
    assert isinstance(block, Opaque)
    assert msgspec.json.decode(block.raw) == msgspec.json.decode(odd.raw)


@pytest.mark.spec("A2")
def test_a_torn_last_line_is_cut_at_every_byte_and_the_rest_is_whole(tmp_path: Path) -> None:
    write(tmp_path / "whole", SOME)
    data = (tmp_path / "whole").read_bytes()
    last = data[:-1].rfind(b"\n") + 1
    path = tmp_path / "torn"
    for end in range(last, len(data)):
        path.write_bytes(data[:end])
        transcript, found, torn = Transcript.open(path)
        assert (found, torn) == (SOME[:-1], end - last)
        assert transcript.append(SOME[-1], len(SOME) - 1) == len(SOME)
        transcript.close()
        assert path.read_bytes() == data
    assert not list(tmp_path.glob("*.damaged"))


@pytest.mark.parametrize("garbage", [b"\0" * 50, b"\0\0\n\xff\xfe\n", b'{"at":1,"event":{"ty\n\n', b"\n"])
def test_an_end_that_nobody_can_read_is_cut_and_kept_beside(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "t.jsonl"
    write(path, SOME)
    whole = path.read_bytes()
    path.write_bytes(whole + garbage)
    assert reopen(path) == (SOME, len(garbage))
    assert path.read_bytes() == whole
    beside = tmp_path / "t.jsonl.damaged"
    assert (beside.read_bytes() if beside.exists() else b"") == (garbage if b"\n" in garbage else b"")


@pytest.mark.parametrize("damage", [b"xx", b"", b'{"at":1'])
def test_damage_before_whole_lines_is_an_error_that_names_the_line(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "t.jsonl"
    write(path, SOME)
    lines = path.read_bytes().split(b"\n")
    lines[1] = damage
    broken = b"\n".join(lines)
    path.write_bytes(broken)
    with pytest.raises(StoreError, match=r"t\.jsonl, line 2 is damaged"):
        Transcript.open(path)
    with pytest.raises(StoreError, match=r"line 2 is damaged"):
        list(read(path))
    assert path.read_bytes() == broken


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":1,"event":{"type":"from_the_future","x":1}}',
        b'{"at":1,"event":{"type":"mode_changed","mode":"new"}}',
        b"{}",
    ],
)
def test_an_event_of_a_newer_version_is_refused_and_never_cut(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "t"
    write(path, SOME)
    data = path.read_bytes() + line + b"\n"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"line 5: .*update the program"):
        Transcript.open(path)
    assert path.read_bytes() == data


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t", [AgentStarted(SessionId("s"), "/", "9", format=events.FORMAT + 1), *SOME[1:]])
    with pytest.raises(StoreError, match=r"format 2; this version of teamwright knows 1. Update"):
        Transcript.open(tmp_path / "t")


def test_create_never_overwrites(tmp_path: Path) -> None:
    write(tmp_path / "t", SOME)
    with pytest.raises(StoreError, match="exists already"):
        Transcript.create(tmp_path / "t")
    assert reopen(tmp_path / "t") == (SOME, 0)


def test_an_empty_or_missing_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert reopen(tmp_path / "empty") == ([], 0)
    with pytest.raises(StoreError, match="No such file"):
        Transcript.open(tmp_path / "missing")
    with pytest.raises(StoreError, match="No such file"):
        list(read(tmp_path / "missing"))


def test_others_read_while_it_is_written_and_leave_a_torn_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, SOME)
    with path.open("ab") as file:
        file.write(b'{"at":9,"ev')
    assert [n for n, _ in read(path)] == [1, 2, 3, 4]
    assert [(n, line.event) for n, line in read(path, since=2)] == [(3, SOME[2]), (4, SOME[3])]
    assert list(read(path, since=4)) == []
    assert path.read_bytes().endswith(b'{"at":9,"ev')


def test_a_tail_reads_each_line_once_and_finishes_a_torn_one_later(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, SOME[:2])
    whole = path.read_bytes()
    tail = TranscriptTail(path, since=1)
    assert [(n, line.event) for n, line in tail.read()] == [(2, SOME[1])] and list(tail.read()) == []
    with path.open("ab") as file:
        file.write(whole[:9])
    assert list(tail.read()) == []
    with path.open("ab") as file:
        file.write(whole[9:])
    assert [(n, line.event) for n, line in tail.read()] == [(3, SOME[0]), (4, SOME[1])]
    path.write_bytes(whole)  # cut: what was read before is not read again
    assert list(tail.read()) == [] and tail.lines == 4
    path.write_bytes(whole * 3)
    assert [n for n, _ in tail.read()] == [5, 6]


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count what a process reads")
def test_what_a_tail_reads_does_not_grow_with_the_transcript(tmp_path: Path) -> None:
    def bytes_read() -> int:
        counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counts["rchar"])

    costs: list[int] = []
    for lines in (10, 20_000):
        path = tmp_path / str(lines)
        write(path, [Reminded(user("x" * 100))] * lines)
        tail = TranscriptTail(path)
        assert len(list(tail.read())) == lines
        line = path.read_bytes().partition(b"\n")[0] + b"\n"
        with path.open("ab") as file:
            file.write(line)
        before = bytes_read()
        assert [n for n, _ in tail.read()] == [lines + 1]
        costs.append(bytes_read() - before)
    assert costs[1] <= costs[0] + 4 * len(line)


def test_text_that_is_not_unicode_is_refused_and_the_file_stays_whole(tmp_path: Path) -> None:
    transcript = Transcript.create(tmp_path / "t")
    with pytest.raises(StoreError, match="cannot be recorded"):
        transcript.append(Reminded(user("\ud800")), 1)
    assert transcript.append(STARTED, 1) == 1
    transcript.close()
    assert reopen(tmp_path / "t") == ([STARTED], 0)


def test_after_close_nothing_is_written(tmp_path: Path) -> None:
    transcript = Transcript.create(tmp_path / "t")
    transcript.close()
    transcript.close()
    with pytest.raises(StoreError, match="closed"):
        transcript.append(STARTED, 1)


@pytest.mark.anyio
async def test_syncs_at_the_same_time_and_appends_between_them(tmp_path: Path) -> None:
    transcript = Transcript.create(tmp_path / "t")
    await transcript.sync()

    async def write_and_sync(at: int) -> None:
        transcript.append(ToolStarted(CallId(str(at))), at)
        await transcript.sync()

    async with anyio.create_task_group() as group:
        for at in range(50):
            group.start_soon(write_and_sync, at)
    transcript.close()
    found, _ = reopen(tmp_path / "t")
    assert len(found) == 50


FULL = """
import resource, sys, anyio
from pathlib import Path
from teamwright.core.errors import StoreError
from teamwright.core.data.event import *
from teamwright.core.data.message import user
from teamwright.store.files.transcripts import Transcript

async def main():
    t = Transcript.create(Path(sys.argv[1]))
    t.append(Reminded(user("x" * 3000)), 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        t.append(Reminded(user("y" * 3000)), 2)
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(t.append(Reminded(user("z" * 3000)), 3))
    await t.sync()

anyio.run(main)
"""


@pytest.mark.spec("A2")
def test_a_full_disk_in_the_middle_of_a_line_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=30, check=True
    )
    words, number = done.stdout.splitlines()
    assert words.startswith(f"The disk is full: cannot write to {path}")
    assert number == "2"
    assert reopen(path) == ([Reminded(user("x" * 3000)), Reminded(user("z" * 3000))], 0)


def test_a_thousand_turns_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    turns: list[Durable] = [STARTED]
    for n in range(1000):
        id = CallId(f"c{n}")
        asked = ToolCall(id, "Read", Raw(b'{"file_path":"/a"}'))
        turns += [
            Replied(Message("assistant", (Text("Let me look."), asked), "m"), "tool_use", Usage(1, 2, 3, 4)),
            ToolStarted(id),
            ToolEnded(id, (Text("line\n" * 200),)),
        ]
    write(path, turns)
    found, _ = reopen(path)
    assert fold(found).turns == 1000
