"""Reads the end of a file that may be large and still growing."""

import os
from pathlib import Path

MOST = 30_000  # bytes


def read_tail(path: Path) -> str:
    """The last bytes as text; empty if the file does not exist yet."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MOST))
            return file.read(MOST).decode(errors="replace")
    except OSError:
        return ""
