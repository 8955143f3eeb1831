"""Removes directory trees of any depth."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

_DEEP = 200  # levels per step
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(top: Path, *, strict: bool = False) -> None:
    """Removes as much as possible; `strict`: raises OSError if anything remains.

    `shutil` recurses once per level and fails on trees a thousand levels deep, so deep parts are moved up first.
    """
    try:
        shutil.rmtree(top, ignore_errors=not strict)
    except RecursionError:
        with suppress(OSError):
            while _lift(top):
                continue
        shutil.rmtree(top, ignore_errors=not strict)


def _lift(top: Path) -> bool:
    """Moves deep directories up to the top, under unique names. Returns False if there were none."""
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
