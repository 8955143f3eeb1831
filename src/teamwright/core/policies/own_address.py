"""Checks whether an HTTP request is meant for a server of ours on this machine, by its host and origin."""

from collections.abc import Iterable, Mapping
from typing import Literal

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
Stranger = Literal["host", "site"]


class OwnAddress:
    """The names under which a server is reached. `names` come without a port or with the one of a tunnel."""

    def __init__(self, port: int, *, secure: bool = False, names: Iterable[str] = ()) -> None:
        plain = (443 if secure else 80) == port
        self._hosts: set[str] = set()
        for name in (*LOOPBACK, *names):
            host = name.lower()
            has_port = host.rpartition("]")[2].count(":") == 1
            self._hosts |= {host} if has_port else {f"{host}:{port}", *([host] if plain else [])}
        for name in names:  # behind a tunnel the port is that of the tunnel
            self._hosts.add(name.lower())

    def stranger(self, headers: Mapping[str, str]) -> Stranger | None:
        """`host`: it was sent to a name that is not ours, as after a change of DNS; `site`: by another site's page."""
        if headers.get("Host", "").lower() not in self._hosts:
            return "host"
        origin = headers.get("Origin")
        if origin is not None and not self._is_ours(origin):
            return "site"
        return "site" if headers.get("Sec-Fetch-Site") == "cross-site" else None

    def _is_ours(self, origin: str) -> bool:
        scheme, mark, host = origin.lower().partition("://")
        return bool(mark) and scheme in ("http", "https") and host in self._hosts
