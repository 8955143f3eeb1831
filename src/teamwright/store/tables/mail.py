"""Mail between team members, stored with its letter in one transaction, and the fate of each message.

Rows stay after delivery: they are the audit log.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from teamwright.core.data.letter import LEAD, Letter, Said, Signal
from teamwright.core.data.letters.tasks import CLAIM_SENDER
from teamwright.core.data.team import Mail, MailState, Member, Refused
from teamwright.core.ids import AgentId, LetterId
from teamwright.store.acts.mail import (
    DropLetters,
    FailMail,
    MarkTold,
    NoteProgress,
    NoteWork,
    PostMail,
    ReleaseReports,
    TellOfRounds,
)
from teamwright.store.db.database import Database
from teamwright.store.db.statements import fetch_all, fetch_one
from teamwright.store.tables.mail_insert import LIMITS, MailLimits, Stored, cut_to_limit, held_reports
from teamwright.store.tables.rounds import rounds_spent
from teamwright.store.tables.rows.teams import IN_TEAM

MOST_READ = 200  # messages already read that an inbox still shows
_AT_ONCE = 500  # messages fetched by one statement
_letters = msgspec.json.Decoder(Letter)


class MailEntry(Struct, frozen=True):
    """One message in the log. `delivered_at` is when it reached its reader's model."""

    n: int
    id: LetterId
    team: str
    from_name: str
    to_name: str
    summary: str
    color: str
    text: str
    state: MailState
    reason: str
    sent_at: int
    delivered_at: int | None
    sender: AgentId | None
    reader: AgentId | None


class Exchanged(Struct, frozen=True):
    asked: bool  # by the lead, or by a task
    wrote: bool


class MailTable:
    def __init__(self, database: Database, limits: MailLimits = LIMITS) -> None:
        self._db = database
        self.limits = limits

    # --- sending

    async def post_mail(self, mail: Mail) -> Stored | Refused:
        """Durable on return. For a known id nothing is stored, and the first answer is given again."""
        return (await self.post_all([mail]))[0]

    async def post_all(self, mails: Sequence[Mail]) -> list[Stored | Refused]:
        """One commit for several, such as a broadcast; each is stored or refused by itself."""
        return await self._db.write(PostMail(tuple(cut_to_limit(mail, self.limits) for mail in mails), self.limits))

    async def readers_of(self, key: str) -> list[str]:
        """Names of those for whom the message of a call was stored; several for a broadcast."""
        sql = "SELECT to_name FROM mail WHERE (id = ? OR (id > ? AND id < ?)) AND state <> 'refused' ORDER BY part"
        found = (f"m-{key}", f"m-{key}-", f"m-{key}.")  # `.` comes after `-`
        return [name for (name,) in await self._db.read(fetch_all(sql, found))]

    # --- reading

    async def audit(self, team: str, *, since: int = 0, most: int = 1000) -> list[MailEntry]:
        """Everything sent in a team, in order, after number `since`."""
        return await self._entries("teams.name = ? AND mail.n > ? ORDER BY mail.n LIMIT ?", team, since, most)

    async def newest(self, team: str, most: int) -> list[MailEntry]:
        """The last messages of a team, in order."""
        return (await self._entries("teams.name = ? ORDER BY mail.n DESC LIMIT ?", team, most))[::-1]

    async def shown(self, team: str, reader: AgentId, *, most_read: int = MOST_READ) -> dict[int, bool]:
        """The numbers of the messages that an inbox shows, and whether each was read. Costs little."""
        sql = """
            SELECT n, 0 FROM mail WHERE reader = :reader AND state = 'stored' AND team = :team
            UNION ALL
            SELECT n, 1 FROM (
                SELECT n FROM mail WHERE reader = :reader AND state = 'delivered' AND team = :team
                ORDER BY delivered_at DESC, n DESC LIMIT :most
            )
        """

        def work(db: sqlite3.Connection) -> dict[int, bool]:
            whose = db.execute("SELECT n FROM agents WHERE id = ?", (reader,)).fetchone()
            where = db.execute("SELECT n FROM teams WHERE name = ?", (team,)).fetchone()
            if whose is None or where is None:
                return {}
            found = db.execute(sql, {"reader": whose[0], "team": where[0], "most": most_read})
            return {n: bool(read) for n, read in found}

        return await self._db.read(work)

    async def entries(self, numbers: Sequence[int]) -> list[MailEntry]:
        """Messages by number, in order; missing ones are left out."""
        found: list[MailEntry] = []
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            found += await self._entries(f"mail.n IN ({','.join('?' * len(some))}) ORDER BY mail.n", *some)
        return found

    async def unread(self, reader: AgentId) -> int:
        sql = "SELECT count(*) FROM mail WHERE reader = (SELECT n FROM agents WHERE id = ?) AND state = 'stored'"
        return (await self._db.read(fetch_one(sql, (reader,))))[0]

    async def exchanged(self, member: Member, lead: AgentId) -> Exchanged:
        """What a member and its lead have told each other in the member's turn, other than that it is idle."""
        wrote = """
            SELECT 1 FROM mail WHERE sender = (SELECT n FROM agents WHERE id = ?) AND sent_at >= ?
            AND reader = (SELECT n FROM agents WHERE id = ?) AND state <> 'refused' AND id NOT LIKE 'i-%' LIMIT 1
        """
        read = "SELECT letter FROM letters WHERE agent = (SELECT n FROM agents WHERE id = ?) AND delivered_at >= ?"

        def work(db: sqlite3.Connection) -> Exchanged:
            (since,) = db.execute(f"SELECT since FROM members {IN_TEAM}", (member.agent, member.team)).fetchone()  # noqa: S608
            asked = any(_gives_work(data) for (data,) in db.execute(read, (member.agent, since)))
            return Exchanged(asked, db.execute(wrote, (member.agent, since, lead)).fetchone() is not None)

        return await self._db.read(work)

    async def release_reports(self, team: str) -> None:
        """Nobody in the team works: reports that waited for that wake the lead."""
        if await self._db.read(partial(held_reports, team=team)):
            await self._db.write(ReleaseReports(team))

    # --- failed deliveries

    async def failed(self, letters: Sequence[LetterId], why: str) -> list[LetterId]:
        """An attempt to handle these has failed. Returns the dead letters among them, set aside after the third."""
        return await self._db.write(FailMail(tuple(letters), why))

    async def drop_letters(self, letters: Sequence[LetterId]) -> list[LetterId]:
        """Set aside letters that are no mail and cannot be handled. They are kept, but handed to nobody. Returns those
        that waited."""
        return await self._db.write(DropLetters(tuple(letters)))

    async def untold(self, team: str) -> list[MailEntry]:
        """Messages that failed after they were stored, without lead and sender knowing it."""
        return await self._entries("teams.name = ? AND told = 0 AND state IN ('undeliverable', 'dead')", team)

    async def told(self, letters: Sequence[LetterId]) -> None:
        if letters:
            await self._db.write(MarkTold(tuple(letters)))

    # --- answering without working

    def worked_soon(self, agent: AgentId) -> None:
        """Queued: the agent has used a tool for more than talking."""
        self._db.write_soon(NoteWork(agent))

    def progressed_soon(self, agent: AgentId) -> None:
        """Queued: the agent has changed something, or a person has spoken to it."""
        self._db.write_soon(NoteProgress(agent))

    async def untold_rounds(self, team: str) -> int:
        """How often a team's members have woken each other without effect, if that must stop and was not told yet; else
        0."""
        if not await self._db.read(partial(rounds_spent, team=team, each=self.limits.answers)):
            return 0
        return await self._db.write(TellOfRounds(team, self.limits.answers))

    async def _entries(self, where: str, *values: object) -> list[MailEntry]:
        sql = f"""
            SELECT mail.n, mail.id, teams.name, from_name, to_name, summary, color, text, state, coalesce(reason, ''),
                mail.sent_at, mail.delivered_at, senders.id, readers.id, letters.letter
            FROM mail JOIN teams ON teams.n = mail.team LEFT JOIN letters ON letters.n = mail.letter
                LEFT JOIN agents AS senders ON senders.n = sender LEFT JOIN agents AS readers ON readers.n = reader
            WHERE {where}
        """  # noqa: S608
        return [_entry(row) for row in await self._db.read(fetch_all(sql, values))]


def _entry(row: Sequence[Any]) -> MailEntry:
    values = list(row[:-1])
    if values[7] is None:
        values[7] = _text(row[-1])
    return MailEntry(*values)


def _text(letter: bytes | None) -> str:
    try:
        body = _letters.decode(letter).body if letter is not None else None
    except msgspec.DecodeError:
        return ""
    return body.text if isinstance(body, Said) else ""


def count_unread(path: Path) -> dict[str, int]:
    """Unread mail by team, for another thread that only counts; the connection can change nothing."""
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0.2)) as db:
        sql = (
            "SELECT teams.name, count(*) FROM mail JOIN teams ON teams.n = mail.team WHERE state = 'stored' GROUP BY 1"
        )
        return dict(db.execute(sql).fetchall())


def _gives_work(letter: bytes) -> bool:
    try:
        found = _letters.decode(letter)
    except msgspec.DecodeError:
        return False
    task = isinstance(found.body, Signal) and found.body.kind == "task_assignment"
    return task or found.sender.name in {LEAD, CLAIM_SENDER}
