"""Table of the landing queue."""

LANDING = (
    # One row for each branch that was said to be ready. `record` is the draft as JSON; the columns beside it are what
    # is looked for. `tip` is the commit that lands. Rows outlive sessions and teams: they say what became of the work.
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
