"""Tells git to leave files of ours out, in the repository's own list, which nobody commits."""

import os
from contextlib import suppress
from pathlib import Path

from teamwright.host.git.config import repository_of, top_of


def leave_out(common: Path, pattern: str) -> None:
    """`common` is the directory that all trees of the repository share. Raises OSError."""
    exclude, line = common / "info" / "exclude", os.fsencode(pattern)
    exclude.parent.mkdir(exist_ok=True)
    with exclude.open("a+b") as file:
        file.seek(0)
        known = file.read()
        if line not in known.splitlines():
            file.write(b"\n" * (known[-1:] not in (b"", b"\n")) + line + b"\n")


def leave_out_file(file: Path) -> None:
    """Where it lies in a repository; as well as it can be done: a list that cannot be written loses nobody anything."""
    top, common = top_of(str(file.parent)), repository_of(str(file.parent))
    if top and common and file.is_relative_to(top):
        with suppress(OSError):
            leave_out(Path(common), f"/{file.relative_to(top)}")
