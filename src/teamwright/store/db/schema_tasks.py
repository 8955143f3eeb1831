"""Tables of the shared task lists."""

TASKS = (
    # `next` is the number of the next task: it only grows, so a number is never used again. `session` is set for a
    # list that goes with its session; `origin` names the session that began the list, also after a team took it over.
    """
    CREATE TABLE task_lists (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        session INTEGER REFERENCES sessions ON DELETE CASCADE,
        origin TEXT NOT NULL,
        next INTEGER NOT NULL DEFAULT 1,
        count INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX task_lists_by_session ON task_lists (session)",
    "CREATE INDEX task_lists_by_origin ON task_lists (origin)",
    # `agent` is the incarnation that owns the task, `former` (JSON) those that had it; `waits` counts the tasks that
    # must be completed first and are not.
    """
    CREATE TABLE tasks (
        n INTEGER PRIMARY KEY,
        list INTEGER NOT NULL REFERENCES task_lists ON DELETE CASCADE,
        id INTEGER NOT NULL,
        subject TEXT NOT NULL,
        description TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'pending',
        owner TEXT,
        agent TEXT,
        epoch INTEGER NOT NULL DEFAULT 0,
        former TEXT NOT NULL DEFAULT '[]',
        active_form TEXT NOT NULL,
        metadata TEXT NOT NULL,
        waits INTEGER NOT NULL DEFAULT 0,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        UNIQUE (list, id)
    )
    """,
    # What can be claimed, in order: a claim costs the same in a long list as in a short one.
    """
    CREATE INDEX tasks_free ON tasks (list, id) WHERE status = 'pending' AND agent IS NULL AND waits = 0
    """,
    "CREATE INDEX tasks_by_owner ON tasks (agent) WHERE agent IS NOT NULL",
    # An edge stays while both tasks are there: a completed task that is set back blocks again.
    """
    CREATE TABLE task_edges (
        list INTEGER NOT NULL REFERENCES task_lists ON DELETE CASCADE,
        blocker INTEGER NOT NULL,
        blocked INTEGER NOT NULL,
        PRIMARY KEY (list, blocker, blocked)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX task_edges_back ON task_edges (list, blocked)",
    # The calls that were applied: after a crash the outcome of a call that was in flight is looked up here.
    """
    CREATE TABLE task_calls (
        agent TEXT NOT NULL,
        call TEXT NOT NULL,
        list INTEGER NOT NULL REFERENCES task_lists ON DELETE CASCADE,
        task INTEGER NOT NULL,
        result TEXT NOT NULL,
        PRIMARY KEY (agent, call)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX task_calls_by_list ON task_calls (list)",
)
