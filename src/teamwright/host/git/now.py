"""Sums up the current state of a repository in one line, within half a second or not at all."""

from contextlib import suppress
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.guard import refuse_elsewhere
from teamwright.host.git.places import top_of

LIMIT = 0.5  # seconds; beyond that the model can ask git itself
COMMITS = 3
_SUBJECT = 60  # characters
_SUBMODULES = "--ignore-submodules=dirty"  # to look into one, git starts another git there
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames", _SUBMODULES)
_HEAD = "# branch.head "


class GitNow(Struct, frozen=True):
    """`changed` counts uncommitted paths; None: it took too long to find out. `commits`: newest first."""

    branch: str  # empty at a detached HEAD
    changed: int | None = None
    commits: tuple[str, ...] = ()


async def read_now(cwd: Path) -> GitNow | None:
    """None if there is no repository, or git cannot describe it."""
    if not top_of(str(cwd)):
        return None
    try:
        refuse_elsewhere(cwd)
    except ToolError:
        return None
    from teamwright.host.git.run import git  # noqa: PLC0415

    told: dict[str, str] = {}

    async def ask(*args: str) -> None:
        with suppress(ToolError):
            ran = await git(*args, cwd=cwd, limit=LIMIT)
            if ran.status == 0:
                told[args[0]] = ran.out

    async with anyio.create_task_group() as group:
        group.start_soon(ask, *_STATUS)
        group.start_soon(ask, "log", f"-{COMMITS}", "--format=%h %s")
    if "status" not in told:  # it timed out: too many files
        await ask("symbolic-ref", "--quiet", "--short", "HEAD")
    return _read(told) if told else None


def _read(told: dict[str, str]) -> GitNow:
    """Parses git's output, by command."""
    commits = tuple(shown(line, _SUBJECT) for line in told.get("log", "").splitlines())
    if "status" not in told:
        return GitNow(shown(told.get("symbolic-ref", "").strip(), 100), None, commits)
    entries = [entry for entry in told["status"].split("\0") if entry]
    head = next((e.removeprefix(_HEAD) for e in entries if e.startswith(_HEAD)), "(detached)")
    changed = sum(not entry.startswith("# ") for entry in entries)
    return GitNow("" if head == "(detached)" else shown(head, 100), changed, commits)


def in_words(now: GitNow, *, commits: bool) -> str:
    """`commits`: with their subjects, which are their authors' words."""
    branch = f"branch {now.branch}" if now.branch else "no branch"
    state = {None: "", 0: ", clean"}.get(now.changed, f", {now.changed} changed or new")
    last = f"; last commits: {'; '.join(now.commits)}" if commits and now.commits else ""
    return f"git, when you began: {branch}{state}{last}"
