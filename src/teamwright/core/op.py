"""What a surface may ask of a session. Imperatives; answers come back as events."""

from msgspec import Struct

from teamwright.core.consent import Decision, Mode
from teamwright.core.ids import QuestionId
from teamwright.core.letter import Priority
from teamwright.core.message import Content


class Say(Struct, frozen=True, tag="say"):
    """A person's prompt for the main agent."""

    content: tuple[Content, ...]
    priority: Priority = "next"


class Interrupt(Struct, frozen=True, tag="interrupt"):
    """End the running turn, not the session."""


class SetMode(Struct, frozen=True, tag="set_mode"):
    mode: Mode


class SetModel(Struct, frozen=True, tag="set_model"):
    """None: back to the model that the session began with."""

    model: str | None


class Answer(Struct, frozen=True, tag="answer"):
    question: QuestionId
    decision: Decision


Op = Say | Interrupt | SetMode | SetModel | Answer
