"""Rows of workers and of the agents that they run for others. Only a replica of an engine has them."""

import sqlite3
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct

from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import JobStatus
from teamwright.core.data.team import ProcessId
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.policies.placing import MOST_LOSSES, Needs, Offer, choose_worker, shortage

RemoteState = Literal["waiting", "given", "running", "stopping", "ended"]
OWED = 1  # as in the acts on jobs
_COLUMNS = "agent, session, team, state, worker, charter, needs, branch, losses, progress, since, begun, why"
_IDLE = """
    EXISTS (
        SELECT 1 FROM members JOIN agents ON agents.n = members.agent
        WHERE agents.id = remotes.agent AND members.state = 'idle'
    )
"""
_CLAIMED = """
    EXISTS (
        SELECT 1 FROM leases JOIN agents ON agents.n = leases.agent JOIN processes ON processes.n = leases.process
        WHERE agents.id = remotes.agent AND processes.id = remotes.worker
    )
"""
# How many of each worker's agents need no slot. They are few, so looking for them is cheaper than looking at all.
_WAITS = f"""
    SELECT worker, count(*) FROM (
        SELECT worker, agent FROM remotes INDEXED BY mates_open WHERE state <> 'ended' AND team <> '' AND {_IDLE}
        UNION
        SELECT worker, remotes.agent FROM consults JOIN remotes ON remotes.agent = consults.agent
        WHERE answer IS NULL AND state <> 'ended'
    ) GROUP BY worker
"""  # noqa: S608
# Each kind of needs among the waiting agents: one step of the index for each, however many wait.
_KINDS = """
    WITH RECURSIVE kinds (needs) AS (
        SELECT min(needs) FROM remotes WHERE state = 'waiting'
        UNION ALL
        SELECT (SELECT min(needs) FROM remotes WHERE state = 'waiting' AND needs > kinds.needs) FROM kinds
        WHERE kinds.needs NOT NULL
    )
    SELECT needs FROM kinds WHERE needs NOT NULL
"""
_encoder = msgspec.json.Encoder()
_needs = msgspec.json.Decoder(Needs)


class Remote(Struct, frozen=True):
    """An agent that runs on a worker, or is to run there. `charter` names what the worker is told of it."""

    agent: AgentId
    session: SessionId
    team: str  # empty for a job
    state: RemoteState
    worker: ProcessId | None
    charter: str
    needs: Needs
    branch: str  # what it has made, in the words of its fetcher; empty: nothing yet
    losses: int  # workers lost since it last made progress
    progress: int  # lines of its transcript when it last began on a worker
    since: int  # milliseconds
    begun: int
    why: str  # reason of its end


def find_remote(db: sqlite3.Connection, agent: AgentId) -> Remote | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM remotes WHERE agent = ?", (agent,)).fetchone()  # noqa: S608
    return None if row is None else _remote(row)


def select_remotes(db: sqlite3.Connection, where: str, *values: object, by: str = "") -> list[Remote]:
    """`by`: the index to step through; without it SQLite would go through all rows, because those are in order."""
    source = f"remotes INDEXED BY {by}" if by else "remotes"
    sql = f"SELECT {_COLUMNS} FROM {source} WHERE {where} ORDER BY n"  # noqa: S608
    return [_remote(row) for row in db.execute(sql, values)]


def select_of_worker(db: sqlite3.Connection, process: ProcessId) -> list[Remote]:
    """Agents that a worker runs, or is to run."""
    return select_remotes(db, "worker = ? AND state <> 'ended'", process, by="remotes_open")


def select_open(db: sqlite3.Connection) -> list[Remote]:
    """Agents that have not ended."""
    return select_remotes(db, "state <> 'ended'", by="remotes_open")


def _remote(row: tuple[object, ...]) -> Remote:
    values = list(row)
    values[6] = _needs.decode(str(values[6]))
    return Remote(*values)  # pyright: ignore[reportArgumentType] -- the columns, in their order


def insert_remote(db: sqlite3.Connection, remote: Remote) -> None:
    """An agent that has ended is to go on if it is inserted again."""
    sql = """
        INSERT INTO remotes (agent, session, team, state, charter, needs, since, begun)
        VALUES (?, ?, ?, 'waiting', ?, ?, ?, ?)
        ON CONFLICT (agent) DO UPDATE SET state = 'waiting', worker = NULL, charter = excluded.charter,
            needs = excluded.needs, losses = 0, since = excluded.since, why = ''
    """
    needs = _encoder.encode(remote.needs).decode()
    what = (remote.agent, remote.session, remote.team, remote.charter, needs)
    db.execute(sql, (*what, remote.since, remote.begun))


def read_offers(db: sqlite3.Connection) -> list[Offer]:
    """Workers that may be given agents, in the order in which they joined."""
    sql = """
        SELECT workers.process, workers.name, slots, labels, providers, bypass, (
            SELECT count(*) FROM remotes INDEXED BY remotes_open
            WHERE worker = workers.process AND remotes.state <> 'ended'
        ) FROM workers JOIN hosts ON hosts.process = workers.process
        WHERE gone = 0 AND draining = 0 ORDER BY workers.n
    """
    waits = dict[str, int](db.execute(_WAITS).fetchall())
    return [
        Offer(process, name, slots, _pairs(labels), _names(providers), bool(bypass), held - waits.get(process, 0))
        for process, name, slots, labels, providers, bypass, held in db.execute(sql)
    ]


@lru_cache  # the same few texts again and again
def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return msgspec.json.decode(text, type=tuple[tuple[str, str], ...])


@lru_cache
def _names(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])


def is_idle(db: sqlite3.Connection, agent: AgentId) -> bool:
    sql = f"SELECT 1 FROM remotes WHERE agent = ? AND {_IDLE}"  # noqa: S608
    return db.execute(sql, (agent,)).fetchone() is not None


def place_waiting(db: sqlite3.Connection, now: int) -> None:
    """Give waiting agents to workers that have room, first come first served.

    Thousands may wait: of all with the same needs only the first is looked at, until it finds no room.
    """
    kinds = [needs for (needs,) in db.execute(_KINDS)]
    offers = read_offers(db) if kinds else []
    if not offers:
        return
    idle = f"state = 'waiting' AND team <> '' AND {_IDLE}"
    for remote in select_remotes(db, idle, by="mates_waiting"):  # these need no slot
        if (offer := choose_worker(remote.needs, offers, works=False)) is not None:
            _give(db, remote.agent, offer, now)
    heads = [head for needs in kinds if (head := _first_of(db, needs, offers)) is not None]
    while heads:
        _, agent, needs = heads.pop(heads.index(min(heads)))
        if (offer := choose_worker(_needs.decode(needs), offers)) is not None:
            offer.used += 1
            _give(db, agent, offer, now)
            if (head := _first_of(db, needs, offers)) is not None:
                heads.append(head)


def _first_of(db: sqlite3.Connection, needs: str, offers: list[Offer]) -> tuple[int, AgentId, str] | None:
    """The first waiting agent with these needs, if somebody has room for it."""
    if choose_worker(_needs.decode(needs), offers) is None:
        return None
    sql = f"""
        SELECT n, agent, needs FROM remotes WHERE state = 'waiting' AND needs = ? AND NOT (team <> '' AND {_IDLE})
        ORDER BY n LIMIT 1
    """  # noqa: S608
    return db.execute(sql, (needs,)).fetchone()


def _give(db: sqlite3.Connection, agent: AgentId, offer: Offer, now: int) -> None:
    sql = "UPDATE remotes SET state = 'given', worker = ?, since = ? WHERE agent = ?"
    db.execute(sql, (offer.process, now, agent))


def select_unclaimed(db: sqlite3.Connection, now: int) -> list[Remote]:
    """Agents given to living workers that have not claimed them within their lease."""
    late = f"""
        state = 'given' AND since + (SELECT lease FROM hosts WHERE process = remotes.worker AND gone = 0) <= ?
            AND NOT {_CLAIMED}
    """  # noqa: S608
    return select_remotes(db, late, now, by="remotes_given")


def _is_claimed(db: sqlite3.Connection, remote: Remote) -> bool:
    return bool(select_remotes(db, f"agent = ? AND {_CLAIMED}", remote.agent))


def wait_words(db: sqlite3.Connection, remote: Remote) -> str:
    """What it waits for, if it has no worker."""
    return shortage(remote.needs, read_offers(db)) if remote.state == "waiting" else ""


def take_back(db: sqlite3.Connection, process: ProcessId, now: int, *, lost: bool) -> None:
    """A worker runs nothing any more: give its agents to others. `lost`: it did not leave by itself.

    An agent that it had not claimed, or that only waits, cannot have ended it. An agent with too many losses stays with
    the worker, in doubt: it fails if the worker is not back when this is called again.
    """
    for remote in select_of_worker(db, process):
        blamed = lost and _is_claimed(db, remote) and not is_idle(db, remote.agent)
        losses = remote.losses + blamed
        free_lease(db, remote.agent)
        if blamed:
            db.execute("INSERT OR IGNORE INTO blames (worker, agent) VALUES (?, ?)", (process, remote.agent))
        if remote.state == "stopping":
            end_remote(db, remote, "killed", JobResult(summary="it was stopped"), now)
        elif losses < MOST_LOSSES:
            sql = "UPDATE remotes SET state = 'waiting', worker = NULL, losses = ?, since = ? WHERE agent = ?"
            db.execute(sql, (losses, now, remote.agent))
        elif blamed:
            sql = "UPDATE remotes SET state = 'given', losses = ?, since = ? WHERE agent = ?"
            db.execute(sql, (losses, now, remote.agent))
        else:
            why = f"its worker ended {losses} times at the same place"
            end_remote(db, remote, "failed", JobResult(error=why, summary=f"failed: {why}"), now)
    place_waiting(db, now)


def forgive_worker(db: sqlite3.Connection, process: ProcessId, now: int) -> None:
    """A worker that was taken for dead lives: its agents have not ended it. Those in doubt go on there."""
    sql = "UPDATE remotes SET losses = losses - 1 WHERE agent IN (SELECT agent FROM blames WHERE worker = ?)"
    db.execute(sql, (process,))
    db.execute("DELETE FROM blames WHERE worker = ?", (process,))
    db.execute("UPDATE remotes SET since = ? WHERE worker = ? AND state = 'given'", (now, process))


def forget_losses(db: sqlite3.Connection, agent: AgentId) -> None:
    db.execute("UPDATE remotes SET losses = 0 WHERE agent = ?", (agent,))
    db.execute("DELETE FROM blames WHERE agent = ?", (agent,))


def select_doubted(db: sqlite3.Connection) -> set[ProcessId]:
    """Workers marked as gone with agents of which nobody knows yet whether they have failed."""
    sql = """
        SELECT process FROM hosts WHERE gone > 0 AND EXISTS (
            SELECT 1 FROM remotes INDEXED BY remotes_open WHERE worker = hosts.process AND state <> 'ended'
        )
    """
    return {process for (process,) in db.execute(sql)}


def free_lease(db: sqlite3.Connection, agent: AgentId) -> None:
    """End the lease, whatever its holder still believes."""
    sql = """
        UPDATE leases SET process = NULL, epoch = epoch + 1 WHERE agent = (SELECT n FROM agents WHERE id = ?)
    """
    db.execute(sql, (agent,))


def end_remote(db: sqlite3.Connection, remote: Remote, status: JobStatus, result: JobResult, now: int) -> bool:
    """End an agent: its job is final, and its owner is owed the notice. A teammate's end is its lead's to record."""
    sql = "UPDATE remotes SET state = 'ended', worker = NULL, why = ?, since = ? WHERE agent = ? AND state <> 'ended'"
    if db.execute(sql, (result.error, now, remote.agent)).rowcount == 0:
        return False
    free_lease(db, remote.agent)
    db.execute("DELETE FROM blames WHERE agent = ?", (remote.agent,))
    db.execute("DELETE FROM consults WHERE agent = ?", (remote.agent,))
    sql = "UPDATE jobs SET status = ?, notice = ?, data = ?, ended = ? WHERE id = ? AND status = 'running'"
    db.execute(sql, (status, OWED, _encoder.encode(result), now, remote.agent))
    return True
