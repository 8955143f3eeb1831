"""Transcripts in an engine: one writer continues them, other machines read them, whole or not at all."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from engine_kit import Engines, Server
from teamwright.core.data.event import AgentStarted, Reminded, Rendered, ToolStarted
from teamwright.core.data.message import user
from teamwright.core.data.team import ProcessId
from teamwright.core.errors import Fenced
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.osfiles.locks import hold
from teamwright.store.engine.port import MOST_BYTES, EngineError
from teamwright.store.engine.shared_transcripts import SharedTranscripts, TranscriptCopies
from teamwright.store.engine.wire.address import Address
from teamwright.store.engine.wire.lines import Lines, Place
from teamwright.store.engine.wire.nats import open_log
from teamwright.store.engine.wire.objects import NatsObjects
from teamwright.store.files import prompts
from teamwright.store.files.paths import SessionFiles

pytestmark = pytest.mark.anyio
S = SessionId("11111111-1111-4111-8111-111111111111")
MAIN = AgentId(S)
A, B = ProcessId("pa"), ProcessId("pb")


@asynccontextmanager
async def open_lines(root: Path, space: Address, patience: float = 20) -> AsyncIterator[Lines]:
    log = await open_log(space, "lead", "ada", patience=patience)
    try:
        objects = NatsObjects(log, patience)
        lines = Lines(log, objects, "ada", root / "run")
        await objects.prepare()
        await lines.prepare()
        yield lines
    finally:
        await log.close()


@pytest.fixture
def space() -> Address:
    return Engines.get().new_space()


@pytest.mark.spec("Z28", "Z24")
async def test_a_part_that_somebody_forged_is_not_read(tmp_path: Path, space: Address) -> None:
    """Somebody may be the first to store under its name; what counts is that the content matches it."""
    long = b'{"x":"' + b"y" * (MOST_BYTES + 10) + b'"}\n'
    async with open_lines(tmp_path, space) as lines:
        await lines.put(f"part/{hashlib.sha256(long).hexdigest()}", b"forged")
        await lines.append(MAIN, A, [long], Place())
        with pytest.raises(EngineError, match="something else in place of a part"):
            await lines.pull(MAIN, tmp_path / "copy")


@pytest.mark.spec("Z8", "Z16")
async def test_what_was_appended_is_read_again_whole(tmp_path: Path, space: Address) -> None:
    short, long = b'{"n":1}\n', b'{"x":"' + b"y" * (MOST_BYTES + 10) + b'"}\n'
    async with open_lines(tmp_path, space) as lines:
        place = await lines.append(MAIN, A, [short, short], Place())
        place = await lines.append(MAIN, A, [short, long, short], place)
        assert place.lines == 5
        assert await lines.pull(MAIN, tmp_path / "x" / "copy") == place
        assert (tmp_path / "x" / "copy").read_bytes() == short * 3 + long + short
        (tmp_path / "none").write_bytes(short)  # its writer was killed before it was sent
        assert await lines.pull(AgentId("nobody"), tmp_path / "none") == Place()
        assert not (tmp_path / "none").exists() and await lines.counts() == {MAIN: 4}


async def test_many_short_lines_share_messages(tmp_path: Path, space: Address) -> None:
    rows = [b"x" * 999 + b"\n"] * 1200
    async with open_lines(tmp_path, space) as lines:
        place = await lines.append(MAIN, A, rows, Place())
        assert place.lines == 1200 and place.seq == 3
        await lines.pull(MAIN, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == b"".join(rows)


@pytest.mark.spec("Z10")
async def test_of_two_that_continue_a_transcript_one_has_lost(tmp_path: Path, space: Address) -> None:
    async with open_lines(tmp_path, space) as one, open_lines(tmp_path, space) as two:
        place = await one.append(MAIN, A, [b"first\n"], Place())
        for n in range(20):
            outcomes: list[object] = []

            async def race(lines: Lines, process: ProcessId, at: Place = place, to: list[object] = outcomes) -> None:
                try:
                    to.append(await lines.append(MAIN, process, [f"{process}\n".encode()], at))
                except Fenced as error:
                    to.append(str(error))

            async with anyio.create_task_group() as group:
                group.start_soon(race, one, A)
                group.start_soon(race, two, B)
            (won,) = [found for found in outcomes if isinstance(found, Place)]
            (lost,) = [found for found in outcomes if isinstance(found, str)]
            assert "Another process has continued agent" in lost and won.lines == n + 2
            place = won
        await one.pull(MAIN, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes().count(b"\n") == 21


@pytest.mark.spec("Z22")
async def test_an_append_whose_answer_was_lost_is_found_again(tmp_path: Path, space: Address) -> None:
    async with open_lines(tmp_path, space) as lines:
        place = await lines.append(MAIN, A, [b"first\n"], Place())
        again = await lines.append(MAIN, A, [b"first\n"], Place())  # as if no answer had come back
        assert again == place
        await lines.pull(MAIN, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == b"first\n"


@pytest.mark.spec("Z22")
async def test_lines_wait_for_an_engine_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        async with open_lines(tmp_path, server.new_space()) as lines:
            place = await lines.append(MAIN, A, [b"first\n"], Place())
            server.kill()
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(anyio.to_thread.run_sync, server.start)
                    place = await lines.append(MAIN, A, [b"second\n"], place)
            await lines.pull(MAIN, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == b"first\nsecond\n"
    finally:
        server.kill()


@pytest.mark.spec("Z16")
async def test_a_transcript_goes_on_on_another_machine(tmp_path: Path, space: Address) -> None:
    here, there = SessionFiles(tmp_path / "a" / f"{S}.jsonl"), SessionFiles(tmp_path / "b" / f"{S}.jsonl")
    hash = prompts.put(here.prompts, ("be kind",), ())
    async with open_lines(tmp_path, space) as lines:
        first = SharedTranscripts(lines, A)
        transcript = first.create(here.transcript)
        transcript.append(AgentStarted(S, "/", "1"), 1)
        transcript.append(Rendered(hash, "m", "start"), 2)
        await transcript.sync()
        transcript.append(Reminded(user("never sent")), 3)
        second = SharedTranscripts(lines, B)
        with pytest.raises(EngineError, match="was not fetched"):
            second.open(there.transcript)
        assert await second.fetch(MAIN, there.transcript, there.prompts)
        assert prompts.get(there.prompts, hash) == (("be kind",), ())
        other, events, torn = second.open(there.transcript)
        assert len(events) == 2 and not torn and other.lines == 2
        other.append(Reminded(user("from there")), 4)
        await other.sync()
        with pytest.raises(Fenced, match="Another process has continued"):
            await transcript.sync()
        await first.flush()  # nobody waits for it: it fails with a message
        with pytest.raises(EngineError, match="Another process has continued"):
            await transcript.sync()
        assert await first.fetch(MAIN, here.transcript, here.prompts)
        assert here.transcript.read_bytes() == there.transcript.read_bytes()
        for opened in (transcript, other):
            opened.close()


@pytest.mark.spec("Z8")
async def test_that_a_call_has_begun_is_in_the_engine_before_its_effects(tmp_path: Path, space: Address) -> None:
    files = SessionFiles(tmp_path / "a" / f"{S}.jsonl")
    async with open_lines(tmp_path, space) as lines:
        transcript = SharedTranscripts(lines, A).create(files.transcript)
        transcript.append(AgentStarted(S, "/", "1"), 1)
        transcript.append(ToolStarted(CallId("c1")), 2)
        assert transcript.started is not None
        await transcript.started()
        assert (await lines.pull(MAIN, tmp_path / "copy")).lines == 2
        transcript.close()


@pytest.mark.spec("Z8", "Z10")
async def test_a_sync_that_is_given_up_half_way_is_no_rival(tmp_path: Path) -> None:
    """An interrupt cancels the sync: the engine may have the lines all the same, and accepts what follows."""
    files, server = SessionFiles(tmp_path / "a" / f"{S}.jsonl"), Server(tmp_path)
    try:
        async with open_lines(tmp_path, server.new_space()) as lines:
            transcript = SharedTranscripts(lines, A).create(files.transcript)
            transcript.append(AgentStarted(S, "/", "1"), 1)
            await transcript.sync()
            server.pause()
            transcript.append(Reminded(user("one")), 2)
            with anyio.move_on_after(0.5):
                await transcript.sync()
            server.pause(over=True)
            transcript.append(Reminded(user("two")), 3)
            await transcript.sync()
            assert (await lines.pull(MAIN, tmp_path / "copy")).lines == 3
            assert (tmp_path / "copy").read_bytes() == files.transcript.read_bytes()
            transcript.close()
    finally:
        server.kill()


async def test_lines_that_nobody_waits_for_are_sent_soon(tmp_path: Path, space: Address) -> None:
    files = SessionFiles(tmp_path / "a" / f"{S}.jsonl")
    async with open_lines(tmp_path, space) as lines, anyio.create_task_group() as group:
        shared = SharedTranscripts(lines, A)
        group.start_soon(shared.run)
        transcript = shared.create(files.transcript)
        transcript.append(AgentStarted(S, "/", "1"), 1)
        transcript.close()
        with anyio.fail_after(20):
            while (await lines.pull(MAIN, tmp_path / "copy")).lines < 1:
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()


@pytest.mark.spec("Z16")
@pytest.mark.parametrize("ends", ["before", "while"])
async def test_a_worker_of_the_same_home_and_whoever_follows_write_each_line_once(
    tmp_path: Path, space: Address, ends: str
) -> None:
    """The file is the worker's while it runs the agent; other lines are written after it has ended."""
    file, run, rows = tmp_path / f"{MAIN}.jsonl", tmp_path / "run", [f"{n}\n".encode() for n in range(6)]
    async with open_lines(tmp_path, space) as lines:
        copies, heard = TranscriptCopies(SharedTranscripts(lines, B), run), anyio.Event()
        held = hold(run / f"teammate-{MAIN}.lock") if ends == "while" else None

        def hear() -> None:
            if copies.places[MAIN].lines == 4:
                heard.set()

        async with anyio.create_task_group() as group:
            group.start_soon(copies.follow, MAIN, file, hear)
            with anyio.fail_after(20):
                place = await lines.append(MAIN, A, rows[:2], Place())
                if held:
                    file.write_bytes(b"".join(rows[:4]))
                place = await lines.append(MAIN, A, rows[2:4], place)
                await heard.wait()
                if held:
                    held.release()
                else:
                    file.write_bytes(b"somebody else's\n")
                await lines.append(MAIN, A, rows[4:], place)
                await copies.fetch(MAIN, file)
                await copies.fetch(MAIN, file)
            group.cancel_scope.cancel()
        assert file.read_bytes() == b"".join(rows)


@pytest.mark.spec("Z16", "Z22")
async def test_whoever_follows_goes_on_when_the_engine_is_back(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    server, seen, whole = Server(tmp_path / "server"), list[bytes](), anyio.Event()
    try:
        async with open_lines(tmp_path, server.new_space()) as lines:

            async def take(data: bytes, place: Place) -> None:
                seen.append(data)
                if place.lines == 2:
                    whole.set()

            async with anyio.create_task_group() as group:
                group.start_soon(lines.follow, MAIN, Place(), take)
                place = await lines.append(MAIN, A, [b"first\n"], Place())
                server.kill()
                await anyio.to_thread.run_sync(server.start)
                with anyio.fail_after(60):
                    await lines.append(MAIN, A, [b"second\n"], place)
                    await whole.wait()
                group.cancel_scope.cancel()
        assert seen == [b"first\n", b"second\n"]
    finally:
        server.kill()
