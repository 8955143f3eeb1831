"""Session: owns its agents from their first moment, takes ops, publishes events."""

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from teamwright.core.data.checked import checked
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, PromptPosted, PromptWithdrawn, Record, TurnEnded, Warned
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Message, typed_words
from teamwright.core.data.op import Op, Say
from teamwright.core.errors import StoreError, ToolError, UsageError
from teamwright.core.ids import AgentId, LetterId, SessionId, new_letter_id
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.asking import CLOSED, Asking, PromptInput, TextStream, ask
from teamwright.runtime.bus import Cursor, Watch
from teamwright.runtime.ops import carry_out
from teamwright.runtime.port import SessionView
from teamwright.runtime.rest import team_rests
from teamwright.runtime.services import Services, SessionPlan

if TYPE_CHECKING:
    from teamwright.runtime.jobs.schedule import Schedules
    from teamwright.runtime.landing.service import Landing
    from teamwright.runtime.permissions.questions import Questions
    from teamwright.runtime.teams.service import Teamwork
    from teamwright.runtime.teams.team import Hearing, LedTeam

CLOSE_LIMIT = 4.0  # seconds for the running turn to end
# seconds for hooks, and then for servers, to end in good order: normally, and in a hurry
LEAVE_LIMIT, HURRY = 12.0, 0.8


class Session:
    """A session made by `open_session`; it lives inside its `async with`."""

    def __init__(self, services: Services, main: Agent, plan: SessionPlan) -> None:
        self.services, self.main, self._plan = services, main, plan
        self.id, self.cwd, self.notes, self.meter = SessionId(main.id), plan.cwd, plan.notes, main.meter
        self.supervisor, self.brought = services.supervisor, services.extensions
        self.trouble, self.may_bypass = self.supervisor.trouble, plan.may_bypass
        self.spent, self.unpriced = plan.spent, plan.unpriced  # before the resume
        self.first_models = main.plan_models or (main.model, main.model)
        self.home, self.engine = plan.home, plan.engine
        self.left_at_work = ""  # words about agents on workers that go on after the session's end
        self.checks_ops = False  # whether what is submitted comes from code that nobody may have type-checked
        self.raised: list[Exception] = []  # by the caller's own functions: `ask` raises it
        self._arriving, self._hurried = anyio.CancelScope(), False
        self._group = anyio.create_task_group()
        if plan.listens:
            main.listen(services.side_questions.heard)

    @cached_property
    def asking(self) -> Asking:
        return Asking(self)

    @property
    def questions(self) -> "Questions":
        return self.services.questions

    @property
    def teamwork(self) -> "Teamwork":
        return self.services.teams

    @property
    def schedules(self) -> "Schedules":
        return self.services.schedules

    @property
    def landing(self) -> "Landing":
        """The queue of finished branches in the session's repository."""
        return self.services.landing

    def kinds(self) -> Mapping[str, AgentDefinition]:
        return self.services.kinds()

    async def window(self) -> int | None:
        """The context window of the main agent's model, in tokens."""
        agents = self.services.agents
        return await agents.windows.of(self.main.model)

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self.supervisor.group = self._group
        self.brought.open(self._group)
        if self._plan.left.team or self._plan.team is not None:
            await self._resume_teams()
        if self._plan.left.schedules:
            await self.schedules.open()
        if (left := self.services.left_remote) and (remotes := self.services.remotes) is not None:
            await remotes.resume(left)
        if self._plan.engine is not None:  # letters may come from any machine
            await self.teamwork.wakeups.process()
        self._group.start_soon(self._live)
        if self._plan.tick_seconds is not None:
            from teamwright.runtime.side_questions.proactive import tick  # noqa: PLC0415

            self._group.start_soon(tick, self.main, self._plan.tick_seconds)
        return self

    async def _live(self) -> None:
        """Live as the main agent, once everything that people brought is there."""
        try:
            with self._arriving:
                await self.brought.arrive()
            if self.services.unheard:
                await self.services.spawner.hear(self.services.unheard)
            if not self._plan.driven:
                await self.supervisor.live_as_main(self.main)
        finally:
            self.main.has_closed()  # also if it is cancelled: nobody need wait for the end of its turn

    async def _resume_teams(self) -> None:
        try:
            await self.teamwork.resume(self.main, self._plan.team)
            if self._plan.code_leads:
                from teamwright.runtime.teams.team import hear_again  # noqa: PLC0415

                await hear_again(self.teamwork, self.main)
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
            if kind is None and (asides := self.services.open_side_questions) is not None:
                self.main.closing = True  # a letter that comes now waits for a resume: its turn would be cut off
                await asides.finish()
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
                if (remotes := self.services.open_remotes) is not None:
                    with self.trouble.kept("the end of the session"), anyio.move_on_after(CLOSE_LIMIT):
                        self.left_at_work = await remotes.left_at_work()
                        await remotes.bring_in_all()
                with anyio.move_on_after(CLOSE_LIMIT):
                    with self.trouble.kept("the end of the session"):
                        await self.supervisor.stop_all()
                        if (teams := self.services.open_teams) is not None:
                            await teams.close()
                    if not self._plan.driven:
                        await self.main.closed()
                await self.brought.leave(limit=HURRY if self._hurried or kind else LEAVE_LIMIT)
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(kind, error, trace)
        finally:
            self.services.bus.close()
            with anyio.CancelScope(shield=True):
                with self.trouble.kept("the end of the session"):
                    self.main.close_transcript()
                with self.trouble.kept("the end of the session"):
                    await self.services.close()

    def _halt(self, error: StoreError) -> None:
        """Stop every running agent as if killed, and tell callers that wait for the main agent why."""
        for agent in self.supervisor.agents:
            agent.parked = True
        if self.main.halted is None:
            self.tell(self.main.id, TurnEnded("failed", error=str(error)))

    def hurry(self) -> None:
        """Close without the notes that a session otherwise leaves for later ones, and without waiting for long for an
        engine that is away."""
        self._hurried = True
        self.services.hurry()
        if (asides := self.services.open_side_questions) is not None:
            asides.hurried = True

    # --- ops in

    async def submit(self, op: Op) -> None:
        """Returns once it is stored or done; raises UsageError for what cannot be done."""
        await carry_out(self, checked(op, Op, type(op).__name__) if self.checks_ops else op)

    async def say(self, op: Say, *, id: LetterId | None = None) -> LetterId:
        """Post a prompt for the main agent or another one; durable when this returns."""
        if self.main.closing:
            raise UsageError(CLOSED)
        if (asides := self.services.open_side_questions) is not None:
            asides.disturb()
        self.trouble.clear()
        to, said = op.agent or self.main.id, Prompt(op.content, op.trace or self._plan.trace)
        letter = Letter(id or new_letter_id(), to, PERSON, said, op.priority)
        self.supervisor.asked += 1
        if (teams := self.services.open_teams) is not None:
            teams.mail.worked(to)  # new input: its answers count as work again
        if to == self.main.id:
            if op.quiet and await self.main.hear(Message("user", op.content)):
                return letter.id
            await self.main.inbox.post(letter)
        else:
            await self._say_to(letter)
        self.tell(to, PromptPosted(letter.id, op.typed or typed_words(op.content)))
        return letter.id

    async def _say_to(self, letter: Letter) -> None:
        """Post to a teammate, in this process or another, or to an agent started here, which is resumed if it had
        ended."""
        teams = self.services.open_teams
        member = teams.member_of(letter.to) if teams is not None else None
        try:
            if teams is not None and member is not None:
                await self.supervisor.post(letter)
                await teams.wakeups.ring(member)
            elif not await self.services.spawner.pass_on(letter):
                raise UsageError(
                    f"there is no agent {letter.to} to talk to: it belongs to another session or has shut down"
                )
        except ToolError as error:
            raise UsageError(f"{error} What you wrote is kept for it.") from None

    async def withdraw(self, letter: LetterId, agent: AgentId | None = None) -> bool:
        """Take back a prompt that nobody has read yet. False: it was read, or the agent does not live here."""
        reader = self.main if agent is None else self.supervisor.agent(agent)
        if reader is None or not await reader.inbox.withdraw(letter):
            return False
        self.tell(reader.id, PromptWithdrawn(letter))
        return True

    async def queued(self) -> list[PromptPosted]:
        """Prompts that the main agent has not read yet."""
        unread = await self.main.inbox.unread()
        return [PromptPosted(x.id, typed_words(x.body.content)) for x in unread if isinstance(x.body, Prompt)]

    async def aside(self, question: str) -> str:
        """Ask about the conversation without entering it, even while a turn runs. It costs a request, but no turn."""
        return await self.services.side_questions.ask(question)

    # --- events out

    @property
    def last_words(self) -> list[str]:
        """Lines for the person after the end: what continues elsewhere, and warnings that came when nobody watched."""
        late = [record.event.text for record in self.services.bus.early if isinstance(record.event, Warned)]
        return [*([self.left_at_work] if self.left_at_work else []), *late]

    def watch(self, since: Cursor | None = None, *, deltas: bool = True) -> Watch:
        return self.services.bus.watch(since, deltas=deltas)

    def recent(self, lines: int) -> Cursor:
        """A place to watch from that repeats the last `lines` lines of every agent."""
        bus = self.services.bus
        return {agent: max(0, n - lines) for agent, n in bus.agents.items()}

    def past(self, agent: AgentId) -> Iterator[Record]:
        """The transcript of an agent that lives here, or is followed from here. Blocks."""
        return self.services.bus.reread(agent, 0)

    def tell(self, agent: AgentId, event: Event) -> None:
        """Publish an event that is not an agent's own doing."""
        self.services.tell(agent, event)

    def snapshot(self) -> SessionView:
        main, meter, waiting = self.main, self.meter, tuple(self.questions.waiting)
        mode = main.mode or "default"
        return SessionView(self.id, str(self.cwd), main.model, mode, main.running, waiting, meter.usage, meter.usd)

    async def idle(self, *, jobs: bool = True) -> None:
        """Return when no turn runs and nothing waits; with `jobs`, also when no job runs.

        Commands that still run are waited for only as long as those of any agent, then stopped. A session that stays
        open for its schedules is idle once there are none. Raises StoreError once the disk fails an agent, which then
        never rests.
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
            elif await team_rests(self) and self.main.resting:
                schedules = self.services.open_schedules
                if schedules is None or not schedules.hold:
                    return
                await self.main.woken()

    async def ask_about_open_work(self) -> bool:
        """Tell the lead once about tasks that nobody has completed; False if there are none."""
        teams = self.services.open_teams
        return teams is not None and await teams.ask_about_open_work()

    async def team(self, name: str, description: str = "", *, lead: "Hearing" = "code") -> "LedTeam":
        """A new team, or the one of that name that this session leads. `lead`: who reads what the lead is told."""
        from teamwright.runtime.teams.team import lead_team  # noqa: PLC0415

        watch = partial(self.watch, deltas=False)
        return await lead_team(self.teamwork, self.main, name, description, lead=lead, watch=watch)

    async def ask(self, prompt: PromptInput) -> TurnEnded:
        """Say something and wait for the end of the turn that answers it. Concurrent questions wait for each other."""
        return await ask(self, prompt)

    def stream(self, prompt: PromptInput) -> TextStream:
        """Like `ask`, but gives pieces of text as they come: `async for piece in session.stream("...")`."""
        return TextStream(self, prompt)
