"""`teamwright sessions delete ID --engine URL`: removes a session from an engine, with all that only it uses there."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from teamwright.core.data.team import Refused
from teamwright.core.errors import SessionBusy, SessionMissing, UsageError
from teamwright.core.ids import SessionId
from teamwright.store.files.paths import home_from, is_beginning
from teamwright.surfaces.commands.through_engine import read_named_engine
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.store.engine.space import Space
    from teamwright.store.engine.wire.address import Address

_PATIENCE = 60.0  # seconds
_AT_WORK = "SELECT agent FROM remotes WHERE session = ? AND state <> 'ended' ORDER BY agent"
_HOW = "Nothing was deleted; `teamwright jobs --stop ID --engine URL` ends one."


def remove_sessions(named: str, ids: Sequence[str]) -> int:
    address = read_named_engine(named)
    assert address is not None
    return anyio.run(_remove, address, ids)


async def _remove(address: "Address", ids: Sequence[str]) -> int:
    from teamwright.store.engine.space import Joining, open_space  # noqa: PLC0415

    space = await open_space(address, home_from(os.environ).root, Joining(patience=_PATIENCE))
    try:
        found = list(dict.fromkeys([await _find(space, id) for id in ids]))
        for session in found:
            await _remove_one(space, session)
            sys.stdout.write(visible(f"deleted {session} from {address}") + "\n")
    finally:
        await space.close()
    return 0


async def _find(space: "Space", named: str) -> SessionId:
    """Also finds a session that was removed before, but not completely purged."""
    from teamwright.store.acts.removal import select_removed  # noqa: PLC0415
    from teamwright.store.db.statements import fetch_all  # noqa: PLC0415

    known = {id for (id,) in await space.replica.read(fetch_all("SELECT id FROM sessions", ()))}
    known |= {removed.session for removed in await space.replica.read(select_removed) if removed.agents}
    ids = sorted(id for id in known if id.startswith(named.lower()) and is_beginning(named.lower()))
    if not ids:
        raise SessionMissing(f"there is no session {visible(named)} in {space.address}; nothing was deleted")
    if len(ids) > 1:
        raise UsageError(f"{visible(named)} is the beginning of {len(ids)} sessions; nothing was deleted")
    return SessionId(ids[0])


async def _remove_one(space: "Space", session: SessionId) -> None:
    from teamwright.app.engine import claim_main  # noqa: PLC0415
    from teamwright.store.acts.removal import RemoveSession, select_removed  # noqa: PLC0415
    from teamwright.store.db.statements import fetch_all  # noqa: PLC0415
    from teamwright.store.engine.copies import remove_copies  # noqa: PLC0415
    from teamwright.store.engine.purge import purge  # noqa: PLC0415

    if await space.replica.read(fetch_all("SELECT 1 FROM sessions WHERE id = ?", (session,))):
        if at_work := await space.replica.read(fetch_all(_AT_WORK, (session,))):
            agents = ", ".join(agent for (agent,) in at_work)
            raise SessionBusy(f"agents of session {session} are on workers, or wait for one: {agents}. {_HOW}")
        await claim_main(space, session)
        done = await space.replica.write(RemoveSession(session))
        if isinstance(done, Refused):
            raise SessionBusy(f"{done.reason} {_HOW}")
    for removed in await space.replica.read(select_removed):
        if removed.session == session:
            await purge(space, removed)
    await remove_copies(space)
