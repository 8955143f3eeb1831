"""Wake-ups between the processes of teams: this process's row, lock and bell, and the bells of the others."""

from collections.abc import Mapping
from functools import partial

import anyio

from teamwright.core.data.team import Member
from teamwright.host.ipc.wakeup import Wakeup, open_bell
from teamwright.host.ipc.wakeup import ring as ring_bell
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.concurrency.later import Later
from teamwright.runtime.concurrency.lock import LightLock
from teamwright.runtime.concurrency.unbroken import unbroken
from teamwright.runtime.teams.deps import TeammateControl
from teamwright.runtime.teams.mirrors import READERS_FIRST, Mirrors
from teamwright.runtime.teams.roster import Roster
from teamwright.store.db.poll import EVERY, watch_changes
from teamwright.store.tables.processes import Process
from teamwright.store.tables.team_tables import TeamTables

LEAVE_LIMIT = 2.0  # seconds for work that a bell has started


class Wakeups:
    def __init__(
        self,
        tables: TeamTables,
        roster: Roster,
        mirrors: Mirrors,
        supervisor: Supervisor,
        control: TeammateControl,
        env: Mapping[str, str],
        process: Process | None = None,
    ) -> None:
        """`control` reaches the teammates, which are made later. `process`: somebody else has registered this process,
        and calls `heard`."""
        self._tables, self._roster, self._mirrors = tables, roster, mirrors
        self._supervisor, self._control, self._env = supervisor, control, env
        self._me, self._given = process, process
        self._registering, self._opened = LightLock(), False
        self._bell: Wakeup | None = None
        self._ears, self._deaf = anyio.CancelScope(), anyio.Event()
        self._looking = Later(READERS_FIRST, self.look, supervisor.trouble)

    # --- this process

    async def process(self) -> Process:
        """This process's row in the store. From the first call on it hears bells."""
        if self._me is None:
            await unbroken(self._register())
        assert self._me is not None
        if not self._opened:
            self._opened = True
            self._supervisor.launch(self._mirrors.run)
            self._supervisor.launch(self._looking.run)
        return self._me

    async def _register(self) -> None:
        async with self._registering:
            if self._me is None:
                bell = self._bell = open_bell(self._env)
                self._me = await self._tables.processes.register(self._roster.session, bell=bell.address)
                self._supervisor.launch(partial(self._listen, bell))
                self._supervisor.launch(partial(self._poll, bell.address))

    async def leave(self) -> None:
        """Take this process out of the store."""
        if self._me is not None and self._given is None:
            await self._tables.processes.leave(self._me.id)
        if self._bell is not None:  # nobody may wait at a closed socket
            self._ears.cancel()
            with anyio.move_on_after(LEAVE_LIMIT):
                await self._deaf.wait()
            self._bell.close()

    async def _listen(self, bell: Wakeup) -> None:
        try:
            with self._ears:
                while True:
                    await bell.wait()
                    self.heard()
        finally:
            self._deaf.set()

    async def _poll(self, address: str) -> None:
        """Looks at the store, so that a lost bell costs a second, never a letter."""
        while True:
            with self._supervisor.trouble.kept("looking for what other processes have stored"):
                await watch_changes(self._tables.database, partial(ring_bell, address))
            await anyio.sleep(EVERY)

    def heard(self) -> None:
        """A bell rang: ring the inboxes first, then look at what else is new."""
        self._ring_inboxes()
        self._roster.announce()
        self._looking.ring()

    async def look(self) -> None:
        """Another process changed the store: find out what is new for whom."""
        self._ring_inboxes()  # first: an agent that sees all others idle must not miss a letter
        await self._roster.refresh_all()
        await self._control.look()

    def _ring_inboxes(self) -> None:
        for agent in self._supervisor.agents:
            agent.inbox.ring()

    # --- other processes

    async def ring(self, member: Member) -> None:
        """Wake the reader of a stored letter. If nobody runs it, the process that leads its team resumes it."""
        if self._supervisor.agent(member.agent) is not None:
            self._supervisor.ring(member.agent)
            return
        holder = await self._tables.processes.holder(member.agent)
        if holder is not None and holder.id != (await self.process()).id:
            ring_bell(holder.bell)
        elif not self._roster.leads(member.team):
            await self.ring_lead(member.team)
        elif not member.is_lead:
            await self._control.resume_member(member)

    async def ring_lead(self, team: str) -> None:
        found = await self._tables.teams.team(team)
        if found is None or found.process is None:
            return
        if found.process == (await self.process()).id:
            self._roster.announce()
        elif (process := await self._tables.processes.process(found.process)) is not None:
            ring_bell(process.bell)

    async def ring_all(self, team: str) -> None:
        """Ring every process of the team, this one included: there may be something to claim."""
        me = await self.process()
        for process in await self._tables.processes.of_team(team):
            if process.id != me.id:
                ring_bell(process.bell)
        for member in self._roster.members(team):
            self._supervisor.ring(member.agent)
        self._roster.announce()

    async def ring_session(self, session: str) -> bool:
        """Ring a session. True if a process of it is there to hear it."""
        found = [p for p in await self._tables.processes.living() if p.session == session]
        for process in found:
            ring_bell(process.bell)
        return bool(found)

    def ring_process(self, process: Process) -> None:
        ring_bell(process.bell)
