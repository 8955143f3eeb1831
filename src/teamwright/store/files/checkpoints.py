"""Checkpoints of a session: files as they were before agents changed them, in a folder of their own.

The index is a file of JSON lines that every process of the session appends to. Contents are beside it, named by their
hash, so that the same content is kept once.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress

import msgspec
from msgspec import Struct

from teamwright.core.errors import StoreError
from teamwright.osfiles.private import fault, make_dir, open_file, replace_file, write_all
from teamwright.store.files.paths import SessionFiles

MOST_BYTES = 20_000_000  # of one file; a larger one is not kept
MOST_KEPT = 500_000_000  # of all contents of a session
_NAME = 32  # hexadecimal digits of a content's hash


class CheckpointEntry(Struct, frozen=True, omit_defaults=True):
    """One line of the index: a file before a change, a file after it, or what is not covered.

    Before: `copy` names the content; without one the file did not exist, was a `link`, or is `lost`, with the reason in
    `why`. After: `mark` stands for its state. A `gap` is something that may have changed files unseen, until a line
    `closes` it.
    """

    at: int  # milliseconds since 1970
    path: str = ""
    copy: str = ""
    mode: int = 0o644
    link: str = ""
    lost: bool = False
    why: str = ""
    by: str = ""  # "rewind": kept so that the rewind, too, can be undone
    mark: str = ""
    plus: int = 0
    minus: int = 0
    gap: str = ""
    id: str = ""  # of the call that left the gap
    closes: str = ""

    @property
    def is_before(self) -> bool:
        return bool(self.path) and not self.mark

    @property
    def was_absent(self) -> bool:
        return not (self.copy or self.link or self.lost)


class Checkpoints:
    def __init__(self, files: SessionFiles, most: int = MOST_KEPT) -> None:
        self._most = most
        self.folder = files.dir / "checkpoints"
        self._index = self.folder / "index.jsonl"
        self._kept: int | None = None  # bytes; counted when content is first stored

    def put(self, data: bytes, *, synced: bool = False) -> str:
        """Store content and return its name; `synced`: it survives a power cut. Blocks; raises StoreError."""
        name = hashlib.sha256(data).hexdigest()[:_NAME]
        path = make_dir(self.folder) / name
        if not synced and path.exists() and path.stat().st_size == len(data):
            return name
        if self._kept is None:
            self._kept = sum(entry.stat().st_size for entry in os.scandir(self.folder) if entry.is_file())
        if self._kept + len(data) > self._most:
            raise StoreError(f"the checkpoints of this session have reached {self._most:,} bytes")
        try:
            replace_file(path, data, synced=synced)
        except OSError as error:
            raise fault("write", path, error) from error
        self._kept += len(data)
        return name

    def get(self, name: str) -> bytes:
        """Raises StoreError if the content is gone or damaged. Blocks."""
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise fault("read", self.folder / name, error) from error
        if len(name) == _NAME and hashlib.sha256(data).hexdigest()[:_NAME] != name:
            raise StoreError(f"the kept copy {name} is damaged")
        return data

    def names_hash(self, copy: str) -> bool:
        """Whether a copy has a name that stands for its content. Raises StoreError if it is gone."""
        if copy and not (self.folder / copy).is_file():
            raise StoreError(f"{self.folder / copy} is gone")
        return len(copy) == _NAME

    def append(self, entries: Iterable[CheckpointEntry], *, synced: bool = False) -> None:
        """Blocks; raises StoreError."""
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        make_dir(self.folder)
        index = open_file(self._index, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            if _is_torn(index):
                data = b"\n" + data
            write_all(index, data)
            if synced:
                os.fsync(index)
        except OSError as error:
            raise fault("write to", self._index, error) from error
        finally:
            os.close(index)

    def read(self) -> list[CheckpointEntry]:
        """The entries in order of time. A line that was torn by a crash is skipped. Blocks."""
        found: list[CheckpointEntry] = []
        try:
            lines = self._index.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise fault("read", self._index, error) from error
        for line in lines:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                found.append(msgspec.json.decode(line, type=CheckpointEntry))
        return sorted(found, key=_time)


def share(source: SessionFiles, target: SessionFiles) -> None:
    """Give a copied session the checkpoints of its original; contents are linked, not copied. Blocks."""
    old, new = Checkpoints(source), Checkpoints(target)
    entries = old.read()
    if not entries:
        return
    make_dir(new.folder)
    for name in {entry.copy for entry in entries if entry.copy}:
        with suppress(OSError):  # a missing content is reported when somebody wants it back
            os.link(old.folder / name, new.folder / name)
    new.append(entries)


def _time(entry: CheckpointEntry) -> int:
    return entry.at


def _is_torn(index: int) -> bool:
    """Whether a killed process left half a line at the end."""
    end = os.fstat(index).st_size
    return end > 0 and os.pread(index, 1, end - 1) != b"\n"
