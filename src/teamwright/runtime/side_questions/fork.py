"""Forks for side questions: they run the loop on an agent's cached prefix, and never touch its conversation."""

import traceback
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.event import Event, Reminded, is_durable
from teamwright.core.data.letter import Letter
from teamwright.core.data.message import Message, Reply, Request, Stop, ToolCall, Usage
from teamwright.core.errors import TeamwrightError
from teamwright.core.ids import AgentId, LetterId
from teamwright.core.loop import TurnContext, run_turn
from teamwright.core.permissions.consent import Decision, Deny
from teamwright.core.policies.budget import Reached
from teamwright.core.ports import OnDelta
from teamwright.runtime.agents.agent import Agent

_FAULTS: dict[Stop, str] = {
    "end_turn": "the model said nothing",
    "tool_use": "the model called a tool instead",
    "max_tokens": "the reply was cut off at its output limit",
    "refusal": "the model declined to answer",
    "pause": "the provider paused the reply",
}


class Aside(Struct, frozen=True):
    """What came of it. `usage` is already counted in the ledger."""

    text: str  # empty if its last reply is no answer, or a limit allowed no request
    fault: str  # why there is no answer, if there is none
    usage: Usage


async def run_forked(
    agent: Agent, messages: Sequence[Message], *, turns: int = 1, base: Sequence[Message] | None = None
) -> Aside:
    """Ask on top of what the agent has said so far, or of `base` instead.

    Prompt, tools and messages are the agent's, so that a provider's cache serves them. It counts against the agent's
    money and time, but not its turns. Raises ModelError like any request.
    """
    aside = _ForkedRun(agent, turns, base)
    for message in messages:
        aside.emit(Reminded(message))
    end = await run_turn(aside.seat())
    last = aside.last
    fault = end.error if last is None else _FAULTS["tool_use" if last.message.calls else last.stop]
    return Aside(last.answer if last else "", fault, aside.history.usage)


async def run_quietly(work: Callable[[], Awaitable[None]], what: str, log: Callable[[str], None]) -> None:
    """The boundary of work that nobody asked for: any error in it becomes a line in the log."""
    try:
        await work()
    except TeamwrightError as error:
        log(f"{what}: {error}")
    except Exception as bug:  # noqa: BLE001 -- a boundary: side work must never end a session
        log(f"{what} failed: " + "".join(traceback.format_exception(bug)))


class _ForkedRun:
    """All ports of the loop, for a conversation that is not kept."""

    def __init__(self, agent: Agent, turns: int, base: Sequence[Message] | None) -> None:
        self._agent, self._turns = agent, turns
        self.last: Reply | None = None
        self._rendered = agent.request()
        history = agent.history
        calls = history.calls.values() if base is None else ()
        self.history = history.branch(history.messages if base is None else base, calls)
        self.history.asked = min(history.asked, len(self.history.messages))

    def seat(self) -> TurnContext:
        agent = self._agent
        desk = replace(agent.desk, seen=dict(agent.desk.seen))
        return TurnContext(
            agent.id, self.history, self, agent.tools, self, self, self, 0, desk, self.emit, self.request, _nothing
        )

    def emit(self, event: Event) -> None:
        if is_durable(event):
            self.history.apply(event)

    def request(self) -> Request:
        history = self.history
        return replace(self._rendered, messages=tuple(history.messages), previous=history.asked, shared=history.shared)

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        self.last = await self._agent.aside.reply(request, on_delta)
        return self.last

    async def ask(self, agent: AgentId, call: ToolCall) -> Decision:
        return Deny(f"{call.name} was not run: answer in words alone.")

    def reached(self) -> Reached | None:
        if self.history.turns >= self._turns:
            return Reached("turns", f"{self._turns} turns", may_report=False)
        above = self._agent.meter.reached(turns=False)
        return None if above is None else replace(above, may_report=False)

    async def take(self, *, at_rest: bool) -> list[Letter]:
        return []

    def acknowledge(self, letters: Sequence[LetterId]) -> None:
        """Nobody writes to a fork."""


async def _nothing() -> None:
    """Nothing is stored."""
