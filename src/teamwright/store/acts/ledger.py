"""Acts on the ledger: calls of models, recorded before they leave and settled once."""

import sqlite3

from msgspec import Struct

from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.policies.authority import Demand
from teamwright.store.acts.act import Context
from teamwright.store.tables.rows.agents import agent_number, session_number

LOST, OK, FAILED = 0, 1, 2  # how a call ended
_LARGEST = 2**40  # more than any provider counts; a false figure must not overflow the sums


class BeginCall(Struct, frozen=True):
    """Add a row for a call that is about to leave; returns its number."""

    session: SessionId
    agent: AgentId
    model: str
    estimated_input: int

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        return Demand((self.agent,))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> int:
        sql = "INSERT INTO ledger (session, agent, model, at, estimate) VALUES (?, ?, ?, ?, ?) RETURNING n"
        values = (
            session_number(db, self.session),
            agent_number(db, self.agent),
            _model_number(db, self.model),
            ctx.now,
            _bounded(self.estimated_input),
        )
        return db.execute(sql, values).fetchone()[0]


class SettleCall(Struct, frozen=True):
    """Settle a row, once; what comes later is ignored."""

    row: int
    usage: Usage
    usd: float | None
    ms: int
    outcome: int

    def demand(self, db: sqlite3.Connection, ctx: Context) -> Demand:
        sql = "SELECT agents.id FROM ledger JOIN agents ON agents.n = agent WHERE ledger.n = ?"
        return Demand(tuple(id for (id,) in db.execute(sql, (self.row,))))

    def apply(self, db: sqlite3.Connection, ctx: Context) -> None:
        usage = self.usage
        tokens = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        sql = """
            UPDATE ledger SET input = ?, output = ?, cache_read = ?, cache_write = ?, usd = ?, ms = ?, outcome = ?
            WHERE n = ? AND outcome IS NULL
        """
        db.execute(sql, (*map(_bounded, tokens), self.usd, self.ms, self.outcome, self.row))


def _model_number(db: sqlite3.Connection, name: str) -> int:
    row = db.execute("SELECT n FROM models WHERE name = ?", (name,)).fetchone()
    return (row or db.execute("INSERT INTO models (name) VALUES (?) RETURNING n", (name,)).fetchone())[0]


def _bounded(count: int) -> int:
    return max(0, min(count, _LARGEST))
