"""Takes what is typed on the page: a command, a skill by its name, or words for an agent."""

from typing import Any

import anyio

from teamwright.core.data.message import Text
from teamwright.core.data.op import AskAside, Compact, Op, Say
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId
from teamwright.surfaces.port.remote_session import RemoteSession
from teamwright.surfaces.web.server.errors import Refused

LIMIT = 30.0  # seconds for the session to answer
_LONG = 600.0  # seconds for a command: a skill may run an agent of its own

Json = dict[str, Any]


async def take_prompt(port: RemoteSession, text: str, agent: AgentId | None) -> Json:
    """`letter`: of the prompt that was posted; or `output`: of a command that no model reads."""
    content = (Text(text),)
    if text.startswith("/"):
        with anyio.fail_after(_LONG):
            if await _run_command(port, text):
                return {"letter": "", "output": ""}
            found = await port.expand(text)
            error = await _unknown(port, text) if found is None else found.error
        if error:
            raise Refused(409, error)
        if found is not None and not found.content:
            return {"letter": "", "output": found.output or ""}
        content = content if found is None else found.content
    with anyio.fail_after(LIMIT):
        return {"letter": await port.say(Say(content, agent=agent, typed=text))}


async def _run_command(port: RemoteSession, text: str) -> bool:
    """False if it is not one of our commands."""
    name, _, words = text[1:].partition(" ")
    op: Op
    match name.strip():
        case "compact":
            op = Compact(words.strip())
        case "btw":
            if not words.strip():
                raise UsageError("/btw needs a question")
            op = AskAside(words.strip())
        case _:
            return False
    await port.submit(op)
    return True


async def _unknown(port: RemoteSession, text: str) -> str:
    from teamwright.runtime.slash_commands import COMMANDS, unknown_command  # noqa: PLC0415  # it knows how agents run

    return unknown_command(text, [*COMMANDS, *(skill.name for skill in await port.skills())])
