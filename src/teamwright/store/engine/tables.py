"""Tables that only a replica has: its position, the other processes, and the outcomes of each process's last entry."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.team import ProcessId
from teamwright.store.acts.act import Context
from teamwright.store.engine.touched import WATCH

TABLES = (
    # One row: how far the log is applied and when that was, the digest up to there, the digest of the last entry alone,
    # the last entry that there is a snapshot of, and how many acts were refused for want of rights.
    """
    CREATE TABLE IF NOT EXISTS space (
        seq INTEGER NOT NULL, digest BLOB NOT NULL, last BLOB NOT NULL, at INTEGER NOT NULL, snapshot INTEGER NOT NULL,
        refused INTEGER NOT NULL
    )
    """,
    "INSERT INTO space SELECT 0, x'', x'', 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM space)",
    # Digests of the last entries, to compare with what others have.
    "CREATE TABLE IF NOT EXISTS digests (seq INTEGER PRIMARY KEY, digest BLOB NOT NULL)",
    # The last entry of each process, and its outcomes.
    """
    CREATE TABLE IF NOT EXISTS writers (process TEXT PRIMARY KEY, k INTEGER NOT NULL, outcomes BLOB NOT NULL)
    WITHOUT ROWID
    """,
    # Processes that have joined. `gone` is when one was marked as dead, 0 if it lives; `held` how much it ran then;
    # `seen` how far it was when it last said so.
    """
    CREATE TABLE IF NOT EXISTS hosts (
        process TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        name TEXT NOT NULL,
        host TEXT NOT NULL,
        version TEXT NOT NULL,
        lease INTEGER NOT NULL,
        beat INTEGER NOT NULL,
        joined INTEGER NOT NULL,
        gone INTEGER NOT NULL DEFAULT 0,
        held INTEGER NOT NULL DEFAULT 0,
        seen INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID
    """,
    # Processes that run agents for others, and what each offers; labels are pairs, providers names, in JSON.
    """
    CREATE TABLE IF NOT EXISTS workers (
        n INTEGER PRIMARY KEY,
        process TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        slots INTEGER NOT NULL,
        labels TEXT NOT NULL,
        providers TEXT NOT NULL,
        bypass INTEGER NOT NULL,
        draining INTEGER NOT NULL DEFAULT 0
    )
    """,
    # Agents that run on workers. `worker` is a process, or NULL while none has room.
    """
    CREATE TABLE IF NOT EXISTS remotes (
        n INTEGER PRIMARY KEY,
        agent TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL,
        team TEXT NOT NULL,
        state TEXT NOT NULL,
        worker TEXT,
        charter TEXT NOT NULL,
        needs TEXT NOT NULL,
        branch TEXT NOT NULL DEFAULT '',
        losses INTEGER NOT NULL DEFAULT 0,
        progress INTEGER NOT NULL DEFAULT 0,
        since INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        why TEXT NOT NULL DEFAULT ''
    )
    """,
    # Thousands may have ended: queries for the others use one of these indexes.
    "DROP INDEX IF EXISTS remotes_by_worker",  # of an earlier version
    "CREATE INDEX IF NOT EXISTS remotes_open ON remotes (worker, state) WHERE state <> 'ended'",
    "CREATE INDEX IF NOT EXISTS remotes_given ON remotes (worker) WHERE state = 'given'",
    "CREATE INDEX IF NOT EXISTS remotes_waiting ON remotes (needs, n) WHERE state = 'waiting'",
    "CREATE INDEX IF NOT EXISTS mates_open ON remotes (worker) WHERE state <> 'ended' AND team <> ''",
    "CREATE INDEX IF NOT EXISTS mates_waiting ON remotes (team) WHERE state = 'waiting' AND team <> ''",
    # Losses that count against an agent, each until the worker that was taken for dead comes back.
    """
    CREATE TABLE IF NOT EXISTS blames (worker TEXT NOT NULL, agent TEXT NOT NULL, PRIMARY KEY (worker, agent))
    WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS blames_by_agent ON blames (agent)",
    # Questions of workers to the process that leads.
    """
    CREATE TABLE IF NOT EXISTS consults (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        at INTEGER NOT NULL,
        answer BLOB
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS consults_by_agent ON consults (agent)",
    # Every process that ran an agent, and its identity: they decide whose lines count in its transcript.
    """
    CREATE TABLE IF NOT EXISTS holders (
        agent TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        process TEXT NOT NULL,
        role TEXT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (agent, epoch)
    ) WITHOUT ROWID
    """,
    *(
        f"""
        CREATE TRIGGER IF NOT EXISTS held_by_{when[:6].lower()} AFTER {when} ON leases WHEN NEW.process NOT NULL BEGIN
            INSERT OR REPLACE INTO holders (agent, epoch, process, role, name)
            SELECT agents.id, NEW.epoch, hosts.process, hosts.role, hosts.name
            FROM agents, processes JOIN hosts ON hosts.process = processes.id
            WHERE agents.n = NEW.agent AND processes.n = NEW.process;
        END
        """  # noqa: S608
        for when in ("INSERT", "UPDATE")
    ),
    """
    CREATE TRIGGER IF NOT EXISTS held_no_more AFTER DELETE ON agents BEGIN
        DELETE FROM holders WHERE agent = OLD.id;
    END
    """,
    "CREATE INDEX IF NOT EXISTS consults_open ON consults (agent) WHERE answer IS NULL",
    # Sessions that a person has removed, with JSON lists of what is still to be purged of each.
    """
    CREATE TABLE IF NOT EXISTS removed_sessions (session TEXT PRIMARY KEY, agents TEXT NOT NULL, objects TEXT NOT NULL)
    WITHOUT ROWID
    """,
    # Commits of repositories that are objects here; `prerequisites` are commits too, separated by spaces.
    """
    CREATE TABLE IF NOT EXISTS bundles (
        project TEXT NOT NULL,
        tip TEXT NOT NULL,
        prerequisites TEXT NOT NULL,
        object TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        added INTEGER NOT NULL,
        PRIMARY KEY (project, tip)
    ) WITHOUT ROWID
    """,
)
DIGESTS = 1000  # entries whose digests are kept


class Cursor(Struct, frozen=True):
    seq: int
    digest: bytes
    last: bytes
    at: int
    snapshot: int


class Host(Struct, frozen=True):
    """A process that has joined. Times are milliseconds by the engine's clock."""

    process: ProcessId
    role: str
    name: str
    host: str
    version: str
    lease: int
    beat: int
    joined: int
    gone: int
    held: int
    seen: int


class Prepare(Struct, frozen=True):
    """Make the tables, if they are missing."""

    def apply(self, db: sqlite3.Connection, ctx: Context) -> Cursor:
        for statement in (*TABLES, *WATCH):
            db.execute(statement)
        return read_cursor(db)


def read_cursor(db: sqlite3.Connection) -> Cursor:
    return Cursor(*db.execute("SELECT seq, digest, last, at, snapshot FROM space").fetchone())


def read_hosts(db: sqlite3.Connection) -> list[Host]:
    return [Host(*row) for row in db.execute("SELECT * FROM hosts ORDER BY joined, process").fetchall()]


def read_refused(db: sqlite3.Connection) -> int:
    """How many acts were refused for want of rights."""
    return db.execute("SELECT refused FROM space").fetchone()[0]


def shortest_lease(hosts: list[Host]) -> int | None:
    """The shortest lease of those that live; everybody beats three times as often. None: nobody lives."""
    return min((host.lease for host in hosts if not host.gone), default=None)
