"""Rows of sessions, agents and letters, as every transaction finds and inserts them."""

import sqlite3
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from teamwright.core.data.letter import Letter
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, LetterId, SessionId

_encoder = msgspec.json.Encoder()
_letters = msgspec.json.Decoder(Letter)


class NewAgent(Struct, frozen=True):
    """The row of an agent that is about to start."""

    id: AgentId
    session: SessionId
    parent: AgentId
    kind: str
    name: str
    depth: int


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


def insert_agent(db: sqlite3.Connection, agent: NewAgent) -> None:
    sql = "INSERT INTO agents (id, session, parent, kind, name, depth) VALUES (?, ?, ?, ?, ?, ?)"
    db.execute(sql, (agent.id, session_number(db, agent.session), agent.parent, agent.kind, agent.name, agent.depth))


def insert_letter(db: sqlite3.Connection, letter: Letter, at: int) -> None:
    """A letter with a known id is the same letter: it is not stored twice."""
    sql = "INSERT INTO letters (id, agent, letter, sent_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
    db.execute(sql, (letter.id, agent_number(db, letter.to), _encoder.encode(letter), at))


def readers_of(db: sqlite3.Connection, letters: Sequence[LetterId]) -> tuple[AgentId, ...]:
    sql = "SELECT agents.id FROM letters JOIN agents ON agents.n = agent WHERE letters.id = ?"
    return tuple(AgentId(reader) for id in letters for (reader,) in db.execute(sql, (id,)))


def senders_of(db: sqlite3.Connection, letters: Sequence[LetterId]) -> tuple[AgentId, ...]:
    """Senders of letters. For a letter from the person or the program, its reader stands in."""
    found: list[AgentId] = []
    for id in letters:
        for (data,) in db.execute("SELECT letter FROM letters WHERE id = ?", (id,)):
            letter = _letters.decode(data)
            found.append(letter.sender.id or letter.to)
    return tuple(found)


def names_of(db: sqlite3.Connection, agent: AgentId) -> list[str]:
    """An agent's own name, and those that it has in teams."""
    sql = """
        SELECT name FROM agents WHERE id = :id
        UNION SELECT name FROM members WHERE agent = (SELECT n FROM agents WHERE id = :id)
    """
    return [name for (name,) in db.execute(sql, {"id": agent})]
