"""Puts an agent's work into the lead's repository as branches; HEAD, index and files are not touched."""

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.code import BranchBack, Landed
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.run import Checkout, locate
from teamwright.host.git.travel.bundle import is_whole, take_bundle
from teamwright.host.git.travel.names import check_agent, flat_name
from teamwright.host.git.travel.objects import Objects, draft, get_code
from teamwright.host.git.travel.repo import Repo, check_commits, theirs
from teamwright.host.git.worktrees.create import taken_branches
from teamwright.host.git.worktrees.record import (
    PLACE,
    Worktree,
    WorktreeRecord,
    alone,
    branch_of,
    registered,
    write_record,
)
from teamwright.host.git.worktrees.worktree import branch_state

_OURS = "refs/teamwright/back"  # AGENT/BRANCH: what we last put there. A branch that differs from it now is a person's
_MOST_NAMES = 1000


class Sender(Struct, frozen=True):
    """The agent whose work it is."""

    name: str
    agent: str
    session: str = ""


async def land(repo: Path, sender: Sender, back: BranchBack, objects: Objects, *, scratch: Path) -> Landed:
    """Adds the work as `worktree-NAME`, numbered if that name is taken by other work; the agent's further branches
    become `worktree-NAME+BRANCH`. For an agent that came back before, its branches are updated."""
    check_commits(back.base, *back.refs.values())
    check_agent(sender.agent)
    if "" not in back.refs:
        raise ToolError("What came back names no commit.")
    place = await locate(repo)
    git = theirs(place.top)
    if not await git.has(back.base):
        raise ToolError(
            f"The work of {shown(sender.name, 100)} began at {back.base[:12]}, which this repository does not have."
        )
    tips = [*back.refs.values()]
    if back.object and not await is_whole(git, tips, [back.base]):
        async with draft(scratch) as path:
            await get_code(objects, back.object, path)
            await take_bundle(git, path)
    if not await git.has(*tips) or not await is_whole(git, tips, [back.base]):
        raise ToolError(f"The work of {shown(sender.name, 100)} is not whole in the engine.")
    async with alone(place.common):
        named = await _choose(git, place, sender, back)
        await _write(git, place, sender, back.base, named)
    return await _told(place, back, sender, named)


async def _choose(git: Repo, place: Checkout, sender: Sender, back: BranchBack) -> dict[str, str]:
    """Worktree name -> commit, for the first of NAME, NAME-2 ... that is free, or this agent's and untouched."""
    first = flat_name(sender.name, sender.agent)
    ours, heads = await _refs(git, f"{_OURS}/{sender.agent}/"), await _refs(git, "refs/heads/")
    used = await taken_branches(_tree(place, first, sender, back.base))
    out = {branch for path, _ in [*registered(place.common), (place.top, None)] if (branch := _checked_out(path))}
    for number in range(1, _MOST_NAMES):
        own = first if number == 1 else f"{first}-{number}"
        named = _named(own, back.refs)
        if all(_is_free(branch_of(name), ours, heads, used, out) for name in named):
            return named
    raise ToolError(f"Every name from {branch_of(first)} on is taken here. Remove some of these branches.")


def _is_free(branch: str, ours: Mapping[str, str], heads: Mapping[str, str], used: set[str], out: set[str]) -> bool:
    if branch in ours:  # ours if the tip is what we put there, or if somebody deleted it
        return heads.get(branch, ours[branch]) == ours[branch] and branch not in out
    return branch.casefold() not in used


def _named(own: str, refs: Mapping[str, str]) -> dict[str, str]:
    """The agent's own name first, then its other branches, each under a unique name."""
    found = {own: refs[""]}
    for branch, commit in refs.items():
        if branch:
            name, number = f"{own}+{flat_name(branch, 'branch')}", 1
            while (again := name if number == 1 else f"{name}-{number}") in found:
                number += 1
            found[again] = commit
    return found


def _checked_out(tree: Path) -> str:
    """The checked-out branch, read without git because the tree may be anybody's."""
    mark = tree / ".git"
    try:
        folder = mark if mark.is_dir() else Path(mark.read_text().removeprefix("gitdir: ").rstrip("\n"))
        return (tree / folder / "HEAD").read_text().removeprefix("ref: refs/heads/").strip()
    except (OSError, UnicodeDecodeError):
        return ""


async def _refs(git: Repo, below: str) -> dict[str, str]:
    told = await git.text("for-each-ref", "--format=%(objectname) %(refname)", below)
    rows = [line.split(" ", 1) for line in told.splitlines()]
    return {name.removeprefix(below): commit for commit, name in rows}


async def _write(git: Repo, place: Checkout, sender: Sender, base: str, named: Mapping[str, str]) -> None:
    lines = list[str]()
    for name, commit in named.items():
        branch = branch_of(name)
        lines += [f"update refs/heads/{branch} {commit}\n", f"update {_OURS}/{sender.agent}/{branch} {commit}\n"]
        record = WorktreeRecord(branch, base, "returned", sender.agent, sender.session, time.time())
        write_record(_tree(place, name, sender, base), record)
    await git.text(
        "update-ref", "--stdin", "-m", "teamwright: work from another machine", input="".join(lines).encode()
    )


def _tree(place: Checkout, name: str, sender: Sender, base: str) -> Worktree:
    path = place.top.joinpath(*PLACE, name)
    return Worktree(
        name, path, branch_of(name), base, place.top, place.common, owner=sender.agent, session=sender.session
    )


async def _told(place: Checkout, back: BranchBack, sender: Sender, named: Mapping[str, str]) -> Landed:
    (own, tip), *others = named.items()
    tree = _tree(place, own, sender, back.base)
    state = await branch_state(tree)
    last = "\nThe last commit is what it had left uncommitted." if back.loose else ""
    more = f"\nIts other branches: {', '.join(branch_of(name) for name, _ in others)}." if others else ""
    words = (
        f"Its work is the branch {tree.branch} of this repository:\n{state.summary}{last}{more}\n"
        f"`teamwright worktrees merge {own}` brings it in."
    )
    return Landed(tree.branch, tip, tuple(branch_of(name) for name, _ in others), words)
