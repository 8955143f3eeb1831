"""Records of our worktrees in the shared git directory, and of who is using one.

`teamwright/NAME.json` there is written before git creates anything and deleted after git has removed everything. So a
kill at any step leaves something from which the next process can tell what happened.
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
from teamwright.host.git.places import repository_of
from teamwright.osfiles.private import replace_file

PATIENCE = 60.0  # seconds to wait for the repository's lock, which is held only briefly
_HOLDER = re.compile(r"teamwright pid=(\d+) start=(\S+) host=(\S+) owner=(\S*)\s*")


class Worktree(Struct, frozen=True):
    """A tree of files with its branch. It may not exist: after a crash there may be only the branch."""

    name: str
    path: Path
    branch: str
    base: str  # the commit that it started from
    repo: Path  # the main tree
    common: Path  # the git directory shared by all worktrees
    made: bool = False  # created by this call, rather than found
    owner: str = ""
    session: str = ""
    kind: Literal["git", "hook"] = "git"  # hook: made by a hook, so only its path is known
    warnings: tuple[str, ...] = ()


class WorktreeRecord(Struct, frozen=True):
    """What is remembered of a worktree; `links` are the directories it shares with the main tree."""

    branch: str
    base: str
    phase: Literal["making", "ready", "closing", "returned"]  # returned: a branch from another machine, without a tree
    owner: str = ""
    session: str = ""
    made: float = 0.0
    links: dict[str, str] = {}


class Holder(Struct, frozen=True):
    """Who is using it, according to git's lock reason. Without a pid the lock is somebody else's."""

    reason: str
    pid: int = 0
    start: str = ""
    host: str = ""
    owner: str = ""


def branch_of(name: str) -> str:
    return f"worktree-{name}"


def branch_at(path: Path) -> str:
    """The branch of our worktree at this path; empty if none of ours can be there, for example one made by a hook."""
    return branch_of(path.name) if path.parts[-3:-1] == PLACE else ""


# --- records


def read_record(tree: Worktree) -> WorktreeRecord | None:
    """Also None if it is unreadable: unknown content is left alone."""
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


def has_record(path: Path) -> bool:
    """Is there a record of the worktree at this path? A hook may make its own in the same place."""
    common = repository_of(str(path))
    return bool(branch_at(path) and common) and Path(common, "teamwright", f"{path.name}.json").exists()


def recorded(common: Path) -> list[str]:
    return [path.stem for path in (common / "teamwright").glob("*.json")]


def _record(tree: Worktree) -> Path:
    return tree.common / "teamwright" / f"{tree.name}.json"


# --- git's own registry (see gitrepository-layout)


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
    """The worktree's private git directory; None if git does not know the worktree."""
    usual = tree.common / "worktrees" / tree.name  # git's name for it unless that was taken; saves reading them all
    if _told_by(usual / "gitdir") == tree.path:
        return usual
    return next((private for path, private in registered(tree.common) if path == tree.path), None)


def private_at(tree: Path) -> Path | None:
    """The same, given only the tree's path; None unless each side names the other."""
    link = tree / ".git"
    if link.is_symlink() or not link.is_file():
        return None
    told = os.fsdecode(link.read_bytes()).removeprefix("gitdir: ").rstrip("\n")
    private = Path(os.path.normpath(tree / told))
    return private if _told_by(private / "gitdir") == tree else None


def is_there(path: Path) -> bool:
    """Does the path exist, even as a dangling link?"""
    return os.path.lexists(path)


def is_tied(tree: Worktree, private: Path) -> bool:
    """Does the tree still name its private directory? Otherwise git would use the repository around it."""
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


# --- locks and holders


@asynccontextmanager
async def alone(common: Path) -> AsyncGenerator[int]:
    """Locks a repository. Yields the lock's handle: git inherits it, so that the lock outlives us if we are killed."""
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
    """A handle that marks the tree as being written, until we and our git are gone. None: others hold it."""
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
    except OSError:  # a file system without such locks: rely on git's own
        return True
    return True


def holder_of(private: Path) -> Holder | None:
    """Who locked it; None if nobody did."""
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
    """Processes on other machines or in other containers cannot be checked, so they count as alive."""
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
    """Worktrees of this main tree whose process ended without releasing them; found without git."""
    found: list[Path] = []
    with suppress(OSError):
        for link in sorted(top.joinpath(*PLACE).glob("*/.git")):
            with suppress(OSError):
                private = Path(os.fsdecode(link.read_bytes()).removeprefix("gitdir: ").rstrip("\n"))
                holder = holder_of(link.parent / private)
                ours = link.parent.name.startswith(LANDING)  # removed by the next run of the queue
                if holder and holder.pid and not ours and not await is_alive(holder):
                    found.append(link.parent)
    return found


def _host() -> str:
    return re.sub(r"\s", "_", socket.gethostname()) or "?"


async def _start_of(pid: int) -> str:
    """The process's start time, which with its pid identifies it permanently. Empty if it is gone."""
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
