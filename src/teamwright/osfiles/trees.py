"""Removes directories, however deep a program has made them."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

_DEEP = 200  # levels that are removed at a time
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(top: Path, *, strict: bool = False) -> None:
    """As far as it can be removed; `strict`: raises OSError if something stays.

    `shutil` makes a call of its own for each level, so that it gives up where a program made a thousand.
    """
    try:
        shutil.rmtree(top, ignore_errors=not strict)
    except RecursionError:
        with suppress(OSError):
            while _lift(top):
                continue
        shutil.rmtree(top, ignore_errors=not strict)


def _lift(top: Path) -> bool:
    """Move one directory that lies deep up to the top, under a name that nobody has. False if there is none."""
    above = os.open(top, _DIRECTORY)
    try:
        for path, folders, _, here in os.fwalk(".", dir_fd=above, follow_symlinks=False):
            if path.count("/") >= _DEEP:
                for name in folders:
                    os.rename(name, f"lifted-{os.urandom(6).hex()}", src_dir_fd=here, dst_dir_fd=above)
                if folders:
                    return True
        return False
    finally:
        os.close(above)
