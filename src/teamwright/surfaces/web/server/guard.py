"""Guard of the hub: host, origin, limits and the headers of every answer. Pure."""

import time
from collections.abc import Callable, Iterable, Mapping

from teamwright.core.policies.own_address import OwnAddress

MINUTE = 60.0
MOST_BODY = 1024 * 1024  # bytes
MOST_REQUESTS, MOST_LOGINS = 600, 20  # per minute, from one peer
MOST_STRANGERS = 32  # sockets of one peer that have not given their key yet
MOST_PEERS = 1_000

COMMON = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Doorman:
    """Knows the names under which the hub is reached. `names` come without a port, or with that of a tunnel."""

    def __init__(self, port: int, *, secure: bool = False, names: Iterable[str] = ()) -> None:
        self._scheme = "https" if secure else "http"
        self._address = OwnAddress(port, secure=secure, names=names)

    def refuses(self, headers: Mapping[str, str]) -> str:
        """Why a request is not for us, or comes from another site's page; empty if neither is true."""
        match self._address.stranger(headers):
            case "host":
                return "this address is not one of ours: open the link that `teamwright web` prints"
            case "site":
                return "requests of other sites are refused"
            case None:
                return ""

    def policy(self, host: str) -> str:
        """What the page may load: only its own files, and no text ever becomes script."""
        socket = f"{'wss' if self._scheme == 'https' else 'ws'}://{host}"
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            f"connect-src 'self' {socket}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )


class Rate:
    """So many requests a minute for each peer; unused ones can be spent at once."""

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._now = most, now
        self._left: dict[str, tuple[float, float]] = {}  # the remaining allowance, and its time

    def takes(self, peer: str) -> bool:
        now = self._now()
        left, since = self._left.get(peer, (float(self._most), now))
        left = min(float(self._most), left + (now - since) * self._most / MINUTE)
        if len(self._left) > MOST_PEERS:
            self._left = {who: seen for who, seen in self._left.items() if now - seen[1] < MINUTE}
        self._left[peer] = (left - 1 if left >= 1 else left, now)
        return left >= 1
