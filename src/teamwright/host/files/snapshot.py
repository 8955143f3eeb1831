"""States of single files: records what is at a path, and restores it so that no crash leaves half a file."""

import hashlib
import os
import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.errors import ToolError
from teamwright.host.files.read_write import write_whole

LONGEST = 1_000_000  # bytes of a file whose lines are counted
ABSENT = "-"
CHANGED = "it was changed just now, by somebody else"


class FileState(Struct, frozen=True):
    """`data` belongs to a file, `link` to a symbolic link; `why` says why nothing could be kept."""

    kind: Literal["file", "link", "absent", "folder", "lost"]
    data: bytes = b""
    mode: int = 0o644
    link: str = ""
    why: str = ""

    @property
    def mark(self) -> str:
        """Equal for states that differ only in time."""
        match self.kind:
            case "file":
                return file_mark(hashlib.sha256(self.data).hexdigest(), self.mode)
            case "link":
                return f"l:{hashlib.sha256(os.fsencode(self.link)).hexdigest()[:32]}"
            case "absent":
                return ABSENT
            case "folder":
                return "d"
            case "lost":
                return f"?:{self.why}"


def file_mark(hash: str, mode: int) -> str:
    """The mark of a file with this content, given its SHA-256 in hexadecimal."""
    return f"f{'x' if mode & 0o111 else ''}:{hash[:32]}"


class NotRestored(Exception):
    """Why a file was not restored."""


def look_at(path: str, most: int) -> FileState:
    """The current state; never blocks on a device, follows no link. Does blocking I/O."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return FileState("link", link=str(Path(path).readlink()))
        if stat.S_ISDIR(found.st_mode):
            return FileState("folder", mode=stat.S_IMODE(found.st_mode))
        if not stat.S_ISREG(found.st_mode):
            return FileState("lost", why="it is no regular file")
        if found.st_size > most:
            return FileState("lost", why=f"it has {found.st_size:,} bytes, more than the {most:,} that are kept")
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            data = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return FileState("absent")
    except OSError as error:
        return FileState("lost", why=f"it cannot be read ({error.strerror})")
    if len(data) > most:
        return FileState("lost", why=f"it has more than the {most:,} bytes that are kept")
    return FileState("file", data, stat.S_IMODE(found.st_mode))


def put_back(path: Path, then: FileState, now: str, most: int) -> None:
    """Restores this state in one step, provided that the current state has the mark `now`. Raises NotRestored.
    Blocks."""
    try:
        _require_plain(path.parent)
        found = look_at(str(path), most)
        if found.mark != now:
            raise NotRestored(CHANGED)
        if then.kind == "absent":
            crashpoint("rewind.remove")
            path.unlink()
        elif then.kind == "file" and found.kind in ("file", "absent"):
            _rewrite(path, then, found)
        else:
            _replace(path, then)
    except NotADirectoryError:
        raise NotRestored("a folder on its path is a file now") from None
    except FileExistsError as error:
        raise NotRestored(f"{error.filename} is in the way") from None
    except OSError as error:
        raise NotRestored(error.strerror or str(error)) from None
    except ToolError as error:
        raise NotRestored(str(error)) from None


def _rewrite(path: Path, then: FileState, found: FileState) -> None:
    """Writes like the file tools: owner, attributes and other hard links are kept."""
    crashpoint("rewind.file")
    write_whole(path, then.data, basis=path.lstat() if found.kind == "file" else None)
    if stat.S_IMODE(path.lstat().st_mode) != then.mode:
        path.chmod(then.mode)


def _require_plain(folder: Path) -> None:
    """The path must lead where it led when the file was kept, not through a newer link."""
    if os.path.realpath(folder) != str(folder):
        raise NotRestored("its folder is a symbolic link now")


def _remove_folder(path: Path) -> None:
    """Removes a folder tree that contains no files, because none of those were kept."""
    if any(files for _, _, files in os.walk(path)):
        raise NotRestored("it is a directory with files now")
    for folder, _, _ in os.walk(path, topdown=False):
        Path(folder).rmdir()


def _replace(path: Path, state: FileState) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        _remove_folder(path)
    draft = path.with_name(f".teamwright-{os.urandom(6).hex()}.tmp")
    try:
        if state.kind == "link":
            draft.symlink_to(state.link)
        else:
            _write(draft, state)
        crashpoint("rewind.file")
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _write(draft: Path, state: FileState) -> None:
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(state.data)
        file.flush()
        os.fchmod(handle, state.mode)
        os.fsync(handle)


def count_lines(before: FileState, after: FileState) -> tuple[int, int]:
    """Lines added and removed, regardless of order; zero for files that are not text."""
    old, new = _lines(before), _lines(after)
    return (new - old).total(), (old - new).total()


def _lines(state: FileState) -> "Counter[bytes]":
    if len(state.data) > LONGEST or b"\0" in state.data[:8_000]:
        return Counter()
    return Counter(state.data.splitlines())
