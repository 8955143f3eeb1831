"""Columns for the authors of tasks, and the table of calls that leave no row of their own."""

AUTHORS = (
    # The author's name in the list, and its id; empty in older rows.
    "ALTER TABLE tasks ADD COLUMN author TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tasks ADD COLUMN maker TEXT NOT NULL DEFAULT ''",
    # `key` is the agent and the tool call: after a crash, or an interrupt, the outcome is looked up here.
    "CREATE TABLE calls (key TEXT PRIMARY KEY, result TEXT NOT NULL) WITHOUT ROWID",
)
