"""Main loop of a teammate's own process, which ends with the teammate, or when it has been without a lead too long."""

from types import TracebackType
from typing import Self

import anyio

from teamwright.core.data.event import is_durable
from teamwright.core.errors import SessionMissing, StoreError, ToolError
from teamwright.core.ids import AgentId
from teamwright.runtime.bus import Watch
from teamwright.runtime.services import Services
from teamwright.runtime.teams.teammates.teammate import Teammate

LOOK = 1.0  # seconds between checks whether the lead lives
CLOSE_LIMIT = 5.0
LEAVE_LIMIT = 2.0  # seconds for servers to end in good order
QUIET = 0.05  # seconds between two reports to the lead's process, at least


class TeammateProcess:
    def __init__(self, services: Services, agent: AgentId, *, patience: float) -> None:
        """`patience`: seconds to wait for a new lead."""
        self._services, self._agent, self._patience = services, agent, patience
        self._supervisor, self._teamwork, self._bus = services.supervisor, services.teams, services.bus
        self._brought = services.extensions
        self._group = anyio.create_task_group()
        self._teammate: Teammate | None = None
        self.trouble = self._supervisor.trouble

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._supervisor.group = self._group
        self._brought.open(self._group)
        try:
            await self._begin()
        except BaseException:
            self._group.cancel_scope.cancel()
            await self.__aexit__(None, None, None)
            raise
        return self

    async def _begin(self) -> None:
        work, tables = self._teamwork, self._teamwork.tables
        member = await tables.teams.member(self._agent)
        if member is None or member.state == "shutdown":
            raise SessionMissing(f"the teammate {self._agent} has shut down")
        await work.wakeups.process()
        await work.roster.refresh(member.team)
        try:
            self._teammate = await work.teammates.start(member)
        except (ToolError, StoreError) as error:
            await tables.teams.note_trouble(member.team, member.agent, str(error))
            raise SessionMissing(str(error)) from None
        if self._teammate is None:
            raise SessionMissing(f"{member.address} is run by another process already")
        self._supervisor.own(self._teammate.agent)
        self._group.start_soon(self._report, self._bus.watch(deltas=False))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_LIMIT):
                with self.trouble.kept("the end of the process"):
                    await self._supervisor.stop_all()
                    await self._teamwork.close()
                await self._brought.leave(limit=LEAVE_LIMIT, ends=False)
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(kind, error, trace)
        finally:
            self._bus.close()
            with anyio.CancelScope(shield=True), self.trouble.kept("the end of the process"):
                await self._services.close()

    def watch(self) -> Watch:
        return self._bus.watch(deltas=False)

    async def ended(self) -> None:
        """Return when the teammate has shut down."""
        assert self._teammate is not None
        await self._teammate.ended.wait()

    async def abandoned(self) -> None:
        """Return when the lead's process is gone and none came back in time; never in the middle of a turn."""
        assert self._teammate is not None
        alone = 0.0
        while alone < self._patience or self._teammate.agent.running:
            await anyio.sleep(LOOK)
            with self.trouble.kept("whether the lead lives"):
                alone = 0.0 if await self._is_led() else alone + LOOK

    async def _is_led(self) -> bool:
        assert self._teammate is not None
        tables = self._teamwork.tables
        team = await tables.teams.team(self._teammate.member.team)
        return team is not None and team.process is not None and tables.processes.alive(team.process)

    async def _report(self, watch: Watch) -> None:
        """Tell the lead's process, which shows what is done here, that there is something to read."""
        assert self._teammate is not None
        team = self._teammate.member.team
        async for record in watch:
            if is_durable(record.event):
                await anyio.sleep(QUIET)
                with self.trouble.kept("what is told to the lead"):
                    await self._teamwork.wakeups.ring_lead(team)
