"""Rooms that are no longer used: moved aside at once, deleted when there is time.

Deleting a tree can take longer than an agent worked in it. Also, some file systems (ext4 without a journal) do not
reuse inode numbers of deleted files for a minute, and each new file has to search past all of them.
"""

import os
import shutil
from pathlib import Path

import anyio.to_thread

from teamwright.osfiles.private import make_dir
from teamwright.osfiles.trees import remove_tree

_PLENTY = 10 << 30  # free bytes required on the disk; with less, rooms are deleted at once


async def put_aside(room: Path, folder: Path) -> None:
    """Removes a room from its place. `folder` is the worker's code directory."""
    if not _put_aside(room, folder / "closed"):
        await anyio.to_thread.run_sync(remove_tree, room)


def _put_aside(room: Path, closed: Path) -> bool:
    """Returns False if the room is still there and must be deleted now."""
    try:
        if shutil.disk_usage(room).free < _PLENTY:
            return False
        make_dir(closed)
        room.rename(closed / f"{room.name}-{os.urandom(4).hex()}")
    except OSError:
        return False
    return True


def delete_closed(folder: Path) -> None:
    """Deletes all rooms moved aside, including those left by a killed worker."""
    remove_tree(folder / "closed")
