"""Shared parts of the Bash tests: an agent's desk, and the words of an outcome."""

from pathlib import Path
from typing import Any

from teamwright.core.data.event import Event
from teamwright.core.data.message import Message, Reply, Request, Text, Usage
from teamwright.core.ids import AgentId, CallId
from teamwright.core.ports import Desk, Outcome, ToolContext
from teamwright.tools.bash import BashTool


class Bench:
    """One agent's desk and its Bash tool."""

    def __init__(self, root: Path, env: dict[str, str] | None = None, passed: tuple[str, ...] = ()) -> None:
        self.root = root
        self.desk = Desk(root, (root,), spill=root.parent / "spill", env={"TEAMWRIGHT_AGENT_ID": "a1"})
        self.tool = BashTool(env, passed)
        self.events: list[Event] = []

    async def __call__(self, command: str, **args: Any) -> Outcome:
        reply = Reply(Message("assistant", ()), "tool_use", Usage())
        context = ToolContext(AgentId("a1"), CallId("c1"), self.desk, Request("x/y", (), ()), reply, self.events.append)
        return await self.tool.call({"command": command, **args}, context)

    async def says(self, command: str, **args: Any) -> str:
        return words(await self(command, **args))


def words(outcome: Outcome) -> str:
    (block,) = outcome.content
    assert isinstance(block, Text)
    return block.text
