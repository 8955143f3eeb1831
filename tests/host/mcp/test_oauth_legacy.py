"""Older MCP servers, without resource metadata, that are their own authorisation server."""

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from teamwright.host.mcp.oauth_legacy import legacy_issuer

SERVER = "http://127.0.0.1:9/mcp"
WELL_KNOWN = "http://127.0.0.1:9/.well-known/oauth-authorization-server"


def provider() -> OAuthClientProvider:
    client = OAuthClientMetadata(client_name="x", redirect_uris=[AnyUrl("http://127.0.0.1/callback")])
    return OAuthClientProvider(SERVER, client, None)  # type: ignore[arg-type]


def answer(issuer: str, url: str = WELL_KNOWN) -> httpx2.Response:
    told = {
        "issuer": issuer,
        "authorization_endpoint": "http://127.0.0.1:9/a",
        "token_endpoint": "http://127.0.0.1:9/t",
        "response_types_supported": ["code"],
    }
    return httpx2.Response(200, json=told, request=httpx2.Request("GET", url))


@pytest.mark.spec("D8")
@pytest.mark.anyio
async def test_an_issuer_within_the_servers_own_origin_is_accepted() -> None:
    found = await legacy_issuer(provider().context, answer("http://127.0.0.1:9/oauth"))
    assert found is not None and found[0].json()["issuer"] == "http://127.0.0.1:9"
    assert str(found[1].issuer) == "http://127.0.0.1:9/oauth"


@pytest.mark.spec("D8")
@pytest.mark.anyio
async def test_nothing_else_is_touched() -> None:
    context = provider().context
    assert await legacy_issuer(context, answer("http://evil.example/oauth")) is None
    assert await legacy_issuer(context, answer("http://127.0.0.1:9/")) is None
    assert await legacy_issuer(context, answer("http://127.0.0.1:9/oauth", f"{WELL_KNOWN}/other")) is None
    context.auth_server_url = "http://127.0.0.1:9/oauth"
    assert await legacy_issuer(context, answer("http://127.0.0.1:9/oauth")) is None
