"""Checks by host and origin whether an HTTP request is meant for our local server."""

from collections.abc import Iterable, Mapping
from typing import Literal

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
Stranger = Literal["host", "site"]


class OwnAddress:
    """The addresses of a server. `names` come without a port, or with a tunnel's port."""

    def __init__(self, port: int, *, secure: bool = False, names: Iterable[str] = ()) -> None:
        plain = (443 if secure else 80) == port
        self._hosts: set[str] = set()
        for name in (*LOOPBACK, *names):
            host = name.lower()
            has_port = host.rpartition("]")[2].count(":") == 1
            self._hosts |= {host} if has_port else {f"{host}:{port}", *([host] if plain else [])}
        for name in names:  # behind a tunnel the port is the tunnel's
            self._hosts.add(name.lower())

    def stranger(self, headers: Mapping[str, str]) -> Stranger | None:
        """`host`: the request names a host that is not ours, as in DNS rebinding; `site`: another site's page sent
        it."""
        if headers.get("Host", "").lower() not in self._hosts:
            return "host"
        origin = headers.get("Origin")
        if origin is not None and not self._is_ours(origin):
            return "site"
        return "site" if headers.get("Sec-Fetch-Site") == "cross-site" else None

    def _is_ours(self, origin: str) -> bool:
        scheme, mark, host = origin.lower().partition("://")
        return bool(mark) and scheme in ("http", "https") and host in self._hosts
