"""Worktrees of agents, given for a run or entered by the agent itself, without ever losing work in them.

An entered worktree is noted in the session's directory before the agent moves, so that the next process finds it.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.team import safe_name
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Desk
from teamwright.core.text import shown
from teamwright.host.files.paths import is_directory, resolve
from teamwright.host.git.run import commit_of, count_commits
from teamwright.host.git.worktrees.record import has_record
from teamwright.host.git.worktrees.worktree import (
    KeptTree,
    Worktree,
    check_name,
    close,
    let_go,
    make,
    release,
    remove,
    state,
)
from teamwright.osfiles.private import write_file
from teamwright.runtime.moving import move_to

CLOSE_LIMIT = 60.0  # seconds for git to tell whether anything was changed
LET_GO_LIMIT = 5.0  # seconds for git to unlock it
_HOOKED = "It was made by a hook, so nobody here can tell whether it was changed."

MakeByHook = Callable[[str, Path], Awaitable[Path | None]]  # name, the caller's directory -> the one it printed
RemovedByHook = Callable[[Path], Awaitable[bool]]  # False: no hook removed it


class EnteredTree(Struct, frozen=True):
    """A worktree that an agent has entered by itself; `came` and `root` are where it goes back to."""

    tree: Worktree
    came: Path
    root: Path


class ExitedTree(Struct, frozen=True):
    """How a stay ended. `kept` is None if the worktree is gone; `ref` then holds what was in it."""

    stay: EnteredTree
    kept: KeptTree | None
    ref: str = ""
    gone: bool = False  # somebody had already deleted the directory


class Worktrees:
    def __init__(
        self,
        links: Sequence[str] = (),
        *,
        session: str = "",
        notes: Path | None = None,
        make_by_hook: MakeByHook | None = None,
        removed_by_hook: RemovedByHook | None = None,
        claims: Path | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """`links`: directories to link into a worktree instead of copying them; `notes`: where stays are noted;
        `claims`: where the sandboxes of all processes see which trees agents work in; `warn`: tells the person."""
        self._links, self._session, self._notes = tuple(links), session, notes
        self._make_by_hook, self._removed_by_hook = make_by_hook, removed_by_hook
        self._claims, self._warn = claims, warn
        self._warned: set[str] = set()
        self._stays: dict[AgentId, EnteredTree] = {}

    async def open(self, parent: Path, agent: AgentId, name: str = "", *, own: str = "") -> Worktree:
        """Open the worktree of that name, whoever made it, or else the agent's own, locked for it.

        `own` is a readable name for the agent's own worktree, used if nobody else's has it; otherwise its id is the
        name.
        """
        wanted = check_name(name or agent)  # a hook cannot know whose `own` it is, so it gets the id
        if self._make_by_hook and (path := await self._make_by_hook(wanted, parent)) is not None:
            tree = _made_by_hook(wanted, path, agent, self._session)
            self._claim(tree)
            return tree
        apart = bool(own) and not name and own != agent
        called = tree_name(own) if apart else wanted
        tree = await self._make(parent, called, agent, apart=apart)
        for words in tree.warnings:
            if self._warn is not None and words not in self._warned:
                self._warned.add(words)
                self._warn(f"The worktree {tree.name}: {words}")
        return tree

    async def _make(self, repo: Path, name: str, agent: AgentId, *, apart: bool = False) -> Worktree:
        claimed: list[Worktree] = []

        def announce(tree: Worktree) -> None:
            claimed.append(tree)
            self._claim(tree)

        kept: Path | None = None
        try:
            made = await make(
                repo, name, links=self._links, owner=agent, session=self._session, apart=apart, announce=announce
            )
            kept = made.path
            return made
        finally:
            for tree in claimed:
                if tree.path != kept:
                    self._disclaim(tree)

    def _claim(self, tree: Worktree) -> None:
        """Keep the guards of commands away from it, in this and every other process."""
        if self._claims:
            from teamwright.host.sandbox.guard.claims import Claims  # noqa: PLC0415

            with suppress(OSError):  # then a guard may move it to its quarantine, where nothing is lost
                Claims(str(self._claims)).take(*_names_of(tree))

    def _disclaim(self, tree: Worktree) -> None:
        if self._claims:
            from teamwright.host.sandbox.guard.claims import Claims  # noqa: PLC0415

            with suppress(OSError):
                Claims(str(self._claims)).release(*_names_of(tree))

    async def open_again(self, parent: Path, agent: AgentId, before: str) -> Worktree:
        """Open the worktree that the agent had at the path `before`, if it was kept. A hook is not asked again for what
        it made: it may make another one, or refuse because that is there."""
        path = Path(before)
        if is_directory(path) and not has_record(path):
            tree = _made_by_hook(check_name(agent), path, agent, self._session)
            self._claim(tree)
            return tree
        return await self.open(parent, agent, own=path.name)

    async def close(self, tree: Worktree) -> KeptTree | None:
        """Close a worktree whose agent has ended. None if it was unchanged and is gone; after any error it is kept."""
        try:
            return await self._close(tree)
        finally:
            self._disclaim(tree)

    async def _close(self, tree: Worktree) -> KeptTree | None:
        owner = AgentId(tree.owner)
        with anyio.move_on_after(CLOSE_LIMIT):
            try:
                if (stay := self._stays.get(owner)) and stay.tree.path == tree.path:
                    return await self._let_go(owner)
                return await close(tree) if tree.kind == "git" else KeptTree(tree.path, "", "", note=_HOOKED)
            except ToolError as error:
                return KeptTree(tree.path, tree.branch, "", note=str(error))
        return KeptTree(tree.path, tree.branch, "", note=f"git did not answer within {CLOSE_LIMIT:g} s")

    async def let_go(self, tree: Worktree) -> None:
        """Release a worktree whose agent continues in another process, which finds out whose it is if this fails."""
        with suppress(ToolError), anyio.move_on_after(LET_GO_LIMIT):
            if tree.kind == "git":
                await release(tree)
        self._disclaim(tree)

    # --- stays

    def stay_of(self, agent: AgentId) -> EnteredTree | None:
        """The worktree that the agent has entered, even if it has ended and been woken since."""
        return self._stays.get(agent) or self._read(agent)

    async def enter(self, agent: AgentId, desk: Desk, name: str) -> EnteredTree:
        """Move the agent into a worktree."""
        if stay := self._stays.get(agent):
            raise ToolError(f"You are in the worktree {stay.tree.name} already. Leave it with ExitWorktree first.")
        if "+" in name:
            raise ToolError(f"`{shown(name, 80)}` cannot name a worktree: write `/` where its directory has `+`.")
        before = self._read(agent)  # of an earlier run: the agent goes back to where it first came from
        again = before.tree.name if before and is_directory(before.tree.path) else ""
        tree = await self.open(desk.cwd, agent, name or again or f"{agent}-{os.urandom(3).hex()}")
        crashpoint("room.opened")
        stay = EnteredTree(tree, before.came if before else desk.cwd, before.root if before else desk.roots[0])
        try:
            self._write(agent, stay)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await (self.close(tree) if tree.made else release(tree))
            raise
        crashpoint("room.noted")
        self._stays[agent] = stay
        move_to(desk, tree)
        return stay

    async def leave(self, agent: AgentId, desk: Desk, *, discard: bool | None) -> ExitedTree:
        """Go back to where the agent came from. `discard`: None keeps the worktree, True removes it with the work in
        it.

        False removes it only if no work is lost; otherwise it raises ToolError and changes nothing.
        """
        stay = self.stay_of(agent)
        if stay is None:
            raise ToolError("You have not entered a worktree, so there is none to leave.")
        if not is_directory(stay.tree.path):
            left = await self._clear_away(stay, discard=bool(discard))
        elif discard is None:
            left = ExitedTree(stay, await self._let_go(agent))
        elif stay.tree.kind == "hook":
            left = await self._remove_hooked(stay, discard=discard)
        else:
            left = await self._remove(stay, discard=discard)
        self._disclaim(stay.tree)
        crashpoint("room.left")
        self._forget(agent)
        desk.roots = (stay.root, *desk.roots[1:])
        desk.cwd = stay.came if is_directory(stay.came) else stay.root
        return left

    async def _remove(self, stay: EnteredTree, *, discard: bool) -> ExitedTree:
        tree = stay.tree
        if discard:
            return ExitedTree(stay, None, await remove(tree) or "")
        found = await state(tree)
        if found.changed:
            raise ToolError(
                f"The worktree {tree.name} was not removed, because this would be lost:\n{found.summary}\n"
                "Leave with action `keep`, or commit and merge it first. With discard_changes it goes all the same; "
                "its state then stays in the repository under a hidden ref."
            )
        return ExitedTree(stay, await close(tree))  # git checks for changes once more

    async def _remove_hooked(self, stay: EnteredTree, *, discard: bool) -> ExitedTree:
        where = shown(str(stay.tree.path))
        if not discard:
            raise ToolError(f"{where} was not removed. {_HOOKED} Leave with action `keep`, or with discard_changes.")
        if self._removed_by_hook is None or not await self._removed_by_hook(stay.tree.path):
            raise ToolError(f"{where} was made by a hook, and there is none to remove it. Leave with action `keep`.")
        return ExitedTree(stay, None)

    async def _clear_away(self, stay: EnteredTree, *, discard: bool) -> ExitedTree:
        """End a stay whose directory somebody deleted. Its branch goes only if it has no commits, or with `discard`."""
        tree = stay.tree
        if tree.kind == "hook":
            return ExitedTree(stay, None, gone=True)
        try:
            if discard or not await _has_commits(tree):
                return ExitedTree(stay, None, await remove(tree) or "", gone=True)
            await release(tree)
            note = ""
        except ToolError as error:  # the repository itself may be gone too; the agent can still leave
            note = str(error)
        return ExitedTree(stay, KeptTree(tree.path, tree.branch, "", note=note), gone=True)

    async def resume(self, agent: AgentId, desk: Desk, cwd: Path) -> str:
        """Put a resumed agent back into the worktree that it was in. Returns words if that is no longer possible."""
        stay = self._read(agent)
        if stay is None:
            return ""
        if cwd == stay.came:  # noted, but killed before the move
            self._forget(agent)
            return ""
        tree = stay.tree
        try:
            if not is_directory(tree.path):
                raise ToolError("its directory was deleted.")
            if tree.kind == "git":
                tree = await self._make(tree.repo, tree.name, agent)
        except ToolError as error:
            self._forget(agent)
            desk.cwd = stay.came if is_directory(stay.came) else desk.roots[0]
            return f"The worktree {tree.name} cannot be used any more: {error} The working directory is {desk.cwd}."
        self._stays[agent] = EnteredTree(tree, stay.came, stay.root)
        move_to(desk, tree)
        _stand(desk, cwd)
        return ""

    async def let_all_go(self) -> None:
        """Release all worktrees at the session's end for the next user, usually this session again."""
        for agent in list(self._stays):
            with suppress(ToolError), anyio.move_on_after(CLOSE_LIMIT):
                stay = self._stays.pop(agent)
                self._disclaim(stay.tree)
                await release(stay.tree)

    async def _let_go(self, agent: AgentId) -> KeptTree:
        """Keep the worktree, and unlock it for others."""
        stay = self._stays.get(agent) or self._read(agent)
        assert stay is not None
        tree = stay.tree
        self._stays.pop(agent, None)
        if tree.kind == "hook":
            return KeptTree(tree.path, "", "", note=_HOOKED)
        found, note = None, ""
        try:
            found = await state(tree)
        except ToolError as error:
            note = str(error)
        return await let_go(tree, found, note)

    # --- the notes

    def _note(self, agent: AgentId) -> Path | None:
        return self._notes / f"{agent}.json" if self._notes else None

    def _read(self, agent: AgentId) -> EnteredTree | None:
        path = self._note(agent)
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(path.read_bytes(), type=EnteredTree, dec_hook=_read_path) if path else None
        return None

    def _write(self, agent: AgentId, stay: EnteredTree) -> None:
        if path := self._note(agent):
            write_file(path, msgspec.json.encode(stay, enc_hook=_write_path))

    def _forget(self, agent: AgentId) -> None:
        self._stays.pop(agent, None)
        if path := self._note(agent):
            path.unlink(missing_ok=True)


def tree_name(name: str) -> str:
    """An agent's name as its worktree and its branch use it."""
    plain = safe_name(name, empty="agent")[:50].rstrip("._-")
    with suppress(ToolError):
        return check_name(plain)
    return check_name(f"agent-{plain.replace('.', '-')}")  # git or another system reserves that name


def _write_path(path: Any) -> str:
    """Keep every byte: a path need not be UTF-8."""
    return os.fsencode(path).decode("latin-1")


def _read_path(_: type, text: Any) -> Path:
    return Path(os.fsdecode(str(text).encode("latin-1")))


def _names_of(tree: Worktree) -> tuple[str, ...]:
    """Its directory, and the one that git keeps for it."""
    own = (str(tree.path),)
    return (*own, str(tree.common / "worktrees" / tree.path.name)) if tree.kind == "git" else own


async def _has_commits(tree: Worktree) -> bool:
    tip = await commit_of(f"refs/heads/{tree.branch}", cwd=tree.repo)
    return bool(tip and await count_commits([tip], tree.base, cwd=tree.repo))


def _made_by_hook(name: str, path: Path, agent: AgentId, session: str) -> Worktree:
    where = shown(str(path))
    if not path.is_absolute():
        raise ToolError(f"The WorktreeCreate hook printed `{where}`, which is not an absolute path. Fix the hook.")
    if not is_directory(path):
        raise ToolError(f"The WorktreeCreate hook printed `{where}`, which is not a directory. Fix the hook.")
    path = resolve(str(path), path)
    return Worktree(name, path, "", "", path, path, made=True, owner=agent, session=session, kind="hook")


def _stand(desk: Desk, cwd: Path) -> None:
    """Work in `cwd`, if it exists and is still inside a root."""
    if is_directory(cwd) and any(cwd.is_relative_to(root) for root in desk.roots):
        desk.cwd = cwd
