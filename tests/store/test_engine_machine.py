"""Random changes from three machines, whose processes end and whose disks are lost: all must have the same rows."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine_kit import Engines, Host, caught_up, open_host
from journal import all_rows
from teamwright.core.data.letter import SYSTEM, Letter, Said
from teamwright.core.data.tasks import Actor, Change, Done, Draft, TaskId
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable

S = SessionId("11111111-1111-4111-8111-111111111111")
MACHINES, WORKERS, NUMBERS = st.integers(0, 2), st.sampled_from(["ada", "bob"]), st.integers(1, 4)


@dataclass
class Machine:
    """A machine's process, which runs in its own task until it is told to end."""

    host: Host
    end: asyncio.Event
    task: asyncio.Task[None]


class Machines(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dir, self.space = Path(tempfile.mkdtemp()), Engines.get().new_space()
        self.machines: dict[int, Machine] = {}
        self.posted: set[str] = set()
        self.owners: dict[int, str] = {}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 30))

    @initialize()
    def begin(self) -> None:
        for n in range(3):
            self.do(self._open(n))
        state = StateStore(self.machines[0].host.database)
        self.do(state.register_session(S, "/", 1))
        self.do(state.register_agent(AgentId(S), S, None, "main", "main", 0))

    async def _open(self, n: int) -> None:
        ready: asyncio.Future[Host] = self.loop.create_future()
        end = asyncio.Event()

        async def live() -> None:
            async with open_host(self.dir / str(n), self.space) as host:
                ready.set_result(host)
                await end.wait()

        task = self.loop.create_task(live())
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        self.machines[n] = Machine(ready.result(), end, task)

    async def _close(self, n: int) -> None:
        machine = self.machines.pop(n)
        machine.end.set()
        await machine.task

    def table(self, n: int) -> TaskTable:
        return TaskTable(self.machines[n].host.database)

    @rule(n=MACHINES)
    def post(self, n: int) -> None:
        id = f"l{len(self.posted)}"
        self.do(StateStore(self.machines[n].host.database).post(Letter(LetterId(id), AgentId(S), SYSTEM, Said("x"))))
        self.posted.add(id)

    @rule(n=MACHINES)
    def make(self, n: int) -> None:
        self.do(self.table(n).create("crew", Draft("x"), Actor(AgentId("L"), "lead", lead=True)))

    @rule(n=MACHINES, who=WORKERS)
    def claim(self, n: int, who: str) -> None:
        done = self.do(self.table(n).claim_first("crew", Actor(AgentId(who), who)))
        if done is not None:
            assert done.id not in self.owners
            self.owners[done.id] = who

    @rule(n=MACHINES, who=WORKERS, id=NUMBERS)
    def complete(self, n: int, who: str, id: int) -> None:
        ask = Change(status="completed")
        done = self.do(self.table(n).update("crew", TaskId(id), ask, Actor(AgentId(who), who)))
        if isinstance(done, Done):
            assert self.owners.setdefault(id, who) == who

    @rule(n=MACHINES)
    def end_and_start_again(self, n: int) -> None:
        self.do(self._close(n))
        self.do(self._open(n))

    @precondition(lambda self: len(self.posted) > 1)
    @rule(n=MACHINES)
    def lose_the_disk(self, n: int) -> None:
        self.do(self._close(n))
        shutil.rmtree(self.dir / str(n))
        self.do(self._open(n))

    def teardown(self) -> None:
        try:
            if len(self.machines) == 3:
                self.do(self._compare())
        finally:
            for n in list(self.machines):
                self.do(self._close(n))
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.dir, ignore_errors=True)

    async def _compare(self) -> None:
        hosts = [machine.host for machine in self.machines.values()]
        for host in hosts:
            for other in hosts:
                await caught_up(host, other)
        rows = [await host.replica.read(all_rows) for host in hosts]
        assert rows[0] == rows[1] == rows[2]
        assert {id for _, id, *_ in rows[0]["letters"]} == self.posted


Machines.TestCase.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMachines = pytest.mark.spec("Z1")(Machines.TestCase)
