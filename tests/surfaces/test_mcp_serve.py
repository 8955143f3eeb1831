"""`teamwright mcp serve`, as the public MCP client sees it: it leads a team by tools, without a model of ours."""

import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from program import ARGV, Program, tool

pytestmark = [pytest.mark.anyio, pytest.mark.spec("D8")]
LIMIT = 40
SCRIPTS = {
    "main": [{"error": {"fault": "server", "message": "the lead's own model must not be asked"}}],
    "ann": [tool("SendMessage", to="team-lead", message="I have \x1b[31mread <it>", summary="the report"), "resting"],
    "bob": [tool("Write", file_path="bob.txt", content="bob was here\n"), "wrote it"],
    "more": [tool("SendMessage", to="team-lead", message="more", summary="more"), "resting again"],
    "claimed": {"when": "is yours now", "steps": [
        tool("TaskUpdate", taskId="{{re:Task #(\\d+) is yours now}}", status="completed"), "did it",
    ]},
}  # fmt: skip
TOOLS = {
    "team_create", "team_delete", "teammate_spawn", "send_message", "read_messages", "task_create", "task_list",
    "task_update", "wait_idle", "list_agents",
}  # fmt: skip


class Lead:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, name: str, /, **args: Any) -> dict[str, Any]:
        result = await self.client.call_tool(name, args)
        assert not result.is_error, result.content
        return result.structured_content

    async def refused(self, name: str, /, **args: Any) -> str:
        result = await self.client.call_tool(name, args)
        assert result.is_error
        return result.content[0].text


@asynccontextmanager
async def serving(program: Program, *args: str, mode: str = "auto", script: Any = SCRIPTS) -> AsyncIterator[Lead]:
    argv = [*ARGV, "mcp", "serve", *program.model(script), "--teammate-mode", "in-process", *args]
    place = StdioServerParameters(command=argv[0], args=argv[1:], env=program.env, cwd=program.project)
    errors = program.root / "serve.err"
    with errors.open("a") as log, anyio.fail_after(LIMIT):
        async with Client(stdio_client(place, errlog=log), mode=mode, read_timeout_seconds=LIMIT) as client:
            yield Lead(client)
    assert "Traceback" not in errors.read_text()


def session_of(program: Program) -> str:
    return re.findall(r"session (\S+)", (program.root / "serve.err").read_text())[-1]


async def test_a_message_that_is_too_long_is_refused_and_the_next_is_heard(program: Program) -> None:
    async with serving(program) as lead:
        with pytest.raises(MCPError, match="longer than 16 MiB"):
            await lead("read_messages", wait_seconds="x" * (20 << 20))
        assert (await lead("read_messages"))["messages"] == []


async def test_a_client_leads_a_team(program: Program) -> None:
    async with serving(program, "--permission-mode", "acceptEdits") as lead:
        found = await lead.client.list_tools()
        assert {tool.name for tool in found.tools} == TOOLS
        assert all(tool.description and tool.input_schema["type"] == "object" for tool in found.tools)
        assert (await lead("read_messages"))["messages"] == []
        assert (await lead("wait_idle"))["idle"] is True
        assert (await lead("team_create", team_name="crew"))["team_name"] == "crew"
        ann = await lead("teammate_spawn", name="ann", prompt="SCRIPT:ann")
        assert ann["teammate_id"] == "ann@crew"
        await lead("teammate_spawn", name="bob", prompt="SCRIPT:bob", description="writes a file")
        idle = await lead("wait_idle", timeout_seconds=30)
        assert idle["idle"] is True and idle["unread"] >= 3
        messages = (await lead("read_messages", wait_seconds=5))["messages"]
        said = [m for m in messages if m["type"] == "message"]
        assert [(m["from"], m["summary"], m["text"]) for m in said] == [
            ("ann", "the report", "I have \x1b[31mread <it>"),
        ]  # fmt: skip
        rested = {m["from"]: m["lastMessage"] for m in messages if m["type"] == "idle_notification"}
        assert rested == {"ann": "resting", "bob": "wrote it"}
        assert (await lead("read_messages"))["messages"] == []  # each once
        assert (program.project / "bob.txt").read_text() == "bob was here\n"
        states = {row["name"]: row["status"] for row in (await lead("list_agents"))["agents"]}
        assert states == {"team-lead": "running", "ann": "idle", "bob": "idle"}
        await lead("send_message", to="ann", message="SCRIPT:more", summary="go on")
        (more,) = [m for m in (await lead("read_messages", wait_seconds=20))["messages"] if m["type"] == "message"]
        assert more["text"] == "more"
        await lead("wait_idle")
        await lead("team_delete")
    lines = [json.loads(line)["event"] for line in program.transcript().read_text().splitlines()]
    assert not any(event["type"] in ("replied", "turn_ended") for event in lines)
    with sqlite3.connect(program.state / "state.db") as db:
        late = "SELECT count(*) FROM letters WHERE delivered_at IS NULL AND agent = (SELECT n FROM agents WHERE id = ?)"
        assert db.execute(late, (session_of(program),)).fetchone()[0] <= 1  # the notice about ann's last rest
    db.close()


async def test_tasks_are_shared(program: Program) -> None:
    async with serving(program, mode="legacy") as lead:
        await lead("team_create", team_name="crew")
        first = await lead("task_create", subject="Sweep the floor", description="all of it")
        second = await lead("task_create", subject="Wash up", description="cups", blockedBy=[first["taskId"]])
        await lead("teammate_spawn", name="ann", prompt="SCRIPT:more")
        assert (await lead("wait_idle"))["idle"] is True
        tasks = {t["id"]: t["status"] for t in (await lead("task_list"))["tasks"]}
        assert tasks == {first["taskId"]: "completed", second["taskId"]: "completed"}
        await lead("task_update", taskId=second["taskId"], status="deleted")
        assert [t["id"] for t in (await lead("task_list"))["tasks"]] == [first["taskId"]]


async def test_what_is_wrong_is_said_in_the_result(program: Program) -> None:
    (program.state).mkdir()
    (program.state / "settings.json").write_text(
        json.dumps({"permissions": {"deny": ["Agent(explore)", "TaskUpdate"]}})
    )
    async with serving(program) as lead:
        assert "task_update" not in {tool.name for tool in (await lead.client.list_tools()).tools}
        assert "no tool 'task_update'" in await lead.refused("task_update", taskId="1")
        assert "no tool 'Bash'" in await lead.refused("Bash", command="id")
        assert "There is no team yet" in await lead.refused("teammate_spawn", name="x", prompt="y")
        assert "There is no team to delete" in await lead.refused("team_delete")
        await lead("team_create", team_name="crew")
        assert "explore" in await lead.refused("teammate_spawn", name="x", prompt="y", agent_type="explore")
        assert "zz" in await lead.refused("teammate_spawn", name="x", prompt="y", agent_type="zz")
        assert "name is empty" in await lead.refused("teammate_spawn", name=" ", prompt="y")
        assert "do not fit" in await lead.refused("teammate_spawn", name="x")
        assert "do not fit" in await lead.refused("wait_idle", timeout_seconds=-1)
        assert "do not fit" in await lead.refused("read_messages", wait_seconds=1e9)
        assert "summary is required" in await lead.refused("send_message", to="*", message="x")
        assert (await lead("list_agents"))["agents"][0]["name"] == "team-lead"


async def test_a_team_outlives_its_client(program: Program) -> None:
    async with serving(program) as lead:
        await lead("team_create", team_name="crew")
        await lead("teammate_spawn", name="ann", prompt="SCRIPT:ann")
        await lead("wait_idle")
    id = session_of(program)
    async with serving(program, "--resume", id) as lead:
        messages = (await lead("read_messages", wait_seconds=20))["messages"]
        assert [m["text"] for m in messages if m["type"] == "message"] == ["I have \x1b[31mread <it>"]
        await lead("send_message", to="ann", message="SCRIPT:more", summary="go on")
        assert any(m.get("text") == "more" for m in (await lead("read_messages", wait_seconds=20))["messages"])
    with sqlite3.connect(program.state / "state.db") as db:
        rows = db.execute("SELECT count(*) FROM mail WHERE to_name = 'team-lead' AND text IS NULL AND delivered_at > 0")
        assert rows.fetchone()[0] >= 2  # what was read stays read
    db.close()


def test_what_is_no_message_is_passed_over_and_an_end_of_input_is_an_end(program: Program) -> None:
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    live = program.start("mcp", "serve", script=SCRIPTS, pipe=True)
    live.send(b"this is no JSON")
    live.send({"neither": "is this"})
    live.send(hello)
    answer = live.seen(id=1)
    assert answer["result"]["serverInfo"]["name"] == "teamwright"
    assert live.process.stdin
    live.process.stdin.close()
    assert live.process.wait(LIMIT) == 0, live.errors.read_text()


def test_a_signal_ends_it(program: Program) -> None:
    live = program.start("mcp", "serve", script=SCRIPTS, pipe=True)
    live.send({"jsonrpc": "2.0", "id": 7, "method": "nonsense"})
    live.seen(id=7)
    live.process.terminate()
    assert live.process.wait(LIMIT) == 143


def test_wrong_use(program: Program) -> None:
    assert "takes no arguments" in program.run("mcp", "serve", "team").err
    assert program.run("mcp", "serve", "--resume", "nobody", script=SCRIPTS).rc == 1
