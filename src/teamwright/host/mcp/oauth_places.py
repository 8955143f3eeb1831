"""Checks the addresses used in a sign-in: they come from the server, which may not be trustworthy."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthMetadata

from teamwright.core.text import shown


def check_place(server: str, address: str) -> None:
    """Raises OAuthFlowError for an address that is neither encrypted nor on the server's own origin.

    Otherwise a remote server could have tokens sent unencrypted, or make us contact programs on this machine. A server
    on this machine may use other local addresses.
    """
    place = _split(address)
    if place is None or place.scheme not in ("http", "https") or not place.hostname:
        raise OAuthFlowError(f"the server sends us to {shown(address)}, which is not a web address")
    if place.scheme == "https":
        return
    home = urlsplit(server)
    same = (home.scheme, home.hostname, _port(home)) == (place.scheme, place.hostname, _port(place))
    if not same and not (_is_here(home) and _is_here(place)):
        raise OAuthFlowError(f"the server sends us to {shown(address)}, which is not encrypted (https)")


def check_proof(server: OAuthMetadata | None) -> None:
    """Raises OAuthFlowError if the server does not announce that it verifies code requests (PKCE with S256).

    The specification requires refusing servers whose metadata omits it. A server without any metadata predates that
    requirement and is accepted.
    """
    if server is None:
        return
    known = server.code_challenge_methods_supported
    if known is None:
        raise OAuthFlowError(
            "the metadata of the authorisation server does not name PKCE (code_challenge_methods_supported), "
            "so a code could be stolen; its operator must add S256"
        )
    if "S256" not in known:
        raise OAuthFlowError("the authorisation server does not support PKCE with S256, so a code could be stolen")


def _split(address: str) -> SplitResult | None:
    try:
        found = urlsplit(address)
        _port(found)
    except ValueError:
        return None
    return found


def _port(place: SplitResult) -> int:
    return place.port or (443 if place.scheme == "https" else 80)


def _is_here(place: SplitResult) -> bool:
    name = place.hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
