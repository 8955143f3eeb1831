"""MCP servers behind a URL: the official package's own servers on loopback."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp_shop import Shop, words

from teamwright.core.data.extensions.server import Http, Sdk, ServerConfig, Sse
from teamwright.core.data.message import Text
from teamwright.core.errors import ToolError
from teamwright.host.mcp.connect import McpContext

WEB = Path(__file__).parent.parent / "servers" / "web_mcp.py"


class Site:
    def __init__(self, *args: str) -> None:
        self.args = args
        self.process = subprocess.Popen([sys.executable, str(WEB), *args], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def http_site() -> Iterator[Site]:
    site = Site("http", "sesame")
    yield site
    site.stop()


@pytest.fixture(scope="module")
def sse_site() -> Iterator[Site]:
    site = Site("sse")
    yield site
    site.stop()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


KEY = {"Authorization": "Bearer sesame", "X-Team": "blue"}


@pytest.mark.spec("D8")
async def test_streamable_http_with_headers(shop: Shop, http_site: Site) -> None:
    async with shop.open(ServerConfig("web", Http(http_site.url("mcp"), KEY))) as pool:
        assert pool.states()[0].status == "connected"
        outcome = await shop.call(pool, "mcp__web__add", a=2, b=3)
        assert words(outcome) == "5" and outcome.data == {"structuredContent": {"result": 5}}
        assert words(await shop.call(pool, "mcp__web__header", name="x-team")) == "blue"
        assert (await pool.resource("web:note://today")).parts == (Text("buy milk"),)
        with pytest.raises(ToolError, match="a\n"):
            await shop.call(pool, "mcp__web__add", a="not a number", b=1)


@pytest.mark.spec("D8")
async def test_server_sent_events(shop: Shop, sse_site: Site) -> None:
    async with shop.open(ServerConfig("old", Sse(sse_site.url("sse")))) as pool:
        assert words(await shop.call(pool, "mcp__old__add", a=2, b=3)) == "5"


@pytest.mark.spec("D8")
async def test_web_servers_that_cannot_be_had(shop: Shop, http_site: Site) -> None:
    configs = (
        ServerConfig("locked", Http(http_site.url("mcp"))),
        ServerConfig("nobody", Http("http://127.0.0.1:9/mcp")),
        ServerConfig("nobody-old", Sse("http://127.0.0.1:9/sse")),
        ServerConfig("elsewhere", Http(http_site.url("nothing-here"), KEY)),
        ServerConfig("moved", Http(http_site.url("moved"), KEY)),
        ServerConfig("embedded", Sdk()),
    )
    async with shop.open(*configs) as pool:
        states = {s.name: s for s in pool.states()}
        assert states["locked"].status == "needs-auth"
        assert {s.status for n, s in states.items() if n != "locked"} == {"failed"}
        assert "404" in states["elsewhere"].error and "127.0.0.2" in states["moved"].error
        assert not pool.tools()


@pytest.mark.spec("D8", "A5")
async def test_an_answer_that_is_too_large_is_an_error(shop: Shop, http_site: Site) -> None:
    async with shop.open(ServerConfig("web", Http(http_site.url("mcp"), KEY))) as pool:
        with pytest.raises(ToolError):
            await shop.call(pool, "mcp__web__huge")
        assert words(await shop.call(pool, "mcp__web__add", a=1, b=1)) == "2"


@pytest.mark.spec("D8")
async def test_a_web_server_that_goes_away(shop: Shop) -> None:
    site = await anyio.to_thread.run_sync(Site, "http")
    async with shop.open(ServerConfig("web", Http(site.url("mcp"))), connect=2) as pool:
        add = pool.tools()["mcp__web__add"]
        await anyio.to_thread.run_sync(site.stop)
        for _ in range(2):
            with pytest.raises(ToolError, match="web"):
                await add.call({"a": 1, "b": 1}, shop.context())


@pytest.mark.spec("D8")
async def test_a_server_inside_the_program_that_drives_us(shop: Shop) -> None:
    """The seam for `mcp_message`: each message is exchanged for its answer."""
    from teamwright.runtime.extensions.mcp_pool import ServerPool
    from teamwright.tools.mcp import McpTool

    seen: list[str] = []

    async def exchange(server: str, message: dict) -> dict | None:
        seen.append(f"{server} {message['method']}")
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "inner", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": "hi", "description": "Greets.", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                if message["params"]["arguments"].get("bad"):
                    raise ToolError("the callback failed")
                result = {"content": [{"type": "text", "text": "hello"}]}
            case _:
                return None
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    around = McpContext(env={}, cwd=shop.root, connect_seconds=20, call_seconds=20, exchange=exchange)
    pool = ServerPool({"inner": ServerConfig("inner", Sdk())}, McpTool, around, log=shop.logged.append)
    async with anyio.create_task_group() as group:
        pool.start(group)
        await pool.ready(20)
        assert words(await shop.call(pool, "mcp__inner__hi")) == "hello"
        with pytest.raises(ToolError, match="the callback failed"):
            await shop.call(pool, "mcp__inner__hi", bad=True)
        await pool.close()
    assert seen[:3] == ["inner initialize", "inner notifications/initialized", "inner tools/list"]
