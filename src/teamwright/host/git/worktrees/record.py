"""Records of our worktrees in the shared git directory, and who has one in use.

`teamwright/NAME.json` there is written before git makes anything and deleted after git has removed everything: so a
kill at any step leaves something that the next one can tell.
"""

import fcntl
import os
import re
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git import LANDING, PLACE
from teamwright.osfiles.private import replace_file

PATIENCE = 60.0  # for the repository's lock, which is held for moments
_HOLDER = re.compile(r"teamwright pid=(\d+) start=(\S+) host=(\S+) owner=(\S*)\s*")


class Worktree(Struct, frozen=True):
    """One tree of files with its branch. It need not exist: a branch may be all that a crash left."""

    name: str
    path: Path
    branch: str
    base: str  # the commit that it started from
    repo: Path  # the main tree
    common: Path  # the git directory of all its worktrees
    made: bool = False  # by this call; else it was there before
    owner: str = ""
    session: str = ""
    kind: Literal["git", "hook"] = "git"  # made by a hook: all we know of it is its path
    warnings: tuple[str, ...] = ()


class WorktreeRecord(Struct, frozen=True):
    """What is remembered of a worktree; `links` are the directories that it shares with the main tree."""

    branch: str
    base: str
    phase: Literal["making", "ready", "closing", "returned"]  # the last: a branch from elsewhere, without a tree
    owner: str = ""
    session: str = ""
    made: float = 0.0
    links: dict[str, str] = {}


class Holder(Struct, frozen=True):
    """Who has it in use, as the reason of git's lock says. Without a pid it is somebody else's lock."""

    reason: str
    pid: int = 0
    start: str = ""
    host: str = ""
    owner: str = ""


def branch_of(name: str) -> str:
    return f"worktree-{name}"


def branch_at(path: Path) -> str:
    """The branch of the worktree that we made there; empty where one of ours cannot be, as where a hook made it."""
    return branch_of(path.name) if path.parts[-3:-1] == PLACE else ""


# --- records


def read_record(tree: Worktree) -> WorktreeRecord | None:
    """None also where it cannot be read: what is unknown is kept."""
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_record(tree).read_bytes(), type=WorktreeRecord)
    return None


def write_record(tree: Worktree, record: WorktreeRecord) -> None:
    path = _record(tree)
    try:
        replace_file(path, msgspec.json.encode(record), synced=False)
    except OSError as error:
        raise ToolError(f"{shown(str(path))} cannot be written: {error.strerror or error}.") from None


def forget(tree: Worktree) -> None:
    _record(tree).unlink(missing_ok=True)


def recorded(common: Path) -> list[str]:
    return [path.stem for path in (common / "teamwright").glob("*.json")]


def _record(tree: Worktree) -> Path:
    return tree.common / "teamwright" / f"{tree.name}.json"


# --- git's own register (its layout is documented in gitrepository-layout)


def registered(common: Path) -> Iterator[tuple[Path, Path]]:
    """(worktree, its private git directory) of every linked worktree."""
    for file in (common / "worktrees").glob("*/gitdir"):
        if path := _told_by(file):
            yield path, file.parent


def _told_by(file: Path) -> Path | None:
    try:
        told = os.fsdecode(file.read_bytes()).rstrip("\n")
    except OSError:
        return None
    return Path(os.path.normpath(file.parent / told)).parent


def private_of(tree: Worktree) -> Path | None:
    """The worktree's private git directory; None if git does not know it."""
    usual = tree.common / "worktrees" / tree.name  # git calls it so unless that was taken: no need to read them all
    if _told_by(usual / "gitdir") == tree.path:
        return usual
    return next((private for path, private in registered(tree.common) if path == tree.path), None)


def private_at(tree: Path) -> Path | None:
    """The same for a tree of which only the path is known; None unless both say that they belong together."""
    link = tree / ".git"
    if link.is_symlink() or not link.is_file():
        return None
    told = os.fsdecode(link.read_bytes()).removeprefix("gitdir: ").rstrip("\n")
    private = Path(os.path.normpath(tree / told))
    return private if _told_by(private / "gitdir") == tree else None


def is_there(path: Path) -> bool:
    """Also a link that leads nowhere."""
    return os.path.lexists(path)


def is_tied(tree: Worktree, private: Path) -> bool:
    """Does the tree still say that it belongs there? Else git would speak of the repository around it."""
    link = tree.path / ".git"
    with suppress(OSError):
        if link.is_symlink() or not link.is_file():
            return False
        told = os.fsdecode(link.read_bytes()).removeprefix("gitdir: ").rstrip("\n")
        return Path(os.path.normpath(tree.path / told)) == private
    return False


def require_tied(tree: Worktree) -> Path:
    private = private_of(tree)
    if private is None or not is_tied(tree, private):
        what = "is gone" if not tree.path.exists() else "is no longer tied to its repository"
        raise ToolError(f"The worktree {shown(str(tree.path))} {what}, so nobody can tell what was done in it.")
    return private


# --- who is at it


@asynccontextmanager
async def alone(common: Path) -> AsyncGenerator[int]:
    """One at a time in a repository. Gives the lock's handle: git inherits it, so that it outlasts our death."""
    folder = common / "teamwright"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ToolError(f"{shown(str(folder))} cannot be used: {error.strerror or error}.") from None
    try:
        until = anyio.current_time() + PATIENCE
        while not _flock(handle):
            if anyio.current_time() > until:
                raise ToolError(f"Another process holds {shown(str(folder / 'lock'))} for too long. Try again later.")
            await anyio.sleep(0.005)
        yield handle
    finally:
        os.close(handle)


def claim(private: Path) -> int | None:
    """A handle that says "files are being written": it lasts until we and our git are gone. None: others have it."""
    handle = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if _flock(handle):
        return handle
    os.close(handle)
    return None


def _flock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without such locks: git's own locks must do
        return True
    return True


def holder_of(private: Path) -> Holder | None:
    """Who locked it; None: nobody."""
    try:
        reason = (private / "locked").read_text(errors="replace")
    except OSError:
        return None
    found = _HOLDER.fullmatch(reason)
    return Holder(reason, int(found[1]), *found.group(2, 3, 4)) if found else Holder(reason)


async def lock_reason(owner: str) -> str:
    pid = os.getpid()
    return f"teamwright pid={pid} start={await _start_of(pid)} host={_host()} owner={owner}"


async def is_alive(holder: Holder) -> bool:
    """Of a process on another machine or in another container nothing can be known: it counts as alive."""
    if holder.host != _host():
        return True
    return await _start_of(holder.pid) == holder.start


async def is_ours(holder: Holder, owner: str) -> bool:
    return holder.pid == os.getpid() and holder.owner == owner and await is_alive(holder)


async def refuse_if_used(tree: Worktree, holder: Holder | None) -> None:
    if holder and holder.pid and not await is_ours(holder, tree.owner) and await is_alive(holder):
        who = f"{shown(holder.owner)} in " if holder.owner else ""
        raise ToolError(
            f"The worktree {tree.name} is in use by {who}process {holder.pid} on {shown(holder.host)}. Use another "
            f"name, or wait; if that process is gone, run `git worktree unlock` on it."
        )


async def left_behind(top: Path) -> list[Path]:
    """Worktrees of this main tree whose process has ended without letting go; looked up without git."""
    found: list[Path] = []
    with suppress(OSError):
        for link in sorted(top.joinpath(*PLACE).glob("*/.git")):
            with suppress(OSError):
                private = Path(os.fsdecode(link.read_bytes()).removeprefix("gitdir: ").rstrip("\n"))
                holder = holder_of(link.parent / private)
                ours = link.parent.name.startswith(LANDING)  # the next run of the queue removes it
                if holder and holder.pid and not ours and not await is_alive(holder):
                    found.append(link.parent)
    return found


def _host() -> str:
    return re.sub(r"\s", "_", socket.gethostname()) or "?"


async def _start_of(pid: int) -> str:
    """When the process started: with its number that names it for good. Empty if it is gone."""
    if sys.platform == "linux":
        return _start_in_proc(pid)
    told = await anyio.run_process(["ps", "-o", "lstart=", "-p", str(pid)], check=False)
    return "_".join(told.stdout.decode(errors="replace").split())


def _start_in_proc(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
