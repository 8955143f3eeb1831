"""An MCP server with its own authorisation server: `auth_mcp.py LOG SECONDS`; prints its port.

It agrees to everything at once, checks PKCE, gives out each code and each refresh token once, and writes to LOG.
If a file `more` is beside LOG, it demands the scope `more` from whoever calls a tool.
"""

import base64
import hashlib
import json
import secrets
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

log, seconds = Path(sys.argv[1]), int(sys.argv[2])
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
BASE = f"http://127.0.0.1:{port}"
METADATA = f"{BASE}/.well-known/oauth-protected-resource/mcp"
server = MCPServer("guarded")
clients: dict[str, list[str]] = {}
codes: dict[str, dict[str, str]] = {}
tokens: dict[str, float] = {}
scopes: dict[str, str] = {}
refreshes: set[str] = set()


def note(*words: object) -> None:
    with log.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def resource(_: Request) -> JSONResponse:
    return JSONResponse({"resource": f"{BASE}/mcp", "authorization_servers": [f"{BASE}/login"]})


async def metadata(_: Request) -> JSONResponse:
    return JSONResponse({
        "issuer": f"{BASE}/login", "authorization_endpoint": f"{BASE}/login/authorize",
        "token_endpoint": f"{BASE}/login/token", "registration_endpoint": f"{BASE}/login/register",
        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })  # fmt: skip


async def register(request: Request) -> JSONResponse:
    asked = await request.json()
    id = secrets.token_hex(8)
    clients[id] = asked["redirect_uris"]
    note("register", json.dumps(asked["redirect_uris"]))
    return JSONResponse(asked | {"client_id": id}, 201)


async def authorize(request: Request) -> RedirectResponse:
    asked = dict(request.query_params)
    assert asked["redirect_uri"] in clients[asked["client_id"]] and asked["code_challenge_method"] == "S256"
    if (log.parent / "refuse").exists():
        answer = {"error": "access_denied", "error_description": "not \x1b[31mtoday", "state": asked["state"]}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}")
    code = secrets.token_hex(8)
    codes[code] = asked
    state = "forged" if (log.parent / "forge").exists() else asked["state"]
    return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': state})}")


async def token(request: Request) -> JSONResponse:
    form = dict(await request.form())
    note("token", form["grant_type"])
    scope = ""
    if form["grant_type"] == "authorization_code":
        asked = codes.pop(form["code"], None)
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if asked is None or digest != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        scope = asked.get("scope", "")
    elif form["refresh_token"] not in refreshes:
        return JSONResponse({"error": "invalid_grant"}, 400)
    else:
        refreshes.discard(form["refresh_token"])
    access, refresh = secrets.token_hex(8), secrets.token_hex(8)
    tokens[access], scopes[access] = time.time() + seconds, scope
    refreshes.add(refresh)
    given = {"access_token": access, "token_type": "Bearer", "expires_in": seconds, "refresh_token": refresh}
    return JSONResponse(given)


login = Starlette(routes=[
    Route("/.well-known/oauth-protected-resource/mcp", resource),
    Route("/.well-known/oauth-authorization-server/login", metadata),
    Route("/login/register", register, methods=["POST"]),
    Route("/login/authorize", authorize),
    Route("/login/token", token, methods=["POST"]),
])  # fmt: skip
inner = server.streamable_http_app()


async def app(scope, receive, send):
    if scope["type"] == "http" and scope["path"] != "/mcp":
        await login(scope, receive, send)
        return
    if scope["type"] == "http":
        given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if tokens.get(given, 0) < time.time() or (log.parent / "closed").exists():
            where = f'Bearer resource_metadata="{METADATA}"'
            await JSONResponse({"error": "unauthorized"}, 401, {"www-authenticate": where})(scope, receive, send)
            return
        if (log.parent / "more").exists() and "more" not in scopes[given].split() and scope["method"] == "POST":
            where = f'Bearer error="insufficient_scope", scope="more", resource_metadata="{METADATA}"'
            await JSONResponse({"error": "forbidden"}, 403, {"www-authenticate": where})(scope, receive, send)
            return
    await inner(scope, receive, send)


print(port, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)).run([listener])
