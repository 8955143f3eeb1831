"""Built-in slash commands: each is shown as a turn, and no model reads it."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from teamwright.core.data.event import TurnEnded, TurnStarted
from teamwright.core.data.message import Content, Text, words_of
from teamwright.core.data.op import Compact, Say
from teamwright.core.errors import TeamwrightError
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


async def take_prompt(session: Session, say: Say) -> None:
    """Run the command that a prompt names, or post the prompt with what it stands for and mentions."""
    if not await _run_command(session, say.content) and (rest := await _expand(session, say)) is not None:
        await session.submit(rest)


async def _run_command(session: Session, content: Sequence[Content]) -> bool:
    """False if it is no command of ours, but something for the model."""
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
    """The skill or server prompt that a command names; None if it is answered already."""
    text = _slashed(say.content)
    if not text:
        return await _with_mentions(session, say)
    name = text[1:].split(maxsplit=1)[:1]
    apart = any([skill.name] == name and skill.context == "fork" for skill in session.brought.commands)
    if apart:  # what its agent does is shown as part of a turn
        await _begin(session)
    await session.brought.arrived()  # a server's prompt may be meant
    found = await session.brought.expand(text)
    if found is None:
        return await _with_mentions(session, say)
    if found.content:
        return replace(say, content=found.content)
    if not apart:
        await _begin(session)
    end = TurnEnded("failed", error=found.error) if found.error else TurnEnded("done", found.output or "")
    session.tell(session.main.id, end)
    return None


async def _with_mentions(session: Session, say: Say) -> Say:
    """What the prompt names by `@` stands after it."""
    text = words_of(say.content)
    if "@" not in text:
        return say
    await session.brought.arrived()  # a server's resource may be meant
    return replace(say, content=(*say.content, *await session.brought.mentions(text)))


def _slashed(content: Sequence[Content]) -> str:
    """The words of a command; empty where it is none."""
    if len(content) != 1 or not isinstance(content[0], Text) or not content[0].text.startswith("/"):
        return ""
    return content[0].text


async def _begin(session: Session) -> None:
    await session.brought.arrived()
    if not session.main.running:  # a turn that runs has begun already
        session.tell(session.main.id, TurnStarted())
