"""Table of scheduled prompts."""

SCHEDULES = (
    # `cron` is empty for one that has a time instead. `next` and `last` are due times in milliseconds since 1970.
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
