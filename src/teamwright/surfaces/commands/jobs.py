"""`teamwright jobs` and `teamwright why`: list what runs in a session, and what waits for what."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from teamwright.core.data.conversation.history import History, fold
from teamwright.core.data.event import LettersTaken, Line, Reminded, Replied, Resumed, ToolEnded, ToolStarted
from teamwright.core.errors import SessionMissing
from teamwright.core.ids import AgentId, SessionId
from teamwright.osfiles.locks import hold
from teamwright.store.files import transcripts
from teamwright.store.files.paths import Home, SessionFiles, home_from, list_sessions, one_session, sessions_named
from teamwright.store.tables.jobs import JobRow, JobTable
from teamwright.store.tables.processes import ProcessTable
from teamwright.surfaces.commands.remote_jobs import RemoteJob, read_remotes
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.commands.teams.waits import Mate, TeamWaits, lead_owes, lead_waits, mate_waits, read_crew
from teamwright.surfaces.commands.through_engine import engine_away
from teamwright.surfaces.port.stored import opened_store

IDLE = ("idle", "a message")
NOT_BEGUN = ("running", "the model's answer or a free slot")


class WaitingJob(msgspec.Struct, frozen=True):
    """Why an agent does not run."""

    agent: str
    name: str
    state: str
    waiting_for: str
    since: int  # milliseconds since 1970


def _find(session: str | None) -> tuple[Home, Path | None]:
    """The session's transcript; None if none is named and there is none here."""
    home = home_from(os.environ)
    if session:
        return home, one_session(home, session)
    here = list_sessions(home, Path.cwd())
    return home, here[0].path if here else None


def _show_none(*, as_json: bool) -> int:
    if as_json:
        print_json([])
    else:
        sys.stdout.write(f"there is no session in {Path.cwd()}\n")
    return 0


class SessionJobs(msgspec.Struct, frozen=True):
    """A session's jobs, its teams, whether a process runs it now, and its agents on workers."""

    rows: list[JobRow]
    crew: TeamWaits
    alive: bool
    remotes: dict[AgentId, RemoteJob] = {}


async def _read(home: Home, session: SessionId) -> SessionJobs:
    if not home.state.exists():
        return SessionJobs([], TeamWaits((), (), ()), _lives(home, session))
    async with opened_store(home) as state:
        led = await ProcessTable(state.database, home.run).holder(AgentId(session)) is not None  # in an engine
        rows, crew = await JobTable(state.database).all(session), await read_crew(home, state, session)
        return SessionJobs(rows, crew, led or _lives(home, session), await read_remotes(state))


def _lives(home: Home, session: SessionId) -> bool:
    """Whether a process of this machine runs this session now."""
    lock = hold(home.session_lock(session))
    if lock is None:
        return True
    lock.release()
    return False


def show_jobs(session: str | None, engine: str = "", *, as_json: bool) -> int:
    """`engine` is the address of the engine whose sessions are listed."""
    home, path = _find(session)
    if path is None:
        return _show_none(as_json=as_json)
    read = anyio.run(_read, home, SessionId(path.stem))
    found = [_job(row, read, engine) for row in read.rows]
    found += [_teammate(mate, read.remotes.get(mate.member.agent)) for mate in read.crew.mates]
    if as_json:
        print_json(found)
    elif not found:
        sys.stdout.write(f"no jobs in session {path.stem}\n")
    else:
        head = ["ID", "KIND", "STATUS", "SINCE", "DESCRIPTION"]
        cells = [[j["id"], j["kind"], j["status"], local_time(j["since"]), j["description"]] for j in found]
        print_table([head, *cells])
    return 0


def _job(row: JobRow, read: SessionJobs, engine: str) -> dict[str, Any]:
    job: dict[str, Any] = {
        "id": row.id,
        "kind": row.kind,
        "status": row.status,
        "description": row.description,
        "since": row.ended or row.started,
    }
    if row.kind == "remote":
        remote = read.remotes.get(AgentId(row.id))
        job |= {"worker": remote.worker if remote else "", "url": f"{engine}/{row.id}" if engine else ""}
        if remote is not None and remote.waits:
            job["waiting_for"] = remote.waits
    elif row.status == "running" and not read.alive:
        job["waiting_for"] = "its process is gone; resume the session to settle it"
    return job


def _teammate(mate: Mate, remote: RemoteJob | None) -> dict[str, Any]:
    """A teammate, listed under the address for messages and for stopping it."""
    member = mate.member
    job: dict[str, Any] = {
        "id": member.address,
        "kind": "teammate",
        "status": member.state,
        "description": member.description or member.kind,
        "since": member.since,
    }
    if member.state != "shutdown" and (waits := mate_waits(mate)) is not None:
        job["waiting_for"] = waits[1]
    if remote is not None:
        job["worker"] = remote.worker
        if remote.waits:
            job["waiting_for"] = remote.waits
    return job


def _print_waits(found: Sequence[WaitingJob], main: SessionId) -> None:
    rows = [[w.name if w.agent == main else w.agent, w.state, local_time(w.since), w.waiting_for] for w in found]
    print_table([["AGENT", "STATE", "SINCE", "WAITS FOR"], *rows])


def show_why(session: str | None, agent: str | None, *, as_json: bool) -> int:
    """Reads only the transcripts and the store, so it also works for a session whose program is gone.

    A single name that is no session is taken for an agent of the last session here.
    """
    if session and agent is None and not sessions_named(home_from(os.environ), session):
        session, agent = None, session
    home, path = _find(session)
    if path is None:
        if agent:
            raise SessionMissing(f"there is no agent {agent}: there is no session in {Path.cwd()}")
        return _show_none(as_json=as_json)
    id = SessionId(path.stem)
    read = anyio.run(_read, home, id)
    found = _all_waits(path, id, read)
    if agent and not (found := _named(agent, found, read.crew)):
        raise SessionMissing(f"there is no agent {agent} in session {id}")
    if as_json:
        print_json(found)
    else:
        if away := engine_away():
            sys.stdout.write(away + "\n")
        _print_waits(found, id)
    return 0


def _named(agent: str, found: list[WaitingJob], crew: TeamWaits) -> list[WaitingJob]:
    ids = {mate.member.address: mate.member.agent for mate in crew.mates}
    return [w for w in found if agent in (w.agent, w.name, ids.get(w.agent))]


def _all_waits(path: Path, id: SessionId, read: SessionJobs) -> list[WaitingJob]:
    rows, alive, remotes = read.rows, read.alive, read.remotes
    files, latest = SessionFiles(path), {row.id: row for row in rows}
    found = [_main_waits(path, id, rows, read.crew, alive=alive)]
    found += [_far(_mate_waits(mate, rows), remotes.get(mate.member.agent)) for mate in read.crew.mates]
    for row in latest.values():
        if row.kind in ("agent", "remote"):
            waits = _agent_waits(files, row, rows, alive=alive or row.kind == "remote")
            found.append(_far(waits, remotes.get(AgentId(row.id))))
    return found


def _far(waits: WaitingJob, remote: RemoteJob | None) -> WaitingJob:
    """An agent without a worker waits for one."""
    if remote is None or not remote.waits:
        return waits
    return msgspec.structs.replace(waits, state="waiting", waiting_for=remote.waits)


def _main_waits(path: Path, id: SessionId, rows: list[JobRow], crew: TeamWaits, *, alive: bool) -> WaitingJob:
    lines = [line for _, line in transcripts.read(path)]
    since = lines[-1].at if lines else 0
    running = [row for row in rows if row.owner == id and row.status == "running"]
    if not alive:
        owed = "; ".join(("its process has ended; --resume continues it", *lead_owes(crew)))
        return WaitingJob(id, "main", "gone", owed, since)
    state, words = _state_of(lines, running, unasked=IDLE, rests=_is_resumed(lines))
    if state != "running" and (more := lead_waits(crew)):
        state, words = "waiting", "; ".join(more if state == "idle" else [words, *more])
    return WaitingJob(id, "main", state, words, since)


def _mate_waits(mate: Mate, rows: list[JobRow]) -> WaitingJob:
    member = mate.member
    running = [row for row in rows if row.owner == member.agent and row.status == "running"]
    return WaitingJob(member.address, member.name, *(mate_waits(mate) or _state_of(mate.lines, running)), mate.since)


def _agent_waits(files: SessionFiles, row: JobRow, rows: list[JobRow], *, alive: bool) -> WaitingJob:
    path = files.dir / "agents" / f"{row.id}.jsonl"
    lines = [line for _, line in transcripts.read(path)] if path.is_file() else []
    since = lines[-1].at if lines else row.started
    if row.status != "running":
        return WaitingJob(row.id, row.description, row.status, "nothing: it has ended; SendMessage resumes it", since)
    if not alive:
        return WaitingJob(row.id, row.description, "gone", "its process has ended; --resume settles it", since)
    running = [other for other in rows if other.owner == row.id and other.status == "running"]
    return WaitingJob(row.id, row.description, *_state_of(lines, running), since)


def _state_of(
    lines: Sequence[Line], jobs: list[JobRow], *, unasked: tuple[str, str] = NOT_BEGUN, rests: bool = False
) -> tuple[str, str]:
    """`unasked`: of an agent that nobody has told anything yet. `rests`: it waits for words, whatever was cut off."""
    history = fold(line.event for line in lines)
    if history.open_calls:
        return "waiting", _open_calls(history, jobs)
    if history.ended is not None or rests:
        background = ", ".join(job.id for job in jobs)
        return ("waiting", f"its jobs: {background}") if jobs else IDLE
    if history.messages and isinstance(lines[-1].event, Replied | ToolEnded):
        return "running", "the model's answer"
    return NOT_BEGUN if history.messages else unasked


def _is_resumed(lines: Sequence[Line]) -> bool:
    """Whether another process has resumed the main agent, and has begun no turn of it: others go on by themselves."""
    for line in reversed(lines):
        match line.event:
            case Resumed():
                return True
            case LettersTaken(letters=()):  # only added to the conversation
                continue
            case LettersTaken() | Reminded() | Replied() | ToolStarted():
                return False
            case _:
                continue
    return False


def _open_calls(history: History, jobs: list[JobRow]) -> str:
    begun = history.begun | {job.call for job in jobs}
    if working := ", ".join(call.name for call in history.open_calls if call.id in begun):
        return f"its calls: {working} (running)"
    names = ", ".join(call.name for call in history.open_calls)
    return f"a person's answer, or its calls: {names}"
