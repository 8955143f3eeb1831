"""Supports servers that predate protected resource metadata (protocol 2025-03-26): they are their own authorisation
server, with any issuer name within their origin. The protocol package only accepts the origin itself."""

from urllib.parse import urlsplit

import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthMetadata
from pydantic import ValidationError

_WELL_KNOWN = "/.well-known/oauth-authorization-server"


async def legacy_issuer(context: OAuthContext, answer: httpx2.Response) -> tuple[httpx2.Response, OAuthMetadata] | None:
    """The answer with the expected issuer, and the real metadata; None if nothing needs to change.

    Only for metadata at the server's root whose issuer is within its own origin.
    """
    asked = answer.request.url
    if context.auth_server_url is not None or asked.path != _WELL_KNOWN or answer.status_code != 200:
        return None
    try:
        found = OAuthMetadata.model_validate_json(await answer.aread())
    except ValidationError:
        return None
    origin, issuer = urlsplit(context.server_url), urlsplit(str(found.issuer))
    if (origin.scheme, origin.netloc) != (issuer.scheme, issuer.netloc) or issuer.path in ("", "/"):
        return None
    told = found.model_dump(mode="json", exclude_none=True) | {"issuer": f"{origin.scheme}://{origin.netloc}"}
    return httpx2.Response(200, json=told, request=answer.request), found
