"""Connects the proxy to a host: resolves its name once and vets every address, or uses the person's own proxy."""

import base64
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from msgspec import Struct

from teamwright.core.errors import TeamwrightError
from teamwright.core.proxies import proxy_for
from teamwright.core.sandbox.hosts import LOCALHOST, is_address, with_port
from teamwright.core.text import shown
from teamwright.host.sandbox.connections.wire import Stream, dial
from teamwright.host.web.addresses import Address, Allowed, is_local_name, is_this_machine, literal

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

_LOOK_UP_SECONDS = 5.0
_MOST_LOOK_UPS = 8  # at a time: slow name servers must not use up everybody's threads
_seats = RunVar[anyio.CapacityLimiter]("look-ups of the sandbox's proxy")
_DIAL_SECONDS = 10.0
_PARENT_SECONDS = 30.0
_MOST_HEAD = 32_768
_LOOPBACK = ("127.0.0.1", "::1")


class Inward(TeamwrightError):
    """A name that leads back into this machine or its network."""


class Unreachable(TeamwrightError):
    """The host is allowed but unreachable; the text says why."""


class Parent(Struct, frozen=True):
    """The person's own proxy. `authorization` is the header it expects, if any."""

    host: str
    port: int
    authorization: str


async def look_up(host: str, port: int) -> Sequence[Address]:
    """Resolves with the system, in a thread. Raises OSError if there is no address."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    seats = _seats.get(None)
    if seats is None:
        _seats.set(seats := anyio.CapacityLimiter(_MOST_LOOK_UPS))
    try:
        rows = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=seats)
    except (UnicodeError, RuntimeError) as error:  # RuntimeError: no thread available
        raise OSError(str(error)) from None
    return [a for a in dict.fromkeys(literal(str(row[4][0])) for row in rows) if a is not None]


async def reach(host: str, port: int, resolve: Resolve, allowed: Allowed) -> Stream:
    """Connects to an allowed host. A host allowed as an address, or as `localhost`, is used as it is."""
    if host == LOCALHOST:
        return await _first(_LOOPBACK, host, port)
    if is_address(host):
        return await _first((host,), host, port)
    found = await _resolved(host, port, resolve)
    if not all(allowed(address) for address in found):
        raise Inward
    return await _first([str(address) for address in found], host, port)


async def reach_parent(parent: Parent, resolve: Resolve) -> Stream:
    if is_address(parent.host):
        return await _first((parent.host,), parent.host, parent.port)
    found = await _resolved(parent.host, parent.port, resolve)
    return await _first([str(address) for address in found], parent.host, parent.port)


async def tunnel_through(parent: Parent, host: str, port: int, resolve: Resolve) -> tuple[Stream, bytes]:
    """A tunnel through the parent, and any data it sent after its answer."""
    wire = await reach_parent(parent, resolve)
    target = with_port(host, port)
    told = f"Proxy-Authorization: {parent.authorization}\r\n" if parent.authorization else ""
    try:
        with anyio.fail_after(_PARENT_SECONDS):
            await wire.send(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{told}\r\n".encode())
            answer, rest = await _answer(wire)
    except BaseException as error:
        wire.close()
        if isinstance(error, OSError):
            raise Unreachable(f"the parent proxy at {with_port(parent.host, parent.port)} does not answer") from None
        raise
    status = answer.partition(b"\r\n")[0].split(b" ", 2)
    if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].startswith(b"2"):
        wire.close()
        said = shown(b" ".join(status[1:]).decode("latin-1"), 100) or "something else than HTTP"
        raise Unreachable(f"the parent proxy at {with_port(parent.host, parent.port)} answered {said}")
    return wire, rest


def parent_for(host: str, port: int, env: Mapping[str, str], *, secure: bool) -> Parent | None:
    """The proxy that the person's environment sets for this host. Raises Inward for local names, because nobody vets
    what the proxy resolves."""
    if is_this_machine(host):
        return None
    unusable = "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not an `http://host:port`"
    try:
        named = proxy_for("https" if secure else "http", host, port, env)
    except ValueError:
        raise Unreachable(unusable) from None
    if named is None:
        return None
    if not is_address(host) and is_local_name(host):
        raise Inward
    from yarl import URL  # noqa: PLC0415

    try:
        address = URL(named)
        if address.scheme != "http" or not address.host or not address.port:
            raise ValueError
    except ValueError:
        raise Unreachable(unusable) from None
    return Parent(address.host, address.port, _basic(address.user, address.password))


def _basic(user: str | None, password: str | None) -> str:
    if user is None and password is None:
        return ""
    return "Basic " + base64.b64encode(f"{user or ''}:{password or ''}".encode()).decode()


async def _resolved(host: str, port: int, resolve: Resolve) -> Sequence[Address]:
    try:
        with anyio.fail_after(_LOOK_UP_SECONDS):
            found = await resolve(host, port)
    except TimeoutError:
        raise Unreachable(f"the name {host} could not be looked up within {_LOOK_UP_SECONDS:g} seconds") from None
    except OSError as error:
        raise Unreachable(f"there is no address for {host}: {shown(error.strerror or str(error))}") from None
    if not found:
        raise Unreachable(f"there is no address for {host}")
    return found


async def _first(addresses: Sequence[str], host: str, port: int) -> Stream:
    """Connects to the first address that answers; all share one time limit."""
    why: OSError = ConnectionRefusedError(0, "nobody answers")
    for address in addresses:
        try:
            return await dial(address, port, _DIAL_SECONDS / len(addresses))
        except OSError as error:
            why = error
    said = "no answer in time" if isinstance(why, TimeoutError) else why.strerror
    raise Unreachable(f"{with_port(host, port)} cannot be reached: {said}")


async def _answer(wire: Stream) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = await wire.receive()
        if not piece or len(data) > _MOST_HEAD:
            raise ConnectionResetError("no answer")
        data += piece
    answer, _, rest = data.partition(b"\r\n\r\n")
    return answer, rest
