"""Polls the store for changes by other processes, which covers lost wake-ups."""

from collections.abc import Callable

from teamwright.store.db.database import Database

EVERY = 1.0  # seconds


async def watch_changes(database: Database, changed: Callable[[], object], every: float = EVERY) -> None:
    """Call `changed` after commits of other processes, until it is cancelled. A look reads one number."""
    seen = await database.data_version()
    while True:
        await database.pause(every)
        found = await database.data_version()
        if found != seen:
            seen = found
            changed()
