"""Restores a tree that was saved on another machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from teamwright.core.data.code import COMMIT, SavedTree
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.travel.bundle import is_whole, take_bundle
from teamwright.host.git.travel.objects import Objects, draft, get_code
from teamwright.host.git.travel.repo import LONG, Repo, check_commits

_BRANCH = "refs/heads/"


class Storage(Protocol):
    @property
    def folder(self) -> Path: ...

    @property
    def objects(self) -> Objects: ...


async def restore(repo: Repo, place: Storage, saved: Sequence[SavedTree], ref: str) -> None:
    """Restores branches, HEAD and files as of the last saved tree; uncommitted changes are uncommitted again."""
    first = max((n for n, tree in enumerate(saved) if tree.whole), default=0)
    for tree in saved[first:]:
        if tree.object:
            async with draft(place.folder / "tmp") as path:
                await get_code(place.objects, tree.object, path)
                await take_bundle(repo, path)
    last = saved[-1]
    tips = [last.commit, *last.refs.values()]
    check_commits(*tips)
    base = await repo.commit("HEAD")
    if not await repo.has(*tips) or not await is_whole(repo, tips, [base]):
        raise ToolError("The saved tree of the agent is not whole in the engine, so nobody can go on with it.")
    await _set_refs(repo, last, ref)
    await repo.text("read-tree", "--reset", "-u", last.commit, limit=LONG)
    head = await repo.commit("HEAD")
    await repo.text("read-tree", *(("-m", head) if head else ("--empty",)), limit=LONG)
    await repo.run("update-index", "-q", "--refresh", "--ignore-submodules", limit=LONG)


async def _set_refs(repo: Repo, last: SavedTree, ref: str) -> None:
    if strange := [name for name in last.refs if not name.startswith(_BRANCH) or name != shown(name, 1000)]:
        raise ToolError(f"The saved tree names `{shown(strange[0], 80)}`, which is no branch.")
    told = await repo.text("for-each-ref", "--format=%(refname)", _BRANCH)
    lines = [f"delete {name}\n" for name in told.splitlines() if name not in last.refs]
    lines += [f"update {name} {commit}\n" for name, commit in {**last.refs, ref: last.commit}.items()]
    await repo.text("symbolic-ref", "HEAD", f"{_BRANCH}none")  # the branch that HEAD is on could not be deleted
    await repo.text("update-ref", "--stdin", input="".join(lines).encode("utf-8", "surrogateescape"))
    if COMMIT.fullmatch(last.head):
        await repo.text("update-ref", "--no-deref", "HEAD", last.head)
    elif last.head.startswith(_BRANCH):
        await repo.text("symbolic-ref", "HEAD", last.head)
    else:
        raise ToolError(f"The saved tree names `{shown(last.head, 80)}`, which is no branch.")
