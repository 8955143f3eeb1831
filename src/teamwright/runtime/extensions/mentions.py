"""Attaches the files and resources that a prompt mentions with `@`, as far as the gate allows."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from teamwright.core.data.message import Text, ToolCall, words_of
from teamwright.core.errors import ToolError
from teamwright.core.ids import CallId
from teamwright.core.permissions.consent import Deny
from teamwright.core.permissions.rules import READ
from teamwright.core.text import neutral, quoted, shown
from teamwright.library.includes import imports
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.extensions.skills import MOST_INCLUDED, Judge, find_file, look_up, read_judged

if TYPE_CHECKING:
    from teamwright.runtime.extensions.mcp_pool import ServerPool

MOST = 20  # in one prompt
_SHOWN_BY_READ = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ipynb"})  # the agent reads them itself


_QUOTED = re.compile(r'(?:^|(?<=[\s(]))@"([^"\n]+)"')


def _escaped(quoted: re.Match[str]) -> str:
    """Rewrite `@"two words"` with escaped spaces, as the app writes it."""
    return "@" + quoted[1].replace(" ", "\\ ")


async def attached(
    text: str, agent: Agent, ask: Judge, clean: Callable[[str], str], pool: "ServerPool | None"
) -> list[Text]:
    """One block for each mention. A mention of nothing stays plain text; a failure gives a block that says so."""
    found: list[Text] = []
    room = MOST_INCLUDED
    for choices in imports(_QUOTED.sub(_escaped, text))[:MOST]:
        words = await _resource(choices, pool, clean)
        words = words or await _file(choices, agent, ask, clean)
        if words and len(words) <= room:
            found.append(Text(words))
            room -= len(words)
    return found


async def _resource(choices: tuple[str, ...], pool: "ServerPool | None", clean: Callable[[str], str]) -> str:
    """Read `@server:uri`; empty if there is no such server."""
    name, colon, _ = choices[-1].partition(":")
    if pool is None or not colon or name not in pool.names:
        return ""
    mark = _quoted(choices[-1])
    try:
        answer = await pool.resource(choices[-1])
    except ToolError as error:
        return f"<attached-resource {mark}>\n[it cannot be had: {error}]\n</attached-resource>"
    said = words_of(answer.parts)
    return f"<attached-resource {mark}>\n{neutral(clean(said)[:MOST_INCLUDED])}\n</attached-resource>"


async def _file(choices: tuple[str, ...], agent: Agent, ask: Judge, clean: Callable[[str], str]) -> str:
    path = await look_up(find_file, choices, agent.desk.cwd, "")
    if path is None or READ not in agent.tools or Path(path).suffix.lower() in _SHOWN_BY_READ:
        return ""
    mark = _quoted(path)
    try:
        call = ToolCall(CallId(f"mention-{os.urandom(6).hex()}"), READ, Raw(msgspec.json.encode({"file_path": path})))
        decision = await ask(agent.id, call)
        if isinstance(decision, Deny):
            raise ToolError(decision.reason)
        content = await look_up(read_judged, path, decision)
    except ToolError as error:
        return f"<attached-file {mark}>\n[it is not included: {error}]\n</attached-file>"
    return f"<attached-file {mark}>\n{neutral(clean(content).rstrip(chr(10)))}\n</attached-file>"


def _quoted(name: str) -> str:
    return f"name={quoted(shown(str(Path(name)) if '://' not in name else name, 500))}"
