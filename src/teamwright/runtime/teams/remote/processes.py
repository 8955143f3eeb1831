"""Processes of teammates: started by argv, identified by pid and start time, supervised until they end."""

from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.core.data.team import Backend, Member, Refused
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.host.files.paths import is_directory
from teamwright.host.panes.base import Pane
from teamwright.host.process.identity import start_of
from teamwright.runtime.teams.deps import TeammatePlaces
from teamwright.runtime.teams.teammates.state import TeammateDeps
from teamwright.runtime.teams.teammates.teammate import free_tasks
from teamwright.store.tables.processes import Process

START_LIMIT = 60.0  # seconds for a process to come up, and for the servers that its agent needs
LOOK = 1.0
CLOSE_LIMIT = 12.0  # seconds: longer than a process has from the first signal to the last


class TeammateOwner(Protocol):
    def recruits(self, agent: AgentId) -> bool:
        """Whether somebody waits in `arrived`."""
        ...

    async def failed(self, member: Member) -> None:
        """A member's process has ended because it could not run it."""
        ...

    async def lost(self, member: Member) -> None:
        """A member's process has ended, but the member had not shut down."""
        ...


class TeammateProcesses:
    def __init__(self, places: TeammatePlaces, deps: TeammateDeps, owner: TeammateOwner) -> None:
        self.backend: Backend = places.backend
        self._panes, self._command = places.panes, places.command
        self._deps, self._owner = deps, owner
        self._tables, self._roster = deps.tables, deps.roster
        self._open: dict[str, tuple[Member, Pane]] = {}  # by address
        self._stopped = set[Pane]()  # stopped on purpose
        self._closing = False

    async def start(self, member: Member) -> Member:
        """Start the member's process, unless it has one: a process that is still coming up will read its mail.

        Nothing is started any more once this session ends: the next one resumes the member.
        """
        known, pane = self._open.get(member.address, (member, None))
        if self._closing or (pane is not None and known.agent == member.agent and await self._panes.is_open(pane)):
            return known
        if member.trouble:
            await self._tables.teams.note_trouble(member.team, member.agent, "")
        main = self._deps.supervisor.main
        argv, env = self._command(member, main.mode or "default")
        cwd = Path(member.cwd)
        if not member.worktree and not is_directory(cwd):  # it began on another machine
            cwd = main.desk.cwd
        pane = await self._panes.open(argv, cwd=cwd, env=env, title=member.address, color=member.color)
        if self._closing:  # the session ended meanwhile, and its closing code could not know of this one
            await self._panes.close(pane)
            return member
        self._open[member.address] = (member, pane)
        record = msgspec.to_builtins(pane)
        changed = await self._tables.teams.set_place(member.team, member.agent, self.backend, record)
        member = replace(member, pane=record) if isinstance(changed, Refused) else changed
        self._look_after(member, pane)
        return member

    async def arrived(self, member: Member) -> None:
        """Wait until the process of a new member has begun to run it. ToolError if it ended before."""
        with anyio.move_on_after(START_LIMIT):
            while True:
                await self._roster.refresh(member.team)
                now = self._roster.find(member.team, member.agent)
                if now is None or now.state != "created" or self._closing:
                    return
                if member.address not in self._open:
                    pane = self._pane(now)
                    where = f"; {pane.log} may say why" if pane and pane.log else ""
                    raise ToolError(now.trouble or f"its process ended at once{where}")
                with anyio.move_on_after(LOOK):
                    await self._roster.news()

    async def watch(self, member: Member, process: Process) -> None:
        """Watch a process by its stored place; if its lead was killed before it stored that, by the process alone."""
        pane = self._pane(member)
        if pane is None or pane.pid != process.pid:
            pane = Pane("local", str(process.pid), process.pid, await start_of(process.pid))
        if member.address not in self._open:
            self._look_after(member, pane)

    def _look_after(self, member: Member, pane: Pane) -> None:
        self._open[member.address] = (member, pane)
        self._deps.supervisor.launch(partial(self._wait, member, pane))

    async def _wait(self, member: Member, pane: Pane) -> None:
        await self._panes.watch(pane)
        if self._open.get(member.address, (None, None))[1] is pane:  # it may have another process by now
            del self._open[member.address]
        if self._owner.recruits(member.agent):
            self._roster.announce()
        elif not self._closing and pane not in self._stopped:
            await self._died(member)

    async def _died(self, member: Member) -> None:
        """A process has died. Unless the member had shut down, free its tasks and tell the lead; a message resumes
        it."""
        await self._roster.refresh(member.team)
        now = self._roster.find(member.team, member.agent)
        if now is None or now.state == "shutdown":
            return
        if now.trouble:
            await self._owner.failed(now)
            return
        await self._tables.processes.note_deaths()
        if await self._tables.processes.holder(now.agent) is not None:
            return  # a message has resumed it already
        lead = self._roster.lead_of(now.team)
        if not await self._record(now, lead):
            return
        self._roster.tell(now, "died", "its process has ended")
        if lead is not None:
            await self._deps.mail.arrived(lead)
        await free_tasks(self._deps, now, f"The process of {now.name} is gone")
        await self._roster.refresh(now.team)
        await self._owner.lost(now)

    async def _record(self, member: Member, lead: Member | None) -> bool:
        """Record the death along with the notice of it: nobody may think that all is done. False: somebody else runs
        it."""
        lease = await self._tables.processes.lease(member.agent)
        words = f"The process of {member.name} has ended unexpectedly. A message brings it back, with all it knew."
        notice = self._deps.mail.notice(lead, words) if lead is not None else None
        if member.state == "running":
            epoch = lease.epoch if lease else 0
            moved = await self._tables.teams.set_state(member.team, member.agent, "idle", epoch=epoch, mail=notice)
            return not isinstance(moved, Refused)
        if notice is not None:
            await self._deps.mail.store(notice)
        return True

    async def stop(self, member: Member) -> None:
        found = self._open.pop(member.address, None)
        pane = found[1] if found else self._pane(member)
        if pane is not None:
            self._stopped.add(pane)
            await self._panes.close(pane)

    async def close(self) -> None:
        """End all processes, even in a hurry: none may stay behind."""
        self._closing = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_LIMIT):
            async with anyio.create_task_group() as group:
                for _, pane in self._open.values():
                    group.start_soon(self._panes.close, pane)

    def _pane(self, member: Member) -> Pane | None:
        if not member.pane:
            return None
        try:
            return msgspec.convert(member.pane, Pane)
        except msgspec.ValidationError as error:
            raise ToolError(f"What is stored of the place of {member.address} cannot be read: {error}") from None
