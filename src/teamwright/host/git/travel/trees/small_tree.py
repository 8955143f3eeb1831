"""Small tree of files, whose changes are stored as git stores them, without git.

After most calls a file or two have changed that were there before, and for those `git update-index` and
`git write-tree` spend their time starting. Everything else is left to git: new and deleted files, links, large files,
and trees where attributes may convert what is stored.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.files.paths import open_judged
from teamwright.host.git.travel.repository import name_object, write_object
from teamwright.host.git.travel.trees.index_file import IndexEntry, IndexFile, Stamp, file_clock, stamp_of

_MOST = 64 << 10  # bytes of a changed file
_MOST_CHANGED = 32
_ATTRIBUTES = b".gitattributes"
_TREE = b"40000"


class _Entry(Struct, frozen=True):
    """What a directory has under a name."""

    mode: bytes
    id: bytes


class _Changed(Struct, frozen=True):
    path: bytes
    stamp: Stamp
    data: bytes


class SmallTree:
    """The tree as an index has it, and as it has been stored since."""

    def __init__(self, index: IndexFile) -> None:
        self._index = index
        self.stamps = {entry.path: entry.stamp for entry in index.entries if not entry.is_link}
        self.read: dict[bytes, int] = {}  # when a file was stored, by the file system's clock

    @cached_property
    def _converts(self) -> bool:
        return any(entry.path.rpartition(b"/")[2] == _ATTRIBUTES for entry in self._index.entries)

    @cached_property
    def _folders(self) -> dict[bytes, dict[bytes, _Entry]]:
        """Every directory by its path."""
        found = _files_by_folder(self._index.entries)
        for folder in sorted(found, key=_depth, reverse=True):
            id, _ = name_object("tree", _written(found[folder]), self._index.width)
            _link(found, folder, id)
        return found

    def store(self, git_dir: Path, top: Path, paths: Sequence[str]) -> str | None:
        """Store these files as they are now, and return the tree. None if git has to do it. Raises OSError."""
        now = file_clock()
        if self._converts or len(paths) > _MOST_CHANGED or (git_dir / "info" / "attributes").exists():
            return None
        found = [self._read(top, os.fsencode(path)) for path in paths]
        changed = [one for one in found if one is not None]
        if len(changed) < len(found):
            return None
        stored = [one.path for one in changed if self._store_file(git_dir, one, now)]
        tree = name_object("tree", _written(self._folders[b""]), self._index.width)[0]
        for folder in sorted({above for path in stored for above in _above(path)}, key=_depth, reverse=True):
            tree = write_object(git_dir, "tree", _written(self._folders[folder]), self._index.width)
            _link(self._folders, folder, tree)
        return tree

    def _store_file(self, git_dir: Path, file: _Changed, now: int) -> bool:
        """False if it was only touched."""
        folder, name = os.path.split(file.path)
        id, _ = name_object("blob", file.data, self._index.width)
        entry = _Entry(b"%o" % file.stamp[3], bytes.fromhex(id))
        self.stamps[file.path], self.read[file.path] = file.stamp, now
        if entry == self._folders[folder][name]:
            return False
        write_object(git_dir, "blob", file.data, self._index.width)
        self._folders[folder][name] = entry
        return True

    def _read(self, top: Path, path: bytes) -> _Changed | None:
        """A file that was there before, if it does not change while it is read."""
        if path not in self.stamps:
            return None
        try:
            with os.fdopen(open_judged(top / os.fsdecode(path)), "rb") as file:
                before = os.fstat(file.fileno())
                data = file.read(_MOST + 1)
                after = os.fstat(file.fileno())
        except (OSError, ToolError):
            return None
        stamp = stamp_of(before)
        if not stat.S_ISREG(self.stamps[path][3]) or stamp != stamp_of(after) or len(data) != before.st_size:
            return None
        return _Changed(path, stamp, data)


def _files_by_folder(entries: Iterable[IndexEntry]) -> dict[bytes, dict[bytes, _Entry]]:
    found: dict[bytes, dict[bytes, _Entry]] = {b"": {}}
    for entry in entries:
        for above in _above(entry.path):
            found.setdefault(above, {})
        folder, name = os.path.split(entry.path)
        found[folder][name] = _Entry(b"%o" % entry.mode, entry.id)
    return found


def _above(path: bytes) -> Iterator[bytes]:
    """All directories that a file is in, down from the top."""
    yield b""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def _depth(folder: bytes) -> int:
    return folder.count(b"/") + 1 if folder else 0


def _link(folders: dict[bytes, dict[bytes, _Entry]], folder: bytes, id: str) -> None:
    """Name a directory in the one above it."""
    if folder:
        above, name = os.path.split(folder)
        folders[above][name] = _Entry(_TREE, bytes.fromhex(id))


def _written(entries: dict[bytes, _Entry]) -> bytes:
    """A directory as git's object. A subdirectory stands where its name with a slash would."""
    listed = sorted(entries.items(), key=_place)
    return b"".join(b"%b %b\0%b" % (entry.mode, name, entry.id) for name, entry in listed)


def _place(item: tuple[bytes, _Entry]) -> bytes:
    name, entry = item
    return name + b"/" if entry.mode == _TREE else name
