"""A pool of MCP servers for one test, and its messages."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from teamwright.core.data.extensions.server import Elicited, ServerConfig, Stdio
from teamwright.core.data.message import Message, Reply, Request, Text, Usage
from teamwright.core.ports import Desk, Outcome, ToolContext
from teamwright.host.mcp.connect import McpContext
from teamwright.runtime.extensions.mcp_connection import ToolChanges
from teamwright.runtime.extensions.mcp_pool import ServerPool
from teamwright.tools.mcp import McpTool

SMALL = Path(__file__).parent.parent / "servers" / "small_mcp.py"
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "ANTHROPIC_API_KEY": "sk-canary"}


class Shop:
    """One test's servers: their configurations and logs, the pool, and what it told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes: list[ToolChanges] = []
        self.pushed: list[tuple[str, str, dict[str, Any]]] = []
        self.logged: list[str] = []
        self.asked: list[tuple[str, str]] = []

    def small(self, name: str, *options: str, **more: Any) -> ServerConfig:
        argv = (str(SMALL), str(self.root / f"{name}.log"), *options)
        return ServerConfig(name, Stdio(sys.executable, argv, more.pop("env", {})), **more)

    def log(self, name: str) -> list[str]:
        path = self.root / f"{name}.log"
        return path.read_text().splitlines() if path.exists() else []

    def pids(self, name: str) -> list[int]:
        return [int(line.split()[1]) for line in self.log(name) if line.startswith("start")]

    @asynccontextmanager
    async def open(self, *configs: ServerConfig, connect: float = 20, call: float = 20) -> AsyncIterator[ServerPool]:
        pool = ServerPool(
            {c.name: c for c in configs},
            McpTool,
            McpContext(env=ENV, cwd=self.root, connect_seconds=connect, call_seconds=call),
            log=self.logged.append,
            tell_changed=self.changes.append,
            push=lambda *found: self.pushed.append(found),
            elicit=self.elicit,
        )
        async with anyio.create_task_group() as group:
            pool.start(group)
            await pool.ready(30)
            yield pool
            await pool.close()

    async def elicit(self, server: str, question: str, schema: dict[str, Any]) -> Elicited:
        self.asked.append((server, question))
        return Elicited("accept", {"name": "Ada"})

    async def call(self, pool: ServerPool, name: str, /, **args: Any) -> Outcome:
        return await pool.tools()[name].call(args, self.context())

    def context(self) -> ToolContext:
        desk = Desk(self.root, (self.root,), spill=self.root / "spill")
        request, reply = Request("m", (), ()), Reply(Message("assistant", ()), "tool_use", Usage())
        return ToolContext("a", "c", desk, request, reply, lambda _: None)  # type: ignore[arg-type]


def words(outcome: Outcome) -> str:
    return "\n".join(part.text for part in outcome.content if isinstance(part, Text))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(true: Any, seconds: float = 15) -> None:
    with anyio.fail_after(seconds):
        while not true():
            await anyio.sleep(0.01)
