"""Rooms that nobody works in any more: put aside at once, deleted when there is time.

To delete a tree can take longer than an agent worked in it. And where a file system keeps numbers of deleted files back
for a minute (ext4 without a journal), each new file is searched for past all of them.
"""

import os
import shutil
from pathlib import Path

from teamwright.osfiles.private import make_dir
from teamwright.osfiles.trees import remove_tree

_PLENTY = 10 << 30  # bytes that must be free on the disk, or nothing waits


def put_aside(room: Path, folder: Path) -> None:
    """It is no longer where it was. `folder` is the worker's for code."""
    aside = folder / "closed" / f"{room.name}-{os.urandom(4).hex()}"
    try:
        make_dir(aside.parent)
        room.rename(aside)
        if shutil.disk_usage(folder).free >= _PLENTY:
            return
    except OSError:
        aside = room
    remove_tree(aside)


def delete_closed(folder: Path) -> None:
    """All that were put aside, also those that a killed worker left."""
    remove_tree(folder / "closed")
