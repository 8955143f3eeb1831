"""Names that we make ourselves while programs run in the sandbox, in any process of ours: worktrees, saved rules.

They are noted in a directory of our own state, which no program in the sandbox reaches, so that the guard of a command
does not take the work of another agent for something that the command planted.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

MADE = ("sandbox", "made")  # the directory, below that of our state
_FORGOTTEN = 86_400.0  # seconds after which nothing can be running that began before a release


class Claims(Struct, frozen=True):
    """One file for each name and process: the process that holds it or 0 when it was released, when that was written
    (a file's own clock is coarser than ours), and the name."""

    place: str

    def take(self, *paths: str) -> None:
        """Before they are made."""
        os.makedirs(self.place, mode=0o700, exist_ok=True)
        self._sweep()
        for path in map(_resolved, paths):
            self._note(path, os.getpid())

    def release(self, *paths: str) -> None:
        """Nobody of this process works there any more; commands that run now still leave them alone."""
        for path in map(_resolved, paths):
            if os.path.exists(self._file(path)):
                self._note(path, 0)

    def since(self, began: float | None = None) -> tuple[str, ...]:
        """Names that are held by a living process, and those that were at any moment since then."""
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
    """As policies spell it. The name itself is not followed: it is ours whatever stands there now."""
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
