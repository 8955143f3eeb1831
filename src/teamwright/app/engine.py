"""Opens a session in an engine: finds out which engine, and fetches the session's transcripts."""

import sqlite3
import time
from collections.abc import Mapping
from functools import partial

import anyio

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.data.team import ProcessId, Refused
from teamwright.core.errors import SessionBusy, UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.text import shown
from teamwright.runtime.agents.resume import Origin
from teamwright.store.db.statements import fetch_all
from teamwright.store.engine.tables import Host, read_hosts
from teamwright.store.engine.wire.address import Address, read_named
from teamwright.store.files.paths import find_transcript
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.teams import TeamTable

try:
    from teamwright.store.engine.opening import read_lease
    from teamwright.store.engine.space import Joining, Space, files_in, open_space
except ModuleNotFoundError as error:  # the client of the engine
    if error.name != "nats":
        raise
    raise UsageError(
        "An engine needs a client that is not installed: `pip install 'teamwright[cluster]'` adds it."
    ) from None

_GRACE = 5.0  # seconds beyond a lease
_LOOK = 0.1  # seconds


def address_of(options: Options, workspace: Workspace) -> Address:
    """The engine's address from the flag, the process's own environment, or the person's settings; never from a
    project."""
    named = options.engine or options.env.get("TEAMWRIGHT_ENGINE") or workspace.own.engine.url or ""
    return read_own(named, options.env, workspace)


def read_own(named: str, env: Mapping[str, str], workspace: Workspace) -> Address:
    """An address, with the person's certificates and credentials for it."""
    own = workspace.own.engine
    authority = env.get("TEAMWRIGHT_ENGINE_CA") or own.ca or ""
    return read_named(named, workspace.cwd, authority, env.get("TEAMWRIGHT_ENGINE_CREDS") or own.creds or "")


async def open_session_space(options: Options, workspace: Workspace) -> Space:
    """Opens the space, and fetches the transcripts of the session to resume and of the team to lead."""
    address, own = address_of(options, workspace), workspace.own.engine
    how = Joining(lease=read_lease(options.env), patience=own.patience_seconds)
    space = await open_space(address, workspace.home.root, how)
    try:
        if options.origin.id is not None:
            await _fetch_namesake(space, SessionId(options.origin.id.lower()))
        for session in await _wanted(space, options.origin, str(workspace.cwd)):
            if not options.origin.fork:
                await claim_main(space, session)
            await _fetch(space, session)
        if options.team is not None:
            await _fetch_team(space, options.team)
    except BaseException:
        await space.close()
        raise
    return space


async def open_member_space(options: Options, workspace: Workspace) -> Space:
    own = workspace.own.engine
    how = Joining(lease=read_lease(options.env), patience=own.patience_seconds)
    return await open_space(address_of(options, workspace), workspace.home.root, how)


async def _wanted(space: Space, origin: Origin, cwd: str) -> list[SessionId]:
    """Sessions in the engine that may be meant. Their files then show whether it is exactly one."""
    if not origin.resume and not origin.last:
        return []
    rows = await space.replica.read(fetch_all("SELECT id, cwd FROM sessions ORDER BY created DESC", ()))
    if origin.resume:
        named = origin.resume.lower()
        return [SessionId(id) for id, _ in rows if id.startswith(named)][:1]
    return [SessionId(id) for id, at in rows if at == cwd][:1]


async def _fetch_namesake(space: Space, session: SessionId) -> None:
    """Fetch a session from another machine that has the id given for a new one, so that it is found by its file."""
    if await space.replica.read(fetch_all("SELECT 1 FROM removed_sessions WHERE session = ?", (session,))):
        raise UsageError(f"session {session} was deleted from {space.address}: its id is not given again")
    if find_transcript(space.home, session) is None:
        for (cwd,) in await space.replica.read(fetch_all("SELECT cwd FROM sessions WHERE id = ?", (session,))):
            await space.fetch(AgentId(session), files_in(space.home, session, cwd))


async def _fetch(space: Space, session: SessionId) -> None:
    """Fetch all agents of a session, and other sessions' agents in teams that it leads."""
    await _fetch_agents(space, session)
    teams = TeamTable(space.database)
    for team in await teams.teams_of(AgentId(session)):
        await _fetch_members(space, team.name, {session})


async def _fetch_team(space: Space, name: str) -> None:
    team = await TeamTable(space.database).team(name)
    if team is None:
        return
    if team.process is not None:
        await _outwait(space, team.process, f"team {shown(name, 100)} is led")
    if team.session:
        await _fetch_agents(space, SessionId(team.session))
    await _fetch_members(space, name, {SessionId(team.session)} if team.session else set())


async def _fetch_members(space: Space, team: str, known: set[SessionId]) -> None:
    members = await TeamTable(space.database).members(team)
    for session in {SessionId(member.session) for member in members if member.session} - known:
        await _fetch_agents(space, session)


async def _fetch_agents(space: Space, session: SessionId) -> None:
    sql = """
        SELECT agents.id, sessions.cwd FROM agents JOIN sessions ON sessions.n = agents.session WHERE sessions.id = ?
    """
    rows = await space.replica.read(fetch_all(sql, (session,)))
    for agent, cwd in rows:
        await space.fetch(AgentId(agent), files_in(space.home, session, cwd))


# --- never two


async def claim_main(space: Space, session: SessionId) -> None:
    """Take the right to run a session. Refused while a living process has it; a silent one is waited out."""
    processes = ProcessTable(space.database, space.home.run)
    me = await processes.register(session)
    lease = await processes.lease(AgentId(session))
    if lease is not None and lease.process not in (None, me.id):
        await _outwait(space, lease.process, f"session {session} is running")
    claimed = await processes.claim_agent(AgentId(session), me.id)
    if isinstance(claimed, Refused):
        raise SessionBusy(f"session {session} was taken by another process just now; end that one first")


async def _outwait(space: Space, process: ProcessId | None, what: str) -> None:
    """Return when the process counts as gone. Raises as soon as it gives a sign of life.

    Only an entry of its own is one: after an outage of the engine even dead processes get a fresh lease.
    """
    first = last = await space.replica.read(partial(_host, process=process))
    said = await space.replica.read(partial(_last_entry, process=process))
    limit = time.monotonic() + (first.lease / 1000 if first is not None else 0) + _GRACE
    while last is not None and not last.gone:
        heard = await space.replica.read(partial(_last_entry, process=process)) > said
        if first is not None and last.beat > first.beat and not heard:
            first, limit = last, time.monotonic() + last.lease / 1000 + _GRACE
        if heard or time.monotonic() > limit:
            raise SessionBusy(
                f"{what} in a process on {shown(last.host, 100)}, which was heard just now; end that one first"
            )
        await anyio.sleep(_LOOK)
        last = await space.replica.read(partial(_host, process=process))


def _host(db: sqlite3.Connection, process: ProcessId | None) -> Host | None:
    return next((host for host in read_hosts(db) if host.process == process), None)


def _last_entry(db: sqlite3.Connection, process: ProcessId | None) -> int:
    row = db.execute("SELECT k FROM writers WHERE process = ?", (process,)).fetchone()
    return row[0] if row else 0
