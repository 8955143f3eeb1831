"""Scheduled prompts: one timer, letters that come once, clocks that jump, programs that were not running."""

from collections.abc import AsyncIterator
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import pytest

from teamwright.core.data.letter import Prompt
from teamwright.core.data.message import Text
from teamwright.core.data.schedule import read_time
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId, LetterId, SessionId
from teamwright.runtime.jobs.schedule import LONGEST_SLEEP, MOST, MOST_PROMPT, Schedules
from teamwright.store.tables.schedules import ScheduleTable
from teamwright.store.tables.state import StateStore

pytestmark = [pytest.mark.anyio, pytest.mark.spec("Q1")]
BERLIN = ZoneInfo("Europe/Berlin")
SESSION, MAIN = SessionId("5e55"), AgentId("5e55")
LIMIT = 10


def at(text: str) -> int:
    return read_time(text, BERLIN)


class Hands:
    """A clock that a test sets; a sleeper wakes when its time has come."""

    def __init__(self, now: int) -> None:
        self._now, self._steady = now, 0.0
        self.sleeps: list[float] = []
        self._moved, self._slept = anyio.Event(), anyio.Event()

    def now(self) -> int:
        return self._now

    def steady(self) -> float:
        return self._steady

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self._slept.set()
        until = self._steady + seconds
        while self._steady < until:
            await self._moved.wait()

    async def asleep(self) -> None:
        """Wait until the timer sleeps again."""
        with anyio.fail_after(LIMIT):
            await self._slept.wait()

    async def run(self, seconds: float, *, jump: float = 0) -> None:
        """Let both clocks run; with `jump` the wall clock is also set."""
        await self.asleep()
        self._slept = anyio.Event()
        self._steady += seconds
        self._now += round((seconds + jump) * 1000)
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[StateStore]:
    state = await StateStore.open(tmp_path / "state.db")
    await state.register_session(SESSION, "/", 0)
    await state.register_agent(MAIN, SESSION, None, "main", "main", 0)
    yield state
    await state.close()


class Rings(list[str]):
    def __call__(self) -> None:
        self.append("ring")


def open_schedules(state: StateStore, clock: Hands, rings: Rings, *, stays: bool = False) -> Schedules:
    log: list[str] = []
    return Schedules(
        ScheduleTable(state.database), SESSION, MAIN, clock=clock, zone=lambda: BERLIN, ring=rings, log=log.append,
        stays=stays,
    )  # fmt: skip


async def create(schedules: Schedules, **more: object) -> str:
    call = CallId(f"c{len(schedules.rows)}-{more}")
    asked: dict = {"cron": None, "at": None, "prompt": "look", "recurring": None, "call": call} | more
    return (await schedules.create(**asked)).id


async def texts(state: StateStore) -> list[str]:
    bodies = [letter.body for letter in await state.waiting(MAIN)]
    return [b.text for body in bodies if isinstance(body, Prompt) for b in body.content if isinstance(b, Text)]


async def test_one_timer_sleeps_until_the_next_one_is_due(state: StateStore) -> None:
    clock, rings = Hands(at("2026-07-01T09:00:30")), Rings()
    schedules = open_schedules(state, clock, rings)
    async with anyio.create_task_group() as group:
        group.start_soon(schedules.run)
        later = await create(schedules, at="2026-07-01T09:02", prompt="once")
        assert clock.sleeps == []  # nothing is scheduled yet where the timer is: no timer runs
        await clock.asleep()
        assert clock.sleeps == [LONGEST_SLEEP]
        sooner = await create(schedules, cron="*/1 * * * *", prompt="each")
        with anyio.fail_after(LIMIT):
            while clock.sleeps[-1] != 30.0:
                await anyio.lowlevel.checkpoint()
        assert [row.id for row in schedules.rows] == [sooner, later]
        await clock.run(30)
        await clock.asleep()
        (first,) = await state.waiting(MAIN)
        assert first.id == f"c-{sooner}-{at('2026-07-01T09:01')}" and first.sender.kind == "system"
        assert first.priority == "next" and "each" in (await texts(state))[0]
        await state.delivered([first.id])
        await clock.run(60)
        await clock.asleep()
        assert sorted(text.split("\n")[1] for text in await texts(state)) == ["each", "once"]
        assert [row.id for row in schedules.rows] == [sooner] and len(rings) == 3
        group.cancel_scope.cancel()


async def test_what_has_not_been_read_does_not_pile_up(state: StateStore) -> None:
    clock, rings = Hands(at("2026-07-01T09:00")), Rings()
    schedules = open_schedules(state, clock, rings)
    await create(schedules, cron="* * * * *")
    async with anyio.create_task_group() as group:
        group.start_soon(schedules.run)
        for _ in range(5):
            await clock.run(60)
        await clock.asleep()
        assert len(await texts(state)) == 1 and len(rings) == 1
        await state.delivered([letter.id for letter in await state.waiting(MAIN)])
        await clock.run(60)
        await clock.run(60)
        await clock.asleep()
        assert len(await texts(state)) == 1
        group.cancel_scope.cancel()


async def test_what_was_due_while_nothing_ran_is_told_once_and_says_so(state: StateStore) -> None:
    clock, rings = Hands(at("2026-07-01T09:00")), Rings()
    before = open_schedules(state, clock, rings)
    await create(before, cron="0 12 * * *", prompt="daily")
    await create(before, at="2026-07-02T10:00", prompt="once")
    await create(before, cron="30 9 * * *", recurring=False, prompt="next only")
    await create(before, at="2026-08-01T00:00", prompt="still to come")

    schedules = open_schedules(state, Hands(at("2026-07-04T13:00")), rings)
    await schedules.open()
    told = await texts(state)
    assert [text.split("\n")[2] for text in told] == ["next only", "daily", "once"]
    assert all("It comes late, at 2026-07-04T13:00:00+02:00" in text for text in told)
    assert "It was due 4 times meanwhile, and is told once." in told[1]
    assert [(row.prompt, row.next, row.last) for row in schedules.rows] == [
        ("daily", at("2026-07-05T12:00"), at("2026-07-01T12:00")),
        ("still to come", at("2026-08-01T00:00"), None),
    ]
    again = open_schedules(state, Hands(at("2026-07-04T13:00:30")), rings)
    await again.open()
    assert len(await texts(state)) == 3


async def test_a_due_time_is_told_once_even_if_the_clock_goes_back(state: StateStore) -> None:
    clock, rings = Hands(at("2026-07-01T08:59")), Rings()
    schedules = open_schedules(state, clock, rings)
    id = await create(schedules, cron="0 9 * * *")
    async with anyio.create_task_group() as group:
        group.start_soon(schedules.run)
        await clock.run(60)
        await clock.asleep()
        assert [letter.id for letter in await state.waiting(MAIN)] == [LetterId(f"c-{id}-{at('2026-07-01T09:00')}")]
        await state.delivered([f"c-{id}-{at('2026-07-01T09:00')}"])
        await clock.run(60, jump=-1800)  # 08:31 again
        await clock.asleep()
        assert schedules.rows[0].next == at("2026-07-01T09:00")
        for _ in range(29):
            await clock.run(60)
        await clock.asleep()
        assert schedules.rows[0].next == at("2026-07-02T09:00")
        assert await texts(state) == []
        group.cancel_scope.cancel()


async def test_a_clock_that_leaps_forward_tells_what_it_leapt_over(state: StateStore) -> None:
    clock, rings = Hands(at("2026-07-01T08:00")), Rings()
    schedules = open_schedules(state, clock, rings)
    await create(schedules, cron="0 * * * *")
    async with anyio.create_task_group() as group:
        group.start_soon(schedules.run)
        await clock.run(60, jump=3 * 3600)  # the machine slept
        await clock.asleep()
        (told,) = await texts(state)
        assert "due 3 times meanwhile" in told
        assert schedules.rows[0].next == at("2026-07-01T12:00")
        group.cancel_scope.cancel()


async def test_another_zone_plans_anew(state: StateStore) -> None:
    rings = Rings()
    before = open_schedules(state, Hands(at("2026-07-01T08:00")), rings)
    await create(before, cron="0 9 * * *")
    moment = at("2026-07-01T10:00")
    await create(before, at="2026-07-01T10:00")
    york = ZoneInfo("America/New_York")
    schedules = Schedules(
        ScheduleTable(state.database), SESSION, MAIN, clock=Hands(at("2026-07-01T08:30")), zone=lambda: york,
        ring=rings, log=print, stays=False,
    )  # fmt: skip
    await schedules.open()
    assert [row.next for row in schedules.rows] == [moment, read_time("2026-07-01T09:00", york)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"prompt": "  "}, "prompt is empty"),
        ({"prompt": "x" * (MOST_PROMPT + 1), "cron": "* * * * *"}, "16,001 characters; at most 16,000"),
        ({}, "either cron"),
        ({"cron": "* * * * *", "at": "2027-01-01"}, "either cron"),
        ({"at": "2027-01-01", "recurring": True}, "comes once"),
        ({"at": "2020-01-01T00:00"}, "2020-01-01T00:00 is past: it is 2026-07-01T09:00:00\\+02:00 now"),
        ({"at": "soon"}, "'soon' is no time such as"),
        ({"cron": "61 * * * *"}, "minute: '61' is not between 0 and 59"),
        ({"cron": "0 0 31 6 *"}, "0 0 31 6 \\* never comes"),
    ],
)
async def test_what_cannot_be_scheduled(state: StateStore, asked: dict, words: str) -> None:
    schedules = open_schedules(state, Hands(at("2026-07-01T09:00")), Rings())
    with pytest.raises(ToolError, match=words):
        await create(schedules, **asked)
    assert schedules.rows == []


async def test_the_same_call_makes_one_and_there_are_not_too_many(state: StateStore) -> None:
    schedules = open_schedules(state, Hands(at("2026-07-01T09:00")), Rings(), stays=True)
    assert not schedules.hold
    one = await create(schedules, cron="0 9 * * *", call=CallId("same"))
    assert await create(schedules, cron="0 9 * * *", call=CallId("same")) == one and schedules.hold
    made = await ScheduleTable(state.database).made_by(f"{MAIN}/same")
    assert made is not None and made.id == one
    assert await ScheduleTable(state.database).made_by(f"{MAIN}/other") is None
    for n in range(MOST - 1):
        await create(schedules, cron="0 9 * * *", call=CallId(f"n{n}"))
    with pytest.raises(ToolError, match=f"{MOST} schedules already"):
        await create(schedules, cron="0 9 * * *")
    with pytest.raises(ToolError, match=r"no schedule 'x'\. There are: s"):
        await schedules.delete("x")
    await schedules.delete(one)
    assert len(schedules.rows) == MOST - 1


async def test_they_go_with_their_session(state: StateStore) -> None:
    schedules = open_schedules(state, Hands(at("2026-07-01T09:00")), Rings())
    await create(schedules, cron="0 9 * * *")
    other = SessionId("07e5")
    await state.register_session(other, "/", 0)
    assert not await ScheduleTable(state.database).remove(other, schedules.rows[0].id)
    await state.delete_session(SESSION)
    assert await ScheduleTable(state.database).all(SESSION) == []
