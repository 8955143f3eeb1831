"""Rooms that nobody works in any more: put aside at once, deleted when there is time.

To delete a tree can take longer than an agent worked in it. And where a file system keeps numbers of deleted files back
for a minute (ext4 without a journal), each new file is searched for past all of them.
"""

import os
import shutil
from pathlib import Path

import anyio.to_thread

from teamwright.osfiles.private import make_dir
from teamwright.osfiles.trees import remove_tree

_PLENTY = 10 << 30  # bytes that must be free on the disk, or nothing waits


async def put_aside(room: Path, folder: Path) -> None:
    """It is no longer where it was. `folder` is the worker's for code."""
    if not _put_aside(room, folder / "closed"):
        await anyio.to_thread.run_sync(remove_tree, room)


def _put_aside(room: Path, closed: Path) -> bool:
    """False: it is still there, and is to be deleted now."""
    try:
        if shutil.disk_usage(room).free < _PLENTY:
            return False
        make_dir(closed)
        room.rename(closed / f"{room.name}-{os.urandom(4).hex()}")
    except OSError:
        return False
    return True


def delete_closed(folder: Path) -> None:
    """All that were put aside, also those that a killed worker left."""
    remove_tree(folder / "closed")
