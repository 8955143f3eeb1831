"""Acts that remove a session from an engine for good: its rows at once, everything else in a purge afterwards."""

import sqlite3

import msgspec
from msgspec import Struct

from teamwright.core.data.code import OBJECT
from teamwright.core.data.team import Refused
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.processes import find_lease
from teamwright.store.tables.rows.remotes import select_remotes

_encoder = msgspec.json.Encoder()


class RemoveSession(Struct, frozen=True):
    """Delete all rows of a session, and note what is left to purge. False if there is none. Refused while any of it
    runs."""

    id: SessionId

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool | Refused:
        sql = (
            "SELECT agents.id FROM agents JOIN sessions ON sessions.n = agents.session WHERE sessions.id = ? ORDER BY 1"
        )
        agents = [AgentId(id) for (id,) in db.execute(sql, (self.id,)).fetchall()]
        if not agents and not db.execute("SELECT 1 FROM sessions WHERE id = ?", (self.id,)).fetchone():
            return False
        remotes = select_remotes(db, "session = ?", self.id)
        for agent in agents:
            lease = find_lease(db, agent)
            if lease is not None and lease.process not in (None, ctx.process) and ctx.alive(lease.process):
                return Refused("held", f"Agent {agent} of session {self.id} is run by a process which lives.")
        if at_work := [remote.agent for remote in remotes if remote.state != "ended"]:
            return Refused(
                "held", f"Agents of session {self.id} are on workers, or wait for one: {', '.join(at_work)}."
            )
        objects = {f"charter/{remote.charter}" for remote in remotes}
        objects |= {found for remote in remotes for found in OBJECT.findall(remote.branch)}
        left = (_encoder.encode(agents).decode(), _encoder.encode(sorted(objects)).decode())
        sql = (
            "INSERT INTO removed_sessions (session, agents, objects) VALUES (?, ?, ?) ON CONFLICT (session) DO NOTHING"
        )
        db.execute(sql, (self.id, *left))
        for remote in remotes:
            db.execute("DELETE FROM consults WHERE agent = ?", (remote.agent,))
        db.execute("DELETE FROM remotes WHERE session = ?", (self.id,))
        db.execute("DELETE FROM sessions WHERE id = ?", (self.id,))
        return True


class SessionPurged(Struct, frozen=True):
    """Everything of a session but its name has been purged."""

    id: SessionId

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE removed_sessions SET agents = '[]', objects = '[]' WHERE session = ?", (self.id,))


class Removed(Struct, frozen=True):
    """A removed session, and what is still to be purged of it."""

    session: SessionId
    agents: tuple[AgentId, ...] = ()
    objects: tuple[str, ...] = ()


def select_removed(db: sqlite3.Connection) -> list[Removed]:
    rows = db.execute("SELECT session, agents, objects FROM removed_sessions ORDER BY session").fetchall()
    return [Removed(id, *(tuple(msgspec.json.decode(text)) for text in texts)) for id, *texts in rows]
