"""Keeps an agent's conversation within its model's window: near its end, when asked to, or when it was refused."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from teamwright.core.data.event import Compacted, Warned, Why
from teamwright.core.data.message import Message, Text
from teamwright.core.errors import ModelError, UsageError
from teamwright.core.ids import AgentId
from teamwright.core.policies import compaction
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.plan_words import plan_on
from teamwright.runtime.side_questions.fork import Aside, run_forked

Facts = Callable[[AgentId], Awaitable[Sequence[str]]]
SMALL = 2_000  # tokens that fit everywhere: no server is asked for its window before that
CHARACTERS = 3  # a token, where a conversation must surely fit


class Windows:
    """How many tokens each model takes: as the catalogue or the server says, or as its refusals taught us."""

    def __init__(
        self, known: Callable[[str], int | None], ask: Callable[[str], Awaitable[int | None]] | None = None
    ) -> None:
        self._known = known
        self._ask = ask
        self._learnt: dict[str, int | None] = {}

    async def of(self, model: str) -> int | None:
        if model not in self._learnt:
            window = self._known(model)
            if window is None and self._ask is not None:
                window = await self._ask(model)
            self._learnt[model] = window
        return self._learnt[model]

    def learn(self, model: str, tokens: int) -> None:
        before = self._learnt.get(model)
        self._learnt[model] = min(tokens, before) if before else tokens


class Compacts(Protocol):
    async def before(self, agent: AgentId, why: Why, instructions: str) -> str:
        """More instructions for the summary; raises UsageError to refuse one that was asked for."""
        ...

    async def after(self, agent: AgentId, why: Why, summary: str) -> None: ...


class AgentCompactor:
    def __init__(self, agent: Agent, windows: Windows, facts: Facts, hooks: Compacts | None = None) -> None:
        self._agent = agent
        self._windows = windows
        self._facts = facts
        self._hooks = hooks
        self._helps = True  # False after a compaction, until a reply shows that there is room again

    async def make_room(self) -> None:
        """Before a request: compact if it would fill the window, unless that did not help the last time."""
        agent, history = self._agent, self._agent.history
        tokens = self._tokens()
        if tokens < SMALL or (window := await self._windows.of(agent.model)) is None:
            return
        if not compaction.is_due(tokens, window):
            self._helps = self._helps or history.tokens > 0
        elif self._helps:
            try:
                await self.compact("auto")
            except (ModelError, UsageError) as error:
                agent.emit(Warned(f"The conversation could not be compacted: {error}"))

    async def overflowed(self, error: ModelError) -> bool:
        """The provider refused the conversation as too long. True if it is shorter now: worth one more request."""
        said = compaction.read_window(str(error))
        self._windows.learn(self._agent.model, said or max(self._tokens() * 9 // 10, SMALL))
        return await self.compact("too_long")

    def _tokens(self) -> int:
        """That the next request will have: those of the last one, and four characters a token for what is new."""
        history = self._agent.history
        return history.tokens + sum(map(compaction.size, history.messages[history.asked :])) // 4

    async def compact(self, why: Why, instructions: str = "") -> bool:
        """One request for a summary; the conversation goes on from it. False if there was nothing to summarise."""
        agent, history = self._agent, self._agent.history
        if history.calls:
            raise UsageError("the agent waits for the results of its calls; compact when they are there")
        kept = compaction.unanswered(history.messages)
        old, rest = history.messages[: len(history.messages) - kept], history.messages[len(history.messages) - kept :]
        if not old:
            return False
        self._helps = False
        if self._hooks is not None:
            instructions = await self._hooks.before(agent.id, why, instructions)
        done = await self._summarise(old, instructions, why)
        if not done.text.strip():
            agent.emit(Warned("The conversation was not compacted: the model wrote no summary."))
            return False
        facts = [*self._own_facts(), *await self._facts(agent.id)]
        waiting = {block.text for m in rest for block in m.blocks if isinstance(block, Text)}
        prompts = [prompt for prompt in history.prompts if prompt not in waiting]
        message = compaction.shortened(done.text, prompts, facts, go_on=not rest)
        agent.emit(Compacted((message, *rest), why, history.tokens, done.usage))
        await agent.sync()
        if self._hooks is not None:
            await self._hooks.after(agent.id, why, done.text)
        return True

    async def _summarise(self, old: Sequence[Message], instructions: str, why: Why) -> Aside:
        asking = [compaction.asking(instructions)]
        if why != "too_long":
            try:
                return await run_forked(self._agent, asking, base=old)
            except ModelError as error:
                if error.fault != "context":
                    raise
        window = await self._windows.of(self._agent.model)
        most = int((window or 8_000) * CHARACTERS * 0.6)
        return await run_forked(self._agent, asking, base=compaction.cut_down(old, most))

    def _own_facts(self) -> list[str]:
        agent = self._agent
        facts = [f"Your working directory is {agent.desk.cwd}."]
        if agent.mode == "plan":
            facts.append(plan_on(self._agent.approver))
        if changed := list(agent.history.changed)[-50:]:
            facts.append("Files that you have changed: " + ", ".join(changed))
        return facts
