"""Commands of the program itself in the place of a prompt: what they do is shown as a turn, and no model reads them."""

from collections.abc import Awaitable, Callable, Sequence

from teamwright.core.errors import TeamwrightError
from teamwright.core.event import TurnEnded, TurnStarted
from teamwright.core.message import Content, Text
from teamwright.core.op import Compact
from teamwright.runtime.session import Session

Command = Callable[[Session, str], Awaitable[str]]


async def _compact(session: Session, words: str) -> str:
    await session.submit(Compact(words))
    return "The conversation was compacted: it goes on from a summary."


async def _btw(session: Session, words: str) -> str:
    return await session.aside(words)


COMMANDS: dict[str, Command] = {"btw": _btw, "compact": _compact}


async def run_command(session: Session, content: Sequence[Content]) -> bool:
    """False if it is no command of ours, but something for the model."""
    if len(content) != 1 or not isinstance(content[0], Text) or not content[0].text.startswith("/"):
        return False
    name, _, words = content[0].text[1:].partition(" ")
    command = COMMANDS.get(name.strip())
    if command is None:
        return False
    if not session.main.running:  # a turn that runs has begun already
        session.tell(session.main.id, TurnStarted())
    try:
        end = TurnEnded("done", await command(session, words.strip()))
    except TeamwrightError as error:
        end = TurnEnded("failed", error=f"/{name}: {error}")
    session.tell(session.main.id, end)
    return True
