"""Mail and rosters under kill -9: many writers into one inbox, none lost, none doubled, none half stored."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.core.data.letter import Said
from teamwright.core.data.team import LEAD_NAME, Member, Team
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

pytestmark = pytest.mark.anyio
S = SessionId("00000000-0000-4000-8000-000000000001")
LEAD, ADA = AgentId(S), AgentId("ada1")

WRITE = """
import sys, anyio
from pathlib import Path
from teamwright.core.crashpoint import arm
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.team import Mail
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import Stored
from teamwright.store.tables.state import StateStore

async def main():
    root, name, many, point, passes = sys.argv[1:]
    state = await StateStore.open(Path(root) / "state.db")
    mail = MailTable(state.database)
    if point:
        arm(point, int(passes))
    for n in range(int(many)):
        letter = Letter(f"{name}.{n}", "ada1", Sender("agent", name), Said(f"{name} {n}"))
        found = await mail.post_mail(Mail(letter, "crew", name, "ada", f"{name} {n}"))
        assert isinstance(found, Stored), found
        print(letter.id, flush=True)

anyio.run(main)
"""

READ = """
import sys, anyio
from pathlib import Path
from teamwright.store.tables.state import StateStore

async def main():
    root = Path(sys.argv[1])
    state = await StateStore.open(root / "state.db")
    while True:
        for letter in (await state.waiting("ada1"))[:5]:
            print(letter.id, flush=True)  # its transcript
            await state.delivered([letter.id])
        await anyio.sleep(0)

anyio.run(main)
"""

MOVE = """
import sys, anyio
from pathlib import Path
from teamwright.core.crashpoint import arm
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

async def main():
    root, _, _, point, passes = sys.argv[1:]
    state = await StateStore.open(Path(root) / "state.db")
    teams = TeamTable(state.database)
    arm(point, int(passes))
    for new in ("running", "idle", "running", "shutdown"):
        await teams.set_state("crew", "ada1", new)
        print(new, flush=True)

anyio.run(main)
"""


async def build(root: Path) -> None:
    state = await StateStore.open(root / "state.db")
    await state.register_session(S, "/", 1)
    await state.register_agent(LEAD, S, None, "main", "main", 0)
    await state.register_agent(ADA, S, LEAD, "x", "ada", 1)
    processes = ProcessTable(state.database, root / "run")
    me = await processes.register(S)
    teams = TeamTable(state.database)
    assert isinstance(await teams.create_team("crew", "", Member(LEAD, LEAD_NAME, "", "lead"), me.id), Team)
    assert isinstance(await teams.add_member(Member(ADA, "ada", "crew", "x")), Member)
    await processes.leave(me.id)
    await state.close()


def run(code: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=60)
    return out.split()


def check_whole(root: Path) -> list[str]:
    """Ids in the log; every message has its letter and every letter its message."""
    db = sqlite3.connect(root / "state.db")
    try:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        letters = [id for (id,) in db.execute("SELECT id FROM letters ORDER BY n")]
        mail = [id for (id,) in db.execute("SELECT id FROM mail ORDER BY n")]
    finally:
        db.close()
    assert letters == mail and len(set(mail)) == len(mail)
    return mail


@pytest.mark.spec("X2", "X3")
async def test_many_writers_some_of_them_killed_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    await build(tmp_path)
    reader = run(READ, str(tmp_path))
    writers = [run(WRITE, str(tmp_path), f"w{n}", "40", "mail.post" if n % 2 else "", str(5 * n)) for n in range(6)]
    acknowledged = [said(writer) for writer in writers]
    assert [w.returncode for w in writers] == [-signal.SIGKILL if n % 2 else 0 for n in range(6)]
    # Again under the same ids, as a resumed sender does: what is there is not stored again.
    again = [said(run(WRITE, str(tmp_path), f"w{n}", str(5 * n + 3), "", "0")) for n in (1, 3, 5)]
    reader.kill()
    seen = said(reader)
    log = check_whole(tmp_path)
    assert {id for ids in (*acknowledged, *again) for id in ids} == set(log)
    assert len(log) == 3 * 40 + sum(5 * n + 3 for n in (1, 3, 5))
    for n in range(6):
        mine = [id for id in log if id.startswith(f"w{n}.")]
        assert mine == [f"w{n}.{k}" for k in range(len(mine))]  # each sender's order is kept
    state = await StateStore.open(tmp_path / "state.db")
    left = await state.waiting(ADA)
    assert all(isinstance(x.body, Said) for x in left)
    # A kill between the transcript's line and the store's mark leaves one letter in both: the transcript decides.
    assert len(set(seen)) == len(seen) and len({x.id for x in left} & set(seen)) <= 1
    assert {x.id for x in left} | set(seen) == set(log)
    states = {e.id: e.state for e in await MailTable(state.database).audit("crew")}
    assert all(states[x.id] == "stored" for x in left) and set(states.values()) <= {"stored", "delivered"}
    await state.close()


@pytest.mark.spec("X2")
@pytest.mark.parametrize(
    ("point", "passes", "stored"),
    [("mail.post", 1, 0), ("mail.post", 3, 2), ("state.commit", 2, 1), ("state.committed", 2, 2)],
)
async def test_a_send_is_whole_or_not_there(tmp_path: Path, point: str, passes: int, stored: int) -> None:
    await build(tmp_path)
    writer = run(WRITE, str(tmp_path), "w", "5", point, str(passes))
    acknowledged = said(writer)
    assert writer.returncode == -signal.SIGKILL
    log = check_whole(tmp_path)
    assert log == [f"w.{n}" for n in range(stored)] and log[: len(acknowledged)] == acknowledged


@pytest.mark.spec("T5", "T6")
@pytest.mark.parametrize(("point", "passes"), [("team.state", 1), ("team.state", 3), ("state.committed", 2)])
async def test_a_state_is_the_old_or_the_new_one(tmp_path: Path, point: str, passes: int) -> None:
    await build(tmp_path)
    mover = run(MOVE, str(tmp_path), "", "", point, str(passes))
    acknowledged = said(mover)
    assert mover.returncode == -signal.SIGKILL
    states = ["created", "running", "idle", "running", "shutdown"]
    expected = states[len(acknowledged) + (point == "state.committed")]
    state = await StateStore.open(tmp_path / "state.db")
    teams = TeamTable(state.database)
    found = await teams.member(ADA)
    assert found is not None and found.state == expected
    await state.close()
