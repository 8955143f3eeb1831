"""Links to the hub: a token that opens once, and the key that it is exchanged for. Only hashes are stored."""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.errors import StoreError
from teamwright.osfiles.locks import hold, is_held
from teamwright.osfiles.private import write_file
from teamwright.store.db.clock import now_ms

Role = Literal["full", "read"]
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TOKEN_LIFE = 10 * MINUTE
KEY_LIFE = 30 * DAY  # after the last use
MOST_HOURS = 24 * 365  # that a link can be valid for
NOTED = 10 * MINUTE  # least time between two notes of a use
WAIT = 5.0  # seconds for another process to finish with the file


class Link(Struct, frozen=True, omit_defaults=True):
    """`opens` is the hash of its token until that is used; from then on `key` is the hash of its key."""

    id: str
    role: Role
    created: int
    session: str = ""  # the only session that it shows; empty: all
    until: int = 0  # when it ends in any case; 0: not set
    opens: str = ""
    key: str = ""
    last_used: int = 0

    def is_over(self, now: int) -> bool:
        if self.until and now > self.until:
            return True
        return now > self.created + TOKEN_LIFE if self.opens else now > max(self.created, self.last_used) + KEY_LIFE

    @property
    def expires(self) -> int:
        end = self.created + TOKEN_LIFE if self.opens else max(self.created, self.last_used) + KEY_LIFE
        return min(end, self.until) if self.until else end


class _Read(Struct, frozen=True):
    """The file as it was read: one value, because threads read it at the same time."""

    stamp: tuple[int, int] | None = None
    links: Mapping[str, Link] = {}
    keys: Mapping[str, Link] = {}


class Links:
    """Read again whenever another process has changed the file. `create`, `open` and `revoke` wait for such a process:
    call them in a thread."""

    def __init__(self, path: Path, now: Callable[[], int] = now_ms) -> None:
        self._path, self._lock, self._now = path, path.with_suffix(".lock"), now
        self._read = _Read()

    @property
    def busy(self) -> bool:
        """Whether a change would have to wait now."""
        return is_held(self._lock)

    def all(self) -> list[Link]:
        now = self._now()
        return [link for link in self._refresh().links.values() if not link.is_over(now)]

    def create(self, *, role: Role = "full", session: str = "", hours: float = 0, latest: int = 0) -> tuple[Link, str]:
        """The link, and its token, which is stored nowhere. It ends with its `hours`, and at the `latest` then."""
        token, now = secrets.token_urlsafe(32), self._now()
        until = min((end for end in (now + int(hours * HOUR) if hours else 0, latest) if end), default=0)
        link = Link(secrets.token_hex(4), role, now, session, until, opens=_hash(token))
        self._change(lambda links: links | {link.id: link})
        return link, token

    def open(self, token: str) -> tuple[Link, str] | None:
        """The key for an unused token; None if there is no such token any more."""
        key, now, wanted, found = secrets.token_urlsafe(32), self._now(), _hash(token), list[Link]()

        def exchange(links: dict[str, Link]) -> dict[str, Link]:
            for link in links.values():
                if link.opens and secrets.compare_digest(link.opens, wanted) and not link.is_over(now):
                    found.append(replace(link, opens="", key=_hash(key), last_used=now))
                    return links | {link.id: found[0]}
            return links

        self._change(exchange)
        return (found[0], key) if found else None

    def find(self, key: str) -> Link | None:
        """The link of a valid key."""
        link, now = self._refresh().keys.get(_hash(key)), self._now()
        if link is None or link.is_over(now):
            return None
        if now - link.last_used > NOTED:
            used = replace(link, last_used=now)
            with suppress(StoreError):  # the next use is noted
                self._change(lambda links: links | {link.id: used} if link.id in links else links, wait=0)
        return link

    def holds(self, id: str) -> bool:
        """Whether it is neither revoked nor over."""
        link = self._refresh().links.get(id)
        return link is not None and not link.is_over(self._now())

    def revoke(self, id: str) -> bool:
        """False if there is none."""
        known = id in {link.id for link in self.all()}
        self._change(lambda links: {own: link for own, link in links.items() if own != id})
        return known

    # --- the file

    def _change(self, change: Callable[[dict[str, Link]], dict[str, Link]], wait: float = WAIT) -> None:
        lock = hold(self._lock, wait=wait)
        if lock is None:
            raise StoreError(f"{self._path} is in use by another process: try again.")
        try:
            now, before = self._now(), dict(self._refresh().links)
            links = {id: link for id, link in change(before).items() if not link.is_over(now)}
            if links != before:
                write_file(self._path, msgspec.json.encode(list(links.values())))
        finally:
            lock.release()

    def _refresh(self) -> _Read:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == (read := self._read).stamp:
                return read
            links = msgspec.json.decode(self._path.read_bytes(), type=list[Link])
        except FileNotFoundError:
            stamp, links = None, []
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"{self._path} cannot be read ({error}): remove it, and all links are void.") from None
        keys = {link.key: link for link in links if link.key}
        self._read = read = _Read(stamp, {link.id: link for link in links}, keys)
        return read


def is_valid(hours: float) -> bool:
    """No time at all is no end; so little that nobody could use it is none."""
    return hours == 0 or (hours <= MOST_HOURS and int(hours * HOUR) > 0)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
