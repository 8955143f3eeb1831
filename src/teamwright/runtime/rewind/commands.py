"""Finds out which files a command changed in a git work tree, and keeps them as they were before it.

What cannot be found out becomes a gap in the index, with its reason: a person is told of it before a rewind.
"""

import os
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.files.snapshot import FileState, look_at
from teamwright.host.git.places import top_of
from teamwright.host.git.shadow import Look, LookLimits, ShadowTree, TreeChange
from teamwright.runtime.rewind.entries import after_of, entry_of, is_storable
from teamwright.store.files.checkpoints import MOST_BYTES, CheckpointEntry, Checkpoints

NO_GIT = "commands outside of a git work tree"
BACKGROUND = "a command in the background"
ODD_NAMES = "files whose names or targets are no UTF-8"
RUNNING = "a command that has not ended, or was cut off"


class Watched(Struct, frozen=True):
    """A command that runs, with the tree as it was before; without a tree nothing can be said of it."""

    call: str
    at: int
    tree: ShadowTree | None = None
    look: Look | None = None


class CommandWatch:
    """Watches commands. `home` holds our own files, which are left out."""

    def __init__(self, checkpoints: Checkpoints, home: Path, now: Callable[[], int]) -> None:
        self._checkpoints, self._home, self._now = checkpoints, home, now
        self._folder = checkpoints.folder / "trees" / f"{os.getpid()}-{os.urandom(4).hex()}"
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)  # at the latest when the process ends
        self._trees: dict[str, ShadowTree] = {}
        self._refused: dict[str, str] = {}  # trees that are not worth another look, with the reason

    async def begin(self, call: str, cwd: Path) -> Watched:
        """Raises StoreError."""
        at, top = self._now(), await anyio.to_thread.run_sync(_top, cwd)
        if not top or top in self._refused:
            await self._append(CheckpointEntry(at, gap=self._refused.get(top, NO_GIT), id=call))
            return Watched(call, at)
        tree = self._trees.get(top)
        if tree is None:
            folder = self._folder / str(len(self._trees))
            tree = self._trees[top] = ShadowTree(
                Path(top), folder, without=self._home, limits=LookLimits(file=MOST_BYTES)
            )
        try:
            look = await tree.look()
        except (ToolError, OSError) as error:
            why = f"commands in {top}: {error}"
            if not tree.seen:  # it would fail again
                self._refused[top] = why
            await self._append(CheckpointEntry(at, gap=why, id=call))
            return Watched(call, at)
        at = self._now()
        await self._append(CheckpointEntry(at, gap=RUNNING, id=call))
        return Watched(call, at, tree, look)

    async def end(self, watched: Watched, *, background: bool) -> None:
        """Raises StoreError."""
        if watched.tree is None or watched.look is None:
            return
        if background:
            await self._append(
                CheckpointEntry(watched.at, closes=watched.call), CheckpointEntry(watched.at, gap=BACKGROUND)
            )
            return
        try:
            after = await watched.tree.look()
            changes = await watched.tree.changes(watched.look, after)
            was = await watched.tree.contents([change.before for change in changes if change.before])
        except (ToolError, OSError) as error:
            why = f"what a command changed: {error}"
            await self._append(CheckpointEntry(watched.at, closes=watched.call), CheckpointEntry(watched.at, gap=why))
            return
        await anyio.to_thread.run_sync(self._note, watched, changes, was, _lost(watched.look, after))

    def _note(self, watched: Watched, changes: list[TreeChange], was: dict[str, bytes], lost: set[str]) -> None:
        assert watched.tree is not None
        top, at = str(watched.tree.top), self._now()
        entries: list[CheckpointEntry] = []
        fit = [change for change in changes if is_storable(change.path + _state(change, was).link)]
        if len(fit) < len(changes):
            entries.append(CheckpointEntry(watched.at, gap=ODD_NAMES))
        for change in fit:
            path = f"{top}/{change.path}"
            after, before = look_at(path, MOST_BYTES), _state(change, was)
            if before.kind == "file" and after.kind == "file" and bool(after.mode & 0o111) == change.executable:
                before = FileState("file", before.data, after.mode)  # git knows only whether a file is executable
            entries.append(entry_of(self._checkpoints, path, before, watched.at))
            entries.append(after_of(path, before, after, at))
        known = {change.path for change in changes}
        for name in filter(is_storable, lost - known):
            path, why = f"{top}/{name}", "it is too large, or could not be read"
            entries += [CheckpointEntry(watched.at, path, lost=True, why=why), CheckpointEntry(at, path, mark="?")]
        self._checkpoints.append([*entries, CheckpointEntry(at, closes=watched.call)])

    async def _append(self, *entries: CheckpointEntry) -> None:
        await anyio.to_thread.run_sync(self._checkpoints.append, entries)

    def clear(self) -> None:
        """Remove the shadow trees of processes that are gone. Blocks."""
        with suppress(OSError):
            for left in self._folder.parent.iterdir():
                if not _lives(left.name.partition("-")[0]):
                    shutil.rmtree(left, ignore_errors=True)


def _top(cwd: Path) -> str:
    return top_of(str(cwd.resolve()))


def _state(change: TreeChange, was: dict[str, bytes]) -> FileState:
    if not change.before:
        return FileState("absent")
    data = was[change.before]
    if change.link:
        return FileState("link", link=os.fsdecode(data))
    return FileState("file", data, 0o755 if change.executable else 0o644)


def _lost(before: Look, after: Look) -> set[str]:
    """Files that a look does not read, and that have changed."""
    return {name for name in {*before.unkept, *after.unkept} if before.unkept.get(name) != after.unkept.get(name)}


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except OSError:
        return True
    return True
