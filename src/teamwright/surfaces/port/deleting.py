"""Removes sessions from the disk."""

from collections.abc import Sequence
from pathlib import Path

from teamwright.core.ids import SessionId
from teamwright.osfiles.locks import hold
from teamwright.store.files.paths import Home, SessionFiles, remove_files
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.tables.tasks import TaskTable
from teamwright.surfaces.port.stored import opened_store


async def delete_stored(home: Home, transcripts: Sequence[Path]) -> list[str]:
    """Remove transcripts, outputs and rows of the store. Returns the ids of running sessions, which are left alone."""
    busy: list[str] = []
    async with opened_store(home) as state:
        for path in transcripts:
            id = SessionId(path.stem)
            lock = hold(home.session_lock(id))
            if lock is None:
                busy.append(id)
                continue
            await state.delete_session(id)
            remove_files(SessionFiles(path))
            home.session_log(id).unlink(missing_ok=True)
            await TaskMirror(home.root, TaskTable(state.database)).remove(id)
            lock.release()
    return busy
