"""`teamwright tasks`, and what a kill in the middle of a call leaves of a task."""

import json
import uuid
from typing import Any

import anyio
import pytest

from program import Program, tool
from store_kit import Sql
from teamwright.core.data.tasks import Actor, Draft
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable

SESSION = "11111111-1111-4111-8111-111111111111"
CREATES = [tool("TaskCreate", subject=f"job {n}", description="d") for n in (1, 2, 3)]


def rows(program: Program, *args: str) -> list[dict[str, Any]]:
    ran = program.run("tasks", *args, "--json")
    assert ran.rc == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.spec("K1", "K9")
def test_the_list_of_a_session_for_people_and_programs(program: Program) -> None:
    script = [[*CREATES, tool("TaskUpdate", taskId="2", owner="main", addBlocks=["3"])], "end"]
    assert program.prompt(script, "--session-id", SESSION).rc == 0
    found = rows(program)
    assert found == rows(program, "--session", SESSION) and [task["id"] for task in found] == ["1", "2", "3"]
    files = {path.name: json.loads(path.read_text()) for path in (program.state / "tasks" / SESSION).iterdir()}
    assert files == {f"{task['id']}.json": task for task in found}
    shown = program.run("tasks").out.splitlines()
    assert shown[0].split() == ["ID", "STATUS", "OWNER", "WAITS", "FOR", "SUBJECT"]
    assert shown[3].split() == ["#3", "pending", "#2", "job", "3"] and "in_progress  main" in shown[2]
    assert program.run("sessions", "delete", SESSION).rc == 0
    assert not (program.state / "tasks" / SESSION).exists()


@pytest.mark.spec("K9")
def test_the_list_of_a_team_that_took_it_over(program: Program) -> None:
    assert program.prompt([CREATES, "end"], "--session-id", SESSION).rc == 0

    async def adopt() -> None:
        state = await StateStore.open(program.state / "state.db")
        table = TaskTable(state.database)
        await table.adopt(SessionId(SESSION), "crew")
        await table.create("crew", Draft("a\x1b[2Jb"), Actor(AgentId("x"), "x"))
        await state.close()

    anyio.run(adopt)
    assert rows(program) == rows(program, "--team", "crew") and len(rows(program)) == 4
    assert "a\\x1b[2Jb" in program.run("tasks").out


def test_what_there_is_not(program: Program) -> None:
    ran = program.run("tasks")
    assert (ran.rc, ran.err) == (0, "") and ran.out.startswith("no tasks in") and rows(program) == []
    assert program.prompt(["end"]).rc == 0
    assert program.run("tasks").out.startswith("no tasks in") and rows(program) == []
    ran = program.run("tasks", "--team", "nobody")
    assert ran.rc == 2 and "nobody" in ran.err
    ran = program.run("tasks", "--session", str(uuid.uuid4()))
    assert ran.rc == 1 and "there is no session" in ran.err
    assert program.run("tasks", "--team", "a", "--session", "b").rc == 2


@pytest.mark.spec("K7")
def test_a_record_that_cannot_be_read_is_reported_and_the_rest_is_shown(program: Program) -> None:
    assert program.prompt([CREATES, "end"]).rc == 0

    async def damage() -> None:
        state = await StateStore.open(program.state / "state.db")
        await state.database.write(Sql("UPDATE tasks SET metadata = '?' WHERE id = 2"))
        await state.close()

    anyio.run(damage)
    ran = program.run("tasks", "--json")
    assert ran.rc == 0 and [task["id"] for task in json.loads(ran.out)] == ["1", "3"] and "#2" in ran.err


@pytest.mark.spec("K2", "X2", "T6")
@pytest.mark.parametrize("point", ["state.commit", "state.committed"])
@pytest.mark.parametrize("passes", [5, 6, 7])  # the commits of the three calls
def test_a_kill_at_any_commit_neither_loses_nor_doubles_a_task(program: Program, point: str, passes: int) -> None:
    """What the model is told after the resume is what the store holds."""
    script = {"main": [CREATES, "end"], "after": [[tool("TaskList")], "end"]}
    args = ("--session-id", SESSION)
    killed = program.prompt(script, *args, text="SCRIPT:main", env={"TEAMWRIGHT_CRASHPOINT": f"{point}:{passes}"})
    assert killed.rc == -9
    again = program.prompt(script, "--resume", SESSION, text="SCRIPT:after")
    assert again.rc == 0, again.err
    subjects = [task["subject"] for task in rows(program)]
    assert len(set(subjects)) == len(subjects)
    lines = program.transcript().read_text().splitlines()
    ended = [json.loads(line)["event"] for line in lines if '"tool_ended"' in line]
    texts = [event["content"][0]["text"] for event in ended if event["content"]]
    made = sum("created" in text for text in texts)
    assert made == len(subjects) and not any("outcome is unknown" in text for text in texts)
