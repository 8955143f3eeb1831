"""A team at its limits: mail settings, a message that is far too long, a long past, a teammate in a loop."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from team_steps import answers, create, heard, home, mail_of, state_of, texts, until
from team_steps import mate as a_mate
from team_steps import say as tell

from conftest import Walker
from crew import bash, crew
from place_kit import CREATE, FREE, mate, options, say
from program import Program
from teamwright.store.tables.mail_insert import MailLimits

MANY = 100_000


def results(ran: Any, words: str) -> list[str]:
    return [text for text, is_error in ran.tool_results if is_error and words in text]


@pytest.mark.spec("X11")
def test_the_limits_of_mail_are_settings_also_for_a_teammates_own_process(program: Program) -> None:
    said = json.dumps({"teamwright": {"mail": {"kib": 1, "perMinute": 4}}})
    script = {
        "main": [CREATE, mate("ada"), [say("ada", "x" * 1025), say("ada", "x" * 1024)], "on"],
        "ada": [say("team-lead", "y" * 1025), [say("team-lead", f"note {n}") for n in range(5)], "on"],
    }
    for place in options("local", program):
        ran = program.prompt(script, FREE, *place, "--settings", said)
        assert ran.rc == 0, ran.err
        assert len(results(ran, "longer than 1 KiB: write it to a file")) == 2, ran.tool_results
        assert len(results(ran, "You have sent 4 messages within a minute")) == 1, ran.tool_results


@pytest.mark.spec("X11", "X7")
async def test_every_limit_of_mail_can_be_set(walker: Walker) -> None:
    home(walker).mkdir(exist_ok=True)
    block = {"mail": {"kib": 1, "perMinute": 2, "unread": 3, "answers": 4}}
    (home(walker) / "settings.json").write_text(json.dumps({"teamwright": block}))
    async with crew(walker, {"main": [create(), "on"]}) as play:
        await play.play()
        assert play.session.teamwork.tables.mail.limits == MailLimits(3, 1024, 2, 4)


@pytest.mark.one_machine
@pytest.mark.spec("X11", "A5")
async def test_a_message_of_fifty_megabytes_is_refused_and_the_team_goes_on(walker: Walker) -> None:
    scripts = {
        "main": [create(), a_mate("ada"), tell("ada", "x" * 50_000_000), tell("ada", "SCRIPT:short"), "on"],
        "ada": ["ready"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
        (long, short) = answers(play.requests()[-1], "SendMessage")
        assert long[1] and "256 KiB" in long[0] and not short[1]
        assert [e.text for e in await mail_of(play) if e.from_name == "team-lead"] == ["SCRIPT:ada", "SCRIPT:short"]
    assert (home(walker) / "state.db").stat().st_size < 5_000_000
    assert (home(walker) / "teams/crew/inboxes/ada.json").stat().st_size < 10_000


def fill(database: Path, team: str, name: str) -> None:
    """A long past: many messages from the lead, all read by this member."""
    db = sqlite3.connect(database)
    (team_n,) = db.execute("SELECT n FROM teams WHERE name = ?", (team,)).fetchone()
    (reader,) = db.execute("SELECT agent FROM members WHERE name = ?", (name,)).fetchone()
    (sender,) = db.execute("SELECT agent FROM members WHERE name = 'team-lead'").fetchone()
    (letter,) = db.execute("SELECT letter FROM letters WHERE agent = ?", (reader,)).fetchone()
    with db:
        rows = ((f"old-{n}", reader, letter, n + 1, n + 2) for n in range(MANY))
        db.executemany("INSERT INTO letters (id, agent, letter, sent_at, delivered_at) VALUES (?, ?, ?, ?, ?)", rows)
        db.execute(
            """
            INSERT INTO mail (id, letter, team, sender, reader, from_name, to_name, summary, color, part, state,
                sent_at, delivered_at)
            SELECT id, n, ?, ?, agent, 'team-lead', ?, 'old', 'blue', 0, 'delivered', sent_at, delivered_at
            FROM letters WHERE id LIKE 'old-%'
            """,
            (team_n, sender, name),
        )
    db.close()


@pytest.mark.spec("X4", "X1", "X8", "T6")
def test_a_team_with_a_hundred_thousand_messages_behind_it_goes_on_as_ever(program: Program) -> None:
    script = {
        "main": [CREATE, mate("ada"), "on"], "ada": [*["ready"] * 20],
        "more": [say("ada", "one more"), "on"],
    }  # fmt: skip
    assert program.prompt(script, FREE).rc == 0
    fill(program.state / "state.db", "crew", "ada")
    ran = program.prompt(script, FREE, "--resume", program.transcript().stem, text="SCRIPT:more")
    assert ran.rc == 0, ran.err
    copy = json.loads((program.state / "teams/crew/inboxes/ada.json").read_text())
    assert len(copy) <= 201 and copy[-1]["text"] == "one more" and copy[-1]["read"]
    log = program.run("inbox", "crew", "--json")
    assert log.rc == 0 and "one more" in log.out


@pytest.mark.spec("L4", "D12", "H1")
async def test_a_teammate_that_loops_ends_its_turn_at_its_limit_or_by_force(walker: Walker) -> None:
    agents = walker.project / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "bound.md").write_text("---\nname: bound\ndescription: d\nmaxTurns: 5\n---\nWork.\n")
    loop = [bash("echo x >> log")] * 5000
    scripts = {
        "main": [create(), a_mate("ada", subagent_type="bound"), a_mate("bob", "free"), *["on"] * 20],
        "ada": loop, "free": [bash("echo y >> wild")] * 5000,
    }  # fmt: skip
    async with crew(walker, scripts, trust=True) as play:
        await play.say("go")
        notice = await heard(play, "main", "idle_notification")
        assert "ada" in texts(notice) and "limit" in texts(notice)
        assert (walker.project / "log").read_text().split() == ["x"] * 5
        wild = walker.project / "wild"
        await until(lambda: wild.exists() and len(wild.read_text()) > 20)
        await play.session.teamwork.stop(play.session.main, "bob@crew")
        assert state_of(play, "bob") == "shutdown" and state_of(play, "ada") == "idle"
        await play.play("on")
