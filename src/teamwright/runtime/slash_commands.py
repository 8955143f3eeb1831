"""Built-in slash commands: each is shown as a turn, but no model reads it."""

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec.structs import replace

from teamwright.core.data.event import TurnEnded, TurnStarted
from teamwright.core.data.message import Content, Text, typed_words
from teamwright.core.data.op import Compact, Say
from teamwright.core.errors import TeamwrightError
from teamwright.core.text import closest
from teamwright.runtime.session import Session

CommandFunction = Callable[[Session, str], Awaitable[str]]


async def _compact(session: Session, words: str) -> str:
    await session.submit(Compact(words))
    return "The conversation was compacted: it continues from a summary."


async def _btw(session: Session, words: str) -> str:
    return await session.aside(words)


COMMANDS = {
    "btw": "ask a side question that leaves no trace",
    "compact": "replace the conversation by a summary",
}
_RUN: dict[str, CommandFunction] = {"btw": _btw, "compact": _compact}
_CALL = re.compile(r"/([\w:-]+)(?:\s.*)?", re.S)
_MOST_NAMED = 12  # commands


def unknown_command(text: str, known: Iterable[str], listed_by: str = "") -> str:
    """What to answer to `/name words` if nothing has that name; empty if something has, or if it begins with a path.

    `listed_by` names the command that lists the others.
    """
    called = _CALL.fullmatch(text.strip())
    if called is None or called[1] in (names := list(known)) or os.path.lexists(f"/{called[1]}"):
        return ""
    if meant := closest(called[1], names):
        return f"There is no command /{called[1]}; did you mean /{meant}?"
    if listed_by:
        return f"There is no command /{called[1]}: {listed_by} lists them."
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return f"There is no command /{called[1]} here, only {', '.join(f'/{name}' for name in names[:_MOST_NAMED])}{more}."


async def take_prompt(session: Session, say: Say) -> None:
    """Run the command that a prompt names, or post the prompt, expanded and with its mentions."""
    if not await _run_command(session, say.content) and (rest := await _expand(session, say)) is not None:
        await session.submit(rest)


async def _run_command(session: Session, content: Sequence[Content]) -> bool:
    """False if it is not one of our commands."""
    text = _slashed(content)
    name, _, words = text[1:].partition(" ")
    command = _RUN.get(name.strip())
    if not text or command is None:
        return False
    await _begin(session)
    try:
        end = TurnEnded("done", await command(session, words.strip()))
    except TeamwrightError as error:
        end = TurnEnded("failed", error=f"/{name}: {error}")
    session.tell(session.main.id, end)
    return True


async def _expand(session: Session, say: Say) -> Say | None:
    """Expand the skill or server prompt that a prompt names; None if it was already answered."""
    text = _slashed(say.content)
    if not text:
        return await _with_mentions(session, say)
    name = text[1:].split(maxsplit=1)[:1]
    apart = any([skill.name] == name and skill.context == "fork" for skill in session.brought.commands)
    if apart:  # what its agent does is shown as part of a turn
        await _begin(session)
    await session.brought.arrived()  # it may be a server's prompt
    found = await session.brought.expand(text)
    error = unknown_command(text, _known(session)) if found is None else found.error
    if found is None and not error:
        return await _with_mentions(session, say)
    if found is not None and found.content:
        return replace(say, content=found.content)
    if not apart:
        await _begin(session)
    said = found.output if found is not None else None
    session.tell(session.main.id, TurnEnded("failed", error=error) if error else TurnEnded("done", said or ""))
    return None


def _known(session: Session) -> list[str]:
    brought = session.brought
    return [*COMMANDS, *(skill.name for skill in brought.commands), *(name for name, _ in brought.prompts)]


async def _with_mentions(session: Session, say: Say) -> Say:
    """Append what the prompt names with `@`."""
    text = typed_words(say.content)
    if "@" not in text:
        return say
    await session.brought.arrived()  # it may be a server's resource
    return replace(say, content=(*say.content, *await session.brought.mentions(text)))


def _slashed(content: Sequence[Content]) -> str:
    """The text of a slash command; empty if it is none."""
    if len(content) != 1 or not isinstance(content[0], Text) or not content[0].text.startswith("/"):
        return ""
    return content[0].text


async def _begin(session: Session) -> None:
    await session.brought.arrived()
    if not session.main.running:  # a running turn has already begun
        session.tell(session.main.id, TurnStarted())
