"""Inserts mail inside a transaction, for the mail table and for tables that post along with their own change."""

import sqlite3
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.letter import Letter, Said, Signal, has_news, is_quiet
from teamwright.core.data.team import Code, Mail, MailState, Refused
from teamwright.core.ids import AgentId, LetterId
from teamwright.store.tables.rounds import count_round, rounds_spent
from teamwright.store.tables.rows.agents import agent_number

ASIDE = 0  # `delivered_at` of a letter that nobody gets any more
NO_PART = -1  # `part` of what the program sends, spawn prompts included: it does not count for the sender's rate
_MINUTE = 60_000
# these would go on for ever if they were refused again and again
_ASKING = ("shutdown_request", "plan_approval_request")
# a broadcast counts by its first copy; if that was refused, by whether another one was not: `ID-1`, `ID-2` and so on
_SENT = """
    part = 0 AND (state <> 'refused' OR EXISTS (
        SELECT 1 FROM mail AS copy
        WHERE copy.id > mail.id || '-' AND copy.id < mail.id || '.' AND copy.part > 0 AND copy.state <> 'refused'
    ))
"""
_encoder = msgspec.json.Encoder()
_letters = msgspec.json.Decoder(Letter)


class MailLimits(Struct, frozen=True):
    unread: int = 1000
    bytes: int = 256 * 1024
    per_minute: int = 600
    answers: int = 40  # in a row between two without work in between; for a whole team this times its members


LIMITS = MailLimits()


class Stored(Struct, frozen=True):
    """Durable. `volley`: answers in a row between these two without work in between, including this one."""

    id: LetterId
    volley: int = 0


def cut_to_limit(mail: Mail, limits: MailLimits) -> Mail:
    """Shorten a message that is refused for its length anyway, to no more than shows that."""
    if len(mail.text) <= limits.bytes or not isinstance(mail.letter.body, Said):
        return mail
    short = mail.text[: limits.bytes + 1]
    return replace(mail, text=short, letter=replace(mail.letter, body=replace(mail.letter.body, text=short)))


class _Route(NamedTuple):
    """The rows of the team and of both ends; a program's message has no sender. The state is the reader's."""

    team: int
    sender: int | None
    reader: int | None
    state: str | None  # None: no member


def post(db: sqlite3.Connection, mail: Mail, limits: MailLimits, at: int) -> Stored | Refused:
    if (known := find_outcome(db, mail.letter.id)) is not None:
        return known
    mail = _hushed(db, mail, limits)
    letter = mail.letter
    ends = """
        SELECT teams.n, agents.n, members.state FROM teams LEFT JOIN agents ON agents.id = ?
        LEFT JOIN members ON members.team = teams.n AND members.agent = agents.n WHERE teams.name = ?
    """
    found = db.execute(ends, (letter.to, mail.team)).fetchone()
    if found is None:
        return Refused("no_team", f"There is no team {mail.team}: it was deleted.")
    team, reader, state = found
    sender = agent_number(db, letter.sender.id) if letter.sender.id else None
    route = _Route(team, sender, reader, state)
    refused = _refusal(db, mail, route, limits, at)
    _insert(db, mail, route, refused, at)
    crashpoint("mail.post")
    if refused is not None:
        return refused
    if sender is not None and not (isinstance(letter.body, Signal) and letter.body.quiet):
        count_round(db, team, sender)
    talks = not mail.control or _is_idle_news(letter)
    return Stored(letter.id, _count_volley(db, sender, route.reader or 0) if talks and sender is not None else 0)


def _hushed(db: sqlite3.Connection, mail: Mail, limits: MailLimits) -> Mail:
    """If a team goes round, news of idle members starts no turn: it waits for what comes next."""
    letter = mail.letter
    if not _is_idle_news(letter) or not rounds_spent(db, mail.team, limits.answers):
        return mail
    assert isinstance(letter.body, Signal)
    return replace(mail, letter=replace(letter, body=replace(letter.body, quiet=True)))


def _insert(db: sqlite3.Connection, mail: Mail, route: _Route, refused: Refused | None, at: int) -> None:
    letter = None if refused else _insert_letter(db, mail.letter, route.reader, at)
    body = mail.letter.body
    in_letter = isinstance(body, Said) and body.text == mail.text
    text = None if refused or in_letter else mail.text
    outcome = ("stored", None, None) if refused is None else ("refused", refused.code, refused.reason)
    db.execute(
        """
        INSERT INTO mail (id, letter, team, sender, reader, from_name, to_name, summary, color, text, part, state, code,
            reason, sent_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            mail.letter.id,
            letter,
            *route[:3],
            mail.from_name,
            mail.to_name[:200],
            mail.summary[:1000],
            mail.color,
            text,
            NO_PART if mail.control else mail.part,
            *outcome,
            at,
        ),
    )


def _is_idle_news(letter: Letter) -> bool:
    """The last words of a member that went idle count as an answer: they wake the lead."""
    body = letter.body
    return isinstance(body, Signal) and body.kind == "idle_notification" and not body.quiet


def _refusal(db: sqlite3.Connection, mail: Mail, route: _Route, limits: MailLimits, at: int) -> Refused | None:
    if route.state is None:
        return Refused(
            "no_member", f"There is no {mail.to_name[:100]} in team {mail.team}. ListAgents shows who is there."
        )
    if route.state == "shutdown":
        return Refused(
            "shut_down", f"{mail.to_name} has shut down; nothing was sent. Spawn it again if you need it (Agent, name)."
        )
    if len(mail.text.encode(errors="replace")) > limits.bytes:
        return Refused(
            "too_long", f"The message is longer than {limits.bytes // 1024} KiB: write it to a file and name the file."
        )
    body = mail.letter.body
    if mail.control:
        asks = isinstance(body, Signal) and body.kind in _ASKING
        return _rounds_refusal(db, mail, limits) if asks else None
    return (
        _rounds_refusal(db, mail, limits)
        or _pace_refusal(db, mail, route, limits, at)  # first: of a broadcast, it stops all copies
        or _inbox_refusal(db, mail, route, limits)
        or _volley_refusal(db, mail, route, limits)
    )


def _rounds_refusal(db: sqlite3.Connection, mail: Mail, limits: MailLimits) -> Refused | None:
    sender = mail.letter.sender
    if sender.kind != "agent" or not (spent := rounds_spent(db, mail.team, limits.answers)):
        return None
    return Refused(
        "volley",
        f"The members of {mail.team} have woken each other {spent} times without any effect, so this was not sent. "
        "Do the next step yourself (change a file, run a command, make or complete a task), or end your turn.",
    )


def _inbox_refusal(db: sqlite3.Connection, mail: Mail, route: _Route, limits: MailLimits) -> Refused | None:
    waits = "SELECT count(*) FROM (SELECT 1 FROM mail WHERE reader = ? AND state = 'stored' LIMIT ?)"
    if db.execute(waits, (route.reader, limits.unread)).fetchone()[0] < limits.unread:
        return None
    return Refused(
        "inbox_full",
        f"{mail.to_name}'s inbox is full: {limits.unread} messages are unread. Wait until it has read some.",
    )


def _pace_refusal(db: sqlite3.Connection, mail: Mail, route: _Route, limits: MailLimits, at: int) -> Refused | None:
    if route.sender is None:
        return None
    if mail.part:  # a further copy of a broadcast: the first one decides
        first = find_outcome(db, LetterId(mail.letter.id.removesuffix(f"-{mail.part}")))
        return first if isinstance(first, Refused) and first.code == "too_many" else None
    # Both bounds: after the clock was set back, messages that seem to lie ahead must not count for ever.
    lately = "FROM mail WHERE sender = ? AND sent_at BETWEEN ? AND ?"
    when = (route.sender, at - _MINUTE + 1, at)
    # Count all of them first, by the index alone: there are rarely enough, and then no row needs to be read.
    most = f"SELECT 1 {lately} LIMIT 1 OFFSET ?"
    if limits.per_minute and db.execute(most, (*when, limits.per_minute - 1)).fetchone() is None:
        return None
    recent = f"SELECT count(*) FROM (SELECT 1 {lately} AND {_SENT} LIMIT ?)"  # noqa: S608
    sent = db.execute(recent, (*when, limits.per_minute)).fetchone()[0]
    if sent < limits.per_minute:
        return None
    return Refused("too_many", f"You have sent {sent} messages within a minute, the most there is. Wait.")


def _volley_refusal(db: sqlite3.Connection, mail: Mail, route: _Route, limits: MailLimits) -> Refused | None:
    if route.sender is None:
        return None
    sql = """
        SELECT many FROM volleys
        WHERE a = min(:s, :r) AND b = max(:s, :r) AND iif(a = :s, heard_a, heard_b) AND many >= :most
    """
    row = db.execute(sql, {"s": route.sender, "r": route.reader or 0, "most": limits.answers}).fetchone()
    if row is None:
        return None
    return Refused(
        "volley",
        f"You and {mail.to_name} have answered each other {row[0]} times without any work in between, so this was not "
        "sent. Do some work first, or end your turn without an answer.",
    )


def find_outcome(db: sqlite3.Connection, id: LetterId) -> Stored | Refused | None:
    row: tuple[MailState, Code, str] | None
    row = db.execute("SELECT state, code, reason FROM mail WHERE id = ?", (id,)).fetchone()
    if row is None:
        return None
    return Refused(row[1], row[2]) if row[0] == "refused" else Stored(id)


def _insert_letter(db: sqlite3.Connection, letter: Letter, reader: int | None, at: int) -> int:
    sql = "INSERT INTO letters (id, agent, letter, sent_at) VALUES (?, ?, ?, ?) RETURNING n"
    return db.execute(sql, (letter.id, reader, _encoder.encode(letter), at)).fetchone()[0]


def _count_volley(db: sqlite3.Connection, sender: int, reader: int) -> int:
    """A message counts as an answer only if its sender has heard the other since it last spoke."""
    sql = """
        INSERT INTO volleys (a, b, heard_a, heard_b, many) VALUES (min(:s, :r), max(:s, :r), 0, 0, 1)
        ON CONFLICT (a, b) DO UPDATE SET many = many + iif(a = :s, heard_a, heard_b),
            heard_a = heard_a AND a <> :s, heard_b = heard_b AND b <> :s
        RETURNING many
    """
    return db.execute(sql, {"s": sender, "r": reader}).fetchone()[0]


def abandon(db: sqlite3.Connection, reader: int, team: int | None, why: str) -> None:
    """Make everything unread of a reader undeliverable, in one team or in all."""
    sql = "SELECT n FROM mail WHERE reader = ? AND state = 'stored' AND (? IS NULL OR team = ?) ORDER BY n"
    for (n,) in db.execute(sql, (reader, team, team)).fetchall():
        set_aside(db, n, "undeliverable", why)


def set_aside(db: sqlite3.Connection, n: int, state: MailState, why: str) -> None:
    """Keep a message, but hand it to nobody."""
    db.execute("UPDATE mail SET state = ?, reason = ? WHERE n = ?", (state, why, n))
    sql = "UPDATE letters SET delivered_at = ? WHERE n = (SELECT letter FROM mail WHERE n = ?) AND delivered_at IS NULL"
    db.execute(sql, (ASIDE, n))


def held_reports(db: sqlite3.Connection, team: str) -> list[tuple[int, Letter]]:
    """Reports that wait until nobody in the team works, with the numbers of their letters."""
    sql = """
        SELECT letters.n, letters.letter FROM mail JOIN letters ON letters.n = mail.letter
        WHERE team = (SELECT n FROM teams WHERE name = ?) AND state = 'stored' AND mail.id LIKE 'i-%'
    """
    found = [(n, _letters.decode(data)) for n, data in db.execute(sql, (team,))]
    return [(n, letter) for n, letter in found if has_news(letter) and is_quiet(letter)]


def release_reports(db: sqlite3.Connection, team: str) -> None:
    """Nobody works: the reports that waited for that wake the lead."""
    for n, letter in held_reports(db, team):
        assert isinstance(letter.body, Signal)
        awake = replace(letter, body=replace(letter.body, held=False))
        db.execute("UPDATE letters SET letter = ? WHERE n = ?", (_encoder.encode(awake), n))


def forward(db: sqlite3.Connection, team: int, reader: int, to: AgentId) -> None:
    """Pass a reader's unread mail in a team on to the current holder of its address."""
    number = agent_number(db, to)
    sql = """
        SELECT mail.n, letters.n, letters.letter FROM mail JOIN letters ON letters.n = mail.letter
        WHERE reader = ? AND state = 'stored' AND team = ?
    """
    for mail, n, data in db.execute(sql, (reader, team)).fetchall():
        letter = msgspec.structs.replace(_letters.decode(data), to=to)
        db.execute("UPDATE letters SET agent = ?, letter = ? WHERE n = ?", (number, _encoder.encode(letter), n))
        db.execute("UPDATE mail SET reader = ? WHERE n = ?", (number, mail))
