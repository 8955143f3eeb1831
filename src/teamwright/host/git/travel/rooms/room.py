"""A worker's clone of a repository for one agent: created or restored, saved after each call, and packed up at the end.

It shares the cache's objects with other agents, and nothing else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.core.data.code import Author, BranchBack, SavedTree, Upstream
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.travel.bundle import bundle_added, write_bundle
from teamwright.host.git.travel.cache import Cache
from teamwright.host.git.travel.names import check_agent, flat_name
from teamwright.host.git.travel.objects import Known, Objects, draft, put_code, put_small
from teamwright.host.git.travel.repo import check_commits, ours
from teamwright.host.git.travel.repository import (
    Commit,
    StartingPoint,
    plain_config,
    write_commit,
    write_ref,
)
from teamwright.host.git.travel.rooms.closed_rooms import keep_spare, put_aside
from teamwright.host.git.travel.rooms.fresh_tree import find_notes, known_base, make_empty, make_fresh
from teamwright.host.git.travel.rooms.restoring import restore
from teamwright.host.git.travel.rooms.seal import Seal
from teamwright.host.git.travel.trees.loose_pack import Added
from teamwright.host.git.travel.trees.saving import Heads, Looked, TreeIndex, in_words
from teamwright.host.git.worktrees.record import branch_of
from teamwright.osfiles.trees import remove_tree

SAVED, _BACK = "refs/teamwright/saved", "refs/teamwright/back"
_WHOLE = 32  # after so many saved trees one needs none of them, so that restoring stays short


class Site(Struct, frozen=True):
    """Where a worker keeps code, and where it gets parcels."""

    home: Path
    known: Known
    objects: Objects
    allowed: tuple[str, ...] = ()  # addresses that its person allows fetching from

    @property
    def folder(self) -> Path:
        return self.home / "remote"


class Origin(Struct, frozen=True):
    """The agent, and where it starts."""

    agent: str
    name: str
    project: str
    base: str
    author: Author = Author()
    upstream: Upstream | None = None  # set instead of the engine


class Room:
    def __init__(self, site: Site, origin: Origin) -> None:
        self._site, self._origin = site, origin
        self.path = site.folder / "rooms" / origin.agent / "tree"
        self.branch = branch_of(flat_name(origin.name, origin.agent))
        self.notes: tuple[str, ...] = ()  # about the clone itself; told to the model once
        self._cache = Cache(site.folder, origin.project, origin.upstream, site.allowed)
        self._objects = self._cache.path / "objects"
        self._repo = ours(self.path / ".git", self.path)
        self._index = TreeIndex(self._repo, self.path.parent)
        # One look at a time: a teammate's turn may end while an agent of its own works.
        self._busy = anyio.Lock(fast_acquire=True)
        self._seal: Seal | None = None  # of the tree as the agent got it
        self._last: SavedTree | None = None
        self._tree, self._count = "", 0
        self._back: tuple[str, str, Mapping[str, str]] | None = None
        self._told = set[str]()
        self._shown: Mapping[str, BranchBack] = {}  # the others' work as it is here

    async def make(self, saved: Sequence[SavedTree]) -> None:
        origin, site = self._origin, self._site
        await self._cache.fetch(origin.base, await site.known(origin.project), site.objects)
        start = StartingPoint(self.branch, origin.base, origin.author, self._objects)
        config = await plain_config(site.folder, origin.base)
        await (self._restore(config, start, saved) if saved else self._make_fresh(config, start))

    async def _restore(self, config: str, start: StartingPoint, saved: Sequence[SavedTree]) -> None:
        await anyio.to_thread.run_sync(make_empty, self.path, config, start)
        await restore(self._repo, self._site, saved, SAVED)
        self._last, self._count = saved[-1], len(saved)
        self._tree = await self._repo.tree(saved[-1].commit)
        await anyio.to_thread.run_sync(self._index.seed)
        self.notes = await find_notes(self._repo, start.base)

    async def _make_fresh(self, config: str, start: StartingPoint) -> None:
        fresh = await make_fresh(self._repo, config, start)
        self._seal = fresh.seal
        self._tree, self.notes = fresh.base.tree, fresh.base.notes
        if fresh.base.copy is not None:
            self._index.seed()  # a small file
        else:
            await anyio.to_thread.run_sync(self._index.seed)
        head, refs = self._start
        self._index.know(Heads(head, start.base, refs), fresh.base.tree)

    # --- after each call

    async def save(self, path: Path | None = None) -> SavedTree | None:
        """Stores the current tree in the engine; None if nothing changed since the last save. `path`: only this file
        can have changed."""
        async with self._busy:
            return await self._save(path)

    async def _save(self, path: Path | None) -> SavedTree | None:
        heads, looked = await self._index.write(path)
        last = self._last
        before = (last.head, dict(last.refs)) if last else self._start
        if (looked.tree, heads.head, heads.refs) == (self._tree, *before):
            return None
        new = {path: why for path, why in looked.skipped.items() if path not in self._told}
        self._told |= new.keys()
        saved = await self._store(heads, looked, in_words(new))
        self._last, self._tree, self._count = saved, looked.tree, self._count + 1
        return saved

    async def _store(self, heads: Heads, looked: Looked, notes: tuple[str, ...]) -> SavedTree:
        """Stores the tree in the engine, on top of the agent's earlier saves."""
        last, base, tree = self._last, self._origin.base, looked.tree
        tips = {heads.commit, *heads.refs.values()}
        if last and tree == self._tree and tips <= {base, *last.refs.values()}:
            return SavedTree(last.commit, heads.head, heads.refs, "", notes=notes)  # only refs have changed
        whole = last is None or self._count % _WHOLE == 0
        parents = [*([heads.commit] if heads.commit else []), *([last.commit] if last and not whole else [])]
        before = [base, last.commit, *last.refs.values()] if last is not None and not whole else [base]
        commit = await self._commit(tree, parents, "saved", SAVED)
        refs = {SAVED: commit} | heads.refs
        known = looked.since == self._tree and tips <= set(before) and (last is None or not whole)
        added = Added(commit, tree, looked.paths) if known else None
        try:
            object = await self._put(refs, list(dict.fromkeys(before)), new=True, added=added)
        except ToolError:  # the agent's `git gc` may have dropped a branch that it deleted
            object = await self._put(refs, await self._repo.commits_of(list(dict.fromkeys(before))), new=True)
        return SavedTree(commit, heads.head, heads.refs, object, whole, notes)

    @property
    def _start(self) -> tuple[str, dict[str, str]]:
        return f"refs/heads/{self.branch}", {f"refs/heads/{self.branch}": self._origin.base}

    # --- the way back

    async def back(self) -> BranchBack | None:
        """Stores all work since the base in the engine; None if there is none, or nothing new since the last time."""
        async with self._busy:
            try:
                return await self._find_back()
            finally:
                self._index.forget()

    async def _find_back(self) -> BranchBack | None:
        heads, looked = await self._index.write()
        now = (heads.commit, looked.tree, heads.refs)
        if now == self._back:
            return None
        base, tip, loose = self._origin.base, heads.commit or self._origin.base, False
        known = known_base((self._objects, tip))
        if looked.tree != (known.tree if known else await self._repo.tree(tip)):
            words = f"left uncommitted by {shown(self._origin.name, 100)}"
            tip, loose = await self._commit(looked.tree, [tip], words, _BACK), True
        refs = {"": tip} | await self._others(heads, tip)
        if refs == {"": base} and self._back is None:
            return None
        await anyio.to_thread.run_sync(write_ref, self.path / ".git", _BACK, tip)
        named = {f"refs/heads/{name or 'tip'}": commit for name, commit in refs.items()}
        object = await self._put(named, [base]) if refs != {"": base} else ""
        back = BranchBack(base, refs, object, loose)
        self._back = now
        return back

    async def _others(self, heads: Heads, tip: str) -> dict[str, str]:
        """Branches other than the one checked out that have commits of their own."""
        found = dict[str, str]()
        for name, commit in heads.refs.items():
            if name == heads.head:
                continue
            told = await self._repo.text("rev-list", "--count", commit, "--not", self._origin.base, tip)
            if int(told):
                found[name.removeprefix("refs/heads/")] = commit
        return found

    async def team(self, branches: Mapping[str, BranchBack]) -> None:
        """Shows the others' work as `team/NAME`; removes names that are no longer in `branches`."""
        site, project = self._site, self._origin.project
        known = await site.known(project) if branches else ()
        if branches == self._shown:  # usual case: nobody has done anything since
            return
        wanted = dict[str, str]()
        for name, back in branches.items():
            await self._cache.fetch_back(back, known, site.objects)
            wanted[f"refs/remotes/team/{flat_name(name, 'unnamed')}"] = back.refs[""]
        told = await self._repo.text("for-each-ref", "--format=%(refname)", "refs/remotes/team/")
        gone = [f"delete {name}\n" for name in told.splitlines() if name not in wanted]
        lines = "".join([*gone, *(f"update {name} {tip}\n" for name, tip in wanted.items())])
        await self._repo.text("update-ref", "--stdin", input=lines.encode())
        self._shown = dict(branches)

    async def close(self) -> None:
        place = put_aside(self.path.parent, self._site.folder)
        if place is None:
            await anyio.to_thread.run_sync(remove_tree, self.path.parent)
        elif self._seal is not None and self._last is None:
            keep_spare((self._objects, self._origin.base), place, self._seal)

    async def _commit(self, tree: str, parents: list[str], words: str, ref: str) -> str:
        """Writes a commit, and a ref that protects it from the agent's `git gc`."""
        commit = Commit(tree, tuple(parents), self._origin.author, words)
        return await anyio.to_thread.run_sync(write_commit, self.path / ".git", commit, ref)

    async def _put(
        self, refs: Mapping[str, str], without: list[str], *, new: bool = False, added: Added | None = None
    ) -> str:
        objects = self._site.objects
        if added is not None:
            small = await anyio.to_thread.run_sync(bundle_added, self.path / ".git", refs, without, added)
            if small is not None:
                return await put_small(objects, small)
        async with draft(self._site.folder / "tmp") as path:
            await write_bundle(self._repo, refs, without, path)
            return await put_code(objects, path, new=new)


async def open_room(site: Site, origin: Origin, saved: Sequence[SavedTree] = ()) -> Room:
    """Opens a clone at the base, or in the state of the last saved tree if there are any. Removes whatever was
    there."""
    check_commits(origin.base)
    check_agent(origin.agent)
    room = Room(site, origin)
    try:
        await room.make(saved)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await room.close()
        raise
    return room
