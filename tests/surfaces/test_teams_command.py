"""`teamwright teams` and `teamwright inbox`: what a person and a program see of teams."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from program import Program
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.team import LEAD_NAME, Mail, Member
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

S = SessionId("00000000-0000-4000-8000-000000000001")


async def fill(root: Path) -> None:
    """A team with a lead, ada and bob; bob has shut down. Three messages: read, unread, refused."""
    state = await StateStore.open(root / "state.db")
    await state.register_session(S, "/", 1)
    processes = ProcessTable(state.database, root / "run")
    me = await processes.register(S)
    teams, mail = TeamTable(state.database), MailTable(state.database)
    ids = [AgentId(S), AgentId("a1"), AgentId("b1")]
    for id in ids:
        await state.register_agent(id, S, None, "x", "x", 0)
    await teams.create_team("crew", "words \x1b[31mred", Member(ids[0], LEAD_NAME, "", "team-lead"), me.id)
    await teams.add_member(Member(ids[1], "ada", "crew", "reviewer", "haiku", "look"))
    await teams.add_member(Member(ids[2], "bob", "crew", "x"))
    await teams.set_state("crew", ids[2], "shutdown")
    for n, (to, name) in enumerate([(ids[1], "ada"), (ids[1], "ada"), (ids[2], "bob")]):
        letter = Letter(LetterId(f"l{n}"), to, Sender("agent", LEAD_NAME, ids[0]), Said(f"text {n}\x1b[2J"))
        await mail.post_mail(Mail(letter, "crew", LEAD_NAME, name, f"text {n}\x1b[2J", f"note {n}", "blue"))
    await state.delivered([LetterId("l0")])
    await processes.leave(me.id)
    await state.close()


def read(program: Program, *args: str) -> Any:
    ran = program.run(*args, "--json")
    assert ran.rc == 0, ran.err
    return json.loads(ran.out)


def test_before_there_is_any_team(program: Program) -> None:
    assert (read(program, "teams"), read(program, "inbox")) == ([], [])
    assert (program.run("teams").out, program.run("inbox").out) == ("no teams\n", "no messages\n")
    assert not (program.state / "state.db").exists()
    ran = program.run("inbox", "crew")
    assert ran.rc == 2 and "there is no team crew" in ran.err


@pytest.mark.anyio
async def test_a_name_that_is_not_utf8_is_no_fault_of_the_disk(program: Program) -> None:
    await fill(program.state)
    ran = program.run("inbox", "\udcff")
    assert ran.rc == 1 and "\\udcff is not UTF-8" in ran.err and "disk" not in ran.err


@pytest.mark.anyio
@pytest.mark.spec("T2", "T11", "O1")
async def test_teams_are_listed_with_their_members(program: Program) -> None:
    await fill(program.state)
    (team,) = read(program, "teams")
    assert (team["name"], team["leadAgentId"], team["sessionId"]) == ("crew", "team-lead@crew", S)
    assert (team["state"], team["unread"]) == ("lead gone", 1)
    assert [(m["name"], m["state"]) for m in team["members"]] == [
        (LEAD_NAME, "running"), ("ada", "created"), ("bob", "shutdown"),
    ]  # fmt: skip
    shown = program.run("teams").out
    assert "crew" in shown and "lead gone" in shown and "reviewer" in shown and S in shown
    assert [line.split()[2] for line in shown.splitlines() if line.startswith(f"  {LEAD_NAME}")] == ["gone"]
    assert "not running" in shown and not re.search(r"\d\dT\d\d", shown)  # a local time


@pytest.mark.anyio
@pytest.mark.spec("CL3")
async def test_a_team_without_a_lead_is_deleted_with_its_mail_and_tasks(program: Program) -> None:
    await fill(program.state)
    near = program.run("teams", "delete", "crwe")
    assert near.rc == 2 and "did you mean crew?" in near.err
    assert program.run("teams", "delete").rc == program.run("teams", "crew").rc == 2
    assert "deleted crew (2 teammates)" in program.run("teams", "delete", "Crew").out
    assert (read(program, "teams"), read(program, "inbox")) == ([], [])
    assert program.run("teams", "delete", "crew").rc == 2


@pytest.mark.anyio
@pytest.mark.spec("X8", "X9")
async def test_the_inbox_tells_what_became_of_each_message(program: Program) -> None:
    await fill(program.state)
    found = read(program, "inbox", "crew")
    assert [(m["from"], m["to"], m["state"], m["read"]) for m in found] == [
        (LEAD_NAME, "ada", "delivered", True), (LEAD_NAME, "ada", "stored", False),
        (LEAD_NAME, "bob", "refused", False),
    ]  # fmt: skip
    assert found[0]["delivered_at"] >= found[0]["sent_at"] > 10**12 and found[1]["delivered_at"] is None
    assert found[0]["text"] == "text 0\x1b[2J" and found[0]["summary"] == "note 0" and found[0]["color"] == "blue"
    assert found[0]["timestamp"].endswith("Z") and "shut down" in found[2]["reason"]
    assert read(program, "inbox") == found
    assert read(program, "inbox", "crew", "bob") == found[2:] == read(program, "inbox", "bob@crew")
    wrong = program.run("inbox", "eve@crew")
    assert wrong.rc == 2 and "nobody called eve has mail there; names: ada, bob, team-lead" in wrong.err
    shown = program.run("inbox").out
    assert "note 1" in shown and "refused" in shown and len(shown.splitlines()) == 4
    assert shown.splitlines()[2].split()[2:5] == ["unread", LEAD_NAME, "ada"]


@pytest.mark.anyio
@pytest.mark.spec("CL5")
async def test_records_are_words_and_long_messages_are_wrapped(program: Program) -> None:
    await fill(program.state)
    state = await StateStore.open(program.state / "state.db")
    notice = json.dumps({"type": "idle_notification", "from": "ada", "lastMessage": "x" * 300})
    for n, text in enumerate((notice, "many words " * 15, "far " * 60)):
        letter = Letter(LetterId(f"m{n}"), AgentId(S), Sender("agent", "ada", AgentId("a1")), Said(text))
        await MailTable(state.database).post_mail(Mail(letter, "crew", "ada", LEAD_NAME, text))
    await state.close()
    assert "is idle" in program.run("inbox").out and "idle_notification" not in program.run("inbox").out
    for command in ("inbox", "teams"):
        lines = program.run(command, env={"COLUMNS": "80"}).out.splitlines()
        assert lines and max(map(len, lines)) <= 80, command
    assert program.run("inbox", env={"COLUMNS": "80"}).out.count("many") == 15
    assert program.run("inbox").out.rstrip().endswith("far far…")
