"""The life of a teammate: handle what came, go idle and say so once, wait, wake. Only a shutdown ends it."""

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.data.event import AgentEnded, Event, ToolEnded, TurnEnded
from teamwright.core.data.letter import Letter, Said, Sender, Signal
from teamwright.core.data.tasks import Actor, Task, claim_id
from teamwright.core.data.team import Mail, Member, Refused, State, TeamRequest, iso
from teamwright.core.errors import DiskError, StoreError
from teamwright.core.ids import AgentId, LetterId
from teamwright.core.permissions.consent import Mode
from teamwright.host.git.worktree import Worktree
from teamwright.runtime.agents.agent import Agent, current_agent, current_teammate
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.extensions.hook_services import TeamHooks
from teamwright.runtime.teams.mail import SYSTEM_SENDER, TeamMail
from teamwright.runtime.teams.mirrors import ROSTER, Mirrors
from teamwright.runtime.teams.requests import TeamRequests
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.tasks import TaskBoard
from teamwright.runtime.teams.wakeups import Wakeups
from teamwright.runtime.tool_traits import told_by
from teamwright.runtime.worktrees import Worktrees, words
from teamwright.store.tables.mail import ATTEMPTS
from teamwright.store.tables.state import now_ms
from teamwright.store.tables.team_tables import TeamTables

LAST_WORDS = 4_000  # characters that an idle notice repeats
CLAIM_SENDER = "task-list"
Reason = Literal["available", "interrupted", "failed"]


class TeammateDeps(Struct, frozen=True):
    """What a teammate needs besides itself."""

    tables: TeamTables
    roster: Roster
    wakeups: Wakeups
    mirrors: Mirrors
    mail: TeamMail
    requests: TeamRequests
    board: TaskBoard
    worktrees: Worktrees
    supervisor: Supervisor
    hooks: TeamHooks
    log: Callable[[str], None]


class Teammate:
    """One teammate in this process."""

    def __init__(
        self, agent: Agent, member: Member, epoch: int, deps: TeammateDeps, tree: Worktree | None = None
    ) -> None:
        self.agent, self.member = agent, member
        self._epoch, self._deps, self._tree = epoch, deps, tree
        self._tables, self._roster, self._mail = deps.tables, deps.roster, deps.mail
        self._wakeups, self._supervisor = deps.wakeups, deps.supervisor
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.parked = False  # this process ends, the teammate does not
        self.broken = False  # by a bug of ours
        self.halted = False  # by a disk that fails
        self._leaving: TeamRequest | None = None
        self._finished: Task | None = None
        self._tries: dict[LetterId, int] = {}  # of letters that it could not even read

    # --- life

    async def run(self) -> None:
        """The boundary: whatever happens inside, its end is told and its tasks are free again."""
        current_agent.set(self.agent.id)
        current_teammate.set(self.agent.id)
        self.agent.on_event = partial(note_work, self._mail, self.agent)
        self.agent.inbox.on_read = partial(self._deps.mirrors.read_by, self.agent.id)
        self.agent.inbox.on_signal = self.apply_answers
        with self.scope:
            try:
                await self._live()
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
        """The disk fails: it stops as if killed, its turn, its tasks and what it has not read stay its own."""
        self.parked = self.agent.parked = self.halted = True
        self._supervisor.trouble.report(error, f"teammate {self.member.address}")
        self._roster.tell(self.member, "died", str(error))

    async def _break(self, bug: Exception) -> None:
        """Not its end: the lead is told, and a message resumes it."""
        self.parked = self.broken = True
        lead = self._roster.lead_of(self.member.team)
        self._deps.log(f"teammate {self.member.address}: {''.join(traceback.format_exception(bug))}")
        words = f"internal error: {bug!r}; the log has the details"
        self._roster.tell(self.member, "died", words)
        notice = self._mail.notice(lead, f"{self.member.name} was stopped by an {words}.") if lead else None
        try:
            if self.member.state == "running":
                await self._set_idle(notice, "failed")
            elif lead is not None and notice is not None:
                await self._mail.store(notice)
                await self._mail.arrived(lead)
        except StoreError as error:
            self._deps.log(f"that {self.member.address} was stopped could not be told: {error}")

    async def _live(self) -> None:
        await self.heed_interrupts()
        await self.apply_answers()
        if self.member.state == "created":
            await self._set_running()
        if self._under_way and self._leaving is None:
            await self._set_running()  # before letters are marked: others see one or the other
            await self._turn(await self.agent.inbox.take(at_rest=self.agent.history.over))
        jobs, waited = self._supervisor.jobs, 0.0
        while self._leaving is None:
            if letters := await self.agent.inbox.take(at_rest=True):
                await self._turn(letters)
                waited = 0.0
            elif owned := jobs.unfinished(self.agent.id):  # it is not idle yet
                waited += await self._supervisor.wait_for_jobs(self.agent, owned, waited)
            elif self.member.state == "running" and self.agent.history.ended is not None:
                await self._go_idle()
            elif not await self._claim():
                self._roster.announce()
                await self.agent.inbox.wait()

    @property
    def _under_way(self) -> bool:
        """A turn that an earlier process began, and whose end is not recorded."""
        history = self.agent.history
        return bool(history.messages) and history.ended is None

    async def _turn(self, letters: Sequence[Letter]) -> None:
        agent = self.agent
        await self._set_running()
        await agent.slot.take()
        try:
            end = await agent.turn(letters)
        finally:
            agent.slot.give_back()
            agent.rest()
        if agent.halted is not None:
            raise agent.halted
        if end.reason == "failed" and (left := [x.id for x in letters if x.id not in agent.history.letters]):
            await self._failed(left, end.error)
        await self.apply_answers()
        if self._leaving is None and not self._supervisor.jobs.unfinished(agent.id):
            await self._go_idle()

    async def _failed(self, letters: Sequence[LetterId], why: str) -> None:
        """Not even read: after the third time each is set aside, and whoever must know of it is told."""
        member = self.member
        await self._tables.mail.failed(letters, why)
        await self._mail.tell_of_failures(member.team)
        for id in letters:  # no mail of others: a person's words, a task; only this process counts
            self._tries[id] = self._tries.get(id, 0) + 1
        dead = [id for id in letters if self._tries[id] >= ATTEMPTS]
        lead = self._roster.lead_of(member.team)
        for id in await self._tables.mail.drop_letters(dead) if dead else ():
            words = f"Something that waited for {member.name} could not be handled {ATTEMPTS} times and is set aside"
            self._roster.warn(member.agent, f"{words}: {why}")
            if lead is not None:
                await self._mail.notify(lead, f"{words}: {why}", f"u-{id}-lead")

    async def _go_idle(self) -> None:
        """Told once for each turn, whatever waits already."""
        end = self.agent.history.ended
        await self._mail.tell_of_failures(self.member.team)
        if back := await self._deps.hooks.before_idle(self.member):
            await self._mail.notify(self.member, back)
        elif end is not None:
            reason, notice = self._idle_notice(end)
            await self._set_idle(notice, reason)
            self._finished = None

    async def _claim(self) -> bool:
        """The first task that is free; the word about it is stored with the claim. Not while it plans."""
        team, agent = self.member.team, self.agent
        end = agent.history.ended
        if agent.mode == "plan" or (end is not None and idle_reason(end) != "available"):
            return False
        by = Actor(agent.id, self.member.name)
        task = await self._deps.board.claim_first(team, by, partial(_claim_letter, team=team, agent=agent.id))
        if task is not None:
            agent.inbox.ring()
        return task is not None

    # --- what it tells

    def _idle_notice(self, end: TurnEnded) -> tuple[Reason, Mail | None]:
        lead = self._roster.lead_of(self.member.team)
        reason, said = idle_reason(end), end.text.strip()
        body: dict[str, Any] = {
            "type": "idle_notification",
            "from": self.member.name,
            "timestamp": iso(now_ms()),
            "idleReason": reason,
        }
        if said:
            body["lastMessage"] = said if len(said) <= LAST_WORDS else f"{said[:LAST_WORDS]} [...]"
        if (task := self._finished) is not None:
            body |= {"completedTaskId": str(task.id), "completedStatus": "resolved"}
        if end.error:
            body["failureReason"] = end.error
        quiet = not said and self._finished is None and reason == "available"
        line = msgspec.json.encode(body).decode()
        signal = Signal("idle_notification", line, self.member.color, quiet)
        if lead is None:
            return reason, None
        # The number of the turn makes it the same notice after a crash.
        id = f"i-{self.agent.id}-{self.agent.history.ends}"
        return reason, self._mail.draft(self.member, lead, signal, id=id)

    def finished(self, task: Task) -> None:
        """It has completed a task: part of its next idle notice."""
        self._finished = task

    # --- states and answers

    async def _set_running(self) -> None:
        """On the way to a request: the store hears of it with the request's own commit, the copies afterwards."""
        member = self.member
        if member.state == "running":
            return
        if await self._tables.processes.epoch_of(member.agent) != self._epoch:
            self._give_way()
            return
        self._tables.teams.runs_soon(member.team, member.agent, epoch=self._epoch)
        self._note("running")
        self._deps.mirrors.behind(member.team, ROSTER)
        if member.state == "idle":
            self._roster.tell(self.member, "wake")

    async def _set_idle(self, notice: Mail | None, reason: str) -> None:
        """`notice` tells the lead of it: stored with the change, so that neither is seen without the other."""
        member, mirrors = self.member, self._deps.mirrors
        moved = await self._tables.teams.set_state(member.team, member.agent, "idle", epoch=self._epoch, mail=notice)
        if isinstance(moved, Refused):
            if moved.code == "fenced":
                self._give_way()
            return
        # Watchers hear of it before the lead answers.
        self._roster.tell(msgspec.structs.replace(member, state="idle"), "idle", reason)
        lead = self._roster.lead_of(member.team) if notice is not None else None
        if lead is not None:  # before anybody here sees that it is idle, and thinks that all is done
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
                    self.agent.end_plan(self._after_plan(request.answer.get("mode")))
                await requests.handled(request.id)
        for request in await requests.agreed_by(self.agent.id):
            self._leaving = self._leaving or request

    async def heed_interrupts(self) -> None:
        """Those that came from another process; one from before this turn, or in none, is out of date."""
        requests = self._tables.requests
        for request in await requests.interrupts_of(self.agent.id):
            ended = request.asked_at >= self.member.since and self.agent.interrupt()
            await requests.answer(request.id, self.agent.id, {"interrupted": ended})

    def _after_plan(self, mode: Mode | None) -> Mode | None:
        return mode or self.member.mode

    # --- the end

    async def stop(self, *, park: bool) -> None:
        """By force: for good, or only in this process."""
        self.parked = self.agent.parked = park
        self.scope.cancel()
        with anyio.move_on_after(10):
            await self.ended.wait()

    async def _conclude(self) -> None:
        agent, member, deps = self.agent, self.member, self._deps
        await self._supervisor.gone(agent)
        if self.parked:
            agent.close_transcript()
            if self._tree is not None:
                await deps.worktrees.let_go(self._tree)
            process = await self._wakeups.process()
            await self._tables.processes.release_agent(agent.id, process.id)
            return
        agent.emit(AgentEnded("completed", agent.history.last_words))
        await agent.sync()
        agent.close_transcript()
        kept = await deps.worktrees.close(self._tree) if self._tree is not None else None
        await free_tasks(deps, member, f"{member.name} has shut down" + (f". {words(kept)}" if kept else ""))
        asked = self._leaving
        mail = deps.requests.farewell(member, asked) if asked is not None else None
        await self._tables.teams.set_state(member.team, member.agent, "shutdown", epoch=self._epoch, mail=mail)
        if asked is not None:
            await deps.requests.gone(member, asked)
        await self._mail.tell_of_failures(member.team)
        await deps.mirrors.write_team(member.team)
        self._roster.tell(member, "shutdown")
        await self._roster.refresh(member.team)
        await self._wakeups.ring_lead(member.team)


def idle_reason(end: TurnEnded) -> Reason:
    """One that has reached a limit has not done what it was asked for, and takes no further task by itself."""
    match end.reason:
        case "done":
            return "available"
        case "interrupted":
            return "interrupted"
        case "failed" | "refused" | "max_turns" | "max_budget":
            return "failed"


def note_work(mail: TeamMail, agent: Agent, event: Event) -> None:
    """A tool that was used for more than talking: whoever answers it now does not answer idle words."""
    if not isinstance(event, ToolEnded) or event.is_error or event.call_id not in agent.history.used:
        return
    calls = (c for m in reversed(agent.history.messages) if m.role == "assistant" for c in m.calls)
    call = next((c for c in calls if c.id == event.call_id), None)
    traits = told_by(agent.tools.get(call.name)) if call is not None else None
    if call is not None and not (traits and traits.talks):
        mail.worked(agent.id)


async def free_tasks(deps: TeammateDeps, member: Member, why: str) -> None:
    """The tasks of one that is gone go back to the list, and the lead is told of those that there were."""
    lead = deps.roster.lead_of(member.team)

    def tell(freed: Sequence[Task]) -> Mail | None:
        if lead is None or not (freed or "worktree" in why):
            return None
        tasks = ", ".join(f"#{task.id} {task.subject}" for task in freed)
        words = f"{why}." + (f" Free again: {tasks}." if tasks else "")
        letter = Letter(LetterId(f"f-{member.agent}-{now_ms()}"), lead.agent, SYSTEM_SENDER, Said(words))
        return Mail(letter, lead.team, SYSTEM_SENDER.name, lead.name, words, control=True)

    by = Actor(member.agent, member.name, lead=True)
    await deps.board.release_all(member.team, member.agent, by, tell)
    if lead is not None:
        await deps.mail.arrived(lead)


def _claim_letter(task: Task, team: str, agent: AgentId) -> Letter:
    """Its words are its author's, who is named where no text can pretend to be another: beside them."""
    made = f"made by {task.author}" if task.author else ""
    text = (
        f"You have claimed task #{task.id}: {task.subject}\n\n{task.description}\n\n"
        f"{f'It was {made}. ' if made else ''}"
        "Do it, mark it completed with TaskUpdate, then go on with further open tasks (TaskList)."
    )
    sender = Sender("system", CLAIM_SENDER)
    return Letter(claim_id(team, task), agent, sender, Said(text, f"task #{task.id}, {made}" if made else ""))
