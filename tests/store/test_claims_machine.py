"""Claims by several processes, whose clocks jump: a task has one owner at a time, and a process that has lost an agent
to another one can complete nothing for it.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from teamwright.core.data.tasks import Actor, Change, Done, Draft, Refusal, TaskId
from teamwright.core.ids import AgentId
from teamwright.store.db.database import Database, open_database
from teamwright.store.tables.tasks import TaskTable

ACTORS = {name: Actor(AgentId(name.upper()), name, lead=name == "lead") for name in ("ada", "bob", "lead")}
WORKERS, PROCESSES = st.sampled_from(["ada", "bob"]), st.integers(0, 1)
NUMBERS = st.integers(1, 2)


@dataclass
class Clock:
    now: int

    def read(self) -> int:
        return self.now


@dataclass
class Process:
    database: Database
    table: TaskTable
    clock: Clock
    holds: dict[tuple[str, int], int] = field(default_factory=dict)  # (agent, task): the claim that it knows


@dataclass
class Known:
    status: str = "pending"
    owner: str | None = None
    claim: int = 0  # counts up with each change of hands
    lost: set[str] = field(default_factory=set)
    completions: int = 0


class Claims(RuleBasedStateMachine):
    """Any process may speak for any agent: one of the two is then late, because it was taken for dead."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dir = Path(tempfile.mkdtemp())
        self.processes = [self.open(1_000_000 * n) for n in range(2)]
        self.known: dict[int, Known] = {}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def open(self, now: int) -> Process:
        clock = Clock(now)
        database = self.do(open_database(self.dir / "state.db", now=clock.read))
        return Process(database, TaskTable(database), clock)

    def give(self, process: Process, id: int, status: str, owner: str | None, who: str) -> None:
        task = self.known[id]
        if task.owner != owner:
            task.claim += 1
            if task.owner:
                task.lost.add(task.owner)
        if owner:
            task.lost.discard(owner)
        task.status, task.owner = status, owner
        if owner == who:
            process.holds[who, id] = task.claim
        else:
            process.holds.pop((who, id), None)

    @initialize(p=PROCESSES)
    def create(self, p: int) -> None:
        for n in (1, 2):
            assert self.do(self.processes[p].table.create("crew", Draft("x"), ACTORS["lead"])).id == n
            self.known[n] = Known()

    @rule(who=WORKERS, p=PROCESSES, id=NUMBERS)
    def claim(self, who: str, p: int, id: int) -> None:
        process, task = self.processes[p], self.known[id]
        found = self.do(process.table.claim("crew", TaskId(id), ACTORS[who]))
        won = task.status != "completed" and task.owner in (None, who)
        assert isinstance(found, Done) == won
        if won:
            self.give(process, id, "in_progress", who, who)

    @rule(who=WORKERS, p=PROCESSES)
    def claim_first(self, who: str, p: int) -> None:
        process = self.processes[p]
        free = [n for n, t in self.known.items() if t.status == "pending" and t.owner is None]
        done = self.do(process.table.claim_first("crew", ACTORS[who]))
        assert (done.id if done else None) == min(free, default=None)
        if done:
            self.give(process, done.id, "in_progress", who, who)

    @rule(who=WORKERS, p=PROCESSES, id=NUMBERS)
    def complete_in_time_or_late(self, who: str, p: int, id: int) -> None:
        process, task = self.processes[p], self.known[id]
        found = self.do(process.table.update("crew", TaskId(id), Change(status="completed"), ACTORS[who]))
        knows = process.holds.get((who, id))
        mine = task.owner == who and (knows in (None, task.claim) or task.status == "pending")
        unowned = task.owner is None and task.status == "pending" and who not in task.lost
        assert isinstance(found, Done) == (mine or unowned), (found, task, knows)
        if isinstance(found, Done):
            task.completions += task.status != "completed"
            self.give(process, id, "completed", who, who)

    @rule(who=WORKERS, p=PROCESSES)
    def free_the_dead(self, who: str, p: int) -> None:
        owned = {n for n, t in self.known.items() if t.owner == who and t.status != "completed"}
        freed = self.do(self.processes[p].table.release_all("crew", ACTORS[who].agent))
        assert {done.id for done in freed} == owned
        for n in owned:
            task = self.known[n]
            task.status, task.owner, task.claim = "pending", None, task.claim + 1
            task.lost.add(who)

    @rule(who=WORKERS, p=PROCESSES, id=NUMBERS)
    def go_on_elsewhere_and_end_late(self, who: str, p: int, id: int) -> None:
        self.claim(who, 1 - p, id)
        self.free_the_dead(who, p)
        self.claim(who, p, id)
        self.complete_in_time_or_late(who, 1 - p, id)

    @rule(p=PROCESSES, by=st.integers(-10_000_000_000, 10_000_000_000))
    def jump(self, p: int, by: int) -> None:
        clock = self.processes[p].clock
        clock.now = max(0, clock.now + by)

    @rule(p=PROCESSES)
    def restart(self, p: int) -> None:
        """Kill and restart: the new process knows no earlier claims, and believes the store."""
        self.do(self.processes[p].database.close())
        self.processes[p] = self.open(self.processes[p].clock.now)

    @invariant()
    def every_process_sees_the_same_owner_and_no_end_comes_twice(self) -> None:
        wanted = {n: (t.status, t.owner) for n, t in self.known.items()}
        for process in self.processes:
            found = self.do(process.table.list("crew"))
            assert {t.id: (t.status, t.owner) for t in found.tasks} == wanted
        assert all(t.completions <= 1 for t in self.known.values())

    def teardown(self) -> None:
        for process in self.processes:
            self.do(process.database.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.dir)


Claims.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.anyio
@pytest.mark.spec("K6")
async def test_a_late_process_completes_nothing_for_an_agent_that_has_claimed_again_elsewhere(tmp_path: Path) -> None:
    databases = [await open_database(tmp_path / "state.db") for _ in range(2)]
    late, new = map(TaskTable, databases)
    ada, first, done = ACTORS["ada"], TaskId(1), Change(status="completed")
    await new.create("crew", Draft("x"), ACTORS["lead"])
    assert isinstance(await late.claim("crew", first, ada), Done)
    await new.release_all("crew", ada.agent)  # it was taken for dead
    assert isinstance(await late.update("crew", first, done, ada), Refusal)
    assert isinstance(await new.claim("crew", first, ada), Done)
    assert isinstance(await late.update("crew", first, done, ada), Refusal)
    assert isinstance(await new.update("crew", first, done, ada), Done)
    for database in databases:
        await database.close()


TestClaims = pytest.mark.spec("K3", "K6")(Claims.TestCase)
