"""A session: owns its agents from their first moment, takes ops, shows events."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, assert_never

import anyio
import msgspec

from teamwright.core.consent import MODES, Mode, Question
from teamwright.core.errors import UsageError
from teamwright.core.event import Event, LettersTaken, Record, TurnEnded, Warned
from teamwright.core.ids import AgentId, LetterId, SessionId, new_letter_id
from teamwright.core.letter import PERSON, Letter, Prompt
from teamwright.core.message import Text, Usage
from teamwright.core.op import AddDirectories, AddRules, Answer, Interrupt, Op, Say, SetMode, SetModel
from teamwright.runtime.agent import Agent
from teamwright.runtime.bus import Bus, Cursor, Watch
from teamwright.runtime.meter import SessionMeter
from teamwright.runtime.questions import Questions

CLOSE_LIMIT = 4.0  # seconds for the running turn to end


class SessionView(msgspec.Struct, frozen=True):
    """The session as it stands now, for a surface that has just come."""

    id: SessionId
    cwd: str
    model: str
    mode: Mode
    running: bool
    questions: tuple[Question, ...]
    usage: Usage
    usd: float


class Session:
    """Made by `open_session`; lives inside its `async with`."""

    def __init__(
        self,
        id: SessionId,
        *,
        cwd: Path,
        main: Agent,
        bus: Bus,
        meter: SessionMeter,
        questions: Questions,
        resolve_model: Callable[[str], str],
        add_rules: Callable[[Literal["allow", "ask", "deny"], Sequence[str]], list[str]],
        may_bypass: bool,
        agent_names: Sequence[str] = (),
        model_names: Sequence[str] = (),
        notes: Sequence[str] = (),
        on_close: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self.id, self.cwd, self.main, self.meter, self.questions = id, cwd, main, meter, questions
        self.notes = tuple(notes)  # what the person should know about how the session was opened
        self.agent_names, self.model_names = list(agent_names), list(model_names)
        self._bus = bus
        self._resolve_model, self._add_rules = resolve_model, add_rules
        self._first_model, self._may_bypass = main.model, may_bypass
        self._on_close = on_close
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._group.start_soon(self.main.live)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.main.close()
        try:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_LIMIT):
                await self.main.closed()
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(kind, error, trace)
        finally:
            self._bus.close()
            with anyio.CancelScope(shield=True):
                for close in self._on_close:
                    await close()

    # --- ops in

    async def submit(self, op: Op) -> None:
        """Returns when it is stored or done; raises UsageError for what cannot be done."""
        match op:
            case Say():
                await self.say(op)
            case Interrupt():
                self.main.interrupt()
            case SetMode():
                self._set_mode(op.mode)
            case SetModel():
                self.main.use_model(self._resolve_model(op.model) if op.model else self._first_model, "model")
            case AddRules():
                for problem in self._add_rules(op.behaviour, op.rules):
                    self.tell(self.main.id, Warned(problem))
            case AddDirectories():
                self._add_directories(op.directories)
            case Answer():
                if not self.questions.answer(op.question, op.decision):
                    raise UsageError(f"no question {op.question} is waiting: it was answered, withdrawn or never asked")
            case _:
                assert_never(op)

    async def say(self, op: Say) -> LetterId:
        """A prompt for the main agent; durable when this returns."""
        letter = Letter(new_letter_id(), self.main.id, PERSON, Prompt(op.content), op.priority)
        await self.main.inbox.post(letter)
        return letter.id

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

    # --- events out

    def watch(self, since: Cursor | None = None, *, deltas: bool = True) -> Watch:
        return self._bus.watch(since, deltas=deltas)

    def tell(self, agent: AgentId, event: Event) -> None:
        """An event that is not an agent's own doing."""
        self._bus.publish(Record(agent, 0, 0, event))

    def snapshot(self) -> SessionView:
        main = self.main
        return SessionView(
            self.id, str(self.cwd), main.model, main.mode, main.running, tuple(self.questions.waiting),
            self.meter.usage, self.meter.usd,
        )  # fmt: skip

    async def idle(self) -> None:
        """Return when no turn runs and nothing waits."""
        await self.main.at_rest()

    async def ask(self, prompt: str) -> TurnEnded:
        """Say something and wait for the end of the turn that answers it."""
        watch = self.watch(deltas=False)
        try:
            letter = await self.say(Say((Text(prompt),)))
            taken = False
            async for record in watch:
                if isinstance(record.event, LettersTaken):
                    taken = taken or letter in record.event.letters
                if taken and isinstance(record.event, TurnEnded) and record.agent == self.main.id:
                    return record.event
        finally:
            watch.close()
        raise UsageError("the session was closed before it answered")
