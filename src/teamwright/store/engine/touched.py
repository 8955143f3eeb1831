"""Notes whom a change concerns: agents, teams and workers whose rows it touched.

Triggers of this connection alone note it while entries are applied. They change nothing that is stored, so the rows are
the same whether a machine takes notes or not.
"""

import sqlite3

from msgspec import Struct

_NOTE = "CREATE TEMP TRIGGER IF NOT EXISTS note_{name} AFTER {when} BEGIN INSERT INTO touched {values}; END"
_TEAM = "SELECT 'team', name FROM teams WHERE n = {row}.team"
_LIST = "SELECT 'team', name FROM task_lists WHERE n = {row}.list"
_WORKERS = (
    "SELECT 'worker', NEW.worker WHERE NEW.worker NOT NULL UNION SELECT 'worker', OLD.worker WHERE OLD.worker NOT NULL"
)
_AGENT = "SELECT 'agent', id FROM agents WHERE n = NEW.agent"
_NOTES = {
    "letter": ("INSERT ON letters", _AGENT),
    "consult": ("UPDATE ON consults", "VALUES ('agent', NEW.agent), ('answer', NEW.agent)"),
    "dropped": ("DELETE ON consults", "VALUES ('answer', OLD.agent)"),
    "remote": ("UPDATE ON remotes", _WORKERS),
    "member": ("INSERT ON members", _TEAM.format(row="NEW")),
    "member_changed": ("UPDATE OF team, agent, name, state, record ON members", _TEAM.format(row="NEW")),
    "team": ("UPDATE OF lead, process, epoch ON teams", "VALUES ('team', NEW.name)"),
    "team_gone": ("DELETE ON teams", "VALUES ('team', OLD.name)"),
    "task": ("INSERT ON tasks", _LIST.format(row="NEW")),
    "task_changed": ("UPDATE ON tasks", _LIST.format(row="NEW")),
    "task_gone": ("DELETE ON tasks", _LIST.format(row="OLD")),
    "request": ("INSERT ON requests", _TEAM.format(row="NEW")),
    "request_changed": ("UPDATE ON requests", _TEAM.format(row="NEW")),
    "spent": ("UPDATE ON ledger", "VALUES ('spent', '')"),
}
WATCH = (
    "CREATE TEMP TABLE IF NOT EXISTS touched (kind TEXT NOT NULL, who TEXT NOT NULL)",
    *(_NOTE.format(name=name, when=when, values=values) for name, (when, values) in _NOTES.items()),
)


class Touched(Struct, frozen=True):
    """Whom changes concern. `anybody`: unknown, because another process of this machine applied them."""

    agents: frozenset[str] = frozenset()  # that got a letter, or an answer
    teams: frozenset[str] = frozenset()  # whose members, tasks or requests changed
    workers: frozenset[str] = frozenset()  # processes that were given an agent, or lost one
    answers: bool = False  # questions of workers were answered
    spent: bool = False  # the cost of calls changed
    anybody: bool = False

    def __or__(self, other: "Touched") -> "Touched":
        return Touched(
            self.agents | other.agents,
            self.teams | other.teams,
            self.workers | other.workers,
            self.answers or other.answers,
            self.spent or other.spent,
            self.anybody or other.anybody,
        )


NOBODY, ANYBODY = Touched(), Touched(anybody=True)


def take_touched(db: sqlite3.Connection) -> Touched:
    """What was noted since the last call."""
    rows = db.execute("SELECT DISTINCT kind, who FROM touched").fetchall()
    if not rows:
        return NOBODY
    db.execute("DELETE FROM touched")
    found: dict[str, set[str]] = {"agent": set(), "team": set(), "worker": set(), "answer": set(), "spent": set()}
    for kind, who in rows:
        found[kind].add(who)
    agents, teams, workers = (frozenset(found[kind]) for kind in ("agent", "team", "worker"))
    return Touched(agents, teams, workers, bool(found["answer"]), bool(found["spent"]))
