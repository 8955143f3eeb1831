"""Removes this machine's own copies of sessions that were removed from an engine."""

import anyio.to_thread

from teamwright.core.ids import SessionId
from teamwright.osfiles.locks import hold
from teamwright.store.acts.removal import select_removed
from teamwright.store.engine.space import Space
from teamwright.store.files.paths import Home, SessionFiles, find_transcript, remove_files


async def remove_copies(space: Space) -> None:
    """Delete the files of removed sessions, which nobody can resume any more."""
    for removed in await space.replica.look(select_removed):
        await anyio.to_thread.run_sync(_remove, space.home, removed.session)


def _remove(home: Home, session: SessionId) -> None:
    path = find_transcript(home, session)
    if path is not None and (lock := hold(home.session_lock(session))) is not None:
        remove_files(SessionFiles(path))
        lock.release()
