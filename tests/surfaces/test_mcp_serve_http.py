"""`teamwright mcp serve --http`: the same server at an address, and who may connect."""

import json
import re
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from program import LIMIT, Live, Program, bash, tool

TOKEN = "a-token-of-forty-characters-or-even-more"
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
KINDS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
SCRIPTS = {
    "ann": [tool("SendMessage", to="team-lead", message="I have read it", summary="the report"), "resting"],
    "env": [bash("env > env.txt"), "resting"],
}


def begin(program: Program, *args: str, **env: str) -> tuple[Live, dict[str, Any]]:
    serve = ("mcp", "serve", "--http", "--port", "0", "--json", "--teammate-mode", "in-process")
    live = program.start(*serve, *args, script=SCRIPTS, env=env)
    return live, live.wait_for(lambda line: "url" in line)


def post(url: str, headers: Mapping[str, str], body: bytes | None = None, path: str = "/mcp") -> tuple[int, str]:
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/mcp", url)
    assert found
    there = HTTPConnection("127.0.0.1", int(found[1]), timeout=LIMIT)
    there.request("POST", path, json.dumps(HELLO).encode() if body is None else body, dict(KINDS) | dict(headers))
    answer = there.getresponse()
    text = answer.read().decode()
    there.close()
    return answer.status, text


@asynccontextmanager
async def leading(url: str, token: str, mode: str) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=LIMIT) as web,
        Client(streamable_http_client(url, http_client=web), mode=mode, read_timeout_seconds=LIMIT) as client,
    ):
        yield client


@pytest.mark.spec("MS1")
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_lead_the_same_team_one_after_the_other(program: Program, mode: str) -> None:
    live, told = begin(program)
    with anyio.fail_after(LIMIT):
        async with leading(told["url"], told["token"], mode) as client:
            assert "teammate_spawn" in {tool.name for tool in (await client.list_tools()).tools}
            await client.call_tool("team_create", {"team_name": "crew"})
            await client.call_tool("teammate_spawn", {"name": "ann", "prompt": "SCRIPT:ann"})
            idle = await client.call_tool("wait_idle", {"timeout_seconds": 30})
            assert idle.structured_content and idle.structured_content["idle"] is True
        async with leading(told["url"], told["token"], mode) as client:
            read = await client.call_tool("read_messages", {"wait_seconds": 20})
            assert read.structured_content
            assert [m["text"] for m in read.structured_content["messages"] if m["type"] == "message"] == [
                "I have read it"
            ]
    live.process.terminate()
    assert live.process.wait(LIMIT) == 143, live.errors.read_text()
    assert "Traceback" not in live.errors.read_text() and told["token"] not in live.errors.read_text()


@pytest.mark.spec("MS2")
def test_only_the_token_opens_and_no_page_of_another_site_gets_in(program: Program) -> None:
    live, told = begin(program, TEAMWRIGHT_MCP_TOKEN=TOKEN)
    assert "token" not in told  # known to whoever gave it
    url, key = told["url"], {"Authorization": f"Bearer {TOKEN}"}
    port = url.split(":")[2].partition("/")[0]
    assert post(url, key)[0] == 200
    assert post(url, key | {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"})[0] == 200
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}):
        status, words = post(url, headers)
        assert status == 401 and "Authorization: Bearer" in words
    strangers = [
        {"Host": f"evil.example:{port}"},
        {"Host": f"127.0.0.1.evil.example:{port}"},
        {"Host": f"127.0.0.1:{int(port) + 1}"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ]
    for headers in strangers:  # before the token is checked, even with the right one
        assert post(url, headers)[0] == post(url, key | headers)[0] == 403, headers
    assert post(url, key, path="/")[0] == 404 and post(url, {}, path="/")[0] == 401
    assert post(url, key, b"{}" + b" " * (17 << 20))[0] == 413
    live.process.terminate()
    assert live.process.wait(LIMIT) == 143 and "Traceback" not in live.errors.read_text()


@pytest.mark.spec("MS2")
@pytest.mark.anyio
async def test_agents_do_not_have_the_token(program: Program) -> None:
    live, told = begin(program, "--permission-mode", "bypassPermissions", TEAMWRIGHT_MCP_TOKEN=TOKEN)
    with anyio.fail_after(LIMIT):
        async with leading(told["url"], TOKEN, "auto") as client:
            await client.call_tool("team_create", {"team_name": "crew"})
            await client.call_tool("teammate_spawn", {"name": "ann", "prompt": "SCRIPT:env"})
            await client.call_tool("wait_idle", {"timeout_seconds": 30})
    seen = (program.project / "env.txt").read_text()
    assert "PATH=" in seen and TOKEN not in seen
    live.process.terminate()
    live.process.wait(LIMIT)


@pytest.mark.spec("MS1")
@pytest.mark.anyio
async def test_a_signal_ends_it_in_the_middle_of_a_call(program: Program) -> None:
    live, told = begin(program)
    with anyio.fail_after(LIMIT):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {told['token']}"} | KINDS) as web:
            hello = await web.post(told["url"], json=HELLO)
            session = {"Mcp-Session-Id": hello.headers["Mcp-Session-Id"]}
            call = {"name": "read_messages", "arguments": {"wait_seconds": 600}}
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
            async with web.stream("POST", told["url"], json=body, headers=session) as waiting:
                assert waiting.status_code == 200
                live.process.terminate()
                assert await anyio.to_thread.run_sync(live.process.wait, 8) == 143
    assert "Traceback" not in live.errors.read_text()


@pytest.mark.spec("MS1")
def test_wrong_uses_are_named(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = program.run("mcp", "serve", "--http", "--port", port, script=SCRIPTS)
        assert ran.rc == 2 and f"port {port} cannot be listened on" in ran.err
    assert "--port needs --http" in program.run("mcp", "serve", "--port", "1", script=SCRIPTS).err
    short = program.run("mcp", "serve", "--http", "--port", "0", script=SCRIPTS, env={"TEAMWRIGHT_MCP_TOKEN": "short"})
    assert short.rc == 2 and "20 to 512 characters" in short.err
    assert program.run("mcp", "serve", "--http", "--port", "70000", script=SCRIPTS).rc == 2
