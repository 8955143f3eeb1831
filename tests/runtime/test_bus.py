"""The stream of events: publishing never waits, and a slow watcher loses nothing that matters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import anyio
import msgspec
import pytest

from teamwright.core.data.event import (
    Event,
    JobProgressed,
    Record,
    Reminded,
    Streamed,
    ToolProgressed,
    ToolStarted,
    Warned,
    is_durable,
)
from teamwright.core.data.message import TextDelta, user
from teamwright.core.ids import AgentId, CallId
from teamwright.runtime.bus import Bus, Watch
from teamwright.store.files import transcripts
from teamwright.store.files.transcripts import Transcript

pytestmark = [pytest.mark.anyio, pytest.mark.spec("O1")]
ONE, TWO = AgentId("one"), AgentId("two")


class Desk:
    """Agents with real transcripts, and a bus in front of them."""

    def __init__(self, root: Path) -> None:
        self.transcripts = {id: Transcript.create(root / f"{id}.jsonl") for id in (ONE, TWO)}
        self.bus = Bus(self._reread)
        self.clock = 0

    def _reread(self, agent: AgentId, since: int) -> Iterator[Record]:
        for n, line in transcripts.read(self.transcripts[agent].path, since):
            yield Record(agent, n, line.at, line.event)

    def emit(self, event: Event, agent: AgentId = ONE) -> None:
        self.clock += 1
        n = self.transcripts[agent].append(event, self.clock) if is_durable(event) else 0
        self.bus.publish(Record(agent, n, self.clock, event))

    def work(self, many: int, agent: AgentId = ONE) -> None:
        for n in range(many):
            self.emit(ToolStarted(CallId(f"c{n}")), agent)
            self.emit(Streamed(TextDelta(0, "word")), agent)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for transcript in desk.transcripts.values():
        transcript.close()


async def read(watch: Watch) -> list[Record]:
    with anyio.fail_after(5):
        return [record async for record in watch]


def places(records: list[Record]) -> list[tuple[AgentId, int]]:
    return [(record.agent, record.n) for record in records if record.n]


async def test_a_watcher_that_keeps_up_sees_everything_in_order(desk: Desk) -> None:
    watch = desk.bus.watch()
    desk.work(3)
    watch.close()
    records = await read(watch)
    assert [r.n for r in records] == [1, 0, 2, 0, 3, 0] and watch.lagged == 0


async def test_deltas_only_for_who_wants_them(desk: Desk) -> None:
    watch = desk.bus.watch(deltas=False)
    desk.work(3)
    watch.close()
    assert [r.n for r in await read(watch)] == [1, 2, 3]


@pytest.mark.parametrize("read_first", [0, 1, 7])
async def test_a_slow_watcher_catches_up_without_loss_or_repetition(desk: Desk, read_first: int) -> None:
    watch = desk.bus.watch(most=8)
    desk.work(4)
    seen = [await anext(watch) for _ in range(read_first)]
    desk.work(40)
    desk.work(5, TWO)
    desk.emit(ToolStarted(CallId("last")))
    watch.close()
    seen += await read(watch)
    assert [n for agent, n in places(seen) if agent == ONE] == list(range(1, 46))
    assert [n for agent, n in places(seen) if agent == TWO] == list(range(1, 6))
    assert watch.lagged > 0


async def test_catching_up_begins_where_the_watch_began_not_where_the_log_does(desk: Desk) -> None:
    desk.work(20)
    watch = desk.bus.watch(most=4)
    desk.work(10)
    watch.close()
    assert [n for _, n in places(await read(watch))] == list(range(21, 31)) and watch.lagged


async def test_of_an_agent_that_resumes_later_only_new_lines_are_caught_up(desk: Desk) -> None:
    for _ in range(3):
        desk.transcripts[TWO].append(ToolStarted(CallId("before")), 1)
    watch = desk.bus.watch(most=4)
    desk.bus.agents[TWO] = desk.bus.first[TWO] = 3
    desk.work(10, TWO)
    watch.close()
    assert [n for _, n in places(await read(watch))] == list(range(4, 14)) and watch.lagged


PASSING = {Streamed, ToolProgressed, JobProgressed}
UNWRITTEN = sorted({kind for kind in get_args(Event) if not kind.durable} - PASSING, key=str)


def made(kind: Any) -> Any:
    """An event of this kind with whatever its required fields take."""
    fields = (field for field in msgspec.structs.fields(kind) if field.required)
    return kind(**{field.name: f"some {field.name}" for field in fields})


@pytest.mark.parametrize("kind", UNWRITTEN)
async def test_what_no_transcript_has_outlives_a_lag(desk: Desk, kind: Any) -> None:
    watch = desk.bus.watch(most=4)
    desk.work(2)
    desk.emit(event := made(kind))
    desk.work(30)
    watch.close()
    events = [r.event for r in await read(watch)]
    assert events.count(event) == 1 and events.index(event) == 2  # at its own time, between the lines of the log


async def test_a_watch_from_a_place_reads_the_log_first(desk: Desk) -> None:
    desk.work(5)
    watch = desk.bus.watch({ONE: 2})
    desk.work(1)
    watch.close()
    assert [n for _, n in places(await read(watch))] == [3, 4, 5, 6]


async def test_a_slow_watcher_does_not_hold_up_a_quick_one(desk: Desk) -> None:
    slow, quick = desk.bus.watch(most=2), desk.bus.watch()
    got: list[Record] = []
    for _ in range(50):
        desk.emit(Reminded(user("x")))
        got.append(await anext(quick))
    desk.bus.close()
    assert [r.n for r in got] == list(range(1, 51)) and [r.n for r in await read(slow)] == list(range(1, 51))


async def test_closing_wakes_who_waits_and_gives_what_is_left(desk: Desk) -> None:
    watch = desk.bus.watch()
    got: list[Record] = []

    async def follow() -> None:
        got.extend(await read(watch))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            desk.work(2)
            desk.bus.close()
    assert len(got) == 4
    desk.work(1)  # nobody watches any more, so nothing is kept
    assert await read(watch) == []


async def test_a_warning_from_before_anybody_watched_reaches_the_first_watcher(desk: Desk) -> None:
    desk.emit(Warned("a teammate could not be brought back"))
    desk.emit(Streamed(TextDelta(0, "word")))
    first, second = desk.bus.watch(), desk.bus.watch()
    desk.bus.close()
    assert [record.event for record in await read(first)] == [Warned("a teammate could not be brought back")]
    assert await read(second) == []
