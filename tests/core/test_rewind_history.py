"""Rewinding as a fold of events: points, going forward again, and a replay with the same result."""

import pytest
from msgspec import Raw

from teamwright.core.data.conversation.history import History, fold
from teamwright.core.data.conversation.rewind import before, points_of, went_back
from teamwright.core.data.event import (
    AgentStarted,
    Compacted,
    Durable,
    LettersTaken,
    Line,
    ModeChanged,
    Replied,
    Rewound,
    Seen,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import Message, Text, ToolCall, Usage, user
from teamwright.core.ids import CallId, LetterId, SessionId

pytestmark = pytest.mark.spec("RW1")


class Told:
    """A growing transcript, and its history."""

    def __init__(self) -> None:
        self.events: list[Durable] = []
        self.history = History()
        self.add(AgentStarted(SessionId("s"), "/p", "1"))

    def add(self, event: Durable) -> int:
        self.events.append(event)
        self.history.apply(event)
        return len(self.events)

    def ask(self, text: str, *calls: ToolCall) -> int:
        line = self.add(LettersTaken((LetterId(text),), user(text)))
        blocks = (Text(f"to {text}"), *calls)
        self.add(Replied(Message("assistant", blocks, "m"), "tool_use" if calls else "end_turn", Usage(output=1)))
        for call in calls:
            self.add(ToolEnded(call.id, (Text("ran"),), seen=(Seen(f"/{text}", 1, 1),)))
        self.add(TurnEnded("done"))
        return line

    def go_back(self, to: int) -> int:
        return self.add(went_back(self.history, before(self.events, to), to, 7, ()))

    @property
    def words(self) -> list[str]:
        return [message.text for message in self.history.messages if message.text]

    @property
    def points(self) -> list[str]:
        lines = [(n, Line(n, event)) for n, event in enumerate(self.events, 1)]
        return [point.text or f"rewind to {point.to}" for point in points_of(lines)]


def same(one: History, other: History) -> bool:
    names = ("messages", "prompts", "heard", "asked", "tokens", "stop", "seen", "cwd", "usage", "letters", "prompted")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def test_back_forward_and_back_again() -> None:
    told = Told()
    first, second, third = (told.ask(text) for text in ("a", "b", "c"))
    whole = list(told.history.messages)
    back = told.go_back(second)
    assert told.words == ["a", "to a"] and told.history.prompts == ["a"] and told.points == ["a", f"rewind to {second}"]
    assert isinstance(told.events[-1], Rewound) and told.events[-1].messages == ()  # what stays is not written again
    told.ask("d")
    assert told.points == ["a", f"rewind to {second}", "d"]
    told.go_back(back)
    assert told.history.messages == whole and told.points[:3] == ["a", "b", "c"]
    told.go_back(third)
    assert told.words == ["a", "to a", "b", "to b"]
    told.go_back(first)
    assert told.words == [] and told.history.usage.output == 4
    assert same(fold(told.events), told.history)


def test_before_a_compaction_the_old_words_come_back() -> None:
    told = Told()
    told.ask("a")
    second = told.ask("b")
    told.add(Compacted((user("summary"),), "manual", 9, Usage()))
    third = told.ask("c")
    told.go_back(third)
    assert told.words == ["summary"]
    told.go_back(second)
    assert told.words == ["a", "to a"] and told.history.prompts == ["a"]
    assert same(fold(told.events), told.history)


def test_files_that_were_read_later_must_be_read_again() -> None:
    told = Told()
    told.ask("a", ToolCall(CallId("1"), "Read", Raw(b"{}")))
    second = told.ask("b", ToolCall(CallId("2"), "Read", Raw(b"{}")))
    told.go_back(second)
    assert set(told.history.seen) == {"/a"} and not told.history.open_calls
    assert {"1", "2"} <= told.history.used  # no id comes again


def test_a_rewind_of_files_leaves_the_conversation() -> None:
    told = Told()
    line = told.ask("a", ToolCall(CallId("1"), "Edit", Raw(b"{}")))
    words = told.words
    told.add(Rewound(line, 7, files=("/a",), forgets=("/a",)))
    assert told.words == words and told.history.seen == {} and told.points == ["a", f"rewind to {line}"]


def test_a_permission_for_one_prompt_does_not_come_back() -> None:
    told = Told()
    told.ask("a")
    second = told.ask("b")
    granted = told.history.prompted
    told.go_back(second)
    assert told.history.prompted > granted


def test_the_mode_and_letters_that_were_read_stay() -> None:
    told = Told()
    line = told.ask("a")
    told.add(ModeChanged("plan"))
    told.go_back(line)
    assert told.history.mode == "plan" and LetterId("a") in told.history.letters
