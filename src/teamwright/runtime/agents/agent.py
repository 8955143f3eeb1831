"""A running agent: its transcript, its inbox, its turns. The main agent is one like any other."""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

import anyio

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import (
    Event,
    LettersTaken,
    ModeChanged,
    Record,
    Reminded,
    Rendered,
    Replied,
    Rewound,
    Streamed,
    TurnEnded,
    TurnStarted,
    Warned,
)
from teamwright.core.data.letter import Letter
from teamwright.core.data.letter import Prompt as Asked
from teamwright.core.data.message import Effort, Message, Reply, Request, Retrying, ToolCall, user
from teamwright.core.errors import DiskError, ModelError, StoreError, TeamwrightError
from teamwright.core.ids import AgentId
from teamwright.core.loop import run_left, run_turn
from teamwright.core.permissions.consent import Decision, Mode
from teamwright.core.ports import OnDelta, Tool
from teamwright.runtime.agents.inbox import AgentInbox
from teamwright.runtime.agents.limits.slots import Slot
from teamwright.runtime.agents.plan_mode import PlanMode
from teamwright.runtime.agents.spec import AgentSpec, RenderedPrompt
from teamwright.runtime.concurrency.latch import Latch
from teamwright.runtime.concurrency.lock import LightLock
from teamwright.runtime.trouble import failed_turn, innermost
from teamwright.store.files.logs import brief
from teamwright.store.files.transcripts import Transcript

if TYPE_CHECKING:
    from teamwright.core.data.event import Durable
    from teamwright.runtime.agents.factory import AgentFactory
    from teamwright.runtime.agents.resources import AgentResources

INTERRUPTED = "[This turn was interrupted {}.]"
BY_PERSON, BY_STOP, BY_END = "by the person", "because the agent was stopped", "because the program ended"
current_agent: ContextVar[AgentId] = ContextVar("current_agent")  # for users' code; ours gets the id as an argument
current_teammate: ContextVar[AgentId] = ContextVar("current_teammate")  # the teammate that the current agent works for
_MAY_FALL_BACK = frozenset({"overloaded", "rate_limit", "server", "network", "silence"})


class Agent:
    # A dictionary for so many attributes takes 1.6 kB, and hundreds of agents may wait at a time.
    __slots__ = tuple(
        "id name kind parent depth history desk meter inbox slot prompt limits may_start denied mode plan plan_models "
        "moved left aside leaving syncs_turns left_running gear parked halted replied_at closing _listeners "
        "_transcript _shared _inner _busy _lent _scope _interrupted _closed _resting _woken _seat".split()
    )

    def __init__(self, spec: AgentSpec, history: History, transcript: Transcript, shared: "AgentFactory") -> None:
        self.id, self.name, self.kind, self.parent, self.depth = spec.id, spec.name, spec.kind, spec.parent, spec.depth
        self.history, self.desk, self.meter, kit = history, spec.desk, spec.meter, spec.toolset
        self.inbox, self.slot = AgentInbox(spec.id, shared.state, history.letters), Slot(shared.slots)
        self.prompt = RenderedPrompt("", (), ())  # until the first `render`
        self.limits, self.may_start, self.denied = kit.limits, kit.may_start, kit.denied
        self.mode: Mode | None = spec.mode  # its own; None: its parent's
        self.plan = PlanMode(self, spec.approver)
        self.plan_models: tuple[str, str] | None = None  # one for plan mode, one for the work; None: the same
        self.moved = ""  # what it is told before its next request, where it continues on another machine
        self.left = False  # an earlier process left calls that never began: its next turn begins with them
        self.leaving = False  # this process hands it over: no call is begun any more
        self.syncs_turns = True  # False: its own end follows that of its turn, and is synced
        self._listeners: list[Callable[[Event], None]] = []  # e.g. the writer of its output file
        self.left_running: Callable[[Sequence[Letter]], str] | None = None  # jobs of earlier turns, in words, each once
        self.gear: AgentResources | None = None
        self.parked = False  # this process gives it up, even in the middle of a turn
        self.halted: StoreError | None = None  # the disk refused its last turn: nothing may continue from it
        self.replied_at = 0  # line of its last reply, or of a rewind after it: where a fork branches off
        self._transcript, self._shared = transcript, shared
        self._inner = shared.metered(spec, history, turns=True)
        self.aside = shared.metered(spec, history, turns=False)  # for the runtime's own questions, which are no turns
        self._busy = LightLock()  # held by a turn, or by a change of the conversation
        self._lent: str | None = None  # the model to go back to after a turn
        self._scope: anyio.CancelScope | None = None
        self._interrupted = BY_STOP  # by whom or why its turn is, in words
        self.closing, self._closed, self._resting, self._woken = False, Latch(), Latch(), Latch()
        self._seat = shared.seat(self, spec, transcript)

    # --- called by the loop

    def emit(self, event: Event) -> None:
        """Record the event, then apply it, then show it."""
        if isinstance(event, Streamed):
            self._shared.bus.publish(Record(self.id, 0, 0, event))
            return
        at, n = self._shared.now(), 0
        if event.durable:
            durable = cast("Durable", event)
            n = self._transcript.append(durable, at)
            self.history.apply(durable)
            if isinstance(event, Replied | Rewound):
                self.replied_at = n
        self._shared.bus.publish(Record(self.id, n, at, event))
        for heard in self._listeners:
            heard(event)
        if self._shared.debug is not None:
            self._shared.debug(brief(self.name, event))

    def listen(self, heard: Callable[[Event], None]) -> None:
        """Call `heard` with every event from now on, after it is recorded; streamed pieces are left out."""
        self._listeners.append(heard)

    def request(self) -> Request:
        rendered = self.history.rendered
        assert rendered is not None
        history, prompt = self.history, self.prompt
        return Request(
            rendered.model,
            prompt.system,
            prompt.tools,
            tuple(history.messages),
            history.asked,
            history.shared,
            rendered.effort,
        )

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        """Ask the model, or the fallback once the model is unavailable or declines."""
        fallback = self._shared.fallback
        try:
            reply = await self._inner.reply(request, on_delta)
            if reply.stop != "refusal" or fallback in (None, request.model):
                return reply
            why = f"declined to answer ({reply.why})" if reply.why else "declined to answer"
            on_delta(Retrying(1, 1, 0.0, f"{request.model} {why}", "refusal"))  # what it said is taken back
        except ModelError as error:
            if fallback in (None, request.model) or error.fault not in _MAY_FALL_BACK:
                raise
            why = f"is unavailable ({error})"
        self.emit(Warned(f"{request.model} {why}; continuing with {fallback}."))
        self.use_model(fallback, "fallback")
        return await self._inner.reply(self.request(), on_delta)

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        if self.leaving:
            await anyio.sleep_forever()  # until it is parked
        decision = await self._shared.gate(agent, call)
        if getattr(decision, "interrupt", False):
            self.interrupt()  # the denial also ends the turn
        return decision

    # --- called by the session

    def render(self, prompt: RenderedPrompt, model: str, reason: str, effort: Effort | int | None) -> None:
        self.prompt = prompt
        self.emit(Rendered(prompt.hash, model, reason, effort))

    def use_model(self, model: str, reason: str) -> None:
        rendered = self.history.rendered
        assert rendered is not None
        if model != rendered.model:
            self.emit(Rendered(rendered.prompt, model, reason, rendered.effort))

    def use_models(self, models: tuple[str, str], reason: str) -> None:
        """One model for plan mode and one for the work; often the same."""
        self.plan_models = models if models[0] != models[1] else None
        self.use_model(models[0 if self.mode == "plan" else 1], reason)

    def borrow_model(self, model: str) -> None:
        """Use a model for the next turn only."""
        self._lent = self._lent or self.model
        self.use_model(model, "skill")

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._seat.tools

    @property
    def model(self) -> str:
        assert self.history.rendered is not None
        return self.history.rendered.model

    async def sync(self) -> None:
        await self._transcript.sync()

    def rest(self) -> None:
        """Close the transcript's file handle while the agent only waits."""
        self._transcript.rest()

    def abandon(self, why: str) -> None:
        """Another machine has taken over: store nothing of what still runs here."""
        self.parked = True
        self._transcript.give_up(why)

    def close_transcript(self) -> None:
        self._transcript.close()

    async def close_calls(self) -> None:
        """Give calls that will never finish their results."""
        for ended in await self._shared.settle(self.id, self.history):
            self.emit(ended)

    def now(self) -> int:
        return self._shared.now()

    @property
    def effort(self) -> Effort | int | None:
        assert self.history.rendered is not None
        return self.history.rendered.effort

    def set_mode(self, mode: Mode) -> None:
        if mode != self.mode or self.history.mode is None:
            self.mode = mode
            self.emit(ModeChanged(mode))
        if self.plan_models is not None:
            self.use_models(self.plan_models, "mode")

    def use_tools(self, tools: Mapping[str, Tool], limits: Mapping[str, tuple[str, ...]]) -> None:
        """Replace the tools that it was made with; before its first turn."""
        self._seat.tools, self.limits = tools, limits

    async def put_away(self) -> None:
        """Release what the agent had for its life, once it has ended."""
        gear, self.gear = self.gear, None
        if gear is not None:
            await gear.close()

    async def compact(self, instructions: str = "") -> bool:
        """Shorten the conversation now, or when the running turn has ended. False if there is nothing to shorten."""
        compactor = self._seat.compactor
        async with self._busy:
            return compactor is not None and await compactor.compact("manual", instructions)

    async def hear(self, message: Message) -> bool:
        """Add a message without a turn: it is read with the next prompt. False while a turn runs."""
        if self._busy.locked():
            return False
        async with self._busy:
            self.emit(LettersTaken((), message))
            await self._transcript.sync()
        return True

    async def rewind(self, prepare: Callable[[], Awaitable[Sequence[Event]]]) -> bool:
        """Go back in the conversation; `prepare` makes the events while no turn can begin. False while one runs."""
        if free := not self._busy.locked():
            async with self._busy:
                for event in await prepare():
                    self.emit(event)
                self.plan.forget()
                await self._transcript.sync()
        return free

    def interrupt(self, why: str = BY_PERSON) -> bool:
        """End the running turn; False if there is none."""
        if self._scope is None:
            return False
        self._interrupted = why
        self._scope.cancel()
        return True

    async def end_interrupted(self) -> None:
        """End a turn that an earlier process began, and that the person has interrupted since."""
        self.left, self._interrupted = False, BY_PERSON
        self.emit(TurnStarted(asked=False))
        await self._end(TurnEnded("interrupted", error="interrupted"))

    async def take(self) -> Sequence[Letter]:
        """What has come. Nothing if the disk fails: then a person has to try again."""
        if self.halted is not None and self._shared.trouble.error is not None:
            self.inbox.give_up()
            return ()
        try:
            self._transcript.check()
            return await self.inbox.take(at_rest=True)
        except StoreError as error:
            self._halt(error)
            return ()

    async def wait_at_rest(self) -> None:
        """Wait for a letter; meanwhile others see that it rests."""
        self._resting.set()
        await self.inbox.wait()
        self._woken.set()
        self._resting, self._woken = Latch(), Latch()

    def has_closed(self) -> None:
        self._closed.set()

    async def closed(self) -> None:
        await self._closed.wait()

    @property
    def running(self) -> bool:
        return self._scope is not None

    def close(self) -> None:
        """Interrupt the running turn and end; waiting letters are kept for a resume."""
        self.closing = True
        self.interrupt(BY_END)
        self.inbox.ring()

    async def at_rest(self) -> None:
        """Return when no turn runs and nothing waits."""
        while not (self._resting.is_set() and self.inbox.quiet):
            await self._resting.wait()
            await anyio.lowlevel.checkpoint()

    @property
    def resting(self) -> bool:
        return self._resting.is_set() and self.inbox.quiet

    async def woken(self) -> None:
        """Wait for a wake-up; returns at once if it does not rest."""
        if self.resting:
            await self._woken.wait()

    async def turn(self, letters: Sequence[Letter] = ()) -> TurnEnded:
        async with self._busy:
            return await self._turn(letters)

    async def _turn(self, letters: Sequence[Letter]) -> TurnEnded:
        asked, self.halted = any(isinstance(letter.body, Asked) for letter in letters), None
        if self.parent is None and asked:
            self.meter.new_turn()
        self._interrupted = BY_STOP
        self.emit(TurnStarted(asked=asked))
        end = TurnEnded("interrupted", error="interrupted")
        try:
            with anyio.CancelScope() as scope:
                self._scope = scope
                end = await self._run(letters)
        finally:  # also if the whole agent is stopped, not only its turn
            self._scope = None
            with anyio.CancelScope(shield=True):
                await self._end(end)
        if end.reason == "failed" and self._seat.around is not None:
            await self._seat.around.failed(self.id, end)
        return end

    # --- the boundary: whatever happens inside becomes exactly one end

    async def _run(self, letters: Sequence[Letter]) -> TurnEnded:
        try:
            if self.left:
                self.left = False
                await run_left(self._seat)
                letters = () if self.history.resting else letters
            await self.close_calls()  # owed since an end that was not recorded
            if letters or not self.history.over:  # a turn that is only ended here needs no reminders
                self.plan.tell()
            if self.moved and (letters or not self.history.over):
                self.emit(Reminded(user(self.moved)))
                self.moved = ""
            if letters and self.left_running is not None and (words := self.left_running(letters)):
                self.emit(Reminded(user(words)))
            return await run_turn(self._seat, letters)
        except Exception as error:  # noqa: BLE001 -- the agent's boundary
            inner = innermost(error)  # of several calls that ran at the same time
            if isinstance(inner, DiskError):
                self.halted = inner
            if isinstance(inner, TeamwrightError):
                return failed_turn(inner)
            self._shared.log("a turn failed: " + "".join(traceback.format_exception(error)))
            return TurnEnded("failed", error=f"internal error: {inner!r}; the log has the details")

    async def _end(self, end: TurnEnded) -> None:
        try:
            if self.halted is not None:
                raise self.halted
            if end.reason == "interrupted" and self.parked:
                # No end and no results: a resume looks up what was done, and continues the turn.
                await self._transcript.sync()
                return
            await self.close_calls()
            if end.reason == "interrupted":
                self.emit(Reminded(user(INTERRUPTED.format(self._interrupted))))
            await self._shared.state.flush()  # what the turn queued is stored before its end is known
            self.emit(end)
            if self.syncs_turns:
                await self._transcript.sync()
            if self._lent is not None:
                self.use_model(self._lent, "skill")
                self._lent = None
        except StoreError as error:
            self._halt(error, end)
            return
        self.inbox.hand_back()

    def _halt(self, error: StoreError, end: TurnEnded | None = None) -> None:
        """Stop as if killed: a resume looks up what was done. Watchers still see an end."""
        self.halted = error
        self._shared.trouble.report(error, f"the turn of {self.name} could not be recorded")
        failed = TurnEnded("failed", end.text if end else "", str(error))
        self.history.ended = failed
        self._shared.bus.publish(Record(self.id, 0, self._shared.now(), failed))
        self.inbox.give_up()
