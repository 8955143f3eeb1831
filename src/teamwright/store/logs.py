"""The log of a session's troubles: small, private, rotated; never prompts, never keys."""

import os
import time
from pathlib import Path

from teamwright.core.errors import StoreError
from teamwright.store.private import make_dir, open_file

MOST_BYTES = 1_000_000
KEPT = 3  # older files


class Log:
    """Appends lines to `logs/teamwright.log`. A log that cannot be written is no reason to stop."""

    def __init__(self, dir: Path, session: str, *, debug: bool = False) -> None:
        self._path = dir / "teamwright.log"
        self._session = session
        self._debug = debug

    def write(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        body = text.rstrip().replace("\n", "\n    ")
        try:
            make_dir(self._path.parent)
            self._rotate()
            fd = open_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(fd, f"{stamp} {self._session[:8]} {os.getpid()} {body}\n".encode(errors="backslashreplace"))
            finally:
                os.close(fd)
        except (OSError, StoreError):
            return

    def debug(self, text: str) -> None:
        if self._debug:
            self.write(text)

    def _rotate(self) -> None:
        if not self._path.exists() or self._path.stat().st_size < MOST_BYTES:
            return
        for n in range(KEPT, 0, -1):
            older = self._path.with_suffix(f".log.{n - 1}") if n > 1 else self._path
            if older.exists():
                older.replace(self._path.with_suffix(f".log.{n}"))
