"""Servers that would lead a sign-in astray: to plain addresses, to this machine, or without PKCE."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthMetadata

from teamwright.host.mcp.oauth import new_login
from teamwright.host.mcp.oauth_places import check_place, check_proof

pytestmark = pytest.mark.spec("D8")
FAR, NEAR, LAN = "https://tools.example/mcp", "http://127.0.0.1:4000/mcp", "http://tools.lan/mcp"


@pytest.mark.parametrize(
    ("server", "address"),
    [
        (FAR, "https://login.example/token"),
        (FAR, "https://127.0.0.1/token"),
        (NEAR, "http://127.0.0.1:4001/token"),
        (NEAR, "http://localhost:4001/token"),
        (NEAR, "http://[::1]:4001/token"),
        (LAN, "http://tools.lan:80/token"),
    ],
)
def test_where_it_may_lead(server: str, address: str) -> None:
    check_place(server, address)


@pytest.mark.parametrize(
    ("server", "address"),
    [
        (FAR, "http://tools.example/token"),
        (FAR, "http://127.0.0.1:2375/containers/create"),
        (FAR, "http://localhost:8080/"),
        (FAR, "http://169.254.169.254/latest/meta-data"),
        (LAN, "http://127.0.0.1/token"),
        (LAN, "http://tools.lan:81/token"),
        (NEAR, "http://login.example/token"),
        (NEAR, "http://127.0.0.1.evil.example/token"),
        (FAR, "file:///etc/passwd"),
        (FAR, "javascript:alert(1)"),
        (FAR, "https://"),
        (FAR, "http://[::1"),
        (FAR, "https://login.example:port/"),
    ],
)
def test_where_it_may_not_lead(server: str, address: str) -> None:
    with pytest.raises(OAuthFlowError, match="sends us to"):
        check_place(server, address)


def metadata(**more: Any) -> OAuthMetadata:
    base = {"issuer": FAR, "authorization_endpoint": f"{FAR}/a", "token_endpoint": f"{FAR}/t"}
    return OAuthMetadata.model_validate(base | {"response_types_supported": ["code"]} | more)


def test_a_server_that_does_not_say_that_it_has_pkce_is_refused() -> None:
    for found in (metadata(), *(metadata(code_challenge_methods_supported=kinds) for kinds in (["plain"], []))):
        with pytest.raises(OAuthFlowError, match="PKCE"):
            check_proof(found)
    for found in (None, metadata(code_challenge_methods_supported=["plain", "S256"])):  # None: it has no metadata
        check_proof(found)


@pytest.mark.anyio
async def test_a_far_server_cannot_have_us_knock_at_this_machine(tmp_path: Path) -> None:
    """Its answer names a port of this machine: nothing is sent there, and the person is told why."""
    asked: list[bytes] = []
    why: list[str] = []

    async def answer(stream: SocketStream) -> None:
        async with stream:
            asked.append((await stream.receive()).split(b"\r\n")[0])
            where = b'www-authenticate: Bearer resource_metadata="http://127.0.0.1:2375/containers"'
            head = (b"HTTP/1.1 401 Unauthorized", where, b"content-length: 0", b"connection: close")
            await stream.send(b"\r\n".join((*head, b"", b"")))

    async def show(address: str) -> None:
        raise AssertionError(address)

    proxy = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port: int = proxy.extra(SocketAttribute.local_port)
    async with proxy, anyio.create_task_group() as group, new_login(tmp_path, LAN, show, why.append) as login:
        group.start_soon(proxy.serve, answer)
        async with httpx2.AsyncClient(proxy=f"http://127.0.0.1:{port}", auth=login) as client:
            with anyio.fail_after(30), pytest.raises(OAuthFlowError, match="not encrypted"):
                await client.post(LAN)
        group.cancel_scope.cancel()
    assert asked == [f"POST {LAN} HTTP/1.1".encode()] and "127.0.0.1:2375" in why[0]
    assert not list(tmp_path.iterdir())
