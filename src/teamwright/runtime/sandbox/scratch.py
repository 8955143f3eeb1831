"""Temporary directories of a session's boxes: one for each root, removed with the session, swept after a kill."""

import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from teamwright.core.errors import DiskError, ToolError
from teamwright.osfiles.locks import Lock, hold
from teamwright.osfiles.trees import remove_tree

PREFIX = "teamwright-"
_LOCK = "lock"
_MOST_TRIES = 20


class Scratch:
    """Made when the first box needs one, which also removes what killed processes left behind."""

    def __init__(self) -> None:
        self._top: Path | None = None
        self._lock: Lock | None = None
        self._places: dict[str, str] = {}
        self._making = threading.Lock()  # policies are made in threads, several at a time

    def of(self, root: str) -> str:
        """The directory of this root, kept from one command to the next."""
        with self._making:
            if root not in self._places:
                try:
                    self._places[root] = self._place()
                except (OSError, DiskError) as error:
                    why = getattr(error, "strerror", None) or error
                    raise ToolError(
                        f"The sandbox's temporary directory cannot be made: {why}. Nothing was run."
                    ) from None
            return self._places[root]

    def _place(self) -> str:
        if self._top is None:
            self._top = self._make()
        place = self._top / str(len(self._places))
        place.mkdir(mode=0o700)
        return str(place.resolve())

    def close(self) -> None:
        if self._top is not None:
            remove_tree(self._top)
            self._top = None
        if self._lock is not None:
            self._lock.release()

    def _make(self) -> Path:
        base = Path(tempfile.gettempdir())
        _sweep(base)
        for _ in range(_MOST_TRIES):
            top = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            # Between creating the file and locking it, another process may take it for one that was left behind.
            if (lock := hold(top / _LOCK)) is not None and (top / _LOCK).exists():
                self._lock = lock
                return top
        raise ToolError(f"The sandbox cannot have a temporary directory in {base}. Nothing was run; try again.")


def _sweep(base: Path) -> None:
    """Remove our directories whose process is gone: the kernel freed their locks. One may vanish while we look at
    it."""
    for top in base.glob(f"{PREFIX}*"):
        with suppress(OSError, DiskError):
            found = top.lstat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o077 or not (top / _LOCK).is_file():
                continue
            if (lock := hold(top / _LOCK)) is not None:
                remove_tree(top)
                lock.release()
