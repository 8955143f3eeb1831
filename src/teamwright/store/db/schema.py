"""Tables of `state.db`, as a list of steps from one version to the next. A released step never changes.

Names that repeat (agents, sessions, models) are numbers in the rows that refer to them, so that a row stays small.
Tables of later steps (rosters, tasks, claims, requests, leases) refer to `agents` and `sessions` in the same way.
"""

from teamwright.store.db.schema_later import AUTHORS, JOB_OWNERS, LANDING, ROUNDS, SCHEDULES, VOLLEYS
from teamwright.store.db.schema_tasks import TASKS
from teamwright.store.db.schema_teams import TEAMS

_FIRST = (
    """
    CREATE TABLE sessions (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        cwd TEXT NOT NULL,
        created INTEGER NOT NULL
    )
    """,
    # AUTOINCREMENT: the number of a deleted agent is never given to another one.
    """
    CREATE TABLE agents (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        parent TEXT,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        depth INTEGER NOT NULL
    )
    """,
    "CREATE INDEX agents_by_session ON agents (session)",
    # `n` is the order of arrival. A delivered letter stays: this is the audit log.
    """
    CREATE TABLE letters (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        agent INTEGER NOT NULL REFERENCES agents ON DELETE CASCADE,
        letter BLOB NOT NULL,
        sent_at INTEGER NOT NULL,
        delivered_at INTEGER
    )
    """,
    "CREATE INDEX letters_by_agent ON letters (agent, delivered_at)",
    "CREATE TABLE models (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    # One row for each call of a model. `outcome` is null while it is under way, then 0 lost (settled at its estimate),
    # 1 ok, 2 failed. `usd` is null if the price is unknown. `agent` is not declared as a reference, because that would
    # need a second index; the rows go with their session.
    """
    CREATE TABLE ledger (
        n INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        agent INTEGER NOT NULL,
        model INTEGER NOT NULL,
        at INTEGER NOT NULL,
        estimate INTEGER NOT NULL,
        outcome INTEGER,
        input INTEGER,
        output INTEGER,
        cache_read INTEGER,
        cache_write INTEGER,
        usd REAL,
        ms INTEGER
    )
    """,
    "CREATE INDEX ledger_by_session ON ledger (session)",
)

_SECOND = (
    # One row for each run of a job; an agent that is woken again has another run. `notice` is the state of the notice
    # of its end: 0 none is due, 1 owed, 2 posted, 3 claimed by the call `claim` of its owner. `call` is the tool call
    # that started it: after a crash the outcome of that call is looked up here. `data` is JSON.
    """
    CREATE TABLE jobs (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        run INTEGER NOT NULL,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        owner INTEGER NOT NULL,
        kind TEXT NOT NULL,
        call TEXT,
        description TEXT NOT NULL,
        status TEXT NOT NULL,
        background INTEGER NOT NULL,
        notice INTEGER NOT NULL DEFAULT 0,
        claim TEXT,
        data BLOB,
        started INTEGER NOT NULL,
        ended INTEGER,
        UNIQUE (id, run)
    )
    """,
    "CREATE INDEX jobs_by_session ON jobs (session, status)",
)

Step = tuple[str, ...]
STEPS: tuple[Step, ...] = (_FIRST, _SECOND, TASKS, TEAMS, SCHEDULES, AUTHORS, ROUNDS, LANDING, VOLLEYS, JOB_OWNERS)
