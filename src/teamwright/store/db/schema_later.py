"""The later steps of the schema, in the order in which they were released."""

# Table of scheduled prompts.
SCHEDULES = (
    # `cron` is empty for a schedule with a fixed time. `next` and `last` are due times in milliseconds since 1970.
    # `key` is the agent and the tool call that made it: after a crash the outcome is looked up here.
    """
    CREATE TABLE schedules (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        prompt TEXT NOT NULL,
        cron TEXT NOT NULL,
        recurring INTEGER NOT NULL,
        next INTEGER NOT NULL,
        created INTEGER NOT NULL,
        last INTEGER,
        key TEXT NOT NULL UNIQUE
    )
    """,
    "CREATE INDEX schedules_by_session ON schedules (session, next)",
)

# Columns for the authors of tasks, and the table of calls that leave no row of their own.
AUTHORS = (
    # The author's name in the list, and its id; empty in older rows.
    "ALTER TABLE tasks ADD COLUMN author TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tasks ADD COLUMN maker TEXT NOT NULL DEFAULT ''",
    # `key` is the agent and the tool call: after a crash, or an interrupt, the outcome is looked up here.
    "CREATE TABLE calls (key TEXT PRIMARY KEY, result TEXT NOT NULL) WITHOUT ROWID",
)

# Columns that keep teams from going in circles: tasks that were given back, and wake-ups without any effect.
ROUNDS = (
    # JSON: agents that do not get the task automatically. `assigner` is a name, empty after a claim. `credited`: its
    # completion has counted as progress, which it does once.
    "ALTER TABLE tasks ADD COLUMN given_back TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE tasks ADD COLUMN assigner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tasks ADD COLUMN credited INTEGER NOT NULL DEFAULT 0",
    "UPDATE tasks SET credited = 1 WHERE status = 'completed'",
    # Only its owner may claim what is kept for a name. Both kinds are found in order, however long the list is.
    "DROP INDEX tasks_free",
    """
    CREATE INDEX tasks_free ON tasks (list, id)
        WHERE status = 'pending' AND agent IS NULL AND owner IS NULL AND waits = 0
    """,
    """
    CREATE INDEX tasks_kept ON tasks (list, owner COLLATE NOCASE, id)
        WHERE status = 'pending' AND agent IS NULL AND owner IS NOT NULL AND waits = 0
    """,
    # How often members were woken and spoke since the team last did something, and whether that was reported.
    "ALTER TABLE teams ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE teams ADD COLUMN rounds_told INTEGER NOT NULL DEFAULT 0",
    # Whether the member has read something since it last spoke.
    "ALTER TABLE members ADD COLUMN heard INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TRIGGER member_heard AFTER UPDATE OF delivered_at ON letters WHEN NEW.delivered_at > 0
    BEGIN
        UPDATE members SET heard = 1 WHERE agent = NEW.agent;
    END
    """,
)

# Table of the landing queue.
LANDING = (
    # One row for each branch that was said to be ready. `record` is the draft as JSON; the other columns are for
    # lookups. `tip` is the commit that lands. Rows outlive sessions and teams: they say what became of the work.
    """
    CREATE TABLE landing (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        repo TEXT NOT NULL,
        target TEXT NOT NULL,
        branch TEXT NOT NULL,
        tip TEXT NOT NULL,
        record TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting',
        reason TEXT NOT NULL DEFAULT '',
        candidate TEXT NOT NULL DEFAULT '',
        tries INTEGER NOT NULL DEFAULT 0,
        queued INTEGER NOT NULL,
        changed INTEGER NOT NULL
    )
    """,
    "CREATE INDEX landing_by_branch ON landing (repo, target, branch)",
)

# Columns for answers between two members: what each has read of the other, because letters may cross.
VOLLEYS = (
    # The lower number first. `heard_a`: `a` has read something of `b` and not answered it yet; `heard_b` likewise.
    "DROP TRIGGER mail_delivered",
    "ALTER TABLE volleys RENAME COLUMN heard TO heard_a",
    "ALTER TABLE volleys ADD COLUMN heard_b INTEGER NOT NULL DEFAULT 0",
    "UPDATE volleys SET heard_a = heard_a = b, heard_b = heard_a = a",
    """
    CREATE TRIGGER mail_delivered AFTER UPDATE OF delivered_at ON letters WHEN NEW.delivered_at > 0
    BEGIN
        UPDATE mail SET state = 'delivered', delivered_at = NEW.delivered_at
        WHERE letter = NEW.n AND state = 'stored';
        UPDATE volleys SET heard_a = heard_a OR a = mail.reader, heard_b = heard_b OR b = mail.reader FROM mail
        WHERE mail.letter = NEW.n AND a = min(mail.sender, mail.reader) AND b = max(mail.sender, mail.reader);
    END
    """,
)

# Indexes for the jobs of an agent, and for those that it has started: in a home with many sessions, all jobs and all
# agents were looked at.
JOB_OWNERS = (
    "CREATE INDEX jobs_by_owner ON jobs (owner, call)",
    "CREATE INDEX agents_by_parent ON agents (parent)",
)
