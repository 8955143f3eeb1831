"""Private file with argv, directory and environment, from which a new pane starts its program.

Other users can see every process's arguments, and terminals interpret formats, quotes and separators in theirs. So keys
and outside text go into a file with mode 0600 that is deleted as soon as it is read; the terminal gets only paths of
our own.
"""

import os
import shutil
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.panes import launcher as parcel_open

_FORGOTTEN = 600.0  # seconds; nobody waits so long for a start


class LaunchFile(Struct, frozen=True):
    directory: Path
    command: tuple[str, ...]  # what the pane runs; several words, so that no terminal takes it for shell text


class Started(Struct, frozen=True):
    """The program has started. `session` is iTerm2's name for its pane."""

    pid: int
    session: str = ""


def wrap(room: Path, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> LaunchFile:
    """Writes the file in a new directory in `room`, which only we can enter."""
    fields = _fields(argv, cwd, env)
    if not f"{room}{sys.executable}{parcel_open.__file__}".isprintable():
        raise ToolError(f"A path of ours holds control characters ({shown(str(room))}): no teammate was started.")
    try:
        _prepare(room)
        _sweep(room)
        directory = room / os.urandom(8).hex()
        directory.mkdir(0o700)
        handle = os.open(directory / "parcel", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(os.fsencode("\0".join(fields)))
    except OSError as error:
        raise ToolError(f"Cannot write {room}: {error.strerror}. No teammate was started.") from error
    command = (sys.executable, "-I", "-S", parcel_open.__file__, str(directory))
    return LaunchFile(directory, command)


def _program(argv: Sequence[str], env: Mapping[str, str]) -> str:
    name = argv[0] if argv else ""
    if (found := shutil.which(name, path=env.get("PATH", os.defpath))) is None:
        raise ToolError(f"There is no program {name!r}: no teammate was started.")
    return found


def _fields(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> list[str]:
    program = _program(argv, env)
    if not cwd.is_dir():
        raise ToolError(f"{cwd} is not a directory: no teammate was started. Name one that exists.")
    pairs = [f"{name}={value}" for name, value in env.items()]
    fields = [str(cwd.absolute()), str(len(argv)), program, *argv[1:], *pairs]
    if any("\0" in field for field in fields) or any("=" in name or not name for name in env):
        raise ToolError("Arguments and environment of a program cannot hold NUL, nor its variables' names `=`.")
    return fields


async def taken(parcel: LaunchFile, seconds: float) -> Started:
    """Waits until the pane has opened it. Polls briefly, because nothing else reports it."""
    receipt, pause = parcel.directory / "receipt", 0.005
    with anyio.move_on_after(seconds):
        while not receipt.exists():
            await anyio.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        pid, _, more = receipt.read_text(errors="replace").partition(" ")
        if pid == "error":
            raise ToolError(f"No teammate was started: {more}.")
        return Started(int(pid), more.rpartition(":")[2].strip("-"))
    raise ToolError(f"The new pane did not start its program within {seconds:g} s. Try again, or choose `in-process`.")


def discard(parcel: LaunchFile) -> None:
    """Deletes what is left of it; a pane that has not opened it yet finds nothing and ends."""
    shutil.rmtree(parcel.directory, ignore_errors=True)


def _prepare(room: Path) -> None:
    room.mkdir(0o700, parents=True, exist_ok=True)
    found = room.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ToolError(f"{room} is not a directory of yours: no teammate was started. Move it away.")
    if found.st_mode & 0o077:
        room.chmod(0o700)


def _sweep(room: Path) -> None:
    """Removes files left by killed starters."""
    for entry in room.iterdir():
        try:
            old = time.time() - entry.stat().st_mtime > _FORGOTTEN
        except OSError:
            continue  # another process was faster
        if old and len(entry.name) == 16:
            shutil.rmtree(entry, ignore_errors=True)
