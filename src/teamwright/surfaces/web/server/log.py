"""The access log: who did what, and what was refused. No bodies, tokens or keys."""

import os
import time
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from teamwright.core.errors import StoreError
from teamwright.core.text import shown
from teamwright.osfiles.private import make_dir, open_file

MOST_BYTES = 1_000_000
LONGEST = 200  # characters of a path


class AccessLog:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "web.log"

    def write(self, request: web.Request, who: str, status: int, seconds: float) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        path = shown(request.path[:LONGEST])
        peer, took = request.remote or "-", f"{seconds * 1000:.0f}ms"
        line = f"{stamp} {peer} {who or '-'} {request.method[:10]} {path} {status} {took}\n"
        with suppress(OSError, StoreError):  # failing to write the log is no reason to stop
            make_dir(self._path.parent)
            if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
                self._path.replace(self._path.with_suffix(".log.1"))
            fd = open_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(fd, line.encode(errors="backslashreplace"))
            finally:
                os.close(fd)
