"""Listings of an engine: brings this machine's copy of the space up to date and reads it like a home."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, SessionId
from teamwright.surfaces.commands.tables import local_time
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.store.engine.space import Space
    from teamwright.store.engine.wire.address import Address

_PATIENCE = 20.0  # seconds


def read_named_engine(named: str | None) -> "Address | None":
    """The engine named by the option or the environment; None: nobody names one."""
    named = named or os.environ.get("TEAMWRIGHT_ENGINE")
    if not named:
        return None
    from teamwright.app.engine import address_of  # noqa: PLC0415
    from teamwright.app.options import Options  # noqa: PLC0415
    from teamwright.app.workspace import open_workspace  # noqa: PLC0415

    options = Options(cwd=Path.cwd(), env=dict(os.environ), engine=named)
    return address_of(options, open_workspace(options))


_away = list[str]()  # why the listings of this run are old


def engine_away() -> str:
    """Why listings are old, in words fit for a screen, if the engine was asked and did not answer; else empty."""
    return visible(_away[-1]) if _away else ""


def look_through(named: str | None) -> None:
    """From now on this program's home is the copy of that space. Without an engine nothing changes."""
    address = read_named_engine(named)
    if address is None:
        return
    from teamwright.store.files.paths import home_from  # noqa: PLC0415

    root = home_from(os.environ).root
    try:
        copy = anyio.run(_refresh, address, root)
    except StoreError as error:
        copy = _last_known(root, address, error)
    os.environ["TEAMWRIGHT_HOME"] = str(copy)


def _last_known(root: Path, address: "Address", error: StoreError) -> Path:
    """The copy from when this machine last heard of the engine; without one the error is raised."""
    from teamwright.store.engine.known import last_heard, read_known  # noqa: PLC0415

    space = read_known(root / "engines").get(str(address))
    copy = root / "engines" / space if space else None
    if copy is None or not (copy / "state.db").is_file() or not (at := last_heard(copy / "state.db")):
        raise error
    _away.append(f"Everybody waits for the engine at {address}, which was last heard at {local_time(at)}.")
    sys.stderr.write(visible(f"teamwright: {error} This is what this machine knew at {local_time(at)}.") + "\n")
    return copy


async def _refresh(address: "Address", root: Path) -> Path:
    from teamwright.store.engine.space import Joining, open_space  # noqa: PLC0415

    space = await open_space(address, root, Joining(joins=False, patience=_PATIENCE))
    try:
        await _fetch_changed(space)
    finally:
        await space.close()
    return space.home.root


async def _fetch_changed(space: "Space") -> None:
    """Fetch transcripts that have grown since the last fetch, except those that this machine writes itself."""
    from teamwright.osfiles.locks import is_held  # noqa: PLC0415
    from teamwright.store.db.statements import fetch_all  # noqa: PLC0415
    from teamwright.store.engine.copies import remove_copies  # noqa: PLC0415
    from teamwright.store.engine.space import files_in  # noqa: PLC0415

    file = space.home.root / "fetched.json"
    try:
        before = msgspec.json.decode(await anyio.Path(file).read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        before = {}
    await remove_copies(space)
    counts = await space.lines.counts()
    sql = "SELECT agents.id, sessions.id, sessions.cwd FROM agents JOIN sessions ON sessions.n = agents.session"
    for agent, session, cwd in await space.replica.read(fetch_all(sql, ())):
        many = counts.get(AgentId(agent), 0)
        if many and many != before.get(agent) and not is_held(space.home.session_lock(SessionId(session))):
            await space.fetch(AgentId(agent), files_in(space.home, SessionId(session), cwd))
            before[agent] = many
    from teamwright.osfiles.private import write_file  # noqa: PLC0415

    await anyio.to_thread.run_sync(write_file, file, msgspec.json.encode(before))
