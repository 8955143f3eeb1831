"""Mirrors task lists as plain files, `tasks/LIST/N.json`, for people and other programs.

Written from the store after each change, rebuilt at a start, and never read back.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from teamwright.core.data.tasks import Task, TaskId
from teamwright.core.errors import SettingsError, StoreError
from teamwright.core.text import shown
from teamwright.osfiles.locks import hold
from teamwright.osfiles.private import fault, make_dir, remove_file, write_file
from teamwright.osfiles.reading import read_whole
from teamwright.store.tables.tasks import Listing, TaskTable

_WAIT = 5.0  # seconds for another process to finish with the same directory
_SAFE = re.compile(r"[^\x00-\x1f/\x7f.][^\x00-\x1f/\x7f]*")
_OURS = re.compile(r"([1-9][0-9]{0,17})\.json")
_DRAFT = re.compile(r"\.[0-9]+\.json\.[0-9a-f]{8}")  # left behind by a killed process
_LONGEST_NAME = 200
_LARGEST = 1024 * 1024  # bytes; a larger file is none of ours
_MOST_TOLD = 20  # files that are named one by one


def record(task: Task) -> dict[str, Any]:
    """A task as people and programs see it."""
    return {
        "id": str(task.id),
        "subject": task.subject,
        "description": task.description,
        "status": task.status,
        "owner": task.owner,
        "activeForm": task.active_form,
        "blockedBy": [str(id) for id in task.blocked_by],
        "blocks": [str(id) for id in task.blocks],
        "createdAt": task.created,
        "updatedAt": task.updated,
        "metadata": dict(task.metadata),
    }


class TaskMirror:
    def __init__(self, root: Path, table: TaskTable) -> None:
        """`root` is TEAMWRIGHT_HOME."""
        self._root, self._table = root, table
        self._turn = anyio.Lock()

    def dir(self, list: str) -> Path:
        """The directory of a list's files; a name that would lead elsewhere is refused."""
        if not _SAFE.fullmatch(list) or len(list.encode(errors="replace")) > _LONGEST_NAME:
            raise StoreError(
                f"{shown(list)!r} cannot be the name of a task list: it is not a safe name for a directory."
            )
        return self._root / "tasks" / list

    async def write(self, list: str, ids: Sequence[TaskId]) -> None:
        """Write these records as the store has them now. If it fails, only the mirror is behind, until it is
        rebuilt."""
        async with self._locked(list) as dir:
            found = await self._table.some(list, ids)
            await anyio.to_thread.run_sync(_write_some, dir, found)

    async def rebuild(self, list: str) -> "list[str]":
        """Rewrite every file that differs; returns notes on files that somebody else made or changed."""
        async with self._locked(list) as dir:
            listing = await self._table.list(list)
            return [*listing.problems, *await anyio.to_thread.run_sync(_rebuild, dir, listing)]

    async def remove(self, list: str) -> None:
        """Remove the directory with everything in it."""
        if _is_there(self.dir(list)):  # otherwise a lock file would be left for a list without files
            async with self._locked(list) as dir:
                await anyio.to_thread.run_sync(_remove, dir)

    @asynccontextmanager
    async def _locked(self, list: str) -> AsyncGenerator[Path, None]:
        """Lets one writer at a time at a directory, so that an older read never overwrites a newer one."""
        dir, path = self.dir(list), self._root / "run" / f"tasks-{list}.lock"
        async with self._turn:
            lock = hold(path) or await anyio.to_thread.run_sync(hold, path, _WAIT)
            if lock is None:
                raise StoreError(f"{dir} is being written by another process for more than {_WAIT:g} s.")
            try:
                yield dir
            finally:
                lock.release()


def _bytes(task: Task) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record(task)), indent=2) + b"\n"


def _write_some(dir: Path, tasks: Mapping[TaskId, Task | None]) -> None:
    make_dir(dir)
    for id, task in tasks.items():
        if task is None:
            remove_file(dir / f"{id}.json")
        else:
            write_file(dir / f"{id}.json", _bytes(task), synced=False)  # a start rewrites it, so no sync


def _is_there(dir: Path) -> bool:
    return dir.is_symlink() or dir.exists()


def _remove(dir: Path) -> None:
    import shutil  # noqa: PLC0415  # seldom needed

    try:
        if dir.is_symlink():
            dir.unlink()
        elif dir.exists():
            shutil.rmtree(dir)
    except OSError as error:
        raise fault("remove", dir, error) from error


def _rebuild(dir: Path, listing: Listing) -> list[str]:
    make_dir(dir)
    ours = {f"{task.id}.json": task for task in listing.tasks}
    told: list[str] = []
    for path in sorted(dir.iterdir()):
        if path.name not in ours and (words := _clear(path, listing.next)):
            told.append(words)
    for name, task in ours.items():
        data = _bytes(task)
        found = _read(dir / name)
        if found != data:
            if found is not None and not _is_behind(found, task):
                told.append(f"{shown(str(dir / name))} was changed by somebody else; it is rewritten.")
            write_file(dir / name, data, synced=False)  # a start rewrites it, so no sync
    if len(told) > _MOST_TOLD:
        told = [*told[:_MOST_TOLD], f"... and {len(told) - _MOST_TOLD} more such files in {shown(str(dir))}."]
    return told


def _clear(path: Path, next: int) -> str:
    """Remove files of deleted tasks; report a file that was never ours."""
    found = _OURS.fullmatch(path.name)
    if _DRAFT.fullmatch(path.name) or (found and int(found[1]) < next and not path.is_dir()):
        remove_file(path)
        return ""
    return (
        f"{shown(str(path))} is none of ours and is ignored: tasks are kept in the store, these files only show them."
    )


def _read(path: Path) -> bytes | None:
    """None if there is no such file; empty if it cannot be one of ours."""
    try:
        return read_whole(path, _LARGEST, follow=False)
    except SettingsError:
        return b""


def _is_behind(data: bytes, task: Task) -> bool:
    """Whether we wrote it for an older state of the task: a crash came between the store and the mirror."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    changed = found.get("updatedAt")  # earlier versions wrote ISO times
    is_older = changed < task.updated if isinstance(changed, int) else isinstance(changed, str)
    return is_older and found.keys() == record(task).keys()
