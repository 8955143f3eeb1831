"""Session: owns its agents from their first moment, takes ops, publishes events."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, assert_never

import anyio

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, LettersTaken, PromptPosted, PromptWithdrawn, Record, TurnEnded, Warned
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Message, Text
from teamwright.core.data.op import (
    AddDirectories,
    AddRules,
    Answer,
    AskAside,
    Compact,
    Interrupt,
    Op,
    RemoveDirectories,
    RemoveRules,
    Say,
    SendToBackground,
    SetMode,
    SetModel,
    StopAll,
    StopJob,
    prompt_text,
)
from teamwright.core.errors import StoreError, ToolError, UsageError
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId, new_letter_id
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.meter import AgentMeter
from teamwright.runtime.agents.resources import Extensions
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.bus import Bus, Cursor, Watch
from teamwright.runtime.jobs.schedule import Schedules
from teamwright.runtime.permissions.questions import Questions
from teamwright.runtime.port import SessionView
from teamwright.runtime.races import first
from teamwright.runtime.side_questions.proactive import tick
from teamwright.runtime.side_questions.service import SideQuestions
from teamwright.runtime.teams.service import Teamwork
from teamwright.runtime.teams.team import LedTeam, lead_team

CLOSE_LIMIT = 4.0  # seconds for the running turn to end
LEAVE_LIMIT, HURRY = 12.0, 0.8  # seconds for hooks, and then for servers, to end in good order


class Session:
    """Made by `open_session`; lives inside its `async with`."""

    def __init__(
        self,
        id: SessionId,
        *,
        cwd: Path,
        main: Agent,
        bus: Bus,
        meter: AgentMeter,
        questions: Questions,
        resolve_model: Callable[[str], str],
        add_rules: Callable[[Literal["allow", "ask", "deny"], Sequence[str], AgentId | None], list[str]],
        remove_rules: Callable[[Literal["allow", "ask", "deny"], Sequence[str] | None], None],
        window: Callable[[], Awaitable[int | None]],
        pass_on: Callable[[Letter], Awaitable[bool]],
        may_bypass: bool,
        supervisor: Supervisor,
        asides: SideQuestions,
        teamwork: Teamwork,
        schedules: Schedules,
        resumes: bool = False,
        team: str | None = None,
        kinds: Callable[[], Mapping[str, AgentDefinition]],
        brought: Extensions,
        model_names: Sequence[str] = (),
        tick_seconds: float | None = None,
        driven: bool = False,
        notes: Sequence[str] = (),
        on_close: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self.id, self.cwd, self.main, self.meter, self.questions = id, cwd, main, meter, questions
        self.notes = tuple(notes)  # what the person should know about how the session was opened
        self.supervisor, self.kinds, self.model_names = supervisor, kinds, list(model_names)
        self.teamwork, self._resumes, self._team = teamwork, resumes, team
        self._bus, self._asides = bus, asides
        self._resolve_model, self._add_rules, self._pass_on = resolve_model, add_rules, pass_on
        self._remove_rules, self.window = remove_rules, window  # `window`: tokens that fit into the main agent's model
        self._first_model, self._may_bypass = main.model, may_bypass
        self._on_close, self._hurried = on_close, False
        self.brought, self._arriving = brought, anyio.CancelScope()
        self._tick_seconds, self.schedules, self._driven = tick_seconds, schedules, driven
        self._group = anyio.create_task_group()
        self.trouble = supervisor.trouble

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self.supervisor.open(self._group)
        self.brought.open(self._group)
        if self._resumes or self._team is not None:
            await self._resume_teams()
        if self._resumes:
            await self.schedules.open()
        self._group.start_soon(self._live)
        self._group.start_soon(self.schedules.run)
        if self._tick_seconds is not None:
            self._group.start_soon(tick, self.main, self._tick_seconds)
        return self

    async def _live(self) -> None:
        """What people brought must be there before the first turn."""
        with self._arriving:
            await self.brought.arrive()
        if not self._driven:
            await self.supervisor.live_as_main(self.main)

    async def _resume_teams(self) -> None:
        try:
            await self.teamwork.resume(self.main, self._team)
        except BaseException as error:
            self._group.cancel_scope.cancel()
            await self._leave(None, None, None)
            if isinstance(error, ToolError):
                raise UsageError(str(error)) from None
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._asides.finish()
        finally:
            await self._leave(kind, error, trace)

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.trouble.error is not None:
            self._halt(self.trouble.error)
        self.main.close()
        self._arriving.cancel()
        try:
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(CLOSE_LIMIT):
                    with self.trouble.kept("the end of the session"):
                        await self.supervisor.stop_all()
                        await self.teamwork.close()
                    if not self._driven:
                        await self.main.closed()
                await self.brought.leave(limit=HURRY if self._hurried or kind else LEAVE_LIMIT)
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(kind, error, trace)
        finally:
            self._bus.close()
            with anyio.CancelScope(shield=True):
                for close in self._on_close:
                    with self.trouble.kept("the end of the session"):
                        await close()

    def _halt(self, error: StoreError) -> None:
        """Every running agent stops as if killed; callers that wait for the main agent are told why."""
        for agent in self.supervisor.agents:
            agent.parked = True
        if self.main.halted is None:
            self.tell(self.main.id, TurnEnded("failed", error=str(error)))

    def hurry(self) -> None:
        """Close without the notes that a session otherwise leaves for later ones."""
        self._asides.hurried = self._hurried = True

    # --- ops in

    async def submit(self, op: Op) -> None:
        """Returns when it is stored or done; raises UsageError for what cannot be done."""
        match op:
            case Say():
                await self.say(op)
            case Interrupt():
                await self._interrupt(op.agent)
            case SendToBackground():
                await self._send_to_background(op.job)
            case StopJob():
                await self._stop(op.job)
            case StopAll():
                await self._stop_all(turns=op.turns)
            case SetMode():
                self._set_mode(op.mode)
            case SetModel():
                self.main.use_model(self._resolve_model(op.model) if op.model else self._first_model, "model")
            case Compact():
                if not await self.main.compact(op.instructions):
                    raise UsageError("there is nothing to compact yet")
            case AskAside():
                await self.aside(op.question)
            case AddRules():
                for problem in self._add_rules(op.behaviour, op.rules, op.agent):
                    self.tell(self.main.id, Warned(problem))
            case AddDirectories():
                self._add_directories(op.directories)
            case RemoveRules():
                self._remove_rules(op.behaviour, op.rules)
            case RemoveDirectories():
                self._remove_directories(op.directories)
            case Answer():
                if not self.questions.answer(op.question, op.decision):
                    raise UsageError(f"no question {op.question} is waiting: it was answered, withdrawn or never asked")
            case _:
                assert_never(op)

    async def say(self, op: Say) -> LetterId:
        """A prompt for the main agent or another one; durable when this returns."""
        self._asides.disturb()
        self.trouble.clear()
        to = op.agent or self.main.id
        letter = Letter(new_letter_id(), to, PERSON, Prompt(op.content), op.priority)
        self.supervisor.asked += 1
        self.teamwork.mail.worked(to)  # new input: its answers count as work again
        if to == self.main.id:
            if op.quiet and await self.main.hear(Message("user", op.content)):
                return letter.id
            await self.main.inbox.post(letter)
        else:
            await self._say_to(letter)
        self.tell(to, PromptPosted(letter.id, op.typed or prompt_text(op.content)))
        return letter.id

    async def _say_to(self, letter: Letter) -> None:
        """A teammate, also one in another process; or an agent that was started here, which goes on if it had ended."""
        member = self.teamwork.member_of(letter.to)
        try:
            if member is not None:
                await self.supervisor.post(letter)
                await self.teamwork.wakeups.ring(member)
            elif not await self._pass_on(letter):
                raise UsageError(
                    f"there is no agent {letter.to} to talk to: it belongs to another session or has shut down"
                )
        except ToolError as error:
            raise UsageError(f"{error} What you wrote is kept for it.") from None

    async def withdraw(self, letter: LetterId, agent: AgentId | None = None) -> bool:
        """Take a prompt back that nobody has read yet. False: it was read, or the agent does not live here."""
        reader = self.main if agent is None else self.supervisor.agent(agent)
        if reader is None or not await reader.inbox.withdraw(letter):
            return False
        self.tell(reader.id, PromptWithdrawn(letter))
        return True

    async def queued(self) -> list[PromptPosted]:
        """Prompts that the main agent has not read yet."""
        unread = await self.main.inbox.unread()
        return [PromptPosted(x.id, prompt_text(x.body.content)) for x in unread if isinstance(x.body, Prompt)]

    async def aside(self, question: str) -> str:
        """Ask about the conversation without entering it, also while a turn runs. It costs a request, but no turn."""
        return await self._asides.ask(question)

    async def _interrupt(self, id: AgentId | None) -> None:
        mate = next((m for m in self.teamwork.mates() if id in (m.agent, m.address)), None)
        agent = self.main if id is None else self.supervisor.agent(mate.agent if mate else id)
        if agent is not None:
            agent.interrupt()
        elif mate is None or not await self.teamwork.interrupt(mate):
            raise UsageError(f"no agent {id} is running")

    async def _send_to_background(self, id: JobId | None) -> None:
        """One foreground agent, or all of them."""
        jobs = [j for j in self.supervisor.jobs.running() if not j.background and (id is None or j.id == id)]
        if not jobs:
            raise UsageError(
                "no agent is running in the foreground" if id is None else f"no task {id!r} is running there"
            )
        for job in jobs:
            await self.supervisor.jobs.send_to_background(job)

    async def _stop(self, id: JobId) -> None:
        if "@" in id:
            try:
                await self.teamwork.stop(self.main, id)
            except ToolError as error:
                raise UsageError(str(error)) from None
            return
        job = self.supervisor.jobs.get(id)
        if job is None or not await self.supervisor.stop(job):
            raise UsageError(f"no task {id!r} is running")

    async def _stop_all(self, *, turns: bool) -> None:
        await self.supervisor.stop_all()
        living = {agent.id: agent.running for agent in self.supervisor.agents}
        away = {m.agent: m.state == "running" for m in self.teamwork.mates() if m.agent not in living}
        for id, works in (living | away).items() if turns else ():
            if works:
                with suppress(UsageError):  # its process has ended meanwhile
                    await self._interrupt(id)

    def _set_mode(self, mode: Mode) -> None:
        if mode not in MODES:
            raise UsageError(f"no permission mode {mode!r}; there are {', '.join(MODES)}")
        if mode == "bypassPermissions" and not self._may_bypass:
            raise UsageError(
                "bypassPermissions was not enabled for this session: start it with --dangerously-skip-permissions"
            )
        self.main.set_mode(mode)

    def _add_directories(self, directories: Sequence[str]) -> None:
        desk = self.main.desk
        desk.roots = tuple(dict.fromkeys((*desk.roots, *(Path(d).resolve() for d in directories))))

    def _remove_directories(self, directories: Sequence[str]) -> None:
        desk = self.main.desk
        gone = {Path(d).resolve() for d in directories}
        desk.roots = (desk.roots[0], *(root for root in desk.roots[1:] if root not in gone))

    # --- events out

    def watch(self, since: Cursor | None = None, *, deltas: bool = True) -> Watch:
        return self._bus.watch(since, deltas=deltas)

    def recent(self, lines: int) -> Cursor:
        """A place to watch from: the last lines of every agent come again."""
        return {agent: max(0, n - lines) for agent, n in self._bus.agents.items()}

    def past(self, agent: AgentId) -> Iterator[Record]:
        """The transcript of an agent that lives here, or is followed from here. Blocks."""
        return self._bus.reread(agent, 0)

    def tell(self, agent: AgentId, event: Event) -> None:
        """An event that is not an agent's own doing."""
        self._bus.publish(Record(agent, 0, 0, event))

    def snapshot(self) -> SessionView:
        main = self.main
        return SessionView(
            id=self.id,
            cwd=str(self.cwd),
            model=main.model,
            mode=main.mode or "default",
            running=main.running,
            questions=tuple(self.questions.waiting),
            usage=self.meter.usage,
            usd=self.meter.usd,
        )

    async def idle(self, *, jobs: bool = True) -> None:
        """Return when no turn runs and nothing waits; with `jobs`, also when none of them runs.

        Commands are waited for only as long as those of any agent, then stopped. A session that stays for its
        schedules is idle once there are none. Raises StoreError once the disk fails somebody: that one never rests.
        """
        await self.trouble.unless(partial(self._idle, jobs=jobs))

    async def _idle(self, *, jobs: bool) -> None:
        waited = 0.0
        while True:
            await self.main.at_rest()
            if not jobs:
                return
            if owned := self.supervisor.jobs.unfinished(self.main.id):
                waited += await self.supervisor.wait_for_jobs(self.main, owned, waited)
            elif await self._team_rests() and self.main.resting:
                if not self.schedules.hold:
                    return
                await self.main.woken()

    async def _team_rests(self) -> bool:
        """Has nobody in a team anything left to do? Waits for a change of that, or for the main agent to wake."""
        rest = False

        async def teams() -> None:
            nonlocal rest
            rest = await self.teamwork.all_rest()

        await first(teams, self.main.woken)
        return rest

    async def team(self, name: str, description: str = "") -> LedTeam:
        """A team that is led from code; a new one, unless this session leads one of that name already."""
        return await lead_team(self.teamwork, self.main, name, description)

    async def ask(self, prompt: str) -> TurnEnded:
        """Say something and wait for the end of the turn that answers it."""
        watch = self.watch(deltas=False)
        try:
            letter = await self.say(Say((Text(prompt),)))
            taken = False
            async for record in watch:
                if isinstance(record.event, LettersTaken):
                    taken = taken or letter in record.event.letters
                over = taken or self.main.halted is not None
                if over and isinstance(record.event, TurnEnded) and record.agent == self.main.id:
                    return record.event
        finally:
            watch.close()
        raise UsageError("the session was closed before it answered")
