"""Rooms whose agents have ended: an unchanged one serves the next agent, the others are deleted when there is time.

Deleting a tree can take longer than the agent worked in it. And where a file system keeps the numbers of deleted files
back for a minute (ext4 without a journal), creating a file means searching past all of them.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import StoreError
from teamwright.host.git.travel.rooms.seal import Seal, is_intact
from teamwright.osfiles.locks import Lock, hold
from teamwright.osfiles.private import make_dir
from teamwright.osfiles.trees import remove_tree

_PLENTY = 10 << 30  # bytes that must be free on the disk, or closed rooms are deleted at once
_MOST_SPARES = 64  # of one commit
_PATIENCE = 10.0  # seconds for another worker that starts at the same moment
_IN_A_ROOM = {"tree", "index"}

BaseKey = tuple[Path, str]  # a cache's objects, and a commit among them


class _Spare(Struct, frozen=True):
    room: Path
    seal: Seal


_spares: dict[BaseKey, list[_Spare]] = {}


def put_aside(room: Path, folder: Path) -> Path | None:
    """Where it is now, below `folder`. None: it is still there, and has to be deleted at once."""
    closed = folder / "closed"
    place = closed / f"{room.name}-{os.urandom(4).hex()}"
    try:
        if shutil.disk_usage(room).free < _PLENTY:
            return None
        make_dir(closed)
        room.rename(place)
    except OSError:
        return None
    return place


def claim_rooms(folder: Path) -> Lock:
    """Hold the result for as long as rooms may be opened below `folder`. Blocks.

    Whoever is alone there puts aside what killed workers have left. Several workers may share a home.
    """
    path = folder / "rooms.lock"
    if (alone := hold(path)) is not None:
        with suppress(OSError):  # there are none, or they stay until their agents come back
            make_dir(folder / "closed")
            (folder / "rooms").rename(folder / "closed" / f"left-{os.urandom(4).hex()}")
        alone.release()
    claim = hold(path, _PATIENCE, shared=True)
    if claim is None:
        raise StoreError(f"{path} is held by another program, so no agents can run in this home.")
    return claim


def delete_closed(folder: Path) -> None:
    """Delete all rooms that were put aside, those of a killed worker included."""
    _spares.clear()
    remove_tree(folder / "closed")


def keep_spare(base: BaseKey, room: Path, seal: Seal) -> None:
    """Remember a closed room whose tree is probably as `seal` has it."""
    spares = _spares.setdefault(base, [])
    spares.append(_Spare(room, seal))
    del spares[:-_MOST_SPARES]


def take_spare(base: BaseKey, room: Path) -> bool:
    """Move a spare room of this commit to `room`, where nothing is yet. False if there is none, or if somebody wrote in
    the one that was tried."""
    try:
        spare = _spares.get(base, []).pop()
    except IndexError:  # none, or another thread has just taken the last one
        return False
    try:
        spare.room.rename(room)
        if {path.name for path in room.iterdir()} <= _IN_A_ROOM and is_intact(spare.seal, room / "tree"):
            return True
    except OSError:
        pass  # it was deleted meanwhile
    remove_tree(room)
    return False
