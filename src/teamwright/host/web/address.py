"""Parses a web address in the form in which it will be connected to, for both the judge and the fetch."""

from ipaddress import IPv6Address

from yarl import URL

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.web.addresses import literal

MOST_URL = 2_000  # characters as sent; also keeps addresses from carrying data out


def parse_address(url: str) -> URL:
    """The parsed address; refused if two programs could read it differently."""
    if len(url) > MOST_URL:
        raise _too_long(len(url))
    if not url.isprintable() or any(c in url for c in ' \\<>"^`{|}'):
        raise ToolError(f"{shown(url)} is not a plain URL: it holds spaces or characters to encode.")
    try:
        parsed = URL(url)
        host, _ = parsed.host, parsed.port  # both may raise
    except ValueError as error:
        raise ToolError(f"{shown(url)} is not a valid URL: {shown(str(error))}.") from None
    if parsed.scheme not in ("http", "https") or not host:
        raise ToolError(f"{shown(url)}: only http:// and https:// URLs can be fetched.")
    _check_authority(url, parsed)
    parsed = parsed.with_fragment(None)
    if len(str(parsed)) > MOST_URL:  # a non-ASCII letter takes up to twelve characters
        raise _too_long(len(str(parsed)))
    return parsed


def _check_authority(url: str, parsed: URL) -> None:
    if parsed.user is not None or parsed.password is not None or "@" in parsed.authority:
        raise ToolError("URLs with a user name or password are not fetched. Leave it out.")
    host = parsed.raw_host or ""
    if "%" in host or not all(host.removesuffix(".").split(".")):
        raise ToolError(f"{shown(url)} has a host that is not a plain name: write it without `%` and empty parts.")


def _too_long(length: int) -> ToolError:
    return ToolError(
        f"The URL has {length:,} characters, and at most {MOST_URL:,} are taken. Leave out what the page does not need."
    )


def host_named(url: str) -> str:
    """The host of anything given as an address, even if it is not fetched; empty if there is none."""
    try:
        return host_of(URL(url[:MOST_URL]))
    except ValueError:
        return ""


def host_of(url: URL) -> str:
    """The host in canonical form: ASCII, lower case, no final dot; a number in any notation becomes an address."""
    host = (url.raw_host or "").lower().rstrip(".")
    address = literal(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return host if address is None else str(address)
