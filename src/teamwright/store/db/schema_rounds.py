"""Columns that keep teams from going in circles: tasks that were given back, and wake-ups without any effect."""

ROUNDS = (
    # JSON: agents to whom the task is not handed by itself. `assigner` is a name, empty after a claim. `credited`: its
    # completion has counted as progress, which it does once.
    "ALTER TABLE tasks ADD COLUMN given_back TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE tasks ADD COLUMN assigner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tasks ADD COLUMN credited INTEGER NOT NULL DEFAULT 0",
    "UPDATE tasks SET credited = 1 WHERE status = 'completed'",
    # What is kept for a name is nobody else's to claim; each of both is found in order, however long the list is.
    "DROP INDEX tasks_free",
    """
    CREATE INDEX tasks_free ON tasks (list, id)
        WHERE status = 'pending' AND agent IS NULL AND owner IS NULL AND waits = 0
    """,
    """
    CREATE INDEX tasks_kept ON tasks (list, owner COLLATE NOCASE, id)
        WHERE status = 'pending' AND agent IS NULL AND owner IS NOT NULL AND waits = 0
    """,
    # How often members were woken and spoke since the team last did something, and whether that was told.
    "ALTER TABLE teams ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE teams ADD COLUMN rounds_told INTEGER NOT NULL DEFAULT 0",
    # Read something since it spoke last.
    "ALTER TABLE members ADD COLUMN heard INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TRIGGER member_heard AFTER UPDATE OF delivered_at ON letters WHEN NEW.delivered_at > 0
    BEGIN
        UPDATE members SET heard = 1 WHERE agent = NEW.agent;
    END
    """,
)
