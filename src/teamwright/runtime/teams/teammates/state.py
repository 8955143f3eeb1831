"""State of a teammate in this process (running, idle, leaving), and its announcement to others."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.data.team import Mail, Member, Refused, State, TeamRequest
from teamwright.core.permissions.consent import Mode
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.extensions.hook_services import TeamHooks
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.teams.mirrors import ROSTER, Mirrors
from teamwright.runtime.teams.requests import TeamRequests
from teamwright.runtime.teams.rooms import TeammateRoom
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.tasks.board import TaskBoard
from teamwright.runtime.teams.wakeups import Wakeups
from teamwright.store.tables.state import now_ms
from teamwright.store.tables.team_tables import TeamTables

if TYPE_CHECKING:
    from teamwright.runtime.services import Services
    from teamwright.runtime.workers.remotes import RemoteAgents
    from teamwright.runtime.worktrees import Worktrees


class TeammateDeps(Struct, frozen=True):
    """What a teammate needs besides itself."""

    tables: TeamTables
    roster: Roster
    wakeups: Wakeups
    mirrors: Mirrors
    mail: TeamMail
    requests: TeamRequests
    board: TaskBoard
    supervisor: Supervisor
    hooks: TeamHooks
    log: Callable[[str], None]
    services: "Services"
    room: TeammateRoom | None = None  # on a worker

    @property
    def worktrees(self) -> "Worktrees":
        """Opened when the first teammate has a worktree."""
        return self.services.worktrees

    @property
    def remotes(self) -> "RemoteAgents | None":
        return self.services.remotes


class TeammateState:
    """Changes nothing once another process runs the same agent: then this one gives way."""

    def __init__(self, agent: Agent, member: Member, epoch: int, deps: TeammateDeps) -> None:
        self.agent, self.member, self.epoch = agent, member, epoch
        self._mirrors, self._tables, self._roster, self._wakeups = deps.mirrors, deps.tables, deps.roster, deps.wakeups
        self.scope = anyio.CancelScope()  # of its life in this process
        self.parked = False  # this process ends, the teammate does not
        self.leaving: TeamRequest | None = None  # the request to shut down that it has agreed to

    async def set_running(self) -> None:
        """On the way to a request: the store writes this with the request's own commit, the copies follow."""
        member = self.member
        if member.state == "running":
            return
        if await self._tables.processes.epoch_of(member.agent) != self.epoch:
            self._give_way()
            return
        self._tables.teams.runs_soon(member.team, member.agent, epoch=self.epoch)
        self._note("running")
        self._mirrors.behind(member.team, ROSTER)
        if member.state == "idle":
            self._roster.tell(self.member, "wake")

    async def show_arrival(self) -> None:
        """In a process of its own: the lead's call waits until this is stored."""
        member = self.member
        if member.state == "created" and member.backend not in ("in-process", "remote"):
            await self._tables.teams.set_state(member.team, member.agent, "running", epoch=self.epoch)
            self._note("running")
            await self._wakeups.ring_lead(member.team)

    async def set_idle(self, notice: Mail | None, reason: str) -> None:
        """`notice` tells the lead. It is stored with the change, so that nobody sees one without the other."""
        member, mirrors = self.member, self._mirrors
        moved = await self._tables.teams.set_state(member.team, member.agent, "idle", epoch=self.epoch, mail=notice)
        if isinstance(moved, Refused):
            if moved.code == "fenced":
                self._give_way()
            return
        # Watchers hear of it before the lead answers.
        self._roster.tell(msgspec.structs.replace(member, state="idle"), "idle", reason)
        lead = self._roster.lead_of(member.team) if notice is not None else None
        if lead is not None:  # before anybody here sees that it is idle and concludes that all is done
            await self._wakeups.ring(lead)
            mirrors.behind(member.team, lead.name)
        self._note("idle")
        mirrors.behind(member.team, ROSTER)
        await self._wakeups.ring_lead(member.team)

    def _note(self, state: State) -> None:
        known = self._roster.find(self.member.team, self.member.agent) or self.member
        self.member = msgspec.structs.replace(known, state=state, since=now_ms())
        self._roster.note(self.member)

    def _give_way(self) -> None:
        """Another process runs this agent by now."""
        self.parked = True
        self.scope.cancel()

    async def apply_answers(self) -> None:
        """Act on the answers to its requests, and on its own yes to a shutdown."""
        requests = self._tables.requests
        for request in await requests.asked_by(self.agent.id):
            if request.kind == "plan" and request.answer is not None:
                if request.answer.get("approve"):
                    self.agent.plan.approved(self._after_plan(request.answer.get("mode")))
                await requests.handled(request.id)
        for request in await requests.agreed_by(self.agent.id):
            self.leaving = self.leaving or request

    async def heed_interrupts(self) -> None:
        """Obey interrupts from other processes; one from before this turn, or outside of a turn, is out of date."""
        requests = self._tables.requests
        for request in await requests.interrupts_of(self.agent.id):
            ended = request.asked_at >= self.member.since and self.agent.interrupt()
            await requests.answer(request.id, self.agent.id, {"interrupted": ended})

    def _after_plan(self, mode: Mode | None) -> Mode | None:
        return mode or self.member.mode
