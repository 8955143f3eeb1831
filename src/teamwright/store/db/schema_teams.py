"""Tables of teams: processes and their leases, rosters, mail and requests."""

TEAMS = (
    # Its lock in `run/` tells whether a process lives, never this row. `started` tells a process from a later one with
    # the same pid.
    """
    CREATE TABLE processes (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL,
        pid INTEGER NOT NULL,
        started INTEGER NOT NULL,
        bell TEXT NOT NULL,
        at INTEGER NOT NULL
    )
    """,
    # Which process runs an agent. The row stays when that process goes: the epoch only ever grows.
    """
    CREATE TABLE leases (
        agent INTEGER PRIMARY KEY REFERENCES agents ON DELETE CASCADE,
        process INTEGER REFERENCES processes ON DELETE SET NULL,
        epoch INTEGER NOT NULL
    )
    """,
    "CREATE INDEX leases_by_process ON leases (process)",
    # `key` is the agent and the tool call that made it: after a crash the outcome is looked up here.
    """
    CREATE TABLE teams (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE COLLATE NOCASE,
        description TEXT NOT NULL,
        lead INTEGER REFERENCES agents ON DELETE SET NULL,
        process INTEGER REFERENCES processes ON DELETE SET NULL,
        epoch INTEGER NOT NULL,
        created INTEGER NOT NULL,
        key TEXT UNIQUE
    )
    """,
    "CREATE INDEX teams_by_lead ON teams (lead)",
    "CREATE INDEX teams_by_process ON teams (process)",
    # Deleted teams whose mirrors may still be there: they are removed after the commit, and a crash may come between.
    "CREATE TABLE removed_teams (name TEXT PRIMARY KEY) WITHOUT ROWID",
    # One row for each incarnation. `turn` orders the teams of an agent: the highest is its current one. `record` is
    # JSON; state and since have columns because they change often and are queried.
    """
    CREATE TABLE members (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        team INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE,
        agent INTEGER NOT NULL REFERENCES agents ON DELETE CASCADE,
        name TEXT NOT NULL COLLATE NOCASE,
        state TEXT NOT NULL,
        since INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        record BLOB NOT NULL,
        key TEXT UNIQUE,
        UNIQUE (agent, team)
    )
    """,
    # A name has one living holder.
    "CREATE UNIQUE INDEX members_by_name ON members (team, name) WHERE state <> 'shutdown'",
    "CREATE INDEX members_by_team ON members (team)",
    # What became of each message; refused ones have no letter. `sender` is not declared as a reference: that would
    # need a second index. `text` is null where it is the letter's own. `told`: lead and sender know that it failed.
    """
    CREATE TABLE mail (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        letter INTEGER UNIQUE REFERENCES letters ON DELETE CASCADE,
        team INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE,
        sender INTEGER,
        reader INTEGER REFERENCES agents ON DELETE CASCADE,
        from_name TEXT NOT NULL,
        to_name TEXT NOT NULL,
        summary TEXT NOT NULL,
        color TEXT NOT NULL,
        text TEXT,
        part INTEGER NOT NULL,
        state TEXT NOT NULL,
        code TEXT,
        reason TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        told INTEGER NOT NULL DEFAULT 0,
        sent_at INTEGER NOT NULL,
        delivered_at INTEGER
    )
    """,
    "CREATE INDEX mail_by_team ON mail (team, n)",
    "CREATE INDEX mail_by_sender ON mail (sender, sent_at)",
    "CREATE INDEX mail_by_reader ON mail (reader, state, delivered_at)",
    "CREATE INDEX mail_untold ON mail (team) WHERE told = 0 AND state IN ('undeliverable', 'dead')",
    # Mail follows its letter, in whatever way that is marked as delivered.
    """
    CREATE TRIGGER mail_delivered AFTER UPDATE OF delivered_at ON letters WHEN NEW.delivered_at > 0
    BEGIN
        UPDATE mail SET state = 'delivered', delivered_at = NEW.delivered_at
        WHERE letter = NEW.n AND state = 'stored';
        UPDATE volleys SET heard = mail.sender FROM mail
        WHERE mail.letter = NEW.n AND a = min(mail.sender, mail.reader) AND b = max(mail.sender, mail.reader);
    END
    """,
    # Answers in a row between two agents (the lower number first) without any work of either in between. `heard`: which
    # of the two was read last and is not answered yet, or 0.
    """
    CREATE TABLE volleys (
        a INTEGER NOT NULL,
        b INTEGER NOT NULL,
        heard INTEGER NOT NULL,
        many INTEGER NOT NULL,
        PRIMARY KEY (a, b)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX volleys_by_other ON volleys (b)",
    """
    CREATE TABLE requests (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        team INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE,
        asker INTEGER NOT NULL REFERENCES agents ON DELETE CASCADE,
        answerer INTEGER NOT NULL REFERENCES agents ON DELETE CASCADE,
        body BLOB NOT NULL,
        asked_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        answer BLOB,
        answered_at INTEGER,
        handled INTEGER NOT NULL DEFAULT 0,
        key TEXT UNIQUE
    )
    """,
    "CREATE INDEX requests_by_answerer ON requests (answerer, state)",
    "CREATE INDEX requests_by_asker ON requests (asker, state)",
    "CREATE INDEX requests_by_team ON requests (team)",
)
