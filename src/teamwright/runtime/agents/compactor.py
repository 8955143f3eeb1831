"""Compacts an agent's conversation when the window is nearly full, on request, or after the provider refused it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.core.data.event import Compacted, Warned, Why
from teamwright.core.data.letter import ELEMENTS
from teamwright.core.data.message import Message, Text, Usage
from teamwright.core.errors import ModelError, UsageError
from teamwright.core.ids import AgentId
from teamwright.core.policies import compaction
from teamwright.core.text import neutral
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.plan_mode import plan_on

if TYPE_CHECKING:
    from teamwright.runtime.side_questions.fork import Aside

Facts = Callable[[AgentId], Awaitable[Sequence[str]]]
SMALL = 2_000  # tokens that fit every model: below that no server is asked for its window
MOST_ROUNDS = 3  # compactions that did not help, or failed in a row; then the turn ends
MOST_ASKED = 3  # times that one summary is asked for
UNASKED = -1  # nothing was asked since the conversation was shortened
CHARACTERS = 3  # per token, if a conversation must surely fit
REFUSALS = ("context", "bad_request", "too_large")  # of a request; no other fault says that a shorter one may do


class Windows(Struct, eq=False):
    """How many tokens each model takes: from the catalogue or the server, or learnt from its refusals."""

    _known: Callable[[str], int | None]
    _ask: Callable[[str], Awaitable[int | None]] | None = None
    _learnt: dict[str, int] = {}
    _guessed: dict[str, int | None] = {}  # what was known before a refusal that named no figure
    _taken: dict[str, int] = {}  # tokens of the longest conversation that was accepted

    async def of(self, model: str) -> int | None:
        """Ask again if the server did not know: it may have had to load the model first."""
        window = self.known(model)
        if window is None and self._ask is not None:
            window = await self._ask(model)
        if window is not None:
            self._learnt[model] = window
        return window

    def known(self, model: str) -> int | None:
        """The window as far as it is known, without asking a server."""
        return self._learnt.get(model) or self._known(model)

    def learn(self, model: str, tokens: int) -> None:
        before = self._learnt.get(model)
        self._learnt[model] = min(tokens, before) if before else tokens

    def took(self, model: str, tokens: int) -> None:
        self._taken[model] = max(tokens, self._taken.get(model, 0))

    def may_be_full(self, model: str, tokens: int) -> bool:
        """So many are near or above all that the model has accepted."""
        return tokens >= SMALL and tokens * 10 >= self._taken.get(model, 0) * 9

    def guess(self, model: str, tokens: int) -> None:
        """The model refused so many, and said nothing of its window."""
        self._guessed.setdefault(model, self._learnt.get(model))
        self.learn(model, tokens)

    def doubt(self, model: str) -> None:
        """It takes more than was guessed: what was known before holds again."""
        if model not in self._guessed:
            return
        self._learnt.pop(model, None)
        if (before := self._guessed.pop(model)) is not None:
            self._learnt[model] = before


class Compacts(Protocol):
    async def before(self, agent: AgentId, why: Why, instructions: str) -> str:
        """Further instructions for the summary; raises UsageError to refuse a compaction that was asked for."""
        ...

    async def after(self, agent: AgentId, why: Why, summary: str) -> None:
        """Raises HookStop if the running turn is to end."""
        ...


class AgentCompactor(Struct, eq=False):
    _agent: Agent
    _windows: Windows
    _facts: Facts
    _hooks: Compacts | None = None
    _floor: int | None = None  # tokens of the first request after the last shortening, until that is judged
    _vain: int = 0  # shortenings after which one step alone filled the window again
    _failed: int = 0  # in a row, in this turn
    _turn: int = 0  # its number

    async def make_room(self) -> None:
        """Compact before a request that would fill the window. Raises ModelError once that no longer helps."""
        agent, tokens = self._agent, self._tokens()
        self._windows.took(agent.model, agent.history.tokens)
        if agent.history.ends != self._turn:
            self._turn, self._failed = agent.history.ends, 0
        if self._floor == UNASKED and agent.history.asked:
            self._floor = self._asked()
            if compaction.is_due(agent.history.tokens, self._windows.known(agent.model)):
                self._windows.doubt(agent.model)  # a request was taken that would be due right after a shortening
        window = await self._windows.of(agent.model) if tokens >= SMALL else None
        if window is None or not compaction.is_due(tokens, window):
            return
        self._judge(tokens, window)
        if self._failed == MOST_ROUNDS:
            if tokens > window:
                self._give_up(compaction.STUCK, tokens, window)
            return
        try:
            await self.compact("auto")
        except (ModelError, UsageError) as error:
            self._failed += 1
            agent.emit(Warned(f"The conversation could not be compacted: {error}"))

    def _judge(self, tokens: int, window: int) -> None:
        """Count the last shortening if what came with one reply fills the window again, whatever lay between."""
        floor, self._floor = self._floor, None
        if floor is not None and compaction.is_due(max(floor, 0) + tokens - self._asked(), window):
            self._vain += 1
        if self._vain == MOST_ROUNDS:
            self._give_up(compaction.FULL, tokens, window)

    def _give_up(self, words: str, tokens: int, window: int) -> None:
        """End the turn; the next request counts anew."""
        self._vain = self._failed = 0
        what = compaction.what_fills(self._agent.history.messages, tokens, window)
        raise ModelError(words.format(times=MOST_ROUNDS, what=what), "context")

    async def overflowed(self, error: ModelError) -> bool:
        """Compact after the provider refused the conversation as too long, or in words that nobody knows. True if one
        more request is worth it."""
        # our own words contain an address
        said, tokens = compaction.read_window(error.said or str(error)), self._tokens()
        if error.fault != "context":
            return await self._try(error, tokens)
        if said:
            self._windows.learn(self._agent.model, said)
        else:
            self._windows.guess(self._agent.model, max(tokens * 9 // 10, SMALL))
        self._judge(tokens, said or tokens)
        return await self.compact("too_long")

    async def _try(self, refusal: ModelError, tokens: int) -> bool:
        """Compact if the refusal may mean the length. If the length was not to blame, the summary is refused as well,
        and nothing is lost."""
        named = refusal.fault == "too_large" or compaction.names_tokens(refusal.said)
        if self._floor == UNASKED or not (named or self._windows.may_be_full(self._agent.model, tokens)):
            return False
        self._judge(tokens, tokens)
        try:
            return await self.compact("too_long")
        except ModelError as error:
            if error.fault not in REFUSALS:
                raise
            return False

    def _tokens(self) -> int:
        """Tokens of the next request: those of the last one, and one for every four new characters."""
        history = self._agent.history
        return history.tokens + sum(map(compaction.size, history.messages[history.asked :])) // 4

    def _asked(self) -> int:
        """Tokens of the last request, without its reply."""
        history = self._agent.history
        return max(history.tokens - sum(map(compaction.size, history.messages[history.asked :][:1])) // 4, 0)

    async def compact(self, why: Why, instructions: str = "") -> bool:
        """Continue the conversation from a summary by the model. False if there was nothing to summarise; raises
        ModelError if the model wrote none: then everything stays as it is."""
        agent, history = self._agent, self._agent.history
        if history.calls:
            raise UsageError("the agent waits for the results of its calls; compact when they are there")
        kept = compaction.unanswered(history.messages)
        old, rest = history.messages[: len(history.messages) - kept], history.messages[len(history.messages) - kept :]
        if not old:
            return False
        self._windows.took(agent.model, history.tokens)
        if self._hooks is not None:
            instructions = await self._hooks.before(agent.id, why, instructions)
        text, usage = await self._summarise(old, instructions, why)
        summary = compaction.fitting_summary(text, await self._windows.of(agent.model))
        waiting = tuple(block.text for m in rest for block in m.blocks if isinstance(block, Text))
        letters = tuple(text for text in waiting if text.startswith(ELEMENTS))
        facts = [*map(neutral, self._own_facts()), *await self._facts(agent.id)]
        facts = [words for words in facts if not words.endswith(letters)]
        heard = [words for words in history.heard if words not in waiting]
        message = compaction.shortened(summary, heard, facts, go_on=not rest and not history.over)
        agent.emit(Compacted((message, *rest), why, history.tokens, usage))
        self._floor, self._failed = UNASKED, 0
        await agent.sync()
        if self._hooks is not None:
            await self._hooks.after(agent.id, why, summary)
        return True

    async def _summarise(self, old: Sequence[Message], instructions: str, why: Why) -> tuple[str, Usage]:
        """A summary, which is asked for again if a reply is none, and what all replies cost."""
        fault, usage = "", Usage()
        for _ in range(MOST_ASKED):
            done = await self._ask([compaction.asking(instructions, fault)], old, why)
            fault, usage = done.fault, usage + done.usage
            if done.text:
                return done.text, usage
        raise ModelError(compaction.NO_SUMMARY.format(times=MOST_ASKED, fault=fault), "context")

    async def _ask(self, asking: Sequence[Message], old: Sequence[Message], why: Why) -> "Aside":
        from teamwright.runtime.side_questions.fork import run_forked  # noqa: PLC0415  # few conversations grow so long

        if why != "too_long":
            try:
                return await run_forked(self._agent, asking, base=old)
            except ModelError as error:
                if error.fault not in REFUSALS:
                    raise
        window = await self._windows.of(self._agent.model)
        most = int(min(window or 8_000, max(self._tokens(), SMALL)) * CHARACTERS * 0.6)
        return await run_forked(self._agent, asking, base=compaction.cut_down(old, most))

    def _own_facts(self) -> list[str]:
        agent = self._agent
        facts = [f"Your working directory is {agent.desk.cwd}."]
        if agent.mode == "plan":
            facts.append(plan_on(self._agent.plan.approver))
        if changed := list(agent.history.changed)[-50:]:
            facts.append("Files that you have changed: " + ", ".join(changed))
        return facts
