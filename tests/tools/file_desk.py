"""Shared parts of the file tools' tests: a desk to call them at, and the words of their results."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from teamwright.core.data.message import Message, Reply, Request, Usage
from teamwright.core.errors import ToolError
from teamwright.core.ports import Desk, Outcome, Tool, ToolContext
from teamwright.runtime.services import SessionContext


def context(cwd: Path, hidden: Callable[[str], bool] | None = None, paths: dict[str, str] | None = None) -> ToolContext:
    reply = Reply(Message("assistant", ()), "tool_use", Usage())
    desk = Desk(cwd, (cwd,), hidden=hidden)
    return ToolContext("agent", "call", desk, Request("m", (), ()), reply, lambda _: None, paths or {})


def session_context(cwd: Path, **services: Any) -> SessionContext:
    """The context of a call in a session that has these services."""
    session: Any = SimpleNamespace(**services)
    ctx = context(cwd)
    return SessionContext(ctx.agent, ctx.call_id, ctx.desk, ctx.request, ctx.reply, ctx.emit, session=session)


def use(tool: Tool, ctx: ToolContext, **args: Any) -> Outcome:
    return asyncio.run(tool.call(args, ctx))


def text(tool: Tool, ctx: ToolContext, **args: Any) -> str:
    return "\n".join(block.text for block in use(tool, ctx, **args).content if hasattr(block, "text"))


def refused(tool: Tool, ctx: ToolContext, **args: Any) -> str:
    with pytest.raises(ToolError) as caught:
        use(tool, ctx, **args)
    return str(caught.value)
