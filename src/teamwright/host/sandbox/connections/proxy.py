"""The HTTP proxy of one root: the only way from its boxes to other hosts. It tunnels and does not decrypt TLS.

To tell boxes apart, each gets a token in its proxy address, which clients send as credentials. Other boxes cannot read
it, because each has its own process namespace. A client without a token is attributed to the only box, if there is just
one. If there are several, it reaches only what all may reach, and is otherwise told to identify itself.
"""

import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import anyio
from msgspec import Struct, field

from teamwright.core.sandbox.hosts import HostVerdict
from teamwright.host.sandbox.connections.accepting import Room, accept_all
from teamwright.host.sandbox.connections.answers import UNNAMED, inward, not_allowed, say
from teamwright.host.sandbox.connections.passing import join, pass_on
from teamwright.host.sandbox.connections.relay import Flow, Relay
from teamwright.host.sandbox.connections.request_body import Buffered, send_body
from teamwright.host.sandbox.connections.request_head import RequestHead, onward, parse_head
from teamwright.host.sandbox.connections.upstream import (
    Inward,
    Resolve,
    Unreachable,
    look_up,
    parent_for,
    reach,
    reach_parent,
    tunnel_through,
)
from teamwright.host.sandbox.connections.wire import Silence, Stream
from teamwright.host.web.addresses import Allowed, is_public

Decide = Callable[[str, str, int], Awaitable[HostVerdict]]  # (call, host, port); may ask a person
USER = "box"  # user name in the credentials; the token is the password


class RefusedHost(Struct, frozen=True):
    """A host that was not reached. `call` is empty if the box is unknown."""

    call: str
    host: str
    port: int
    why: Literal["host", "address"]  # not allowed; or allowed, but it leads back into this machine or its network


class ProxyLimits(Struct, frozen=True):
    connections: int = 256
    head_bytes: int = 32_768
    head_seconds: float = 10.0
    verdict_seconds: float = 65.0  # a person has 60 seconds to answer
    silence_seconds: float = 600.0


class ProxyRules(Struct, frozen=True):
    """The proxy's callbacks. `env` may name the person's own proxy; `allowed` vets addresses.

    `decide` is called for every connection and must not raise; it must avoid asking a person repeatedly about the same
    host and call. It returns "ask" if it would ask but does not know for whom.
    """

    decide: Decide
    refused: Callable[[RefusedHost], None]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    resolve: Resolve = look_up
    allowed: Allowed = is_public
    limits: ProxyLimits = ProxyLimits()


class Proxy:
    """One for each root. `serve` may run for several listeners."""

    def __init__(self, rules: ProxyRules) -> None:
        self._rules = rules
        self._calls: dict[str, str] = {}  # token -> call
        self._room = Room(rules.limits.connections)

    def admit(self, call: str) -> str:
        """A token for a box about to start; valid until dismissed."""
        token = secrets.token_hex(16)
        self._calls[token] = call
        return token

    def dismiss(self, token: str) -> None:
        """Call when the box and everything it started have ended."""
        self._calls.pop(token, None)

    async def serve(self, listener: socket.socket, *, named_only: bool = False) -> None:
        """Serves until cancelled. `named_only`: others can reach this listener too, so a token is required."""

        async def attend(wire: Stream, relay: Relay) -> None:
            await self._attend(wire, relay, named_only=named_only)

        await accept_all(listener, self._room, attend)

    async def _attend(self, wire: Stream, relay: Relay, *, named_only: bool) -> None:
        try:
            data, rest = await self._read_head(wire)
            head = parse_head(data)
            if rest.strip(b"\r\n") and head.path and head.length == 0:
                raise ValueError("one connection takes one request")
        except ValueError as error:
            await say(wire, 400, f"The sandbox's proxy cannot take this request: {error}.")
            return
        call = self._call_of(head.token, named_only=named_only)
        if call is None:
            await say(wire, 407, UNNAMED)
            return
        await self._answer(head, call, Buffered(wire, rest), relay)

    async def _read_head(self, wire: Stream) -> tuple[bytes, bytes]:
        limits, data = self._rules.limits, b""
        with self._room.early(limits.head_seconds):
            while b"\r\n\r\n" not in data[: limits.head_bytes + 4]:
                if len(data) > limits.head_bytes:
                    raise ValueError(f"its header has more than {limits.head_bytes:,} bytes")
                piece = await wire.receive()
                if not piece:
                    raise ValueError("it has no whole header")
                data += piece
            head, _, rest = data.partition(b"\r\n\r\n")
            return head, rest
        raise ValueError(f"its header was not there within {limits.head_seconds:g} seconds")

    def _call_of(self, token: str, *, named_only: bool) -> str | None:
        """The call for a token. Empty: one of several boxes. None: not one of ours."""
        if (call := self._calls.get(token)) is not None:
            return call
        if named_only:
            return None
        return next(iter(self._calls.values())) if len(self._calls) == 1 else ""

    async def _answer(self, head: RequestHead, call: str, client: Buffered, relay: Relay) -> None:
        verdict = await self._verdict(head, call)
        if verdict == "ask" and not call:
            await say(client.wire, 407, UNNAMED)
            return
        if verdict != "yes":
            self._rules.refused(RefusedHost(call, head.host, head.port, "host"))
            await say(client.wire, 403, not_allowed(head.host, head.port))
            return
        try:
            await (self._tunnel if head.verb == "CONNECT" else self._request)(head, client, relay)
        except Inward:
            self._rules.refused(RefusedHost(call, head.host, head.port, "address"))
            await say(client.wire, 403, inward(head.host, head.port))
        except Unreachable as error:
            await say(client.wire, 502, f"The sandbox's proxy: {error}.")

    async def _verdict(self, head: RequestHead, call: str) -> HostVerdict:
        with anyio.move_on_after(self._rules.limits.verdict_seconds):
            return await self._rules.decide(call, head.host, head.port)
        return "no"

    async def _tunnel(self, head: RequestHead, client: Buffered, relay: Relay) -> None:
        rules = self._rules
        parent = parent_for(head.host, head.port, rules.env, secure=True)
        if parent is None:
            server, first = await reach(head.host, head.port, rules.resolve, rules.allowed), b""
        else:
            server, first = await tunnel_through(parent, head.host, head.port, rules.resolve)
        async with server:
            await client.wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n" + first)
            if client.rest:
                await server.send(client.rest)
            await join(client.wire, server, relay, rules.limits.silence_seconds)

    async def _request(self, head: RequestHead, client: Buffered, relay: Relay) -> None:
        rules = self._rules
        parent = parent_for(head.host, head.port, rules.env, secure=False)
        if parent is None:
            server, text = await reach(head.host, head.port, rules.resolve, rules.allowed), onward(head)
        else:
            server, text = await reach_parent(parent, rules.resolve), onward(head, parent=parent.authorization)
        async with server:
            await server.send(text)
            await _exchange(head, client, server, relay, rules.limits.silence_seconds)


async def _exchange(head: RequestHead, client: Buffered, server: Stream, relay: Relay, most_silence: float) -> None:
    """One request and one answer: data from the client beyond its request ends the connection."""
    silence = Silence(most_silence)

    async def ask() -> None:
        try:
            await send_body(client, server, head.length, silence)
            if not client.rest.strip(b"\r\n") and not (await client.wire.receive()).strip(b"\r\n"):
                return
        except BrokenPipeError:
            return  # the host wants no more, and may have said why
        except (ValueError, ConnectionResetError):
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await pass_on([Flow(server, client.wire)], relay, silence)
        group.cancel_scope.cancel()
