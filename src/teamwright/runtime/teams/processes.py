"""Teammates in processes of their own: started by argv, known by pid and start time, looked after until they end."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from teamwright.core.data.team import Backend, Member, Refused
from teamwright.core.errors import ToolError
from teamwright.core.permissions.consent import Mode
from teamwright.host.panes.base import Pane, Panes
from teamwright.host.process.identity import start_of
from teamwright.runtime.teams.teammate import TeammateDeps, free_tasks
from teamwright.store.tables.processes import Process

Command = Callable[[Member, Mode], tuple[Sequence[str], Mapping[str, str]]]  # argv and environment
CLOSE_LIMIT = 12.0  # seconds: longer than a process has from the first signal to the last


class TeammateProcesses:
    def __init__(self, panes: Panes, backend: Backend, command: Command, means: TeammateDeps) -> None:
        self.backend: Backend = backend
        self._panes, self._command, self._means = panes, command, means
        self._open: dict[str, tuple[Member, Pane]] = {}  # by address
        self._closing = False
        self.on_lost: Callable[[Member], Awaitable[None]] | None = None

    async def start(self, member: Member) -> Member:
        """Not twice: one that is still coming up has not said that it runs the member, and reads its mail then.

        Nothing is started any more once this session ends: the next one brings the member back.
        """
        known, pane = self._open.get(member.address, (member, None))
        if self._closing or (pane is not None and known.agent == member.agent and await self._panes.is_open(pane)):
            return known
        argv, env = self._command(member, self._means.teams.supervisor.main.mode or "default")
        pane = await self._panes.open(argv, cwd=Path(member.cwd), env=env, title=member.address, color=member.color)
        if self._closing:  # meanwhile; whoever closes could not know of it
            await self._panes.close(pane)
            return member
        self._open[member.address] = (member, pane)
        record = msgspec.to_builtins(pane)
        changed = await self._means.teams.tables.teams.amend(
            member.team, member.agent, lambda old: replace(old, pane=record, backend=self.backend)
        )
        member = replace(member, pane=record) if isinstance(changed, Refused) else changed
        self._look_after(member, pane)
        return member

    async def watch(self, member: Member, process: Process) -> None:
        """By what was stored of its place; where its lead was killed too early for that, by the process alone."""
        pane = self._pane(member)
        if pane is None or pane.pid != process.pid:
            pane = Pane("local", str(process.pid), process.pid, await start_of(process.pid))
        if member.address not in self._open:
            self._look_after(member, pane)

    def _look_after(self, member: Member, pane: Pane) -> None:
        self._open[member.address] = (member, pane)
        self._means.teams.supervisor.launch(lambda: self._wait(member, pane))

    async def _wait(self, member: Member, pane: Pane) -> None:
        await self._panes.watch(pane)
        if self._open.get(member.address, (None, None))[1] is pane:  # it may have another one by now
            del self._open[member.address]
        if not self._closing:
            await self._died(member)

    async def _died(self, member: Member) -> None:
        """Unless it had shut down: its tasks are free again, the lead hears of it, a message brings it back."""
        teams = self._means.teams
        await teams.refresh(member.team)
        now = teams.find(member.team, member.agent)
        if now is None or now.state == "shutdown":
            return
        if await teams.tables.processes.holder(now.agent) is not None:
            return  # a message has brought it back already
        lead, lease = teams.lead_of(now.team), await teams.tables.processes.lease(now.agent)
        words = f"The process of {now.name} has ended unexpectedly. A message brings it back, with all it knew."
        notice = self._means.post.notice(lead, words) if lead is not None else None
        if now.state == "running":  # the word about it with it: nobody may think that all is done
            epoch = lease.epoch if lease else 0
            moved = await teams.tables.teams.set_state(now.team, now.agent, "idle", epoch=epoch, mail=notice)
            if isinstance(moved, Refused):
                return
        elif notice is not None:
            await teams.tables.mail.post_mail(notice)
        teams.tell(now, "died", "its process has ended")
        if lead is not None:
            await self._means.post.arrived(lead)
        await free_tasks(self._means, now, f"The process of {now.name} is gone")
        await teams.refresh(now.team)
        if self.on_lost is not None:
            await self.on_lost(now)

    async def stop(self, member: Member) -> None:
        found = self._open.pop(member.address, None)
        pane = found[1] if found else self._pane(member)
        if pane is not None:
            await self._panes.close(pane)

    async def close(self) -> None:
        """Whatever else is in a hurry: none may stay behind."""
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
