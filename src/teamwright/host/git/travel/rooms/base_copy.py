"""Keeps the files of a small commit as git checked them out once, and writes them for the next agent without git.

The result of a checkout depends only on the commit, because in our clones no filter runs and no personal setting
applies. The index is git's own, with the timestamps of the newly written files.
"""

import os
from pathlib import Path

from msgspec import Struct

from teamwright.host.git.travel.trees.index_file import IndexFile, read_index

_MOST = 1 << 20  # bytes of all its files
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BaseCopy(Struct, frozen=True):
    index: IndexFile
    contents: tuple[bytes, ...]  # in index order; for a link, its target


def read_copy(tree: Path, width: int) -> BaseCopy | None:
    """Reads what git just checked out; None if it is too large, or contains more than files and links."""
    try:
        index = read_index(tree / ".git" / "index", width)
        if index is None or sum(entry.size for entry in index.entries) > _MOST:
            return None
        contents = [_content(os.path.join(os.fsencode(tree), entry.path), entry.mode) for entry in index.entries]
    except (OSError, ValueError):
        return None
    return BaseCopy(index, tuple(contents))


def _content(path: bytes, mode: int) -> bytes:
    """The content of a file or link. Raises ValueError for anything else."""
    if mode == 0o120000:
        return os.readlink(path)
    if mode not in (0o100644, 0o100755):
        raise ValueError(path)
    return Path(os.fsdecode(path)).read_bytes()


def write_copy(copy: BaseCopy, tree: Path) -> bytes:
    """Writes the files into an empty tree and returns the matching index. Raises OSError."""
    top, made, found = os.fsencode(tree), {b""}, list[os.stat_result]()
    for entry, content in zip(copy.index.entries, copy.contents, strict=True):
        folder = os.path.dirname(entry.path)
        if folder not in made:
            os.makedirs(os.path.join(top, folder), exist_ok=True)
            made.add(folder)
        found.append(_write(os.path.join(top, entry.path), entry.mode, content))
    return copy.index.with_facts(found)


def _write(path: bytes, mode: int, content: bytes) -> os.stat_result:
    if mode == 0o120000:
        os.symlink(content, path)
        return os.lstat(path)
    handle = os.open(path, _NEW, 0o777 if mode & 0o100 else 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        return os.fstat(handle)
