"""How `state.db` is opened and written: versions, damage, groups, other processes, a full disk."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from store_kit import Run, Sql
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, LetterId, new_session_id
from teamwright.store.db.database import open_database
from teamwright.store.db.schema import STEPS
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio
S = new_session_id()
A = AgentId(S)


def letter(id: str, text: str = "x") -> Letter:
    return Letter(LetterId(id), A, PERSON, Prompt((Text(text),)))


async def open_state(path: Path) -> StateStore:
    state = await StateStore.open(path)
    await state.register_session(S, "/", 1)
    await state.register_agent(A, S, None, "main", "main", 0)
    return state


def version(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return db.execute("PRAGMA user_version").fetchone()[0]
    finally:
        db.close()


@pytest.mark.spec("X2")
async def test_the_settings_that_durability_rests_on(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")
    names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
    found = await database.read(lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names])
    assert found == ["wal", 2, 1, 1]
    await database.close()


@pytest.mark.spec("O2")
async def test_the_file_and_its_side_files_are_private(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "home" / "state.db")
    await state.post(letter("l1"))
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "home").iterdir()}
    await state.close()
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600, "run": 0o700}
    assert not (tmp_path / "home" / "state.db-wal").exists()


# --- versions


async def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await (await open_state(path)).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    db.close()
    words = rf"has version {len(STEPS) + 1}; this version of teamwright knows {len(STEPS)}\. Update the program"
    with pytest.raises(StoreError, match=words):
        await StateStore.open(path)
    assert version(path) == len(STEPS) + 1


async def test_an_older_store_is_copied_and_then_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await open_state(path)
    await state.post(letter("l1"))
    await state.close()

    database = await open_database(path, (*STEPS, ("CREATE TABLE extra (n INTEGER PRIMARY KEY)",)))
    assert await database.read(lambda db: db.execute("SELECT count(*) FROM letters, extra").fetchone()) == (0,)
    assert await database.read(lambda db: db.execute("SELECT id FROM letters").fetchall()) == [("l1",)]
    await database.close()
    copy = tmp_path / f"state.db.before-v{len(STEPS) + 1}"
    assert (version(path), version(copy)) == (len(STEPS) + 1, len(STEPS))
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await (await open_state(path)).close()
    with pytest.raises(StoreError, match="cannot be used"):
        await open_database(path, (*STEPS, ("CREATE TABLE extra (n INTEGER PRIMARY KEY)", "CREATE NONSENSE")))
    assert version(path) == len(STEPS)
    database = await open_database(path)
    assert await database.read(
        lambda db: db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone()
    ) == (0,)
    await database.close()


# --- damage


def root_page(path: Path, table: str) -> int:
    db = sqlite3.connect(path)
    try:
        return db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    finally:
        db.close()


@pytest.mark.parametrize("damage", ["not a database", "cut short", "overwritten", "one table"])
async def test_a_damaged_store_is_set_aside_and_reported(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state.db"
    state = await open_state(path)
    for n in range(100):
        await state.post(letter(f"l{n}", "x" * 500))
    await state.close()
    whole = path.read_bytes()
    root = 1024 * (root_page(path, "letters") - 1)
    broken = {
        "not a database": b"hello" * 1000,
        "cut short": whole[:3000],
        "overwritten": whole[:1024] + b"\xff" * (len(whole) - 1024),
        "one table": whole[:root] + b"\xff" * 1024 + whole[root + 1024 :],
    }[damage]
    path.write_bytes(broken)

    state = await open_state(path)
    (aside,) = tmp_path.glob("state.db.corrupt-*")
    assert aside.read_bytes() == broken
    assert len(state.notes) == 1
    assert aside.name in state.notes[0]
    await state.post(letter("new"))
    assert [x.id for x in await state.waiting(A)] == ["new"]
    await state.close()


async def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    state = await open_state(tmp_path / "state.db")
    assert state.notes == []
    await state.close()


# --- groups


async def test_a_thousand_posts_at_once_need_few_commits(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "state.db")
    before = state.database.commits
    async with anyio.create_task_group() as group:
        for n in range(1000):
            group.start_soon(state.post, letter(f"l{n}"))
    assert state.database.commits - before <= 10
    assert [x.id for x in await state.waiting(A)] == [f"l{n}" for n in range(1000)]
    await state.close()


@pytest.mark.parametrize("many", [3, 100])
async def test_one_that_fails_in_a_group_fails_alone(tmp_path: Path, many: int) -> None:
    state = await open_state(tmp_path / "state.db")
    failed: list[str] = []

    async def post(n: int) -> None:
        to = AgentId("nobody") if n == 1 else A
        try:
            await state.post(Letter(LetterId(f"l{n}"), to, PERSON, Prompt((Text("x"),))))
        except StoreError as error:
            failed.append(str(error))

    before = state.database.commits
    async with anyio.create_task_group() as group:
        for n in range(many):
            group.start_soon(post, n)
    assert state.database.commits - before == 1
    assert len(failed) == 1
    assert [x.id for x in await state.waiting(A)] == [f"l{n}" for n in range(many) if n != 1]
    await state.close()


async def test_half_of_a_failing_change_is_undone(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")

    def half(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO models (name) VALUES ('half')")
        db.execute("INSERT INTO models (name) VALUES (NULL)")

    with pytest.raises(StoreError, match="NOT NULL"):
        await database.write(Run(half))
    assert await database.read(lambda db: db.execute("SELECT count(*) FROM models").fetchone()) == (0,)
    await database.close()


async def test_a_queued_change_that_fails_is_told(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")
    database.write_soon(Sql("INSERT INTO models (name) VALUES (NULL)"))
    await database.flush()
    assert len(database.notes) == 1
    await database.close()


async def test_what_is_queued_and_cannot_be_written_is_not_lost_in_silence(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")
    await database.read(lambda db: db.execute("PRAGMA max_page_count = 40").fetchone())
    database.write_soon(Sql("INSERT INTO models (name) VALUES (?)", ("x" * 100_000,)))
    for end in (database.flush, database.close):
        with pytest.raises(StoreError, match="The disk is full"):
            await end()
    with pytest.raises(StoreError, match="closed"):
        database.write_soon(Sql("SELECT 1"))


async def test_a_cancelled_wait_leaves_nothing_behind(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "state.db")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await state.post(letter("cancelled"))
    await state.post(letter("sent"))
    assert [x.id for x in await state.waiting(A)] == ["sent"]
    await state.close()


async def test_after_close_nothing_is_taken(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "state.db")
    await state.close()
    await state.close()
    with pytest.raises(StoreError, match="closed"):
        await state.post(letter("l"))


# --- other processes

POST = """
import sys, anyio
from pathlib import Path
from teamwright.core.ids import AgentId, LetterId
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.store.tables.state import StateStore

async def main():
    path, agent, name = sys.argv[1:]
    state = await StateStore.open(Path(path))
    sys.stdin.readline()
    for n in range(60):
        await state.post(Letter(LetterId(f"{name}{n}"), AgentId(agent), PERSON, Prompt((Text("x"),))))
    await state.close()

anyio.run(main)
"""


@pytest.mark.spec("X2")
async def test_two_processes_post_into_one_inbox_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await open_state(path)
    command = [sys.executable, "-c", POST, str(path), A]
    others = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in "pq"]
    for other in others:
        assert other.stdin is not None
        other.stdin.write(b"go\n")
        other.stdin.flush()
    for n in range(60):
        await state.post(letter(f"r{n}"))
    for other in others:
        other.communicate(timeout=30)
        assert other.returncode == 0
    ids = [x.id for x in await state.waiting(A)]
    for name in "pqr":
        assert [id for id in ids if id.startswith(name)] == [f"{name}{n}" for n in range(60)]
    assert len(ids) == 180
    await state.close()


async def test_processes_that_make_the_store_at_the_same_time(tmp_path: Path) -> None:
    code = "import anyio,sys;from pathlib import Path;from teamwright.store.tables.state import StateStore\n"
    code += "async def main():\n s=await StateStore.open(Path(sys.argv[1])); print(s.notes); await s.close()\n"
    code += "anyio.run(main)"
    command = [sys.executable, "-c", code, str(tmp_path / "state.db")]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [other.communicate(timeout=30)[0] for other in others] == ["[]\n"] * 4


async def test_a_store_that_another_process_has_locked_is_waited_for(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "state.db")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as group:
        group.start_soon(state.post, letter("l"))
        await anyio.wait_all_tasks_blocked()
        assert other.execute("SELECT count(*) FROM letters").fetchone() == (0,)
        other.execute("COMMIT")
    assert [x.id for x in await state.waiting(A)] == ["l"]
    other.close()
    await state.close()


FULL = """
import resource, sys, anyio
from pathlib import Path
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.store.tables.state import StateStore

async def main():
    state = await StateStore.open(Path(sys.argv[1]))
    s = SessionId("s"); a = AgentId("s")
    await state.register_session(s, "/", 1)
    await state.register_agent(a, s, None, "main", "main", 0)
    def letter(id, size=1): return Letter(LetterId(id), a, PERSON, Prompt((Text("x" * size),)))
    await state.post(letter("before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    state.delivered_soon([LetterId("before")])
    try:
        await state.post(letter("large", 200_000))
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await state.post(letter("after"))
    print([x.id for x in await state.waiting(a)], state.notes)
    await state.close()

anyio.run(main)
"""


async def test_a_full_disk_is_said_and_what_was_queued_is_kept_for_later(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "state.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    words, rest = done.stdout.splitlines()
    assert words.startswith("The disk is full or failing: cannot use ")
    assert rest == "['after'] []"


async def test_a_change_too_large_for_the_disk_undoes_its_group_and_the_next_one_works(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "state.db")
    await state.database.read(lambda db: db.execute("PRAGMA max_page_count = 40").fetchone())
    failed: list[str] = []

    async def post(id: str, size: int) -> None:
        try:
            await state.post(letter(id, "x" * size))
        except StoreError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as group:
        group.start_soon(post, "small", 10)
        group.start_soon(post, "large", 100_000)
    assert len(failed) == 2
    assert all(words.startswith("The disk is full: cannot write to ") for words in failed)
    await state.post(letter("next"))
    assert [x.id for x in await state.waiting(A)] == ["next"]
    await state.close()
