"""The store of a home, for what has no session. Opening it may set a damaged one aside, which nobody else tells."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from teamwright.store.files.paths import Home
from teamwright.store.tables.state import StateStore
from teamwright.tools.bounds import visible


@asynccontextmanager
async def opened_store(home: Home) -> AsyncGenerator[StateStore]:
    state = await StateStore.open(home.state)
    try:
        tell_notes(state)
        yield state
    finally:
        await state.close()


def tell_notes(state: StateStore) -> None:
    for note in state.notes:
        sys.stderr.write(f"teamwright: {visible(note)}\n")
