"""The proxy's own answers: why it cannot or may not do what was asked, and what to do instead."""

import anyio

from teamwright.core.sandbox.hosts import with_port
from teamwright.host.sandbox.connections.wire import Stream

_DRAIN_SECONDS, _DRAIN_BYTES = 1.0, 1 << 20
_REASONS = {400: "Bad Request", 403: "Forbidden", 407: "Proxy Authentication Required", 502: "Bad Gateway"}
UNNAMED = (
    "Several commands run in this sandbox, and this one did not say which it is: send the user and password that "
    "stand in HTTP_PROXY with the request."
)


async def say(wire: Stream, status: int, text: str) -> None:
    """Sends an answer of our own. Reads on for a moment, because otherwise the client might not see the answer."""
    challenge = 'Proxy-Authenticate: Basic realm="sandbox"\r\n' if status == 407 else ""
    body = (text + "\n").encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n{challenge}Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    await wire.send(head.encode() + body)
    wire.finish()
    left = _DRAIN_BYTES
    with anyio.move_on_after(_DRAIN_SECONDS):
        while left > 0 and (piece := await wire.receive()):
            left -= len(piece)


def not_allowed(host: str, port: int) -> str:
    return (
        f"The sandbox refused the connection to {with_port(host, port)}: nobody allowed this host. A person can "
        "add it to sandbox.network.allowedDomains of their settings. Where Bash offers dangerouslyDisableSandbox, the "
        "command can ask to run outside."
    )


def inward(host: str, port: int) -> str:
    return (
        f"The sandbox refused the connection to {with_port(host, port)}: the name leads to an address of this machine "
        "or of its own network. A person can add that address itself to sandbox.network.allowedDomains of their "
        "settings. Where Bash offers dangerouslyDisableSandbox, the command can ask to run outside."
    )
