"""Side questions to the main agent: the person's own, the suggested next prompt, and notes for later sessions."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
from msgspec import Struct

from teamwright.core.data.event import AsideAnswered, Event, Suggested, TurnEnded, TurnStarted
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.core.policies.side_prompts import one_line, side_question, suggestion_ask
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.jobs.jobs import Jobs
from teamwright.runtime.side_questions.fork import run_forked, run_quietly
from teamwright.runtime.side_questions.memory import Memory, consolidate, take_notes

CLOSE_LIMIT = 30.0  # seconds for the last notes of a session
QUESTION_TURNS = 2  # an agent that first tries a tool is told to answer in words


class Habits(Struct, frozen=True):
    """What is done unasked: nothing, unless a setting says so."""

    suggest: bool = False
    notes_every: int | None = None  # in turns; notes are also taken at the end of the session
    consolidate_after: float | None = None  # seconds of rest


class SideQuestions:
    def __init__(
        self,
        agent: Agent,
        habits: Habits,
        memory: Memory,
        *,
        launch: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
        tell: Callable[[AgentId, Event], None],
        log: Callable[[str], None],
        jobs: Jobs,
    ) -> None:
        self._agent, self._habits, self._memory = agent, habits, memory
        self._launch, self._tell, self._log, self._jobs = launch, tell, log, jobs
        self._unnoted = 0  # turns since the last notes
        self._suggesting: anyio.CancelScope | None = None
        self._resting: anyio.CancelScope | None = None
        self._under_way: set[anyio.Event] = set()  # what `finish` waits for
        self.hurried = False  # the session is being closed and must not wait

    async def ask(self, question: str) -> str:
        """Answer without a trace in the conversation. Raises UsageError if no answer came, and any ModelError."""
        if not question.strip():
            raise UsageError("there is no question: say what you want to know")
        done = await run_forked(self._agent, [side_question(question.strip())], turns=QUESTION_TURNS)
        if not done.text:
            raise UsageError(f"the question was not answered: {done.fault}")
        self._tell(self._agent.id, AsideAnswered(question, done.text))
        return done.text

    def heard(self, event: Event) -> None:
        """Called with everything that the main agent does."""
        match event:
            case TurnStarted():
                self._drop(self._suggesting)
            case TurnEnded(reason="done"):
                self._turn_ended()
            case _:
                pass

    def disturb(self) -> None:
        """A person speaks: drop what was done only because nobody did."""
        self._drop(self._suggesting)
        self._drop(self._resting)
        self._resting = None

    async def finish(self) -> None:
        """At an orderly close: finish what the last turn started, and take the last notes.

        Does nothing if somebody is in a hurry or a turn is cut off. Work that waits for a longer rest is not waited
        for.
        """
        if self.hurried or self._agent.running:
            return
        with anyio.move_on_after(CLOSE_LIMIT):
            for done in tuple(self._under_way):
                await done.wait()
            if self._habits.notes_every is not None and self._unnoted:
                await run_quietly(self._note, "notes of the session", self._log)

    def _turn_ended(self) -> None:
        habits = self._habits
        self._unnoted += 1
        if habits.suggest:
            self._suggesting = self._start(self._suggest, "a suggestion", anyio.Event())
        if habits.notes_every is not None and self._unnoted >= habits.notes_every:
            self._start(self._note, "notes of the session", anyio.Event())
        if habits.consolidate_after is not None and self._resting is None:
            self._resting = self._start(self._rest, "the consolidation of notes")

    def _start(
        self, work: Callable[[], Awaitable[None]], what: str, done: anyio.Event | None = None
    ) -> anyio.CancelScope:
        scope = anyio.CancelScope()
        if done is not None:
            self._under_way.add(done)

        async def run() -> None:
            try:
                with scope:
                    await run_quietly(work, what, self._log)
            finally:
                if self._resting is scope:
                    self._resting = None
                if done is not None:
                    self._under_way.discard(done)
                    done.set()

        self._launch(run)
        return scope

    def _drop(self, scope: anyio.CancelScope | None) -> None:
        if scope is not None:
            scope.cancel()

    async def _suggest(self) -> None:
        await self._agent.at_rest()  # a waiting letter begins another turn, which cancels this
        done = await run_forked(self._agent, [suggestion_ask()])
        if text := one_line(done.text):
            self._tell(self._agent.id, Suggested(text))

    async def _note(self) -> None:
        self._unnoted = 0
        await take_notes(self._agent, self._memory)

    async def _rest(self) -> None:
        assert self._habits.consolidate_after is not None
        await anyio.sleep(self._habits.consolidate_after)
        await self._agent.at_rest()
        if not self._jobs.running():
            await consolidate(self._agent, self._memory)
