"""What a person sees while several agents work at the same time."""

import io

import pytest
from msgspec import Raw

from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Denied,
    Event,
    JobEnded,
    JobStarted,
    LettersTaken,
    Record,
    Replied,
    Streamed,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.letter import Figures
from teamwright.core.data.message import Message, Text, TextDelta, ToolCall, Usage, user
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, SessionId
from teamwright.surfaces.plain import Progress

MAIN, ANN, BOB = AgentId("main"), AgentId("a1"), AgentId("a2")


class Screen:
    """A progress display, and what it has written."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self._progress = Progress(self._out, colours=False)
        self.show(MAIN, started("main", None, 0))

    def show(self, agent: AgentId, *events: Event, at: int = 0) -> None:
        for event in events:
            self._progress.show(Record(agent, 0, at, event))

    @property
    def text(self) -> str:
        return self._out.getvalue()

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.strip()]


def started(name: str, parent: AgentId | None = MAIN, depth: int = 1) -> AgentStarted:
    about = f"work of {name}" if parent else ""
    return AgentStarted(SessionId("s"), "/", "0", name=name, parent=parent, depth=depth, description=about)


def said(text: str) -> Replied:
    return Replied(Message("assistant", (Text(text),), "m"), "end_turn", Usage())


def called(id: str, name: str, input: bytes) -> Replied:
    return Replied(Message("assistant", (ToolCall(CallId(id), name, Raw(input)),), "m"), "tool_use", Usage())


def streamed(text: str) -> Streamed:
    return Streamed(TextDelta(0, text))


def ended(job: AgentId, status: str = "completed") -> JobEnded:
    return JobEnded(JobId(job), status, f"Agent {job} has ended", "/o", Figures(0, 0, 1500))  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("Y1")
def test_steps_of_other_agents_stand_indented_beneath_their_names() -> None:
    screen = Screen()
    screen.show(ANN, started("ann"), called("c1", "Grep", b'{"pattern":"x"}'))
    screen.show(ANN, ToolEnded(CallId("c1"), (Text("a.py:1"),)), said("Found it."), at=2000)
    screen.show(BOB, started("bob", ANN, 2), said("I am below."))
    screen.show(ANN, Denied(CallId("c2"), "Bash", {}, "no allow rule covers it."), AgentEnded("failed", "", "it broke"))
    assert screen.lines == [
        "  ann  work of ann",
        "  | + Grep x  2.0 s",
        "  |     a.py:1",
        "  | Found it.",
        "    bob  work of bob",
        "    | I am below.",
        "  ann  work of ann",
        "  | refused: no allow rule covers it.",
        "  | it broke",
    ]


@pytest.mark.spec("Y1")
def test_nobody_speaks_into_a_sentence_of_the_main_agent() -> None:
    screen = Screen()
    screen.show(ANN, started("ann"))
    screen.show(MAIN, streamed("One "))
    screen.show(ANN, said("In between."))
    assert "In between" not in screen.text
    screen.show(MAIN, streamed("sentence."), said("One sentence."), TurnEnded("done", "One sentence."))
    assert screen.lines == ["One sentence.", "  ann  work of ann", "  | In between."]


def test_an_agents_call_is_one_line_and_only_a_background_end_is_told_again() -> None:
    screen = Screen()
    asked = b'{"subagent_type":"explore","description":"look around","prompt":"p"}'
    screen.show(MAIN, called("c1", "Agent", asked), JobStarted(JobId(ANN), "agent", "d"))
    screen.show(ANN, started("explore"))
    screen.show(MAIN, ended(ANN), ToolEnded(CallId("c1"), (Text("a long report"),), data={"status": "completed"}))
    screen.show(MAIN, called("c2", "Agent", asked), JobStarted(JobId(BOB), "agent", "d", background=True))
    screen.show(BOB, started("explore"))
    screen.show(MAIN, ToolEnded(CallId("c2"), (Text("agentId"),), data={"status": "async_launched"}))
    screen.show(MAIN, ended(BOB, "failed"))
    assert screen.lines == [
        "+ Agent explore: look around  0.0 s",
        "+ Agent explore: look around  in the background",
        "  x Agent a2 has ended  1.5 s",
    ]


def test_what_the_runtime_wrote_is_not_shown_as_typed() -> None:
    screen = Screen()
    notice = user("<task-notification>\n<task-id>a1</task-id>\n</task-notification>")
    screen.show(MAIN, LettersTaken((LetterId("n-a1-1"),), notice))
    screen.show(MAIN, LettersTaken((LetterId("l1"),), user("Go on.")))
    assert screen.lines == ["> Go on."]


@pytest.mark.spec("A12")
def test_other_agents_cannot_write_escape_sequences_either() -> None:
    screen = Screen()
    screen.show(ANN, started("a\x1b[31mnn"), said("red \x1b[31m text"))
    screen.show(MAIN, JobStarted(JobId(ANN), "agent", "d", background=True))
    assert "\x1b" not in screen.text and "red" in screen.text
