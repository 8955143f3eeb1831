"""Pages and moments that are read through an index of lines must equal a fold of the whole transcript."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Compacted,
    Denied,
    Durable,
    LettersTaken,
    Record,
    Rendered,
    Replied,
    Rewound,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import Message, Text, ToolCall, Usage, user
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, LetterId, SessionId
from teamwright.store.files.lines import Lines
from teamwright.store.files.paths import Home
from teamwright.store.files.transcripts import Transcript, read
from teamwright.surfaces.web.sessions.disk import DiskSession
from teamwright.surfaces.web.sessions.fold import EVERYTHING, PageFold, PageTalk, numbered
from teamwright.surfaces.web.sessions.talks import Talks

SESSION = SessionId("11111111-2222-4333-8444-555555555555")


def replied(text: str, *calls: str) -> Replied:
    made = [ToolCall(CallId(id), "Read", Raw(b'{"file_path":"/' + id.encode() + b'"}')) for id in calls]
    message = Message("assistant", (Text(text), *made), "script/x")
    return Replied(message, "tool_use" if calls else "end_turn", Usage(input=10, output=3))


def ended(id: str) -> ToolEnded:
    return ToolEnded(CallId(id), (Text(f"result of {id}"),))


def turns(many: int) -> Iterator[Durable]:
    for n in range(many):
        yield LettersTaken((LetterId(f"l{n}"),), user(f"prompt {n}"))
        yield replied(f"reply {n}", *(f"c{n}.{k}" for k in range(n % 4)))
        for k in range(n % 4):
            yield Denied(CallId(f"c{n}.{k}"), "Read", {}, "no") if k == 2 else ended(f"c{n}.{k}")
        if n % 3 == 0:
            yield replied(f"more {n}")
        yield TurnEnded("failed", error="it broke") if n % 5 == 4 else TurnEnded("done", text=f"reply {n}")
        if n % 7 == 6:
            yield Compacted((user("a summary"),), "auto", 1_000, Usage())


def write(path: Path, events: list[Durable]) -> None:
    transcript = Transcript.create(path)
    start = AgentStarted(SESSION, "/", "0")
    for n, event in enumerate([start, Rendered("p", "script/x", "start"), *events]):
        transcript.append(event, 1_000 + 10 * n)
    transcript.close()


def whole_talk(path: Path, until: int = 0) -> list[str]:
    fold = PageTalk(most=EVERYTHING)
    for n, line in read(path):
        if not until or line.at <= until:
            fold.apply(Record(AgentId(path.stem), n, line.at, line.event))
    return [id for id, item in numbered(fold.talk.items) if item.n]


def all_pages(talks: Talks, path: Path, limit: int, until: int = 0) -> list[str]:
    ids: list[str] = []
    while True:
        page = talks.page(path, before=ids[0] if ids else "", limit=limit, until=until)
        ids = [item["id"] for item in page["items"]] + ids
        assert len(page["items"]) <= limit
        if not page["more"]:
            return ids


@pytest.mark.spec("N16", "N21")
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_of_every_size_are_the_whole_conversation(tmp_path: Path, limit: int) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    write(path, [*turns(12), LettersTaken((LetterId("z"),), user("last")), replied("open", "o1", "o2"), ended("o1")])
    talks = Talks(Home(tmp_path))
    assert all_pages(talks, path, limit) == whole_talk(path)
    for until in (999, 1_000, 1_105, 1_230, 1_400):
        assert all_pages(talks, path, limit, until) == whole_talk(path, until)
    assert {i["call"]: i["status"] for i in talks.page(path)["items"] if i["type"] == "step"}["o2"] == "running"


@pytest.mark.spec("N16")
def test_a_rewind_takes_items_away_from_every_page(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    back = Rewound(5, 0, talk=True)
    write(path, [*turns(4), back, *turns(3)])
    talks = Talks(Home(tmp_path))
    assert all_pages(talks, path, 2) == whole_talk(path)
    before = 1_000 + 10 * 8
    assert all_pages(talks, path, 2, before) == whole_talk(path, before)


@pytest.mark.spec("N11", "N21")
def test_agents_are_known_without_folding_what_was_before(tmp_path: Path) -> None:
    events = [*turns(9), LettersTaken((LetterId("z"),), user("last")), replied("open", "o1", "o2"), ended("o1")]
    for count in (0, 3, 9, len(events) - 1, len(events)):
        folder = tmp_path / str(count)
        folder.mkdir()
        path = folder / f"{SESSION}.jsonl"
        write(path, events[:count])
        found = DiskSession(path)
        found.refresh()
        full = PageFold(AgentId(path.stem))
        for n, line in read(path):
            full.apply(Record(full.main, n, line.at, line.event))
        full.price_all()
        assert found.fold.agents == full.agents
    transcript, _, _ = Transcript.open(path)
    transcript.append(ended("o2"), 9_000)
    transcript.append(AgentEnded("completed", "all"), 9_001)
    transcript.close()
    assert found.refresh() and found.fold.agents[full.main].state == "done" and not found.refresh()


@pytest.mark.spec("N8")
def test_an_index_follows_a_file_that_grows_and_one_that_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, list(turns(3)))
    lines = Lines(path)
    assert lines.refresh() and not lines.refresh()
    known = len(lines)
    with path.open("ab") as file:
        file.write(b'{"at":1,"eve')
    assert not lines.refresh() and len(lines) == known
    path.unlink()
    write(path, list(turns(1)))
    assert lines.refresh() and len(lines) < known
    assert [record.n for record in lines.records(range(1, len(lines) + 1))] == list(range(1, len(lines) + 1))
    path.unlink()
    with pytest.raises(StoreError):
        lines.refresh()
