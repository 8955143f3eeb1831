"""Git worktrees for agents: made from the parent's commit, locked while in use, removed only if provably unchanged.

What we know of each lies in the shared git directory (`teamwright/NAME.json`), is written before git makes anything and
deleted after git has removed everything: so a kill at any step leaves something that the next one can tell.
"""

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.errors import ToolError
from teamwright.core.shown import shown
from teamwright.host.git import (
    Repository,
    commit_of,
    count_commits,
    git,
    git_text,
    locate,
    read_status,
)

PLACE = (".teamwright", "worktrees")
KEPT = "refs/teamwright/kept"
PATIENCE = 60.0  # for the repository's lock, which is held for moments
CHECKOUT = 600.0
MOST_LINES = 30  # of a diffstat
MOST_PAST = 200  # entries of HEAD's own history that are looked through
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_HOLDER = re.compile(r"teamwright pid=(\d+) start=(\S+) host=(\S+) owner=(\S*)\s*")
_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer")


class Worktree(Struct, frozen=True):
    name: str
    path: Path
    branch: str
    base: str  # the commit that it started from
    repo: Path  # the main tree
    common: Path  # the git directory of all its worktrees
    made: bool = False  # now; else it was there before
    owner: str = ""
    warnings: tuple[str, ...] = ()


class State(Struct, frozen=True):
    """What was done in a worktree since its base. `summary` is the diffstat in words, `notes` what it cannot show."""

    changed: bool
    ahead: int = 0
    files: int = 0
    insertions: int = 0
    deletions: int = 0
    summary: str = ""
    notes: tuple[str, ...] = ()


class Kept(Struct, frozen=True):
    """A worktree that stays; `note` says why, where that is not plain from the state."""

    path: Path
    branch: str
    summary: str
    state: State
    note: str = ""


class Found(Struct, frozen=True):
    """A worktree in a listing. `orphan`: left behind half-made, half-removed or by a process that is gone."""

    worktree: Worktree
    use: Literal["in_use", "changed", "clean", "orphan"]
    state: State


class Record(Struct, frozen=True):
    """What the repository's git directory remembers of one of ours."""

    branch: str
    base: str
    phase: Literal["making", "ready", "closing"] = "ready"
    owner: str = ""
    made: float = 0.0
    links: dict[str, str] = {}


class Holder(Struct, frozen=True):
    """Who has it in use, as the reason of git's lock says. Without a pid it is somebody else's lock."""

    reason: str
    pid: int = 0
    start: str = ""
    host: str = ""
    owner: str = ""


def check_name(name: str) -> str:
    """The name as directory and branch have it: `a/b` becomes `a+b`."""
    flat = name.replace("/", "+")
    good = all(_SEGMENT.fullmatch(segment) and segment != "." for segment in flat.split("+"))
    fault = (
        "it is longer than 64 characters" if len(name) > 64
        else "each part needs at least one of A-Z a-z 0-9 . _ - and may have nothing else" if not good
        else "`..` is not allowed" if ".." in name
        else "it starts with `-`" if name.startswith("-")
        else "it ends with `.` or `.lock`" if name.lower().endswith((".", ".lock"))
        else "git keeps that name for itself" if name.lower() == ".git" else ""
    )  # fmt: skip
    if fault:
        raise ToolError(f"`{shown(name, 80)}` cannot be the name of a worktree: {fault}. Choose another, like `fix-login`.")
    return flat


# --- making


async def make(repo: Path, name: str, *, links: Sequence[str] = (), owner: str = "") -> Worktree:
    """The worktree of that name, made from the HEAD of `repo` unless it is there already; locked for us.

    `owner` names the agent that will use it: another one cannot have it meanwhile, also not in this process.
    """
    name, owner = check_name(name), re.sub(r"[^\w.@+-]", "_", owner)[:100]
    place = await locate(repo)
    path = place.top.joinpath(*PLACE, name)
    async with _alone(place.common) as held:
        _prepare(place)
        record = await _reuse(place, path, owner, held)
        tree = Worktree(name, path, f"worktree-{name}", record.base if record else "", place.top, place.common, owner=owner)
        if record:
            return _finish(tree, record, links)
        tree, claim = await _add(place, tree, held)
    done = False
    try:
        await git_text("reset", "--hard", "--quiet", "--no-recurse-submodules", cwd=path, limit=CHECKOUT, held=claim)
        crashpoint("worktree.filled")
        done = True
    finally:
        os.close(claim)
        if not done:
            with anyio.move_on_after(PATIENCE, shield=True):
                await _undo(tree, place)
    return _finish(tree, _read(tree) or Record(tree.branch, tree.base), links)


def _prepare(place: Repository) -> None:
    """The directory for worktrees, which must really lie in the main tree, and git's order not to see it."""
    folder, exclude = place.top, place.common / "info" / "exclude"
    line = f"/{'/'.join(PLACE)}/"
    try:
        for part in PLACE:
            folder /= part
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_symlink():
                raise ToolError(f"{shown(str(folder))} is a link; worktrees are made only in a real directory there.")
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a+b") as file:
            file.seek(0)
            known = file.read()
            if line.encode() not in known.splitlines():
                file.write(b"\n" * (known[-1:] not in (b"", b"\n")) + f"{line}\n".encode())
    except OSError as error:
        why = error.strerror or error
        raise ToolError(f"No worktree can be made in {shown(str(folder))}: {why} ({shown(str(error.filename))}).") from None


async def _reuse(place: Repository, path: Path, owner: str, held: int) -> Record | None:
    """What is there already, now locked for us. None: nothing is there any more, and one can be made."""
    admin = _admin(place.common, path)
    tree = Worktree(path.name, path, f"worktree-{path.name}", place.head, place.top, place.common, owner=owner)
    if admin is None:
        if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
            raise ToolError(f"{shown(str(path))} exists but is no worktree of this repository. Move it away, or use another name.")
        return None
    holder = _holder(admin)
    await _refuse_if_used(tree, holder)
    record = _read(tree)
    if await _half(tree, admin, record):
        await _clear(tree, admin, held)
        return None
    if record is None:  # made by hand, or by a program that forgot it
        ran = await git("merge-base", "HEAD", place.head, cwd=path)
        record = Record(tree.branch, ran.out.strip() or place.head, made=time.time())
    if holder and holder.pid:
        await git_text("worktree", "unlock", str(path), cwd=place.top, held=held)
    if not holder or holder.pid:
        await git_text("worktree", "lock", "--reason", await _reason(owner), str(path), cwd=place.top, held=held)
    return msgspec.structs.replace(record, phase="ready", owner=owner)


async def _half(tree: Worktree, admin: Path, record: Record | None) -> bool:
    """Was it never finished, or is it half removed? Then nobody has worked in it since."""
    if not tree.path.is_dir():
        return True
    if record and record.phase == "making":
        claim = _claim(admin)
        if claim is None:
            raise ToolError(f"The worktree {tree.name} is just being made for somebody else. Use another name, or try again.")
        os.close(claim)
        return True
    if record and record.phase == "closing":
        status = await read_status(tree.path)
        return not status.untracked and 0 < status.gone == len(status.changed)
    return not (admin / "index").exists()


async def _add(place: Repository, tree: Worktree, held: int) -> tuple[Worktree, int]:
    """Let git register it, still empty: files come later, when the repository's lock is free for others again."""
    base = place.head
    front = ("worktree", "add", "--quiet", "--no-checkout", "--no-track", "--lock", "--reason", await _reason(tree.owner))
    _write(tree, Record(tree.branch, base, "making", tree.owner, time.time()))
    crashpoint("worktree.recorded")
    ran = await git(*front, "-b", tree.branch, str(tree.path), base, cwd=place.top, held=held)
    if ran.status and (tip := await commit_of(f"refs/heads/{tree.branch}", cwd=place.top)):
        if await count_commits([tip], base, cwd=place.top):
            ran = await git(*front, str(tree.path), tree.branch, cwd=place.top, held=held)
            base = (await git("merge-base", base, tip, cwd=place.top)).out.strip() or base
        else:  # left behind without a commit of its own: it starts anew
            ran = await git(*front, "-B", tree.branch, str(tree.path), base, cwd=place.top, held=held)
    admin = _admin(place.common, tree.path)
    if ran.status or admin is None:
        _forget(tree)
        raise ToolError(f"git could not make the worktree {shown(str(tree.path))}: {ran.complaint}")
    crashpoint("worktree.added")
    tree = msgspec.structs.replace(tree, base=base, made=True)
    _write(tree, Record(tree.branch, base, "making", tree.owner, time.time()))
    claim = _claim(admin)
    assert claim is not None, "nobody else claims it while we hold the repository's lock"
    return tree, claim


async def _undo(tree: Worktree, place: Repository) -> None:
    """What could not be finished is taken away again; what even that leaves, the next `make` clears."""
    with suppress(ToolError):
        async with _alone(place.common) as held:
            await git_text("worktree", "remove", "-f", "-f", str(tree.path), cwd=place.top, held=held)
            await _drop_branch(tree, held)
            _forget(tree)


def _finish(tree: Worktree, record: Record, links: Sequence[str]) -> Worktree:
    made, warnings = _link(tree, links)
    crashpoint("worktree.linked")
    _write(tree, msgspec.structs.replace(record, phase="ready", links=record.links | made))
    if (tree.path / ".gitmodules").exists():
        warnings.append("Submodules are not checked out here; `git submodule update --init` does it.")
    admin = _admin(tree.common, tree.path)
    if admin and (admin / "index.lock").exists():
        warnings.append(f"{shown(str(admin / 'index.lock'))} was left by a git that is gone; if none runs, delete it.")
    return msgspec.structs.replace(tree, warnings=tuple(warnings))


def _link(tree: Worktree, links: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Directories of the main tree that are shared, not copied: {path: target} of ours, and warnings."""
    made: dict[str, str] = {}
    warnings: list[str] = []
    for name in links:
        source, target = tree.repo / name, tree.path / name
        parts = Path(name).parts
        if not parts or name.startswith("/") or not {"..", ".git", ".teamwright"}.isdisjoint(parts):
            warnings.append(f"`{shown(name)}` is not linked: only directories below the project can be.")
        elif not source.exists() or target.is_symlink():
            if target.is_symlink() and str(target.readlink()) == str(source):
                made[name] = str(source)
        elif not source.is_dir():
            warnings.append(f"`{shown(name)}` is not linked: it is not a directory.")
        elif not target.parent.resolve().is_relative_to(tree.path.resolve()):
            warnings.append(f"`{shown(name)}` is not linked: its place leads out of the worktree.")
        else:
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source, target_is_directory=True)
                made[name] = str(source)
            except OSError as error:
                warnings.append(f"`{shown(name)}` is not linked: {error.strerror or error}.")
    return made, warnings
