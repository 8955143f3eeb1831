"""kill -9 while something is scheduled: what the agent is told afterwards matches what is stored."""

import json
import shutil
import signal
import sqlite3

import pytest

from program import Program, tool

pytestmark = pytest.mark.spec("Q1", "Q5")
SCRIPT = [tool("CronCreate", cron="0 0 1 1 *", prompt="new year"), "finished"]


def schedules(program: Program) -> list[str]:
    with sqlite3.connect(program.state / "state.db") as db:
        found = [id for (id,) in db.execute("SELECT id FROM schedules")]
    db.close()
    return found


def told(program: Program) -> str | None:
    """The call's result in the transcript."""
    lines = [json.loads(line) for line in program.transcript().read_text().splitlines()]
    results = [line["event"] for line in lines if line["event"]["type"] == "tool_ended"]
    return results[0]["content"][0]["text"] if results else None


@pytest.mark.parametrize(("point", "stores"), [("state.commit", False), ("state.committed", True)])
def test_the_result_of_a_lost_call_is_looked_up(program: Program, point: str, stores: bool) -> None:
    for passes in range(4, 12):  # the first ones are the prompt and the request
        ran = program.run("-p", "go", script=SCRIPT, env={"TEAMWRIGHT_CRASHPOINT": f"{point}:{passes}"})
        assert ran.rc == -signal.SIGKILL
        stored = schedules(program)
        if program.run("-p", "on", "--continue", script=["seen"]).rc == 0 and (words := told(program)):
            break
        shutil.rmtree(program.state)
    assert schedules(program) == stored and bool(stored) == stores
    assert (stored[0] if stores else "nothing is scheduled by it. Call it again") in words
