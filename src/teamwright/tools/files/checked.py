"""Wraps a tool that changes a file: reports new problems that a language server finds there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from teamwright.core.data.extensions.diagnostic import Diagnostic
from teamwright.core.data.message import Text
from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, Tool, ToolContext
from teamwright.core.text import shown
from teamwright.host.files.read_write import read_whole
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import ToolTraits, told_by
from teamwright.tools.files.desk import judged

MOST_TEXT = 1 << 20  # bytes of a file that is looked at
MOST_TOLD = 10
_LONGEST = 300


class CheckedTool:
    """`tool` alone decides what happens to the file; a failing check never fails the change."""

    def __init__(self, tool: Tool, traits: ToolTraits) -> None:
        assert traits.path is not None
        self.spec, self.traits = tool.spec, traits
        self._tool, self._argument = tool, traits.path.name

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        named = args.get(self._argument)
        path = judged(named, ctx) if isinstance(named, str) else None
        languages = services_of(ctx).languages
        if path is None or not languages.covers(path):
            return await self._tool.call(args, ctx)
        before = await anyio.to_thread.run_sync(_text, path)
        outcome = await self._tool.call(args, ctx)
        after = None if outcome.is_error else await anyio.to_thread.run_sync(_text, path)
        root = next((root for root in ctx.desk.roots if path.is_relative_to(root)), None)
        if after is None or after == before or root is None:
            return outcome
        name, found = await languages.check(path, root, before, after)
        return _with_findings(outcome, name, found) if found else outcome


def _with_findings(outcome: Outcome, name: str, found: list[Diagnostic]) -> Outcome:
    data = {"diagnostics": [{"line": d.line, "severity": d.severity, "message": d.message} for d in found[:MOST_TOLD]]}
    return replace(outcome, content=(*outcome.content, Text(_told(name, found))), data=(outcome.data or {}) | data)


def checked_tools(tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The same tools; those that change files also report what a language server finds."""
    found = dict(tools)
    for name, tool in tools.items():
        traits = told_by(tool)
        if traits and traits.path and traits.path.access == "write":
            found[name] = CheckedTool(tool, traits)
    return found


def _text(path: Path) -> str | None:
    """The text; None if a language server could not read it either."""
    try:
        return read_whole(path, MOST_TEXT)[0].decode()
    except (OSError, ToolError, UnicodeDecodeError):
        return None


def _told(name: str, found: list[Diagnostic]) -> str:
    lines = [f"New after this change, says the language server ({shown(name, 40)}):"]
    for one in found[:MOST_TOLD]:
        code = f" [{shown(one.code, 60)}]" if one.code else ""
        lines.append(f"line {one.line}: {one.severity}: {shown(' '.join(one.message.split()), _LONGEST)}{code}")
    if len(found) > MOST_TOLD:
        lines.append(f"and {len(found) - MOST_TOLD} more")
    return "\n".join(lines)
