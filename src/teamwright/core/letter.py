"""The only way into an agent: a letter, stored first, then announced by a bell."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.ids import AgentId, LetterId
from teamwright.core.message import Content, Message

Priority = Literal["now", "next", "later"]


class Sender(Struct, frozen=True, omit_defaults=True):
    """Set by the runtime, never taken from what somebody wrote."""

    kind: Literal["person", "system", "agent"]
    name: str = ""


PERSON = Sender("person")


class Prompt(Struct, frozen=True, tag="prompt"):
    """What a person asked for."""

    content: tuple[Content, ...]


Body = Prompt  # further kinds of letters join this union


class Letter(Struct, frozen=True):
    id: LetterId
    to: AgentId
    sender: Sender
    body: Body
    priority: Priority = "next"


def as_message(letters: Sequence[Letter]) -> Message:
    """What waits together is given together: one user message, each letter in blocks of its own."""
    return Message("user", tuple(block for letter in letters for block in letter.body.content))


_SENDERS = {"person": 0, "system": 1, "agent": 2}


def due(letters: Sequence[Letter], *, at_rest: bool) -> list[Letter]:
    """The letters to hand over now, in the one order of every inbox; `later` ones only at rest."""
    now = [x for x in letters if at_rest or x.priority != "later"]
    return sorted(now, key=lambda x: (_SENDERS[x.sender.kind], x.priority == "later"))
