"""Names that our own processes create while programs run in the sandbox: worktrees, saved rules.

They are noted in our own state directory, which sandboxed programs cannot reach. So the guard of one command does not
mistake another agent's work for something that the command planted.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

MADE = ("sandbox", "made")  # the directory, below our state directory
_FORGOTTEN = 86_400.0  # seconds after which no command from before a release can still be running


class Claims(Struct, frozen=True):
    """One file per name and process. It holds the pid of the claiming process, or 0 after release; the time of writing,
    since file timestamps are coarser than our clock; and the name."""

    place: str

    def take(self, *paths: str) -> None:
        """Call before creating these names."""
        os.makedirs(self.place, mode=0o700, exist_ok=True)
        self._sweep()
        for path in map(_resolved, paths):
            self._note(path, os.getpid())

    def release(self, *paths: str) -> None:
        """Nobody in this process works there any more; commands already running still leave them alone."""
        for path in map(_resolved, paths):
            if os.path.exists(self._file(path)):
                self._note(path, 0)

    def since(self, began: float | None = None) -> tuple[str, ...]:
        """Names held by a living process, and those that were held at any time since `began`."""
        held = [
            path for _, touched, owner, path in self._all() if (began is not None and touched >= began) or _lives(owner)
        ]
        return tuple(dict.fromkeys(held))

    def _file(self, path: str) -> str:
        return os.path.join(self.place, f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}-{os.getpid()}")

    def _note(self, path: str, owner: int) -> None:
        whole = self._file(path)
        with open(f"{whole}.new", "wb") as file:
            file.write(b"%d %.6f\n%s" % (owner, time.time(), os.fsencode(path)))
        os.replace(f"{whole}.new", whole)

    def _all(self) -> Iterator[tuple[str, float, int, str]]:
        """(file, when it was written, its owner, the name)"""
        try:
            files = [one for one in os.listdir(self.place) if not one.endswith(".new")] if self.place else []
        except OSError:
            return
        for name in files:
            whole = os.path.join(self.place, name)
            with suppress(OSError, ValueError):
                with open(whole, "rb") as file:
                    head, _, path = file.read(8192).partition(b"\n")
                owner, touched = head.split()
                yield whole, float(touched), int(owner), os.fsdecode(path)

    def _sweep(self) -> None:
        for file, touched, owner, _ in list(self._all()):
            if touched < time.time() - _FORGOTTEN and not _lives(owner):
                with suppress(OSError):
                    os.unlink(file)


def _resolved(path: str) -> str:
    """The path as policies spell it. The last component is not resolved: it is ours whatever is there."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _lives(owner: int) -> bool:
    if owner <= 0:
        return False
    try:
        os.kill(owner, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return True
