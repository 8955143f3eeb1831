"""Hosts that sandboxed programs may reach: parses entries from settings and names from requests."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

from msgspec import Struct

from teamwright.core.permissions.rules import spellings

HostVerdict = Literal["yes", "no", "ask"]

WEB_PORTS = (80, 443)  # for an allowed entry without a port
LOCALHOST = "localhost"
_LOOPBACK = (LOCALHOST, "127.0.0.1", "::1")
_NAME = re.compile(r"[a-z0-9._-]{1,253}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # as the last label: systems read the whole name as an address
_PORT = re.compile(r"[1-9][0-9]{0,4}")


class Hosts(Struct, frozen=True):
    """`ask`: hosts that are neither allowed nor denied are put to a person; otherwise they are refused."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    ask: bool = False


class HostEntry(Struct, frozen=True):
    """One entry. `names` are spellings of one name; empty means every host. `below`: it means names below it."""

    names: tuple[str, ...]
    below: bool
    port: int | None


def host_verdict(hosts: Hosts, host: str, port: int) -> HostVerdict:
    """Denied beats allowed beats asked. A host without a canonical form is never reached."""
    name = canonical_host(host)
    if name is None or not 0 < port <= 65_535:
        return "no"
    if any(_denies(entry, name, port) for entry in _read(hosts.denied, wide=True)):
        return "no"
    if any(_allows(entry, name, port) for entry in _read(hosts.allowed, wide=False)):
        return "yes"
    return "ask" if hosts.ask else "no"


def canonical_host(text: str) -> str | None:
    """The canonical spelling of a host: a lower-case name without its final dot, or an address in its usual form.

    None for anything that two programs could read differently: other forms of addresses (`127.1`, `0x7f000001`, mapped
    ones), and names with empty labels or characters other than `a-z0-9._-`. IPv6 addresses have no brackets here.
    """
    lowered = text.lower()
    if ":" in lowered:
        return lowered if _is_canonical(lowered) else None
    name = lowered.removesuffix(".")
    if not text.isascii() or not _NAME.fullmatch(name) or not all(name.split(".")):
        return None
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return lowered if _is_canonical(lowered) else None
    return name


def read_entry(text: str, *, wide: bool = False) -> HostEntry | None:
    """Parses `x`, `*.x`, either with `:port`, or `[v6]:port`; None for anything else.

    `wide` is for denials: `*` is allowed and a URL is reduced to its host, so that whatever was meant to be denied is.
    """
    entry = text.strip()
    if wide:
        entry = entry.rpartition("://")[2].partition("/")[0]
    if wide and entry == "*":
        return HostEntry((), below=True, port=None)
    host, port = _split_port(entry)
    if port == 0:
        return None
    below = host.startswith("*.")
    written = host.removeprefix("*.")
    known = {canonical_host(name) for name in spellings(written, wide=wide)} if written else {None}
    names = tuple(sorted(name for name in known if name is not None))
    if not names or (below and any(is_address(name) for name in names)):
        return None
    return HostEntry(names, below, port)


def forwarded_ports(hosts: Hosts) -> tuple[int, ...]:
    """Local ports that are allowed by number. They are reachable at the same port of a box's own loopback."""
    entries = _read(hosts.allowed, wide=False)
    named = {(name, entry.port) for entry in entries for name in entry.names if name in _LOOPBACK and not entry.below}
    open_ports = {port for name, port in named if port is not None and host_verdict(hosts, name, port) == "yes"}
    return tuple(sorted(open_ports))


def is_address(host: str) -> bool:
    """Is this canonical host an address rather than a name?"""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def with_port(host: str, port: int) -> str:
    """Host and port as in URLs and headers: `example.com:443`, `[2001:db8::1]:443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_target(text: str, default: int | None = None) -> tuple[str, int] | None:
    """Canonical host and port of a `host:port` in a request; None if it is anything else."""
    if text.startswith("["):
        inside, closed, rest = text[1:].partition("]")
        host = canonical_host(inside) if closed and ":" in inside else None
    else:
        inside, colon, after = text.partition(":")
        host, rest = canonical_host(inside), colon + after
    port = default if rest == "" else _port(rest[1:]) if rest[0] == ":" else None
    return None if host is None or port is None else (host, port)


def _read(texts: Iterable[str], *, wide: bool) -> list[HostEntry]:
    return [entry for text in texts if (entry := _cached(text, wide)) is not None]


@lru_cache(1024)
def _cached(text: str, wide: bool) -> HostEntry | None:  # noqa: FBT001 -- a key of the cache
    return read_entry(text, wide=wide)


def _allows(entry: HostEntry, host: str, port: int) -> bool:
    if port != entry.port and (entry.port is not None or port not in WEB_PORTS):
        return False
    if entry.below:
        return any(host.endswith(f".{name}") for name in entry.names)
    return host in entry.names


def _denies(entry: HostEntry, host: str, port: int) -> bool:
    """Matches more than an allowed entry would: no port means every port, and a name includes its subdomains."""
    if entry.port not in (None, port):
        return False
    return not entry.names or any(host == name or host.endswith(f".{name}") for name in entry.names)


def _split_port(entry: str) -> tuple[str, int | None]:
    """(host, port): None without a port, 0 for an unreadable one. An IPv6 address loses its brackets."""
    if entry.startswith("["):
        inside, closed, rest = entry[1:].partition("]")
        if not closed or ":" not in inside or (rest and not rest.startswith(":")):
            return "", 0
        return inside, (_port(rest[1:]) or 0) if rest else None
    if entry.count(":") > 1:
        return entry, None
    host, colon, port = entry.partition(":")
    return host, (_port(port) or 0) if colon else None


def _port(text: str) -> int | None:
    return int(text) if _PORT.fullmatch(text) and int(text) <= 65_535 else None


def _is_canonical(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return str(address) == text
    return _plain_6(address) and str(address) == text


def _plain_6(address: IPv6Address) -> bool:
    return address.ipv4_mapped is None and address.scope_id is None
