"""Rounds of a team: how often its members have woken each other since anything was done. Inside a transaction.

A member that was woken and speaks makes one round, however much it says; so does a task that is handed out. The count
goes back to zero when something is done: an effect of a tool, a task made or completed, a person's word.
"""

import sqlite3

from teamwright.core.ids import AgentId

_MOST = "(SELECT :each * count(*) FROM members WHERE members.team = teams.n AND members.state <> 'shutdown')"


def count_round(db: sqlite3.Connection, team: int, agent: int) -> None:
    """A member speaks. It makes a round only if it has heard something since it last spoke."""
    sql = "UPDATE members SET heard = 0 WHERE team = ? AND agent = ? AND heard = 1"
    if db.execute(sql, (team, agent)).rowcount:
        db.execute("UPDATE teams SET rounds = rounds + 1 WHERE n = ?", (team,))


def count_round_by_name(db: sqlite3.Connection, team: str, agent: AgentId) -> None:
    sql = "SELECT teams.n, agents.n FROM teams, agents WHERE teams.name = ? AND agents.id = ?"
    if (found := db.execute(sql, (team, agent)).fetchone()) is not None:
        count_round(db, *found)


def count_handed(db: sqlite3.Connection, team: str) -> None:
    """A task was handed to a free member."""
    db.execute("UPDATE teams SET rounds = rounds + 1 WHERE name = ?", (team,))


def rounds_spent(db: sqlite3.Connection, team: str, each: int) -> int:
    """The number of rounds if no more are allowed, which is `each` for every member; else 0."""
    sql = f"SELECT rounds FROM teams WHERE name = :team AND rounds > 0 AND rounds >= {_MOST}"  # noqa: S608
    row = db.execute(sql, {"team": team, "each": each}).fetchone()
    return row[0] if row else 0


def tell_of_rounds(db: sqlite3.Connection, team: str, each: int) -> int:
    """Like `rounds_spent`, but only the first time since something was done."""
    sql = f"""
        UPDATE teams SET rounds_told = 1 WHERE name = :team AND rounds_told = 0 AND rounds >= {_MOST} RETURNING rounds
    """  # noqa: S608
    row = db.execute(sql, {"team": team, "each": each}).fetchone()
    return row[0] if row else 0


def note_progress(db: sqlite3.Connection, agent: AgentId) -> None:
    """A member has done something, or a person has spoken to it."""
    sql = """
        UPDATE teams SET rounds = 0, rounds_told = 0 WHERE (rounds > 0 OR rounds_told) AND n IN (
            SELECT team FROM members WHERE agent = (SELECT n FROM agents WHERE id = ?)
        )
    """
    db.execute(sql, (agent,))


def note_team_progress(db: sqlite3.Connection, team: str) -> None:
    db.execute("UPDATE teams SET rounds = 0, rounds_told = 0 WHERE name = ? AND (rounds > 0 OR rounds_told)", (team,))
