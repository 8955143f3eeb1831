"""Mail in the store: durable, delivered once, bounded, and with a known outcome for each message."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from team_house import House, open_house

from teamwright.core.data.letter import PERSON, Letter, Prompt, Said, Sender
from teamwright.core.data.message import Text
from teamwright.core.data.team import LEAD_NAME, Mail, Member, Moved, Refused
from teamwright.core.ids import AgentId, LetterId
from teamwright.store.db.database import open_database
from teamwright.store.db.schema import STEPS
from teamwright.store.db.schema_later import VOLLEYS
from teamwright.store.tables.mail_insert import MailLimits, Stored

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, MailLimits(unread=20, per_minute=30)) as house:
        await house.create()
        yield house


def code(found: object) -> str:
    assert isinstance(found, Refused), found
    return found.code


async def lead_of(house: House) -> Member:
    found = await house.teams.find("crew", LEAD_NAME)
    assert found is not None
    return found


# --- sending


@pytest.mark.spec("X2", "X8", "X9")
async def test_a_message_is_a_letter_and_a_line_of_the_log(house: House) -> None:
    ada = await house.join("ada")
    assert await house.mail.post_mail(house.note(house.lead, ada, "héllo", id="m1")) == Stored(LetterId("m1"), 1)
    (letter,) = await house.state.waiting(ada.agent)
    assert letter.id == "m1" and isinstance(letter.body, Said) and letter.body.text == "héllo"
    (entry,) = await house.mail.audit("crew")
    assert (entry.from_name, entry.to_name, entry.text, entry.summary) == (LEAD_NAME, "ada", "héllo", "a note")
    assert (entry.state, entry.delivered_at, entry.sender, entry.reader) == ("stored", None, house.lead, ada.agent)
    await house.state.delivered([LetterId("m1")])
    (entry,) = await house.mail.audit("crew")
    assert entry.state == "delivered"
    assert entry.delivered_at is not None and entry.delivered_at > entry.sent_at
    assert await house.state.waiting(ada.agent) == [] and await house.mail.unread(ada.agent) == 0


@pytest.mark.spec("X2")
async def test_the_same_id_again_is_the_same_message_with_the_same_answer(house: House) -> None:
    ada = await house.join("ada")
    note = house.note(house.lead, ada)
    assert isinstance(await house.mail.post_mail(note), Stored) and isinstance(await house.mail.post_mail(note), Stored)
    assert len(await house.state.waiting(ada.agent)) == 1
    await house.state.delivered([note.letter.id])
    assert isinstance(await house.mail.post_mail(note), Stored) and await house.state.waiting(ada.agent) == []
    await house.teams.set_state("crew", ada.agent, "shutdown")
    late = house.note(house.lead, ada)
    first = await house.mail.post_mail(late)
    assert code(first) == "shut_down" and first == await house.mail.post_mail(late)


async def test_what_is_shown_may_differ_from_the_letter(house: House) -> None:
    ada = await house.join("ada")
    letter = Letter(LetterId("l"), ada.agent, Sender("agent", LEAD_NAME, house.lead), Prompt((Text("begin"),)))
    await house.mail.post_mail(Mail(letter, "crew", LEAD_NAME, "ada", '{"type":"x"}'))
    assert [e.text for e in await house.mail.audit("crew")] == ['{"type":"x"}']


@pytest.mark.spec("C1")
async def test_a_broadcast_is_one_commit_and_each_copy_counts_for_itself(house: House) -> None:
    crew = [await house.join(f"m{n}") for n in range(10)]
    await house.teams.set_state("crew", crew[3].agent, "shutdown")
    before = house.state.database.commits
    notes = [house.note(house.lead, m, part=n) for n, m in enumerate(crew)]
    outcomes = await house.mail.post_all(notes)
    assert house.state.database.commits == before + 1
    assert [isinstance(o, Stored) for o in outcomes] == [n != 3 for n in range(10)]
    # For the sender's rate a broadcast is one message.
    for n in range(29):
        assert isinstance(await house.mail.post_mail(house.note(house.lead, crew[n % 3])), Stored)
    assert code(await house.mail.post_mail(house.note(house.lead, crew[0]))) == "too_many"


@pytest.mark.one_machine
@pytest.mark.spec("X11", "C1")
async def test_a_broadcast_beyond_the_rate_reaches_nobody(house: House) -> None:
    crew = [await house.join(f"m{n}") for n in range(3)]
    for n in range(31):
        ids = ["m-lead-c{n}", "m-lead-c{n}-1", "m-lead-c{n}-2"]
        notes = [house.note(house.lead, m, id=ids[k].format(n=n), part=k) for k, m in enumerate(crew)]
        codes = [code(o) if isinstance(o, Refused) else "" for o in await house.mail.post_all(notes)]
        await house.state.delivered([note.letter.id for note in notes])
        assert codes == (["too_many"] * 3 if n == 30 else [""] * 3)


@pytest.mark.one_machine
@pytest.mark.spec("X11", "X7", "C1")
async def test_a_broadcast_counts_even_if_its_first_reader_can_take_no_more(house: House) -> None:
    crew = [await house.join(f"m{n}") for n in range(3)]
    for _ in range(20):
        await house.mail.post_mail(house.note(house.lead, crew[0], control=True))
    for n in range(31):
        ids = [f"m-lead-c{n}", f"m-lead-c{n}-1", f"m-lead-c{n}-2"]
        notes = [house.note(house.lead, m, id=ids[k], part=k) for k, m in enumerate(crew)]
        codes = [code(o) if isinstance(o, Refused) else "" for o in await house.mail.post_all(notes)]
        await house.state.delivered([note.letter.id for note in notes[1:]])
        assert codes == (["too_many"] * 3 if n == 30 else ["inbox_full", "", ""]), n


@pytest.mark.one_machine
@pytest.mark.spec("X11")
async def test_what_the_program_sends_does_not_count_for_the_rate(house: House) -> None:
    """For example the prompts of new teammates, and idle notices."""
    crew = [await house.join(f"m{n}") for n in range(3)]
    for n in range(9):
        assert isinstance(await house.mail.post_mail(house.note(house.lead, crew[n % 3], control=True)), Stored)
    for n in range(30):
        assert isinstance(await house.mail.post_mail(house.note(house.lead, crew[n % 3])), Stored)
    assert code(await house.mail.post_mail(house.note(house.lead, crew[0]))) == "too_many"


# --- refusals


@pytest.mark.spec("X6", "X9")
async def test_nobody_a_stranger_and_one_that_shut_down_are_refused_in_words(house: House) -> None:
    ada = await house.join("ada")
    await house.teams.set_state("crew", ada.agent, "shutdown")
    gone = await house.mail.post_mail(house.note(house.lead, ada))
    assert isinstance(gone, Refused) and gone.code == "shut_down" and "Spawn it again" in gone.reason
    stranger = Member(AgentId("nobody"), "nobody", "crew", "x")
    assert code(await house.mail.post_mail(house.note(house.lead, stranger))) == "no_member"
    outside = Member(await house.another_session(), "outside", "crew", "x")
    assert code(await house.mail.post_mail(house.note(house.lead, outside))) == "no_member"
    assert code(await house.mail.post_mail(house.note(house.lead, Member(ada.agent, "a", "no", "x")))) == "no_team"
    log = await house.mail.audit("crew")
    assert [(entry.to_name, entry.state) for entry in log] == [
        ("ada", "refused"), ("nobody", "refused"), ("outside", "refused"),
    ]  # fmt: skip
    assert "has shut down" in log[0].reason and log[0].text == ""
    again = await house.join("ada")
    assert isinstance(await house.mail.post_mail(house.note(house.lead, again)), Stored)


@pytest.mark.spec("X7")
async def test_a_full_inbox_is_an_error_until_something_was_read(house: House) -> None:
    ada, bob = await house.join("ada"), await house.join("bob")
    ids = [house.note(house.lead, ada) for _ in range(20)]
    assert all([isinstance(await house.mail.post_mail(note), Stored) for note in ids])
    full = await house.mail.post_mail(house.note(bob, ada))
    assert isinstance(full, Refused) and full.code == "inbox_full" and "20 messages are unread" in full.reason
    assert isinstance(await house.mail.post_mail(house.note(house.lead, ada, control=True)), Stored)
    assert isinstance(await house.mail.post_mail(house.note(house.lead, bob)), Stored)
    await house.state.delivered([note.letter.id for note in ids[:2]])
    assert isinstance(await house.mail.post_mail(house.note(bob, ada)), Stored)


@pytest.mark.spec("X11")
@pytest.mark.parametrize(("text", "fits"), [("x" * 262_144, True), ("x" * 262_145, False), ("é" * 131_073, False)])
async def test_a_message_has_a_size(house: House, text: str, fits: bool) -> None:
    found = await house.mail.post_mail(house.note(house.lead, await house.join("ada"), text))
    assert isinstance(found, Stored) if fits else code(found) == "too_long"


@pytest.mark.spec("X11")
async def test_fifty_megabytes_leave_nothing_behind_but_a_line(house: House) -> None:
    ada = await house.join("ada")
    assert code(await house.mail.post_mail(house.note(house.lead, ada, "x" * 50_000_000))) == "too_long"
    assert sum(path.stat().st_size for path in house.root.glob("state.db*")) < 1_000_000


@pytest.mark.one_machine
@pytest.mark.spec("X11")
async def test_a_sender_has_a_rate_and_the_window_slides(house: House) -> None:
    crew = [await house.join(f"m{n}") for n in range(3)]
    for n in range(30):
        assert isinstance(await house.mail.post_mail(house.note(house.lead, crew[n % 3])), Stored)
    assert code(await house.mail.post_mail(house.note(house.lead, crew[0]))) == "too_many"
    assert isinstance(await house.mail.post_mail(house.note(crew[1], crew[0])), Stored)
    person = Letter(LetterId("p"), crew[0].agent, PERSON, Prompt((Text("go"),)))
    assert isinstance(await house.mail.post_mail(Mail(person, "crew", "user", crew[0].name, "go")), Stored)
    house.clock.now += 60_000
    assert isinstance(await house.mail.post_mail(house.note(house.lead, crew[0])), Stored)


@pytest.mark.one_machine
@pytest.mark.spec("X11")
async def test_a_clock_that_is_set_back_silences_nobody(house: House) -> None:
    crew = [await house.join(f"m{n}") for n in range(3)]
    for n in range(30):
        await house.mail.post_mail(house.note(house.lead, crew[n % 3]))
    house.clock.now -= 86_400_000
    assert isinstance(await house.mail.post_mail(house.note(house.lead, crew[0])), Stored)
    order = [e.n for e in await house.mail.audit("crew")]
    assert order == sorted(order) and len(order) == 31


# --- what cannot be delivered


@pytest.mark.spec("X10")
async def test_the_third_failure_makes_a_dead_letter_and_the_others_go_on(house: House) -> None:
    ada = await house.join("ada")
    bad, good = house.note(house.lead, ada, "poison", id="bad"), house.note(house.lead, ada, id="good")
    await house.mail.post_all([bad, good])
    found = [await house.mail.failed([LetterId("bad")], "it broke") for _ in range(4)]
    assert found == [[], [], ["bad"], []]
    assert [x.id for x in await house.state.waiting(ada.agent)] == ["good"]
    (dead,) = await house.mail.untold("crew")
    assert (dead.id, dead.state, dead.reason, dead.text, dead.delivered_at) == (
        "bad", "dead", "it broke", "poison", None,
    )  # fmt: skip
    await house.state.delivered([LetterId("bad"), LetterId("good")])
    assert {e.id: e.state for e in await house.mail.audit("crew")} == {"bad": "dead", "good": "delivered"}
    await house.mail.told([LetterId("bad")])
    assert await house.mail.untold("crew") == []


@pytest.mark.spec("X9", "X6")
async def test_what_a_member_did_not_read_before_its_end_is_undeliverable(house: House) -> None:
    ada, bob = await house.join("ada"), await house.join("bob")
    await house.mail.post_all([house.note(house.lead, ada, id="read"), house.note(bob, ada, id="unread")])
    await house.state.delivered([LetterId("read")])
    moved = await house.teams.set_state("crew", ada.agent, "shutdown", why="it was stopped")
    assert moved == Moved("created", "shutdown")
    (lost,) = await house.mail.untold("crew")
    assert (lost.id, lost.sender, lost.state, lost.reason) == ("unread", bob.agent, "undeliverable", "it was stopped")
    assert await house.state.waiting(ada.agent) == []


# --- reading


@pytest.mark.spec("X8")
async def test_the_log_is_read_in_order_page_by_page_and_by_team(house: House) -> None:
    ada = await house.join("ada")
    await house.create("other")
    bob = await house.join("bob", "other")
    for n in range(12):
        await house.mail.post_mail(house.note(house.lead, bob if n % 3 == 0 else ada, f"t{n}"))
    first = await house.mail.audit("crew", most=5)
    rest = await house.mail.audit("crew", since=first[-1].n)
    assert [e.text for e in (*first, *rest)] == [f"t{n}" for n in range(12) if n % 3]
    assert [e.text for e in await house.mail.audit("other")] == ["t0", "t3", "t6", "t9"]
    assert [e.text for e in await house.mail.newest("other", 2)] == ["t6", "t9"]


@pytest.mark.spec("X1")
async def test_an_inbox_is_what_is_unread_and_the_last_that_were_read(house: House) -> None:
    ada = await house.join("ada")
    notes = [house.note(house.lead, ada, f"t{n}") for n in range(10)]
    await house.mail.post_all(notes)
    for n in (0, 1, 2, 3, 7):
        await house.state.delivered([notes[n].letter.id])
    found = await house.mail.entries(sorted(await house.mail.shown("crew", ada.agent, most_read=2)))
    assert [e.text for e in found] == ["t3", "t4", "t5", "t6", "t7", "t8", "t9"]


@pytest.mark.spec("X11")
async def test_answers_in_a_row_are_counted_until_one_of_the_two_works(house: House) -> None:
    ada, bob, eve = [await house.join(name) for name in ("ada", "bob", "eve")]

    async def volley(a: Member, b: Member, *, read: bool = True) -> int:
        found = await house.mail.post_mail(note := house.note(a, b))
        assert isinstance(found, Stored)
        if read:
            await house.state.delivered([note.letter.id])
        return found.volley

    assert [await volley(ada, bob), await volley(bob, ada), await volley(ada, bob, read=False)] == [1, 2, 3]
    assert [await volley(bob, ada), await volley(ada, eve)] == [3, 1]  # bob has not read: no answer
    assert [await volley(ada, bob), await volley(ada, bob), await volley(bob, ada)] == [4, 4, 5]
    house.mail.worked_soon(bob.agent)
    assert [await volley(bob, ada), await volley(eve, ada)] == [1, 2]
    await house.mail.post_mail(house.note(ada, bob, control=True))
    assert await volley(ada, bob) == 2


@pytest.mark.spec("X11")
async def test_letters_that_cross_are_answers_too(house: House) -> None:
    """Both write before they have read the other's letter: both count as answers, or two could talk twice as long."""
    ada, bob = [await house.join(name) for name in ("ada", "bob")]
    counted = list[int]()
    for _ in range(3):
        notes = [house.note(ada, bob), house.note(bob, ada)]
        for note in notes:
            found = await house.mail.post_mail(note)
            assert isinstance(found, Stored)
            counted.append(found.volley)
        await house.state.delivered([note.letter.id for note in notes])
    assert counted == [1, 1, 2, 3, 4, 5]


@pytest.mark.spec("X11")
async def test_an_older_store_keeps_who_has_read_whom(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await (await open_database(path, STEPS[: STEPS.index(VOLLEYS)])).close()
    with closing(sqlite3.connect(path)) as db, db:
        rows = [(1, 2, 1, 7), (1, 3, 3, 8), (2, 3, 0, 9)]  # the third: which of the two was read last
        db.executemany("INSERT INTO volleys (a, b, heard, many) VALUES (?, ?, ?, ?)", rows)
    await (await open_database(path)).close()
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT a, b, heard_a, heard_b, many FROM volleys").fetchall()
    assert found == [(1, 2, 0, 1, 7), (1, 3, 1, 0, 8), (2, 3, 0, 0, 9)]


@pytest.mark.spec("X4")
async def test_a_send_looks_at_nothing_that_was_read(house: House) -> None:
    """The query plans show it: each goes through a key, or an index without what was read."""
    sqls = [
        "SELECT count(*) FROM (SELECT 1 FROM mail WHERE reader = 1 AND state = 'stored' LIMIT 20)",
        "SELECT count(*) FROM mail WHERE sender = 1 AND sent_at BETWEEN 1 AND 2 AND part = 0 AND state <> 'refused'",
        "SELECT state, code, reason FROM mail WHERE id = 'x'",
        "SELECT state FROM members WHERE team = 1 AND agent = 1",
    ]
    plans = await house.state.database.read(
        lambda db: [[row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")] for sql in sqls]
    )
    text = "\n".join(line for plan in plans for line in plan)
    assert "SCAN mail" not in text and "SCAN members" not in text, text
    assert "mail_by_reader (reader=? AND state=?)" in text
    assert "mail_by_sender (sender=? AND sent_at>? AND sent_at<?)" in text
