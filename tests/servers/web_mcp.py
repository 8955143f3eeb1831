"""An MCP server of the official package over HTTP: `web_mcp.py http|sse [token]`; prints its port."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

kind, *rest = sys.argv[1:]
server = MCPServer("web")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
async def header(name: str, ctx: Context) -> str:
    """A header of this request."""
    request = ctx.request_context.request
    assert isinstance(request, Request)
    return request.headers.get(name, "(none)")


@server.tool()
def huge() -> str:
    """More than anybody wants."""
    return "x" * (20 << 20)


@server.resource("note://today")
def note() -> str:
    """A note."""
    return "buy milk"


inner = server.streamable_http_app() if kind == "http" else server.sse_app()


async def app(scope, receive, send):
    if scope["type"] == "http" and rest:
        given = dict(scope["headers"]).get(b"authorization", b"").decode()
        if given != f"Bearer {rest[0]}":
            await JSONResponse({"error": "unauthorized"}, 401)(scope, receive, send)
            return
    if scope.get("path") == "/moved":
        await Response(status_code=307, headers={"location": "http://127.0.0.2:9/mcp"})(scope, receive, send)
        return
    await inner(scope, receive, send)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)).run([listener])
