"""Runs one teammate in this process: its cancel scope, its failures and its end."""

import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio

from teamwright.core.data.event import AgentEnded
from teamwright.core.data.letter import Letter, Signal
from teamwright.core.data.tasks import Actor, Task
from teamwright.core.data.team import Member
from teamwright.core.errors import DiskError, StoreError
from teamwright.runtime.agents.agent import Agent, current_agent, current_teammate
from teamwright.runtime.agents.life import live
from teamwright.runtime.teams.effort import Effort
from teamwright.runtime.teams.teammates.life import TeammateLife
from teamwright.runtime.teams.teammates.state import TeammateDeps, TeammateState

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree


class Teammate:
    """One teammate in this process."""

    def __init__(
        self, agent: Agent, member: Member, epoch: int, deps: TeammateDeps, tree: "Worktree | None" = None
    ) -> None:
        self.agent, self.state = agent, TeammateState(agent, member, epoch, deps)
        self._life = TeammateLife(self.state, deps)
        self._deps, self._tree = deps, tree
        self._tables, self._roster, self._mail = deps.tables, deps.roster, deps.mail
        self._wakeups, self._supervisor = deps.wakeups, deps.supervisor
        self.ended = anyio.Event()
        self.broken = False  # stopped by a bug of ours
        self.halted = False  # stopped by a failing disk

    @property
    def member(self) -> Member:
        return self.state.member

    async def _prepare(self, letters: Sequence[Letter]) -> None:
        if any(isinstance(letter.body, Signal) for letter in letters):
            await self.state.apply_answers()
        if self._deps.room is not None:
            await self._deps.room.refresh(self.member)

    def finished(self, task: Task) -> None:
        """It has completed a task."""
        self._life.finished.append(task)

    async def run(self) -> None:
        """The boundary: whatever happens inside, its end is reported and its tasks are free again."""
        current_agent.set(self.agent.id)
        current_teammate.set(self.agent.id)
        self.agent.listen(Effort(self._mail, self.agent).note)
        self.agent.inbox.on_read = partial(self._deps.mirrors.read_by, self.agent.id)
        self.agent.inbox.on_letters = self._prepare
        with self.state.scope:
            try:
                await self._life.begin()
                await live(self._life)
            except DiskError as error:
                self._halt(error)
            except Exception as bug:  # noqa: BLE001 -- the agent's boundary
                await self._break(bug)
        with anyio.CancelScope(shield=True):
            with self._supervisor.trouble.kept(f"the end of {self.member.address} could not be recorded"):
                await self._conclude()
        self.agent.close_transcript()
        self.ended.set()
        self._roster.announce()

    def _halt(self, error: DiskError) -> None:
        """The disk has failed: stop as if killed. Its turn, its tasks and its unread letters stay its own."""
        self.state.parked = self.agent.parked = self.halted = True
        self._supervisor.trouble.report(error, f"teammate {self.member.address}")
        self._roster.tell(self.member, "died", str(error))

    async def _break(self, bug: Exception) -> None:
        """A bug has stopped it, which is not its end: the lead is told, and a message resumes it."""
        self.state.parked = self.broken = True
        lead = self._roster.lead_of(self.member.team)
        self._deps.log(f"teammate {self.member.address}: {''.join(traceback.format_exception(bug))}")
        words = f"internal error: {bug!r}; the log has the details"
        self._roster.tell(self.member, "died", words)
        notice = self._mail.notice(lead, f"{self.member.name} was stopped by an {words}.") if lead else None
        try:
            if self.member.state == "running":
                await self.state.set_idle(notice, "failed")
            elif lead is not None and notice is not None:
                await self._mail.store(notice)
                await self._mail.arrived(lead)
        except StoreError as error:
            self._deps.log(f"that {self.member.address} was stopped could not be told: {error}")

    # --- the end

    async def stop(self, *, park: bool) -> None:
        """Stop by force: for good or, with `park`, only in this process."""
        self.state.parked = self.agent.parked = park
        self.state.scope.cancel()
        with anyio.move_on_after(10):
            await self.ended.wait()

    async def _conclude(self) -> None:
        agent, member, deps = self.agent, self.member, self._deps
        await self._supervisor.gone(agent)
        if self.state.parked:
            agent.close_transcript()
            if self._tree is not None:
                await deps.worktrees.let_go(self._tree)
            process = await self._wakeups.process()
            await self._tables.processes.release_agent(agent.id, process.id)
            return
        await agent.close_calls()  # left by an earlier process
        agent.emit(AgentEnded("completed", agent.history.last_words))
        await agent.sync()
        agent.close_transcript()
        kept = await deps.worktrees.close(self._tree) if self._tree is not None else None
        told = f". {kept.words}" if kept else ""
        await free_tasks(deps, member, f"{member.name} has shut down{told}", always=kept is not None)
        asked = self.state.leaving
        mail = deps.requests.farewell(member, asked) if asked is not None else None
        await self._tables.teams.set_state(member.team, member.agent, "shutdown", epoch=self.state.epoch, mail=mail)
        if asked is not None:
            await deps.requests.gone(member, asked)
        await self._mail.tell_of_failures(member.team)
        await deps.mirrors.write_team(member.team)
        self._roster.tell(member, "shutdown")
        await self._roster.refresh(member.team)
        await self._wakeups.ring_lead(member.team)


async def free_tasks(deps: TeammateDeps, member: Member, why: str, *, always: bool = False) -> None:
    """Give the tasks of a member that is gone back to the list, and tell the lead if there were any.

    `always`: tell the lead `why` even if there were none.
    """
    by = Actor(member.agent, member.name, lead=True)
    await deps.board.release_all(member.team, member.agent, by, why, always=always)
    if (lead := deps.roster.lead_of(member.team)) is not None:
        await deps.mail.arrived(lead)
