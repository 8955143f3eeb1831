"""Histories as a session would write them, and the rule that every provider enforces on them."""

from collections.abc import Sequence

from hypothesis import strategies as st

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import (
    AgentStarted,
    Denied,
    Durable,
    LettersTaken,
    ModeChanged,
    Reminded,
    Rendered,
    Replied,
    Resumed,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from teamwright.core.data.message import Message, Text, Thinking, ToolCall, ToolResult, Usage, user
from teamwright.core.ids import CallId, LetterId, SessionId

START = AgentStarted(SessionId("s"), "/work", "1")


def check_valid(messages: Sequence[Message]) -> None:
    """Check that nothing is empty, the user speaks first, no reply follows another one, and the next message answers
    each call exactly once, in order.
    """
    owed: tuple[CallId, ...] = ()
    for n, message in enumerate(messages):
        assert message.blocks and (n or message.role == "user")
        assert n == 0 or "user" in (message.role, messages[n - 1].role), f"messages {n - 1} and {n} are both replies"
        results = tuple(b.call_id for b in message.blocks if isinstance(b, ToolResult))
        assert results == owed, f"message {n} answers {results} where {owed} is owed"
        owed = tuple(call.id for call in message.calls)
        assert message.role == "assistant" or not owed
    assert not owed, f"the last calls {owed} have no result"


class Pen:
    """Writes events as the runtime does, and folds them: what may come next depends on what is open."""

    def __init__(self) -> None:
        self.events: list[Durable] = []
        self.history = History()
        self.numbers = 0
        self.write(START)
        self.write(Rendered("hash", "script/x", "start"))

    def write(self, *events: Durable) -> None:
        for event in events:
            self.events.append(event)
            self.history.apply(event)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def letter(self) -> None:
        n = self.number()
        self.write(LettersTaken((LetterId(f"l{n}"),), user(f"prompt {n}")))

    def reply(self, calls: int) -> None:
        blocks = [Thinking("hm", "sig"), Text("words")]
        made = [ToolCall(CallId(f"c{self.number()}"), "Bash") for _ in range(calls)]
        self.write(Replied(Message("assistant", (*blocks, *made), "script/x"), "tool_use", Usage(1, 2, 3, 4)))

    def begin(self, call: ToolCall) -> None:
        self.write(ToolStarted(call.id))

    def end(self, call: ToolCall) -> None:
        self.write(ToolEnded(call.id, (Text(f"result of {call.id}"),)))


@st.composite
def lives(draw: st.DrawFn) -> list[Durable]:
    """All events of an agent with several turns, interrupts and crashes."""
    pen = Pen()
    for _ in range(draw(st.integers(1, 4))):
        pen.letter()
        for _ in range(draw(st.integers(0, 3))):
            _reply_and_work(draw, pen)
        pen.write(*pen.history.unfinished(crashed=False))
        ends = ("done", "interrupted", "failed", "max_turns")
        end = draw(st.sampled_from(ends))
        if end == "interrupted":
            pen.write(Reminded(user("interrupted")))
        pen.write(TurnEnded(end, "words"))
        if draw(st.booleans()):
            pen.write(ModeChanged("plan"), Rendered("hash", "script/y", "model"))
    return pen.events


def _reply_and_work(draw: st.DrawFn, pen: Pen) -> None:
    if draw(st.booleans()):
        pen.write(Replied(Message("assistant", (), "script/x"), "end_turn", Usage(output=1)), Reminded(user("empty")))
        return
    pen.reply(draw(st.integers(0, 4)))
    calls = draw(st.permutations(pen.history.open_calls))
    for call in calls[: draw(st.integers(0, len(calls)))]:
        kind = draw(st.sampled_from(("effects", "read", "denied", "begun")))
        if kind == "denied":
            pen.write(Denied(call.id, call.name, {}, "no"))
        if kind in ("effects", "begun"):
            pen.begin(call)
        if kind != "begun":
            pen.end(call)
    if draw(st.booleans()):
        pen.write(Resumed("1"), *pen.history.unfinished(crashed=True))
    else:
        pen.write(*pen.history.unfinished(crashed=False))
