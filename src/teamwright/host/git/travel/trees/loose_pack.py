"""Packs the objects that one save added to a repository, without running git.

After most calls only a file or two have changed. Git has just written them as loose objects, one file each; packing so
few takes less time than starting `pack-objects`. If the objects are not there in that form, git has to make the pack.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.osfiles.reading import read_plain

_MOST = 64 << 10  # bytes per object; for larger ones git sends only the difference
_MOST_PATHS = 32
_KINDS = {b"commit": 1, b"tree": 2, b"blob": 3}
_TREE = b"40000"


class Added(Struct, frozen=True):
    """A commit whose tree differs at most in these paths from one that the other side has."""

    commit: str
    tree: str
    paths: tuple[str, ...]


class _Loose(Struct, frozen=True):
    kind: bytes
    data: bytes


class _ElsewhereError(Exception):
    """Not a small loose object."""


def pack_added(git_dir: Path, added: Added) -> bytes | None:
    """The pack; None if git has to make it."""
    if len(added.paths) > _MOST_PATHS:
        return None
    found = dict[str, _Loose]()
    try:
        found[added.commit] = _read(git_dir, added.commit)
        found[added.tree] = _read(git_dir, added.tree)
        for path in added.paths:
            _follow(git_dir, added.tree, os.fsencode(path).split(b"/"), found)
    except (_ElsewhereError, SettingsError, ValueError, zlib.error):
        return None
    return _pack(list(found.values()), len(added.commit) // 2)


def _follow(git_dir: Path, tree: str, names: Sequence[bytes], found: dict[str, _Loose]) -> None:
    """Collects the objects on the way from a tree to a path, as far as it exists: it may have been deleted."""
    at, width = tree, len(tree) // 2
    for name in names:
        mode, id = next(((mode, id) for mode, known, id in _entries(found[at].data, width) if known == name), (b"", ""))
        if not id:
            return
        if id not in found:
            found[id] = _read(git_dir, id)
        if mode != _TREE:
            return
        at = id


def _entries(tree: bytes, width: int) -> Iterator[tuple[bytes, bytes, str]]:
    """Mode, name and id of each entry."""
    at = 0
    while at < len(tree):
        end = tree.index(0, at)
        mode, _, name = tree[at:end].partition(b" ")
        at = end + 1 + width
        yield mode, name, tree[end + 1 : at].hex()


def _read(git_dir: Path, id: str) -> _Loose:
    data = read_plain(git_dir / "objects" / id[:2] / id[2:], _MOST, follow=False)
    if data is None:
        raise _ElsewhereError
    content = zlib.decompressobj()
    head, end, rest = content.decompress(data, _MOST).partition(b"\0")
    kind, _, size = head.partition(b" ")
    if not end or not content.eof or kind not in _KINDS or len(rest) != int(size):
        raise _ElsewhereError
    return _Loose(kind, rest)


def _pack(objects: Sequence[_Loose], width: int) -> bytes:
    """Encodes a version 2 pack (gitformat-pack)."""
    parts = [b"PACK", (2).to_bytes(4, "big"), len(objects).to_bytes(4, "big")]
    for object in objects:
        parts += [_head(_KINDS[object.kind], len(object.data)), zlib.compress(object.data, 1)]
    pack = b"".join(parts)
    return pack + (hashlib.sha256 if width == 32 else hashlib.sha1)(pack).digest()


def _head(kind: int, size: int) -> bytes:
    """Encodes 3 bits of kind and 4 of size, then 7 bits of size per byte, lowest first; the top bit means more
    follow."""
    head, byte, left = bytearray(), kind << 4 | size & 15, size >> 4
    while left:
        head.append(byte | 128)
        byte, left = left & 127, left >> 7
    return bytes([*head, byte])
