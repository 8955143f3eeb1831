"""kill -9 at every crash point of the store: what was acknowledged is there afterwards, exactly once."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.core.data.event import ToolStarted
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.store.db.database import open_database
from teamwright.store.db.schema import STEPS
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.state import StateStore

WRITE = """
import sys, anyio
from pathlib import Path
from teamwright.core.crashpoint import arm
from teamwright.core.data.event import ToolStarted
from teamwright.store.files.transcripts import Transcript

async def main():
    path, name, passes = sys.argv[1:]
    transcript = Transcript.create(Path(path))
    arm(name, int(passes))
    for n in range(6):
        transcript.append(ToolStarted(f"c{n}"), n)
        print(f"c{n}", flush=True)
        if n % 2:
            await transcript.sync()

anyio.run(main)
"""

POST = """
import sys, anyio
from pathlib import Path
from teamwright.core.crashpoint import arm
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text, Usage
from teamwright.store.tables.state import StateStore

async def main():
    path, name, passes = sys.argv[1:]
    state = await StateStore.open(Path(path))
    await state.register_session("s", "/", 1)
    await state.register_agent("s", "s", None, "main", "main", 0)
    arm(name, int(passes))
    for n in range(4):
        row = await state.open_call("s", "s", "m", 100)
        print("call", flush=True)
        state.settle_soon(row, Usage(output=1), 0.5, 1, "ok")
        await state.post(Letter(f"l{n}", "s", PERSON, Prompt((Text("x"),))))
        print(f"l{n}", flush=True)
        if n:
            await state.delivered([f"l{n - 1}"])
            print(f"-l{n - 1}", flush=True)

anyio.run(main)
"""

CHANGES = ["call", "l0", "call", "l1", "-l0", "call", "l2", "-l1", "call", "l3", "-l2"]


def run_until_killed(code: str, path: Path, point: str, passes: int) -> list[str]:
    """What the process had acknowledged when it died."""
    command = [sys.executable, "-c", code, str(path), point, str(passes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, f"{point} was not passed {passes} times"
    return done.stdout.split()


@pytest.mark.spec("A2", "O2")
@pytest.mark.parametrize(
    ("point", "passes"),
    [(point, n) for point in ("transcript.append", "transcript.half") for n in (1, 2, 6)]
    + [("transcript.sync", n) for n in (1, 3)],
)
def test_a_killed_writer_loses_no_line_that_was_acknowledged(tmp_path: Path, point: str, passes: int) -> None:
    path = tmp_path / "t.jsonl"
    said = run_until_killed(WRITE, path, point, passes)
    transcript, events, torn = Transcript.open(path)
    assert [e.call_id for e in events if isinstance(e, ToolStarted)] == said
    assert (torn > 0) == (point == "transcript.half")
    assert transcript.append(ToolStarted(CallId("next")), 9) == len(said) + 1
    transcript.close()
    again, events, torn = Transcript.open(path)
    again.close()
    assert (len(events), torn) == (len(said) + 1, 0)


@pytest.mark.anyio
@pytest.mark.spec("X2", "Q5", "O5")
@pytest.mark.parametrize(
    ("point", "passes"), [(p, n) for p in ("state.commit", "state.committed") for n in (1, 2, 5, 7)]
)
async def test_a_killed_sender_loses_no_letter_and_none_is_there_twice(tmp_path: Path, point: str, passes: int) -> None:
    path = tmp_path / "state.db"
    said = run_until_killed(POST, path, point, passes)
    done = CHANGES[: len(said) + (point == "state.committed")]
    assert said == CHANGES[: len(said)]

    state = await StateStore.open(path)
    assert state.notes == []
    sent = [word for word in done if word.startswith("l")]
    assert [x.id for x in await state.waiting(AgentId("s"))] == [id for id in sent if f"-{id}" not in done]
    # A settlement is written with the next write, so only the last one can be missing: its estimate counts.
    calls = done.count("call")
    lost = int(done[-1:] == ["call"])
    assert await state.settle_orphans(SessionId("s"), lambda _model, usage: usage.input / 100) == lost
    assert await state.spent(SessionId("s")) == (Usage(100 * lost, calls - lost), 0.5 * (calls - lost) + lost, False)
    await state.close()


UPGRADE = """
import sys, anyio
from pathlib import Path
from teamwright.core.crashpoint import arm
from teamwright.store.db.database import open_database
from teamwright.store.db.schema import STEPS

arm(sys.argv[2], int(sys.argv[3]))
anyio.run(open_database, Path(sys.argv[1]), (*STEPS, ("CREATE TABLE extra (n INTEGER PRIMARY KEY)",)))
"""


@pytest.mark.anyio
async def test_an_upgrade_that_is_killed_is_done_again_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await StateStore.open(path)
    await state.register_session(SessionId("s"), "/", 1)
    await state.close()
    run_until_killed(UPGRADE, path, "state.upgrade", 1)
    database = await open_database(path, (*STEPS, ("CREATE TABLE extra (n INTEGER PRIMARY KEY)",)))
    assert await database.read(lambda db: db.execute("SELECT id FROM sessions").fetchall()) == [("s",)]
    await database.close()
    copy = sqlite3.connect(tmp_path / f"state.db.before-v{len(STEPS) + 1}")
    assert copy.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    assert copy.execute("SELECT id FROM sessions").fetchall() == [("s",)]
    copy.close()
