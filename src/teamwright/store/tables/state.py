"""Letters, agents, sessions and the ledger in `state.db`, shared by several processes."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from teamwright.core.data.letter import Letter
from teamwright.core.data.message import Usage
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.db.database import Database, open_database
from teamwright.store.db.statements import change, change_each, fetch_all, fetch_one

Price = Callable[[str, Usage], float | None]
Outcome = Literal["ok", "failed"]

_LOST, _OK, _FAILED = 0, 1, 2
_LARGEST = 2**40  # no provider counts so far; a false one must not overflow the sums
_encoder = msgspec.json.Encoder()
_letters = msgspec.json.Decoder(Letter)

_SUMS = """
    coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0),
    coalesce(sum(usd), 0.0), coalesce(sum(usd IS NULL), 0)
"""


class Spending(NamedTuple):
    usage: Usage
    usd: float  # the known part
    unknown_cost: bool


class Cost(Struct, frozen=True):
    """What one agent spent on one model in one session. `turns` counts the calls that were answered."""

    session: SessionId
    agent: AgentId
    name: str
    parent: AgentId | None
    model: str
    usage: Usage
    usd: float
    unknown_cost: bool
    seconds: float
    turns: int
    kind: str = ""  # of agent


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class StateStore:
    """The store's port: small, async, every change one transaction. Made by `State.open`."""

    def __init__(self, database: Database, now: Callable[[], int]) -> None:
        self._db = database
        self._now = now
        self._heed_set_aside: Callable[[AgentId, str], None] | None = None

    @classmethod
    async def open(cls, path: Path, now: Callable[[], int] = now_ms) -> "StateStore":
        return cls(await open_database(path), now)

    def on_set_aside(self, heed: Callable[[AgentId, str], None]) -> None:
        """Tell somebody of letters that cannot be read: for whom each is, and why."""
        self._heed_set_aside = heed

    @property
    def database(self) -> Database:
        """For the tables that have files of their own."""
        return self._db

    @property
    def notes(self) -> list[str]:
        """What the person should know: a file that was set aside, a queued write that failed."""
        return self._db.notes

    async def flush(self) -> None:
        """Write what the `..._soon` methods queued. Without it that happens at the next call, or at `close`."""
        await self._db.flush()

    async def close(self) -> None:
        await self._db.close()

    # --- sessions and agents

    async def register_session(self, id: SessionId, cwd: str, created: int) -> None:
        """Again for one that is known: nothing changes."""
        sql = "INSERT INTO sessions (id, cwd, created) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
        await self._db.write(change(sql, (id, cwd, created)))

    async def register_agent(
        self, id: AgentId, session: SessionId, parent: AgentId | None, kind: str, name: str, depth: int
    ) -> None:
        """Again for one that is known: nothing changes."""
        sql = """
            INSERT INTO agents (id, session, parent, kind, name, depth) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO NOTHING
        """

        def insert(db: sqlite3.Connection) -> None:
            db.execute(sql, (id, session_number(db, session), parent, kind, name, depth))

        await self._db.write(insert)

    async def delete_session(self, id: SessionId) -> bool:
        """Its agents, letters and ledger too. False if there was none."""
        return await self._db.write(change("DELETE FROM sessions WHERE id = ?", (id,))) > 0

    # --- letters

    async def post(self, letter: Letter) -> None:
        """Durable on return. The same id again is the same letter: it is not stored twice."""
        data, at = _encoder.encode(letter), self._now()
        sql = "INSERT INTO letters (id, agent, letter, sent_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"

        def insert(db: sqlite3.Connection) -> None:
            db.execute(sql, (letter.id, agent_number(db, letter.to), data, at))

        await self._db.write(insert)

    async def waiting(self, agent: AgentId) -> list[Letter]:
        """Letters that are not delivered yet, in the order of their arrival. One that cannot be read is set aside."""
        sql = """
            SELECT n, letter FROM letters WHERE agent = (SELECT n FROM agents WHERE id = ?) AND delivered_at IS NULL
            ORDER BY n
        """
        rows = await self._db.read(fetch_all(sql, (agent,)))
        letters: list[Letter] = []
        for n, data in rows:
            try:
                letters.append(_letters.decode(data))
            except msgspec.DecodeError as error:
                why = f"what is stored of it cannot be read ({error})"
                await self._db.write(partial(_set_aside, letter=n, why=why))
                self._db.notes.append(f"a letter for {agent} was set aside: {why}")
                if self._heed_set_aside is not None:
                    self._heed_set_aside(agent, why)
        return letters

    async def withdraw(self, id: LetterId) -> bool:
        """Its sender takes it back. False if it is not there, or was delivered."""
        sql = "DELETE FROM letters WHERE id = ? AND delivered_at IS NULL"
        return await self._db.write(change(sql, (id,))) > 0

    async def has_letter(self, id: LetterId) -> bool:
        sql = "SELECT 1 FROM letters WHERE id = ?"
        return await self._db.read(fetch_one(sql, (id,))) is not None

    async def delivered(self, letters: Sequence[LetterId]) -> None:
        """They are in their reader's transcript, synced. The first time counts."""
        await self._db.write(self._mark_delivered(letters))

    def delivered_soon(self, letters: Sequence[LetterId]) -> None:
        """Queued: lost in a crash, but then the transcript tells that they were read."""
        self._db.write_soon(self._mark_delivered(letters))

    def _mark_delivered(self, letters: Sequence[LetterId]) -> Callable[[sqlite3.Connection], None]:
        rows = [(self._now(), id) for id in letters]
        sql = "UPDATE letters SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL"
        return change_each(sql, rows)

    # --- the ledger

    async def open_call(self, session: SessionId, agent: AgentId, model: str, estimated_input: int) -> int:
        """A row for a call that is about to leave; durable on return."""
        at = self._now()
        sql = "INSERT INTO ledger (session, agent, model, at, estimate) VALUES (?, ?, ?, ?, ?) RETURNING n"

        def insert(db: sqlite3.Connection) -> int:
            values = (
                session_number(db, session),
                agent_number(db, agent),
                _model(db, model),
                at,
                _bounded(estimated_input),
            )
            return db.execute(sql, values).fetchone()[0]

        return await self._db.write(insert)

    def settle_soon(self, row: int, usage: Usage, usd: float | None, ms: int, outcome: Outcome) -> None:
        """Queued. A row is settled once; what comes later is ignored."""
        self._db.write_soon(_settle(row, usage, usd, ms, _OK if outcome == "ok" else _FAILED))

    async def settle_orphans(self, session: SessionId, price: Price | None = None) -> int:
        """Settle at their estimate the calls that a dead process left open; only who runs the session may. How many."""
        sql = """
            SELECT ledger.n, models.name, estimate FROM ledger JOIN models ON models.n = model
            WHERE session = (SELECT n FROM sessions WHERE id = ?) AND outcome IS NULL
        """
        rows = await self._db.read(fetch_all(sql, (session,)))
        for row, model, estimate in rows:
            usage = Usage(input=estimate)
            usd = None if price is None else price(model, usage)
            self._db.write_soon(_settle(row, usage, usd, 0, _LOST))
        await self._db.flush()
        return len(rows)

    async def spent(self, session: SessionId, since: int = 0) -> Spending:
        """All settled calls of the session, of all its processes."""
        sql = f"""
            SELECT {_SUMS} FROM ledger WHERE session = (SELECT n FROM sessions WHERE id = ?) AND outcome IS NOT NULL
                AND at >= ?
        """  # noqa: S608
        row = await self._db.read(fetch_one(sql, (session, since)))
        return Spending(_usage(row), row[4], row[5] > 0)

    async def costs(self, session: SessionId | None = None) -> list[Cost]:
        """Settled calls, added up for each agent and model; agents in the order of their start."""
        sql = f"""
            SELECT {_SUMS}, coalesce(sum(ms), 0), sum(outcome = {_OK}),
                sessions.id, coalesce(agents.id, ''), coalesce(agents.name, ''), agents.parent, models.name,
                coalesce(agents.kind, '')
            FROM ledger JOIN sessions ON sessions.n = ledger.session JOIN models ON models.n = ledger.model
                LEFT JOIN agents ON agents.n = ledger.agent
            WHERE outcome IS NOT NULL AND (:session IS NULL OR sessions.id = :session)
            GROUP BY ledger.session, ledger.agent, ledger.model ORDER BY ledger.session, ledger.agent, ledger.model
        """  # noqa: S608
        rows = await self._db.read(fetch_all(sql, {"session": session}))
        return [
            Cost(id, agent, name, parent, model, _usage(row), row[4], row[5] > 0, ms / 1000, turns, kind)
            for row in rows
            for ms, turns, id, agent, name, parent, model, kind in [row[6:]]
        ]


def _set_aside(db: sqlite3.Connection, letter: int, why: str) -> None:
    """Kept, but handed to nobody; mail that it was becomes a dead letter."""
    db.execute("UPDATE letters SET delivered_at = 0 WHERE n = ?", (letter,))
    db.execute("UPDATE mail SET state = 'dead', reason = ? WHERE letter = ? AND state = 'stored'", (why, letter))


def session_number(db: sqlite3.Connection, id: SessionId) -> int:
    row = db.execute("SELECT n FROM sessions WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise StoreError(f"There is no session {id} in the store: it was deleted, or never registered.")
    return row[0]


def agent_number(db: sqlite3.Connection, id: AgentId) -> int:
    row = db.execute("SELECT n FROM agents WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise StoreError(f"There is no agent {id} in the store: its session was deleted, or it never started.")
    return row[0]


def _model(db: sqlite3.Connection, name: str) -> int:
    row = db.execute("SELECT n FROM models WHERE name = ?", (name,)).fetchone()
    return (row or db.execute("INSERT INTO models (name) VALUES (?) RETURNING n", (name,)).fetchone())[0]


def _settle(row: int, usage: Usage, usd: float | None, ms: int, outcome: int) -> Callable[[sqlite3.Connection], int]:
    tokens = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    values = (*map(_bounded, tokens), usd, ms, outcome, row)
    sql = """
        UPDATE ledger SET input = ?, output = ?, cache_read = ?, cache_write = ?, usd = ?, ms = ?, outcome = ?
        WHERE n = ? AND outcome IS NULL
    """
    return change(sql, values)


def _usage(row: Sequence[int]) -> Usage:
    return Usage(*row[:4])


def _bounded(count: int) -> int:
    return max(0, min(count, _LARGEST))
