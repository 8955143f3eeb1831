"""One agent as the editor hears it: words, thoughts and calls, in the order of its transcript."""

from collections.abc import Callable
from typing import Any

from teamwright.core.data.event import (
    AgentEnded,
    Record,
    Replied,
    Streamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
)
from teamwright.core.data.message import (
    BlockStarted,
    Delta,
    ReplyStarted,
    Retrying,
    TextDelta,
    Thinking,
    ThinkingDelta,
)
from teamwright.core.ids import AgentId, CallId
from teamwright.surfaces.acp.updates.calls import CallKeeper, Calls
from teamwright.surfaces.acp.updates.speech import Speech, Tell

ENDED = "It did not run to its end: the turn was over."
VOID = "The model began this call and did not finish it."


class Voice:
    """`meta` is added to each update."""

    def __init__(
        self,
        agent: AgentId,
        tell: Tell,
        cwd: Callable[[], str],
        keeper: CallKeeper,
        *,
        terminals: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self._tell_raw, self._meta = tell, meta or {}
        self.calls = Calls(self._tell_call, cwd, keeper, terminals=terminals)
        self._text = Speech("agent_message_chunk", self._tell, agent)
        self._thought = Speech("agent_thought_chunk", self._tell, agent)
        self._line = 0  # last line of its transcript
        self._begun = False  # its reply was heard from the beginning

    def flush(self) -> None:
        self._thought.flush()
        self._text.flush()

    def place(self, line: int) -> None:
        self._line = max(self._line, line)

    def stream(self, delta: Delta) -> None:
        match delta:
            case TextDelta() if self._begun:
                self._thought.flush()
                self._text.add(delta.text)
            case ThinkingDelta() if self._begun:
                self._text.flush()
                self._thought.add(delta.text)
            case ReplyStarted():
                if not self._begun:
                    self._text.begin(self._line + 1)
                    self._thought.begin(self._line + 1)
                self._begun = True
            case BlockStarted(kind="tool_use", id=id, name=name) if id and self._begun:
                self.calls.begin(CallId(id), name)
            case Retrying():
                self._text.retry()
                self._thought.retry()
            case _:
                pass

    async def hear(self, record: Record) -> None:
        self.place(record.n)
        match record.event:
            case Streamed(delta=delta):
                self.stream(delta)
            case Replied() as event:
                self._replied(event, record.n)
            case ToolStarted(call_id=id):
                self.calls.started(id)
            case ToolProgressed() as event:
                self.calls.progressed(event)
            case ToolEnded() as event:
                await self.calls.ended(event)
            case TurnEnded() | AgentEnded():
                self.flush()
                self._begun = False
                self.calls.fail_all(ENDED)
            case _:
                pass

    def _replied(self, event: Replied, line: int) -> None:
        thoughts = "".join(b.thinking for b in event.message.blocks if isinstance(b, Thinking))
        self._thought.end(thoughts, line)
        self._text.end(event.message.text, line)
        self._begun = False
        for call in event.message.calls:
            self.calls.whole(call)
        self.calls.fail_all(VOID, unfinished=True)

    def _tell_call(self, update: dict[str, Any]) -> None:
        """Tell the words before a call first."""
        self.flush()
        self._tell(update)

    def _tell(self, update: dict[str, Any]) -> None:
        if self._meta:
            own = update.get("_meta", {})
            named = {"claudeCode": own.get("claudeCode", {}) | self._meta.get("claudeCode", {})}
            update = update | {"_meta": own | self._meta | named}
        self._tell_raw(update)
