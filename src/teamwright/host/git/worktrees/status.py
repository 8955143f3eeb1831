"""Status of a worktree, checking everywhere that work can hide, and how all of it is kept."""

import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import plural, shown
from teamwright.host.git.guard import is_trusted
from teamwright.host.git.run import commit_of, count_commits, git, git_text
from teamwright.host.git.worktrees import record as records
from teamwright.host.git.worktrees.ignored import in_words, made_here, to_be_kept
from teamwright.host.git.worktrees.record import Worktree, WorktreeRecord, is_there, read_record, registered

KEPT = "refs/teamwright/kept"
MOST_LINES = 30  # in a diffstat
MOST_PAST = 200  # entries of HEAD's reflog that are checked
UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a series",
}
_US = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Teamwright"), ("EMAIL", "teamwright@localhost"))
}


class Status(Struct, frozen=True):
    """A tree's uncommitted changes."""

    head: str  # the commit; empty before the first one
    changed: tuple[str, ...]  # tracked paths, staged or not
    gone: int  # how many of them are merely missing from the tree
    untracked: tuple[str, ...]  # a nested repository ends with a slash
    hidden: tuple[str, ...]  # existing paths that git was told not to check
    ignored: tuple[str, ...] = ()  # a whole directory of them ends with a slash


async def read_status(tree: Path) -> Status:
    told = await git_text(
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignored=matching",
        _submodules(tree),
        cwd=tree,
    )
    head, gone = "", 0
    changed: list[str] = []
    untracked: list[str] = []
    ignored: list[str] = []
    for entry in told.split("\0"):
        if entry.startswith("# branch.oid "):
            head = entry[13:].replace("(initial)", "")
        elif entry.startswith("? "):
            untracked.append(entry[2:])
        elif entry.startswith("! "):
            ignored.append(entry[2:])
        elif entry.startswith(("1 ", "u ")):
            changed.append(entry.split(" ", 8 if entry[0] == "1" else 10)[-1])
            gone += entry[2:4] in ("D.", ".D")
    return Status(head, tuple(changed), gone, tuple(untracked), await hidden_paths(tree), tuple(ignored))


def _submodules(tree: Path) -> str:
    """To look for changes inside a submodule, git starts another git there, which obeys that repository's
    configuration."""
    return f"--ignore-submodules={'none' if is_trusted(tree) else 'dirty'}"


async def hidden_paths(tree: Path) -> tuple[str, ...]:
    """Paths marked with `git update-index --assume-unchanged` or `--skip-worktree`, which hide edits from git."""
    listed = await git_text("ls-files", "-v", "-z", cwd=tree)
    marked = [line[2:] for line in listed.split("\0") if line[:1].islower() or line[:1] == "S"]
    return tuple(path for path in marked if is_there(tree / path))


class DiffstatRow(Struct, frozen=True):
    """One file of a diffstat; a binary one has no lines."""

    path: str
    plus: int
    minus: int


async def read_diffstat(tree: Path, private: Path, base: str, untracked: Iterable[str]) -> list[DiffstatRow]:
    """From the commit `base` to the current files, including untracked ones; stores no content."""
    async with _spare_index(tree, private) as extra:
        names = "\0".join(name for name in untracked if not name.endswith("/"))
        if names:
            await git_text(
                "add",
                "--intent-to-add",
                "--ignore-errors",
                "--pathspec-from-file=-",
                "--pathspec-file-nul",
                cwd=tree,
                input=os.fsencode(names),
                extra=extra,
            )
        told = await git_text(
            "diff",
            "--numstat",
            "-z",
            "-M",
            "--no-ext-diff",
            "--no-textconv",
            _submodules(tree),
            base,
            cwd=tree,
            extra=extra,
        )
    return read_numstat(told)


def read_numstat(told: str) -> list[DiffstatRow]:
    """Parses the output of `--numstat -z`."""
    lines: list[DiffstatRow] = []
    fields = iter(told.split("\0"))
    for field in fields:
        if not field:
            continue
        plus, minus, path = field.split("\t", 2)
        if not path:  # a rename: the old name and the new one follow
            path = f"{next(fields)} => {next(fields)}"
        lines.append(DiffstatRow(path, *(0 if n == "-" else int(n) for n in (plus, minus))))
    return lines


@asynccontextmanager
async def _spare_index(tree: Path, private: Path) -> AsyncGenerator[dict[str, str]]:
    """An environment with a copy of the tree's index, because the real one is not ours to change."""
    with tempfile.TemporaryDirectory(prefix="teamwright-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "index"
        extra = {"GIT_INDEX_FILE": str(copy)}
        try:
            await anyio.to_thread.run_sync(shutil.copyfile, private / "index", copy)
        except FileNotFoundError:  # an unfinished checkout
            await git_text("read-tree", "HEAD", cwd=tree, extra=extra)
        yield extra


class Snapshot(Struct, frozen=True):
    """Trees stored in the repository: the current files, and the staged ones."""

    files: str
    staged: str | None  # None: unknown because of conflicts


async def take_snapshot(
    tree: Path, private: Path, hidden: Sequence[str], without: Collection[str], besides: Sequence[str] = ()
) -> Snapshot:
    """Stores everything except `without`; of ignored files only `besides`. Changes neither the tree nor its index."""
    async with _spare_index(tree, private) as extra:
        staged = await git("write-tree", cwd=tree, extra=extra)
        for flag in ("--no-assume-unchanged", "--no-skip-worktree") if hidden else ():
            names = os.fsencode("\0".join(hidden))
            await git_text("update-index", flag, "-z", "--stdin", cwd=tree, input=names, extra=extra)
        await git_text("add", "--all", cwd=tree, limit=300, extra=extra)
        if besides:
            await git_text(
                "add",
                "--force",
                "--pathspec-from-file=-",
                "--pathspec-file-nul",
                cwd=tree,
                limit=300,
                input=os.fsencode("\0".join(besides)),
                extra=extra,
            )
        if without:
            await git_text("rm", "--cached", "--quiet", "--ignore-unmatch", "--", *without, cwd=tree, extra=extra)
        files = await git_text("write-tree", cwd=tree, extra=extra)
    return Snapshot(files.strip(), None if staged.status else staged.out.strip())


# --- work since the base


class TreeState(Struct, frozen=True):
    """Work since the base. `summary` is the diffstat in words, `notes` what a diffstat cannot show."""

    changed: bool
    ahead: int = 0
    loose: bool = False  # something is uncommitted
    files: int = 0
    insertions: int = 0
    deletions: int = 0
    summary: str = ""
    notes: tuple[str, ...] = ()


async def state(tree: Worktree, among: Sequence[Path] | None = None) -> TreeState:
    """Raises ToolError if it cannot be determined; then nothing may be removed. `among`: all worktrees, if known."""
    private = records.require_tied(tree)
    record = read_record(tree)
    status = await read_status(tree.path)
    if not status.head:
        raise ToolError(f"The worktree {shown(str(tree.path))} is on a branch without a commit.")
    own = own_links(tree)
    untracked = [path for path in status.untracked if path not in own]
    ahead = await _count_ahead(tree, status.head)
    notes = [*_notes(tree, private, status, record, among), *await _stashes(tree, record)]
    if status.ignored and (ignored := await anyio.to_thread.run_sync(made_here, tree.path, status.ignored, own)):
        notes.append(in_words(ignored))
    if not (status.changed or untracked or ahead or notes):
        return TreeState(changed=False)
    lines = await read_diffstat(tree.path, private, tree.base, untracked)
    return tree_state(lines, ahead, notes, loose=bool(status.changed or untracked))


def tree_state(lines: Sequence[DiffstatRow], ahead: int, notes: Sequence[str], *, loose: bool) -> TreeState:
    plus, minus = sum(map(attrgetter("plus"), lines)), sum(map(attrgetter("minus"), lines))
    summary = _summary(lines, plus, minus, [*_committed(ahead, loose=loose), *notes])
    return TreeState(
        changed=True,
        ahead=ahead,
        loose=loose,
        files=len(lines),
        insertions=plus,
        deletions=minus,
        summary=summary,
        notes=tuple(notes),
    )


async def _count_ahead(tree: Worktree, head: str) -> int:
    ends = {*await tips(tree, head)} - {tree.base}
    return await count_commits(sorted(ends), tree.base, cwd=tree.path) if ends else 0


def own_links(tree: Worktree) -> set[str]:
    """Links that we made and that are unchanged."""
    record = read_record(tree)
    links = record.links if record else {}
    return {name for name, target in links.items() if _points(tree.path / name, target)}


def _points(path: Path, target: str) -> bool:
    return path.is_symlink() and str(path.readlink()) == target


async def tips(tree: Worktree, head: str) -> list[str]:
    """HEAD and the tip of the worktree's branch, which may differ if the agent switched branches."""
    tip = _loose_tip(tree) or await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    return [head, tip] if tip and tip != head else [head]


def _loose_tip(tree: Worktree) -> str:
    """The branch's tip from git's loose ref; empty if it was packed, and git must be asked."""
    with suppress(OSError, ValueError):
        told = (tree.common / "refs" / "heads" / tree.branch).read_text().strip()
        return told if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", told) else ""
    return ""


def _notes(
    tree: Worktree, private: Path, status: Status, record: WorktreeRecord | None, among: Sequence[Path] | None
) -> list[str]:
    found = [f"{words} is under way" for name, words in UNDER_WAY.items() if (private / name).exists()]
    if status.hidden:
        found.append(f"git was told not to look at {len(status.hidden)} of the files")
    if has_submodules(private):
        found.append("submodules are checked out")
    if inner_trees(tree, among):
        found.append("another worktree lies in it")
    for name, target in (record.links if record else {}).items():
        place = tree.path / name
        if is_there(place) and not _points(place, target):
            found.append(f"the link {shown(name, 80)} was replaced")
    return found


def has_submodules(private: Path) -> bool:
    """Submodule repositories are in the worktree's private directory and would be removed with it."""
    modules = private / "modules"
    return modules.is_dir() and any(modules.iterdir())


def inner_trees(tree: Worktree, among: Sequence[Path] | None = None) -> list[Path]:
    every = [path for path, _ in registered(tree.common)] if among is None else among
    return [path for path in every if path != tree.path and path.is_relative_to(tree.path)]


async def _stashes(tree: Worktree, record: WorktreeRecord | None) -> list[str]:
    """Stashes belong to the repository and outlive the worktree, but they are work that was done in it."""
    if not (tree.common / "reftable").exists() and not (tree.common / "logs" / "refs" / "stash").exists():
        return []
    told = await git_text("stash", "list", "--format=%ct %gs", cwd=tree.path)
    since = int(record.made) if record else 0
    rows = [line.partition(" ") for line in told.splitlines()]
    words = (f"WIP on {tree.branch}:", f"On {tree.branch}:")
    mine = [row for row in rows if int(row[0]) >= since and row[2].startswith(words)]
    return [f"{len(mine)} stashed"] if mine else []


def _committed(ahead: int, *, loose: bool) -> list[str]:
    """How much of it a merge would bring."""
    commits = [plural(ahead, "commit")] if ahead else []
    if not loose:
        return commits
    return [*commits, "not all is committed"] if ahead else ["nothing is committed"]


def _summary(lines: Sequence[DiffstatRow], plus: int, minus: int, notes: Iterable[str]) -> str:
    rows = [f"{shown(line.path, 100)} | +{line.plus} -{line.minus}" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        rows.append(f"... and {len(lines) - MOST_LINES} more")
    total = f"{plural(len(lines), 'file')} changed, +{plus} -{minus}"
    return "\n".join([*rows, "; ".join([total, *notes])])


# --- keeping everything


async def keep(tree: Worktree, private: Path, *, half: bool = False) -> str | None:
    """Stores everything that would be lost with the worktree under a hidden ref; None if there is nothing.

    `half`: the tree is partly made or removed, so missing files mean nothing.
    """
    status = await read_status(tree.path)
    if not status.head:
        raise ToolError(f"The worktree {shown(str(tree.path))} is on a branch without a commit; commit there first.")
    own = own_links(tree)
    ignored = await anyio.to_thread.run_sync(made_here, tree.path, status.ignored, own)
    besides = await anyio.to_thread.run_sync(to_be_kept, tree.path, ignored)
    snapshot = await take_snapshot(tree.path, private, status.hidden, own, besides)
    plain = (await git_text("rev-parse", f"{status.head}^{{tree}}", cwd=tree.path)).strip()
    told = await git_text(
        "diff-tree",
        "-r",
        "--name-only",
        "--diff-filter=d" if half else "--diff-filter=ACDMRTUXB",
        plain,
        snapshot.files,
        cwd=tree.path,
    )
    staged = snapshot.staged if not half and snapshot.staged not in (None, plain, snapshot.files) else None
    ends, past = await tips(tree, status.head), await past_of(tree, private)
    if not (told or staged or past or await count_commits(ends, tree.base, cwd=tree.path)):
        return None
    if staged:
        past = [await _commit(staged, [status.head], f"Staged in the worktree {tree.name}", tree), *past]
    made = await _commit(snapshot.files, [*ends, *past], f"The worktree {tree.name} before it was removed", tree)
    return await hide(tree, made)


async def keep_past(tree: Worktree, private: Path) -> str | None:
    """Stores commits known only to HEAD's reflog, which is removed with the worktree."""
    past = await past_of(tree, private)
    if not past:
        return None
    plain = (await git_text("rev-parse", f"{past[0]}^{{tree}}", cwd=tree.repo)).strip()
    return await hide(tree, await _commit(plain, past, f"Commits left behind in the worktree {tree.name}", tree))


async def past_of(tree: Worktree, private: Path) -> list[str]:
    here = f"--git-dir={private}"
    told = await git_text(here, "log", "-g", "--format=%H", f"-{MOST_PAST}", "HEAD", cwd=tree.repo)
    seen = list(dict.fromkeys(told.split()))
    if not seen:
        return []
    left = (await git_text(here, "rev-list", *seen, "--not", "--all", tree.base, cwd=tree.repo)).split()
    if not (loose := [one for one in seen if one in set(left)]):
        return []
    return (await git_text("merge-base", "--independent", *loose, cwd=tree.repo)).split()


async def _commit(files: str, parents: Sequence[str], message: str, tree: Worktree) -> str:
    """Commits under our own name, since the person may have none configured."""
    named = [word for parent in dict.fromkeys(parents) for word in ("-p", parent)]
    return (await git_text("commit-tree", files, *named, "-m", message, cwd=tree.repo, extra=_US)).strip()


async def hide(tree: Worktree, made: str) -> str:
    ref = f"{KEPT}/{tree.name}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    await git_text("update-ref", ref, made, "", cwd=tree.repo)
    return ref
