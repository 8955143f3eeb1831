"""Claims, ends, dependencies and deaths in any order, on a clock that jumps: each task has one owner, and only late
results are refused.
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
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from journal import Entry, Journal
from teamwright.core.data.tasks import Actor, Change, Done, Draft, Refusal, TaskId
from teamwright.core.ids import AgentId
from teamwright.store.db.database import open_database
from teamwright.store.tables.tasks import TaskTable

ACTORS = {name: Actor(AgentId(name.upper()), name, lead=name == "lead") for name in ("ada", "bob", "eve", "lead")}
WORKERS = st.sampled_from(["ada", "bob", "eve"])
NUMBERS = st.integers(1, 6)


@dataclass
class Known:
    """What must be true of a task, computed independently."""

    status: str = "pending"
    owner: str | None = None
    waits: set[int] = field(default_factory=set)  # every task that it was ever told to wait for
    lost: set[str] = field(default_factory=set)


class Claims(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dir = Path(tempfile.mkdtemp())
        self.now, self.made = 1_000_000, 0
        self.known: dict[int, Known] = {}
        self.epochs: dict[int, int] = {}
        self.entries: list[Entry] = []
        self.table = self.open()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def open(self) -> TaskTable:
        self.database = self.do(open_database(self.dir / "state.db", now=lambda: self.now))
        self.journal = Journal(self.database, self.entries)
        return TaskTable(self.journal.database)

    def open_blockers(self, id: int) -> set[int]:
        return {n for n in self.known[id].waits if n in self.known and self.known[n].status != "completed"}

    def change(self, id: int, who: str, **ask: Any) -> Done | Refusal:
        return self.do(self.table.update("crew", TaskId(id), Change(**ask), ACTORS[who]))

    @rule()
    def create(self) -> None:
        done = self.do(self.table.create("crew", Draft("x"), ACTORS["lead"]))
        self.made += 1
        assert done.id == self.made
        self.known[done.id] = Known()

    @rule(who=WORKERS, id=NUMBERS)
    def claim(self, who: str, id: int) -> None:
        found = self.do(self.table.claim("crew", TaskId(id), ACTORS[who]))
        task = self.known.get(id)
        if task is None:
            wanted = "task_not_found"
        elif task.status == "completed":
            wanted = "already_resolved"
        elif task.owner not in (None, who):
            wanted = "already_claimed"
        elif self.open_blockers(id) and not (task.owner == who and task.status == "in_progress"):
            wanted = "blocked"
        else:
            wanted, task.status, task.owner = "", "in_progress", who
            task.lost.discard(who)
        assert (found.code if isinstance(found, Refusal) else "") == wanted

    @rule(who=WORKERS)
    def claim_first(self, who: str) -> None:
        free = [n for n, t in self.known.items() if t.status == "pending" and not t.owner and not self.open_blockers(n)]
        done = self.do(self.table.claim_first("crew", ACTORS[who]))
        assert (done.id if done else None) == min(free, default=None)
        if done:
            task = self.known[done.id]
            task.status, task.owner = "in_progress", who
            task.lost.discard(who)

    @rule(who=WORKERS, id=NUMBERS)
    def complete_late_or_in_time(self, who: str, id: int) -> None:
        found, task = self.change(id, who, status="completed"), self.known.get(id)
        if task is None or task.status == "completed":
            return
        free = task.owner is None and who not in task.lost and not self.open_blockers(id)
        assert isinstance(found, Done) == (task.owner == who or free)
        if isinstance(found, Done):
            task.status, task.owner = "completed", who
            freed = {t.id for t in found.freed}
            assert freed == {n for n, t in self.known.items() if id in t.waits and not self.open_blockers(n)}

    @rule(who=WORKERS)
    def die(self, who: str) -> None:
        owned = {n for n, t in self.known.items() if t.owner == who and t.status != "completed"}
        assert {done.id for done in self.do(self.table.release_all("crew", ACTORS[who].agent))} == owned
        for n in owned:
            self.known[n].status, self.known[n].owner = "pending", None
            self.known[n].lost.add(who)

    @rule(before=NUMBERS, after=NUMBERS)
    def wait_for(self, before: int, after: int) -> None:
        found = self.change(after, "lead", add_blocked_by=(TaskId(before),))
        if before in self.known and after in self.known and isinstance(found, Done):
            self.known[after].waits.add(before)

    @rule(id=NUMBERS)
    def set_back(self, id: int) -> None:
        found, task = self.change(id, "lead", status="pending"), self.known.get(id)
        assert isinstance(found, Done) == (task is not None)
        if task is not None and task.status != "pending":
            if task.owner:
                task.lost.add(task.owner)
            task.status, task.owner = "pending", None

    @rule(id=NUMBERS)
    def delete(self, id: int) -> None:
        self.change(id, "lead", status="deleted")
        self.known.pop(id, None)
        for task in self.known.values():
            task.waits.discard(id)

    @rule(by=st.integers(-10_000_000, 10_000_000))
    def jump(self, by: int) -> None:
        self.now = max(0, self.now + by)

    @rule()
    def crash(self) -> None:
        """Another process continues the same agents."""
        self.do(self.database.close())
        self.table = self.open()

    @invariant()
    def the_store_agrees(self) -> None:
        found = self.do(self.table.list("crew"))
        assert not found.problems
        stored = {t.id: (t.status, t.owner, set(t.blocked_by)) for t in found.tasks}
        assert stored == {n: (t.status, t.owner, self.open_blockers(n)) for n, t in self.known.items()}
        for task in found.tasks:
            assert task.epoch >= self.epochs.get(task.id, 0)
            assert set(task.blocks) == {n for n, t in self.known.items() if task.id in t.waits}
            self.epochs[task.id] = task.epoch

    def teardown(self) -> None:
        self.do(self.journal.replay())
        self.do(self.database.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.dir)


Claims.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestClaims = pytest.mark.spec("K3", "K4", "K5", "K6")(Claims.TestCase)
