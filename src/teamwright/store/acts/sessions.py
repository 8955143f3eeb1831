"""Acts on sessions, agents and their letters."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.letter import Letter
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.core.policies.authority import Demand
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.agents import insert_letter, readers_of, senders_of, session_number

_FORGET = """
    DELETE FROM sessions WHERE id = ?
    AND NOT EXISTS (SELECT 1 FROM ledger WHERE session = sessions.n)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE session = sessions.n)
    AND NOT EXISTS (SELECT 1 FROM schedules WHERE session = sessions.n)
    AND NOT EXISTS (SELECT 1 FROM task_lists WHERE session = sessions.n)
    AND NOT EXISTS (SELECT 1 FROM agents WHERE session = sessions.n AND agents.id != sessions.id)
    AND NOT EXISTS (SELECT 1 FROM agents JOIN letters ON agent = agents.n WHERE session = sessions.n)
    AND NOT EXISTS (SELECT 1 FROM agents JOIN members ON agent = agents.n WHERE session = sessions.n)
"""


class RegisterSession(Struct, frozen=True):
    """Register a session. A known one does not change."""

    id: SessionId
    cwd: str
    created: int

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = "INSERT INTO sessions (id, cwd, created) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
        db.execute(sql, (self.id, self.cwd, self.created))


class DeleteSession(Struct, frozen=True):
    """Delete a session; with `unused` only one that has nothing but its main agent. False: it has more, or is not
    there."""

    id: SessionId
    unused: bool = False

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        sql = _FORGET if self.unused else "DELETE FROM sessions WHERE id = ?"
        return db.execute(sql, (self.id,)).rowcount > 0


class RegisterAgent(Struct, frozen=True):
    """Register an agent. A known one does not change."""

    id: AgentId
    session: SessionId
    parent: AgentId | None
    kind: str
    name: str
    depth: int

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = """
            INSERT INTO agents (id, session, parent, kind, name, depth) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO NOTHING
        """
        number = session_number(db, self.session)
        db.execute(sql, (self.id, number, self.parent, self.kind, self.name, self.depth))


class PostLetter(Struct, frozen=True):
    letter: Letter

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(letters=(self.letter,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        insert_letter(db, self.letter, ctx.now)


class WithdrawLetter(Struct, frozen=True):
    """Its sender takes a letter back. False if it is not there, or was delivered."""

    id: LetterId

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(senders_of(db, (self.id,)))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> bool:
        return db.execute("DELETE FROM letters WHERE id = ? AND delivered_at IS NULL", (self.id,)).rowcount > 0


class MarkDelivered(Struct, frozen=True):
    """The letters are in their reader's transcript. The first time counts."""

    letters: tuple[LetterId, ...]

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(readers_of(db, self.letters))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        sql = "UPDATE letters SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL"
        db.executemany(sql, [(ctx.now, id) for id in self.letters])


class SetLetterAside(Struct, frozen=True):
    """Set aside a letter that cannot be read: it is kept, but handed to nobody. Its mail becomes a dead letter."""

    id: LetterId
    why: str

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand(readers_of(db, (self.id,)))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        db.execute("UPDATE letters SET delivered_at = 0 WHERE id = ?", (self.id,))
        sql = """
            UPDATE mail SET state = 'dead', reason = ?
            WHERE letter = (SELECT n FROM letters WHERE id = ?) AND state = 'stored'
        """
        db.execute(sql, (self.why, self.id))
