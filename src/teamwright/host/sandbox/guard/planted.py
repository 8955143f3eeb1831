"""Undoes what mounts cannot prevent: new files under protected names that were missing, and changes of protected links.

Whatever appeared is moved to a quarantine, never followed and never deleted. In git directories that happens at once,
because an editor runs git within a second; elsewhere after the command has ended.
"""

import os
import time
from contextlib import suppress
from functools import lru_cache

import anyio
import anyio.lowlevel
from msgspec import Struct

from teamwright.core.sandbox.policy import Policy, access_of
from teamwright.host.sandbox.ground.expand import is_inside
from teamwright.host.sandbox.ground.layout import git_directory_of
from teamwright.host.sandbox.ground.nested import TooManyError
from teamwright.host.sandbox.guard.claims import Claims
from teamwright.host.sandbox.guard.copies import Copies
from teamwright.host.sandbox.guard.git_links import planted_links
from teamwright.host.sandbox.guard.inotify import NameWatch
from teamwright.host.sandbox.guard.moves import is_unchanged, look, move_away, names_in, put_link, settled_looks
from teamwright.host.sandbox.guard.repositories import Obeyed, obeyed

_AGAIN = 0.25  # seconds, while an index names a repository that the program can write


class Undone(Struct, frozen=True):
    """Forbidden changes made by a program."""

    undone: tuple[str, ...] = ()  # undone; what was there is now in the quarantine
    changed: tuple[str, ...] = ()  # could not be undone
    appeared: tuple[str, ...] = ()  # left to the person, and not to be obeyed until they agree

    def joined(self, later: "Undone") -> "Undone":
        return Undone(
            tuple(dict.fromkeys((*self.undone, *later.undone))),
            tuple(dict.fromkeys((*self.changed, *later.changed))),
            tuple(dict.fromkeys((*self.appeared, *later.appeared))),
        )


class Guard:
    """Guards one program. `copies`: the tier cannot protect existing names, so they are compared and restored.

    `made` is where we note what we create ourselves (`Claims`).
    """

    def __init__(self, policy: Policy, quarantine: str, made: str = "", *, copies: bool = False) -> None:
        self._policy, self._quarantine, self._claims = policy, quarantine, Claims(made)
        self._began = time.time()
        self._undone: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._copies = Copies(policy, quarantine) if copies and policy.kept else None
        self._above = settled_looks(_directories(policy.absent))
        self._watch = NameWatch(policy.watched)
        self._access = dict(policy.access)
        before = self._obeyed()
        self._before, self._deep = before or self._obeyed(deep=False), before is not None
        self._linked = False

    async def watch(self) -> None:
        """Runs until cancelled."""
        in_git = [path for path in self._policy.absent if os.path.dirname(path) in self._policy.watched]
        in_git = [path for path in in_git if os.path.basename(path) != "worktrees"]  # harmless, and may be half-made
        while True:
            with anyio.move_on_after(_AGAIN if self._linked else None):
                await self._watch.changed()
            self._undo(in_git)
            self._undo_links(deep=False)
            self._undo_linked()
            await anyio.lowlevel.checkpoint()

    def end(self) -> Undone:
        """Call when nothing of the program is alive."""
        self._watch.close()
        if self._copies:
            undone, changed = self._copies.restore(self._spared())
            self._undone.update(dict.fromkeys(undone))
            self._changed.update(dict.fromkeys(changed))
        if not (self._above and is_unchanged(self._above)):  # unchanged: no name has come
            self._undo(self._policy.absent)
        self._undo_links()
        self._undo_linked()
        now = self._obeyed(deep=self._deep)
        self._undo(self._strange(now))
        if now is None:  # so much appeared that nobody knows what is among it
            self._changed.update(dict.fromkeys(self._policy.roots))
        for path, says in self._policy.links:
            self._restore_link(path, says)
        appeared = tuple(path for path in self._policy.told if look(path) is not None and self._strays(path))
        return Undone(tuple(self._undone), tuple(self._changed), appeared)

    def _undo(self, paths: "tuple[str, ...] | list[str]") -> None:
        for path in paths:
            for stray in self._strays(path) if look(path) is not None else ():
                try:
                    move_away(stray, self._quarantine)
                    self._undone[stray] = None
                except OSError:
                    self._changed[stray] = None

    def _undo_links(self, *, deep: bool = True) -> None:
        """Moves away links that lead out of a git directory, except in trees where others work, which have their own
        guards."""
        since, kept = int(self._began * 1e9), {path for path, _ in self._policy.links}
        for directory in self._policy.git:
            if any(is_inside(directory, one) for one in self._policy.spared):
                continue
            try:
                self._undo([path for path in planted_links(directory, since, deep=deep) if path not in kept])
            except (OSError, TooManyError):
                self._changed[directory] = None

    def _undo_linked(self) -> None:
        """Moves away what git obeys in repositories that an index names, whichever program changed the index."""
        now = self._obeyed(deep=False)
        self._linked = bool(now and now.linked)
        self._undo(self._strange(now))

    def _obeyed(self, *, deep: bool = True) -> Obeyed | None:
        try:
            return obeyed(self._policy.roots, self._access, deep=deep)
        except TooManyError:
            return None

    def _strange(self, now: Obeyed | None) -> list[str]:
        if now is None or self._before is None:
            return []
        return [path for path, found in now.names.items() if self._before.names.get(path) != found]

    def _strays(self, path: str) -> list[str]:
        """The parts of it that did not come from us: not our worktrees, others' working trees, or files written by file
        tools."""
        if os.path.basename(path) == "worktrees" and self._holds_trees(path):
            return []
        if os.path.basename(os.path.dirname(path)) == "worktrees" and self._is_tree(path):
            return []
        ours = [one for one in self._spared() if is_inside(one, path) or is_inside(path, one)]
        if not ours:
            return [path]
        if any(is_inside(path, one) for one in ours):
            return []
        return [stray for name in names_in(path) for stray in self._strays(os.path.join(path, name))]

    def _restore_link(self, path: str, says: str) -> None:
        with suppress(OSError):
            if os.readlink(path) == says:
                return
        try:
            if look(path) is not None:
                move_away(path, self._quarantine)
            put_link(path, says)
            self._undone[path] = None
        except OSError:
            self._changed[path] = None

    def _spared(self) -> tuple[str, ...]:
        """What belonged to others at any time since the program began, and git's data for it."""
        claimed = self._claims.since(self._began)
        return (*self._policy.spared, *claimed, *filter(None, map(git_directory_of, claimed)))

    def _holds_trees(self, path: str) -> bool:
        """Does it contain only worktrees in places the program cannot write, which point back? Then the program did not
        make them."""
        try:
            names = os.listdir(path)
        except OSError:
            return False
        return bool(names) and all(self._is_tree(os.path.join(path, name)) for name in names)

    def _is_tree(self, directory: str) -> bool:
        try:
            with open(os.path.join(directory, "gitdir"), "rb") as file:
                tree = os.path.dirname(os.fsdecode(file.read(8192)).strip())
        except OSError:
            return False
        return access_of(self._policy, tree) != "write" and git_directory_of(tree) == directory


@lru_cache(maxsize=32)
def _directories(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(os.path.dirname, paths)))
