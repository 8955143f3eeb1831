"""Sends code from the lead's machine: the commit at HEAD, and as much of its history as the engine lacks."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from teamwright.core.data.code import Author, Journey, Parcel
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.places import top_of
from teamwright.host.git.run import locate
from teamwright.host.git.travel.bundle import MOST_BYTES, write_bundle
from teamwright.host.git.travel.objects import Known, Objects, draft, put_code
from teamwright.host.git.travel.repo import LONG, Repo, check_commits, theirs
from teamwright.host.git.travel.source import find_source
from teamwright.host.git.worktrees.status import read_status

_MEGABYTE = 1 << 20
_NAME = "refs/heads/base"  # ref name in the bundle; never read
_MOST_TIPS = 200  # newest commits in the engine that are considered as a base
_projects: dict[str, str] = {}  # by commit, whose history never changes
_SURE = 8  # objects larger than the limit times this cannot be packed below the limit


async def depart(cwd: Path, known: Known, objects: Objects, *, code_mb: int, scratch: Path, fetch: str = "") -> Journey:
    """Brings the HEAD around `cwd` into the engine, complete. The caller must record `parcels` before anything refers
    to them.

    `fetch`: a remote of this repository from which workers fetch directly.
    """
    if not top_of(str(cwd)):
        raise ToolError(
            f"{shown(str(cwd))} is not in a git repository, and only what git has can be sent to another machine. "
            "Run `git init` and commit, or start the agent without `isolation: remote`."
        )
    place = await locate(cwd)
    repo, directory = theirs(place.here), _below(place.here, cwd)
    if (place.common / "shallow").exists():
        raise ToolError(
            f"{shown(str(place.here))} is a shallow clone, whose history is not whole. Run `git fetch --unshallow` "
            "there, then try again."
        )
    project = await _project(repo, place.head)
    left = await _count_left(place.here)
    if fetch:
        return Journey(project, place.head, directory, (), left, await find_source(repo, fetch, place.head))
    parcels = await known(project)
    if any(parcel.tip == place.head for parcel in parcels):
        return Journey(project, place.head, directory, (), left)
    parcel = await _send(repo, project, place.head, await _had(repo, place.head, parcels), objects, code_mb, scratch)
    return Journey(project, place.head, directory, (parcel,), left)


async def author_of(cwd: Path) -> Author:
    """The name for commits made here. Unlike git, it does not guess if none is configured."""
    repo, none = theirs(cwd), Author()
    ran = await repo.run("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    entries = [entry.partition("\n") for entry in ran.out.split("\0")]
    found = {key: value for key, _, value in entries}  # the last value of a name wins
    name, email = found.get("user.name", ""), found.get("user.email", "")
    return Author(_tame(name) or none.name, _tame(email) or none.email)


def _tame(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and c not in "<>")[:200].strip()


def _below(top: Path, cwd: Path) -> str:
    found = cwd.resolve().relative_to(top.resolve()).as_posix()
    return "" if found == "." else found


async def _project(repo: Repo, head: str) -> str:
    if head not in _projects:
        roots = (await repo.text("rev-list", "--max-parents=0", head, limit=LONG)).split()
        _projects[head] = hashlib.sha256(roots[-1].encode()).hexdigest()
    return _projects[head]


async def _count_left(tree: Path) -> int:
    status = await read_status(tree)
    return len({*status.changed, *status.untracked})


async def _had(repo: Repo, head: str, parcels: Sequence[Parcel]) -> list[str]:
    """The commits in the engine that are part of this history; others would not help."""
    tips = [parcel.tip for parcel in reversed(parcels)][:_MOST_TIPS]
    check_commits(*tips)
    here = await repo.commits_of(tips)
    if not here:
        return []
    outside = (await repo.text("rev-list", *here, "--not", head, limit=LONG)).split()
    inside = set(here) - set(outside)
    return (await repo.text("merge-base", "--independent", *sorted(inside), limit=LONG)).split() if inside else []


async def _send(
    repo: Repo, project: str, head: str, had: list[str], objects: Objects, code_mb: int, scratch: Path
) -> Parcel:
    most = min(code_mb * _MEGABYTE, MOST_BYTES)
    without = [f"^{tip}" for tip in had]
    told = await repo.text("rev-list", "--objects", "--disk-usage", head, *without, limit=LONG)
    if int(told) > most * _SURE:
        raise _too_large(int(told), code_mb)
    async with draft(scratch) as path:
        size = await write_bundle(repo, {_NAME: head}, had, path)
        if size > most:
            raise _too_large(size, code_mb)
        return Parcel(project, head, tuple(had), await put_code(objects, path), size)


def _too_large(size: int, code_mb: int) -> ToolError:
    return ToolError(
        f"The history that the engine lacks has {size / _MEGABYTE:,.0f} MB, and at most {code_mb:,} MB are sent. Raise "
        "`teamwright.engine.codeMB` in your settings; or, if workers reach a git remote of this repository, say "
        '`remote: {fetch: "origin"}` in the definition of the agent; or start it without `isolation: remote`.'
    )
