"""Rows of the landing queue, as its acts find and change them."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from teamwright.core.data.landing import LandDraft, LandEntry, LandId, LandState

COLUMNS = "n, record, state, reason, candidate, tries, queued, changed"
_drafts = msgspec.json.Decoder(LandDraft)
_encoder = msgspec.json.Encoder()


def read_entry(row: Sequence[Any]) -> LandEntry:
    id, record, *rest = row
    return LandEntry(id, _drafts.decode(record), *rest)


def find_entry(db: sqlite3.Connection, id: LandId) -> LandEntry | None:
    row = db.execute(f"SELECT {COLUMNS} FROM landing WHERE n = ?", (id,)).fetchone()  # noqa: S608
    return read_entry(row) if row else None


def find_open(db: sqlite3.Connection, draft: LandDraft) -> Iterator[LandEntry]:
    """Entries of the same branch that are not decided yet."""
    sql = f"""
        SELECT {COLUMNS} FROM landing
        WHERE repo = ? AND target = ? AND branch = ? AND state IN ('waiting', 'trying') ORDER BY n
    """  # noqa: S608
    for row in db.execute(sql, (draft.repo, draft.target, draft.branch)).fetchall():
        yield read_entry(row)


def insert_entry(db: sqlite3.Connection, draft: LandDraft, now: int) -> LandId:
    sql = """
        INSERT INTO landing (repo, target, branch, tip, record, queued, changed) VALUES (?, ?, ?, ?, ?, ?, ?)
        RETURNING n
    """
    record = _encoder.encode(draft).decode()
    return db.execute(sql, (draft.repo, draft.target, draft.branch, draft.tip, record, now, now)).fetchone()[0]


def rewrite_entry(db: sqlite3.Connection, id: LandId, draft: LandDraft, now: int) -> None:
    """Store another commit, or other facts about it. Its place in the queue stays."""
    sql = "UPDATE landing SET tip = ?, record = ?, reason = '', changed = max(changed + 1, ?) WHERE n = ?"
    db.execute(sql, (draft.tip, _encoder.encode(draft).decode(), now, id))


def set_state(
    db: sqlite3.Connection, before: LandEntry, after: LandState, reason: str, commit: str, now: int
) -> LandEntry:
    tries = before.tries + (before.state == "waiting" and after == "trying")
    sql = """
        UPDATE landing SET state = ?, reason = ?, candidate = ?, tries = ?, changed = max(changed + 1, ?) WHERE n = ?
    """
    db.execute(sql, (after, reason, commit, tries, now, before.id))
    found = find_entry(db, before.id)
    assert found is not None
    return found
