"""Creates worktrees or resumes existing ones: always whole, or with a reason why not."""

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git import LANDING
from teamwright.host.git.places import leave_out
from teamwright.host.git.run import Checkout, commit_of, count_commits, git, git_text, locate
from teamwright.host.git.worktrees.record import (
    PATIENCE,
    PLACE,
    Worktree,
    WorktreeRecord,
    alone,
    branch_of,
    claim,
    forget,
    holder_of,
    is_there,
    is_tied,
    lock_reason,
    private_of,
    read_record,
    recorded,
    refuse_if_used,
    registered,
    write_record,
)
from teamwright.host.git.worktrees.status import keep, keep_past, read_status

CHECKOUT = 600.0
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
# Windows device names, since the repository may be checked out there, and names that git itself resolves.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|([a-z]+_)*head|stash|auto_merge|@", re.IGNORECASE)


def check_name(name: str) -> str:
    """The name as used for directory and branch: `a/b` becomes `a+b`."""
    flat = name.replace("/", "+")
    good = all(_SEGMENT.fullmatch(segment) and segment != "." for segment in flat.split("+"))
    faults = {
        "it is longer than 64 characters": len(name) > 64,
        "`..` is not allowed": ".." in name,
        "each part needs at least one of A-Z a-z 0-9 . _ - and may have nothing else": not good,
        "it starts with `-`": name.startswith("-"),
        "it ends with `.` or `.lock`": name.lower().endswith((".", ".lock")),
        "git keeps that name for itself": name.lower() == ".git",
        "the landing queue keeps such names for itself": flat.startswith(LANDING),
        "git or another system keeps that name for itself": _RESERVED.fullmatch(flat),
    }
    if fault := next((words for words, found in faults.items() if found), None):
        raise ToolError(f"`{shown(name, 80)}` cannot name a worktree: {fault}. Choose another name, like `fix-login`.")
    return flat


async def make(
    repo: Path,
    name: str,
    *,
    links: Sequence[str] = (),
    owner: str = "",
    session: str = "",
    apart: bool = False,
    announce: Callable[[Worktree], None] | None = None,
) -> Worktree:
    """The worktree of that name, locked for us; created from the HEAD of `repo` unless it exists.

    `owner` names the agent that will use it; no other agent can have it meanwhile, even in this process. `apart`: never
    take somebody else's; use a numbered name instead. `announce` is called before anything is created, and again if the
    name changes.
    """
    name, owner = check_name(name), re.sub(r"[^A-Za-z0-9._@+-]", "_", owner)[:100]
    place = await locate(repo)
    begun = done = False
    handle = None
    tree = _named(place, name, owner, session)
    record = WorktreeRecord(tree.branch, tree.base, "making", owner, session, time.time())
    try:
        async with alone(place.common) as held:
            if announce:
                announce(tree)
            prepare_place(place)
            if apart and (own := await _own_name(tree)) != name:
                tree = _named(place, own, owner, session)
                record = replace(record, branch=tree.branch)
                if announce:
                    announce(tree)
            if known := await _reuse(tree, held):
                return _finish(replace(tree, base=known.base), known, links)
            begun = True
            record = await _add(tree, record, held)
            private = private_of(tree)
            handle = claim(private) if private else None
        whole = ("reset", "--hard", "--quiet", "--no-recurse-submodules")
        await git_text(*whole, cwd=tree.path, limit=CHECKOUT, held=handle)
        crashpoint("worktree.filled")
        done = True
    finally:
        if begun and not done:
            with anyio.move_on_after(PATIENCE, shield=True):
                await _undo(tree, record)
        if handle is not None:
            os.close(handle)
    return _finish(replace(tree, base=record.base, made=True), record, links)


def _named(place: Checkout, name: str, owner: str, session: str) -> Worktree:
    path = place.top.joinpath(*PLACE, name)
    return Worktree(name, path, branch_of(name), place.head, place.top, place.common, owner=owner, session=session)


async def _own_name(tree: Worktree) -> str:
    """The first of NAME, NAME-2, NAME-3 ... that is the owner's already or completely unused: unknown to git, and
    without a directory, record or branch. Ignores case, as some disks do."""
    used = await taken_branches(tree)
    own, number = tree.name, 1
    while branch_of(own).casefold() in used and not _is_owners(tree, own):
        number += 1
        own = f"{tree.name}-{number}"
    return own


async def taken_branches(tree: Worktree) -> set[str]:
    """Branches, in lower case, that start like the tree's and are in use."""
    front = f"refs/heads/{tree.branch}"
    told = await git_text(
        "for-each-ref", "--format=%(refname)", "--ignore-case", f"{front}*", f"{front}*/**", cwd=tree.repo
    )
    taken = {line.removeprefix("refs/heads/").partition("/")[0] for line in told.splitlines()}
    taken |= {branch_of(name) for name in recorded(tree.common)}
    taken |= {branch_of(path.name) for path, _ in registered(tree.common)}
    with suppress(OSError):
        beside = tree.path.parent
        taken |= {branch_of(entry.name) for entry in beside.iterdir()}
    return {branch.casefold() for branch in taken}


def _is_owners(tree: Worktree, name: str) -> bool:
    record = read_record(replace(tree, name=name))
    return bool(tree.owner) and record is not None and record.owner == tree.owner


def prepare_place(place: Checkout) -> None:
    """Creates the directory for worktrees, which must really be inside the main tree, and makes git ignore it."""
    folder = place.top
    try:
        for part in PLACE:
            folder /= part
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_symlink():
                raise ToolError(f"{shown(str(folder))} is a link; worktrees are made only in a true directory there.")
        leave_out(place.common, f"/{'/'.join(PLACE)}/")
    except OSError as error:
        why = f"{error.strerror or error} ({shown(str(error.filename))})"
        raise ToolError(f"No worktree can be made below {shown(str(place.top))}: {why}.") from None


async def _reuse(tree: Worktree, held: int) -> WorktreeRecord | None:
    """Takes over an existing worktree and locks it for us. None: there is none, or none any more."""
    path, private = tree.path, private_of(tree)
    if private is None:
        _require_free(path)
        return None
    holder = holder_of(private)
    await refuse_if_used(tree, holder)
    record = read_record(tree)
    if await _is_half(tree, private, record):
        await _clear(tree, private, held)
        return None
    if record is None:  # made by hand
        ran = await git("merge-base", "HEAD", tree.base, cwd=path)
        record = WorktreeRecord(tree.branch, ran.out.strip() or tree.base, "ready", made=time.time())
    if holder and holder.pid:
        await git_text("worktree", "unlock", str(path), cwd=tree.repo, held=held)
    if not holder or holder.pid:  # a person's own lock stays
        reason = await lock_reason(tree.owner)
        await git_text("worktree", "lock", "--reason", reason, str(path), cwd=tree.repo, held=held)
    return replace(record, owner=tree.owner, session=tree.session)


def _require_free(path: Path) -> None:
    try:
        taken = path.is_symlink() or (path.exists() and any(path.iterdir()))
    except OSError:
        taken = True
    if taken:
        where = shown(str(path))
        raise ToolError(f"{where} exists but is not a worktree of this repository. Move it away, or use another name.")


def _refuse_while_made(tree: Worktree, private: Path) -> None:
    handle = claim(private)
    if handle is None:
        raise ToolError(f"The worktree {tree.name} is being made at this moment. Use another name, or try again.")
    os.close(handle)


async def _is_half(tree: Worktree, private: Path, record: WorktreeRecord | None) -> bool:
    """Was it never finished, or is it half removed? Then nobody has worked in it since."""
    phase = record.phase if record else "ready"
    if not tree.path.is_dir():
        return True
    if phase == "making":
        _refuse_while_made(tree, private)
    if phase != "ready" and not is_there(tree.path / ".git"):
        await git_text("worktree", "repair", cwd=tree.repo)
    if not is_tied(tree, private):
        where = shown(str(tree.path))
        raise ToolError(f"{where} is no longer tied to its repository. Move it away, or use another name.")
    if phase == "closing":
        status = await read_status(tree.path)
        return not status.untracked and 0 < status.gone == len(status.changed)
    return phase == "making" or not (private / "index").exists()


async def _clear(tree: Worktree, private: Path, held: int) -> None:
    """Removes an incomplete worktree; anything put into it is kept under a hidden ref."""
    if tree.path.is_dir():
        await keep(tree, private, half=True)
    else:
        await keep_past(tree, private)
    await git_text("worktree", "remove", "-f", "-f", str(tree.path), cwd=tree.repo, held=held, limit=CHECKOUT)


async def _add(tree: Worktree, record: WorktreeRecord, held: int) -> WorktreeRecord:
    """Registers it with git, still empty: files come later, when the repository's lock is free for others."""
    path, branch, base = str(tree.path), tree.branch, tree.base
    reason = await lock_reason(tree.owner)
    front = ("worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", reason)
    write_record(tree, record)
    crashpoint("worktree.recorded")
    ran = await git(*front, "-b", branch, path, base, cwd=tree.repo, held=held)
    if ran.status and (tip := await commit_of(f"refs/heads/{branch}", cwd=tree.repo)):
        if await count_commits([tip], base, cwd=tree.repo):
            record = replace(record, base=(await git("merge-base", base, tip, cwd=tree.repo)).out.strip() or base)
            write_record(tree, record)
            ran = await git(*front, path, branch, cwd=tree.repo, held=held)
        else:  # left behind without a commit of its own, so it starts over
            ran = await git(*front, "-B", branch, path, base, cwd=tree.repo, held=held)
    if ran.status:
        await drop_branch(tree, held)  # git creates the branch first
        forget(tree)
        raise ToolError(f"git could not make the worktree {shown(path)}: {ran.complaint}")
    crashpoint("worktree.added")
    return record


async def _undo(tree: Worktree, record: WorktreeRecord) -> None:
    """Removes what could not be finished; leftovers are cleared by the next `make`."""
    with suppress(ToolError):
        async with alone(tree.common) as held:
            now = read_record(tree)
            if now and now.made == record.made:
                await git_text("worktree", "remove", "-f", "-f", str(tree.path), cwd=tree.repo, held=held)
                await drop_branch(replace(tree, base=record.base), held)
                forget(tree)


def _finish(tree: Worktree, record: WorktreeRecord, links: Sequence[str]) -> Worktree:
    wanted = {str(Path(name)): str(tree.repo / name) for name in links if _is_below(name)}
    record = replace(record, phase="ready", links=record.links | wanted)
    write_record(tree, record)  # before the links, so that each is known as ours
    crashpoint("worktree.ready")
    made, warnings = link(tree, links)
    if made != wanted:
        others = {name: target for name, target in record.links.items() if name not in wanted}
        write_record(tree, replace(record, links=others | made))
    if (tree.path / ".gitmodules").exists():
        warnings.append("Submodules are not checked out here; `git submodule update --init` does it.")
    private = private_of(tree)
    if private and (private / "index.lock").exists():
        warnings.append(f"{shown(str(private / 'index.lock'))} is there: if no git runs in the worktree, delete it.")
    return replace(tree, warnings=tuple(warnings))


def link(tree: Worktree, links: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Links directories of the main tree instead of copying them. Returns our links as {path: target}, and warnings."""
    made: dict[str, str] = {}
    warnings: list[str] = []
    for name in links:
        try:
            if _link_one(tree, name):
                made[str(Path(name))] = str(tree.repo / name)
        except OSError as error:
            warnings.append(f"`{shown(name)}` is not linked: {error.strerror or error}.")
    return made, warnings


def _is_below(name: str) -> bool:
    parts = Path(name).parts
    inside = {"..", ".git", PLACE[0]}.isdisjoint(parts) and "\0" not in name
    return bool(parts) and inside and not name.startswith("/")


def _link_one(tree: Worktree, name: str) -> bool:
    """Returns True if our link is there."""
    source, target = tree.repo / name, tree.path / name
    if not _is_below(name):
        raise OSError("only directories below the project can be")
    if target.is_symlink():
        return str(target.readlink()) == str(source)
    if not source.exists():
        return False
    if not source.is_dir():
        raise OSError("it is not a directory")
    if not target.parent.resolve().is_relative_to(tree.path.resolve()):
        raise OSError("its place leads out of the worktree")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source, target_is_directory=True)
    return True


async def drop_branch(tree: Worktree, held: int, *, whatever: bool = False) -> None:
    """Deletes the branch if it has no commits of its own; git refuses if it is checked out somewhere."""
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    if tip and (whatever or not await count_commits([tip], tree.base, cwd=tree.repo)):
        await git("branch", "--quiet", "-D", tree.branch, cwd=tree.repo, held=held)
