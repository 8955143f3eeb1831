"""The task list in the store: numbers, both sides of a dependency, claims between processes, replays, errors."""

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from store_kit import Chosen
from teamwright.core.data.tasks import MOST_TASKS, NOBODY, Actor, Change, Done, Draft, Owner, Refusal, Task, TaskId
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.task_changes import FREE, KEPT
from teamwright.store.tables.tasks import TaskTable

pytestmark = pytest.mark.anyio

LEAD, ADA, BOB = Actor(AgentId("L"), "lead", lead=True), Actor(AgentId("A"), "ada"), Actor(AgentId("B"), "bob")
SESSION = SessionId("11111111-1111-4111-8111-111111111111")
RACER = Path(__file__).with_name("task_racer.py")


class House:
    """A store, a list, and a clock that is set by hand."""

    state: StateStore
    table: TaskTable

    def __init__(self, path: Path) -> None:
        self.path, self.now = path, 1_000_000

    def furnish(self, state: StateStore) -> "House":
        self.state, self.table = state, TaskTable(state.database)
        return self

    async def make(self, subject: str = "x", by: Actor = LEAD, call: str | None = None, **more: Any) -> Any:
        return await self.table.create("crew", Draft(subject, **more), by, call and CallId(call))

    async def change(self, id: int, by: Actor = LEAD, call: str | None = None, **more: Any) -> Any:
        return await self.table.update("crew", TaskId(id), Change(**more), by, call and CallId(call))

    async def task(self, id: int) -> Task:
        found = await self.table.get("crew", TaskId(id))
        assert found is not None
        return found

    async def edges(self) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
        return {task.id: (task.blocked_by, task.blocks) for task in (await self.table.list("crew")).tasks}

    def damage(self, sql: str) -> None:
        db = sqlite3.connect(self.path)
        with db:
            db.execute(sql)
        db.close()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path / "state.db")
    if Chosen.engine:
        from engine_kit import open_replicated  # it needs the engine's client

        async with open_replicated(tmp_path) as host:
            yield house.furnish(StateStore(host.database))
        return
    state = await StateStore.open(house.path, lambda: house.now)
    yield house.furnish(state)
    await state.close()


# --- numbers and records


@pytest.mark.spec("K1")
@pytest.mark.one_machine
async def test_a_task_keeps_what_it_was_made_of(house: House) -> None:
    done = await house.make("wash", description="all", active_form="Washing", metadata={"room": ["a", 1]})
    task = await house.task(1)
    assert done.task == task and (task.subject, task.description, task.active_form) == ("wash", "all", "Washing")
    assert task.metadata == {"room": ["a", 1]} and task.status == "pending" and task.owner is None
    house.now += 5
    await house.change(1, subject="dry", metadata={"room": None, "hot": True})
    changed = await house.task(1)
    assert (changed.subject, changed.description, changed.metadata) == ("dry", "all", {"hot": True})
    assert changed.updated == task.updated + 5 and changed.created == task.created
    house.now = 0  # the clock was set back
    await house.change(1, subject="iron")
    assert (await house.task(1)).updated == changed.updated + 1


@pytest.mark.spec("K1", "K2")
async def test_a_number_is_never_used_again(house: House) -> None:
    assert [(await house.make(str(n))).id for n in range(3)] == [1, 2, 3]
    await house.change(3, status="deleted")
    await house.change(1, status="deleted")
    assert (await house.make("next")).id == 4
    other = await house.table.create("other", Draft("x"), LEAD)
    assert isinstance(other, Done) and other.id == 1  # each list counts by itself
    assert [task.id for task in (await house.table.list("crew")).tasks] == [2, 4]


@pytest.mark.spec("K1")
async def test_a_number_that_was_reserved_and_not_used_is_left_out(house: House) -> None:
    first, second = await house.table.reserve("crew"), await house.table.reserve("crew")
    made = await house.table.create("crew", Draft("x"), LEAD, id=second)
    assert isinstance(made, Done) and made.id == 2 and first == 1 and (await house.make()).id == 3


# --- what waits for what


@pytest.mark.spec("K4")
async def test_a_dependency_is_on_both_sides_and_completing_frees(house: House) -> None:
    await house.make("1")
    await house.make("2", blocked_by=(1,))
    await house.make("3", blocked_by=(1, 2))
    await house.make("4")
    await house.change(4, add_blocks=(3,))
    assert await house.edges() == {1: ((), (2, 3)), 2: ((1,), (3,)), 3: ((1, 2, 4), ()), 4: ((), (3,))}
    done = await house.change(1, status="completed")
    assert [task.id for task in done.freed] == [2] and done.touched == (1, 2, 3) and done.claimable
    assert await house.edges() == {1: ((), (2, 3)), 2: ((), (3,)), 3: ((2, 4), ()), 4: ((), (3,))}
    back = await house.change(1, status="pending")
    assert back.freed == () and await house.edges() == {
        1: ((), (2, 3)),
        2: ((1,), (3,)),
        3: ((1, 2, 4), ()),
        4: ((), (3,)),
    }
    assert (await house.table.claim("crew", TaskId(2), ADA)).code == "blocked"
    gone = await house.change(1, status="deleted")
    assert [task.id for task in gone.freed] == [2] and gone.task is None
    assert await house.edges() == {2: ((), (3,)), 3: ((2, 4), ()), 4: ((), (3,))}


@pytest.mark.spec("K4")
async def test_a_circle_is_refused_and_changes_nothing(house: House) -> None:
    await house.make("1")
    await house.make("2", blocked_by=(1,))
    await house.make("3", blocked_by=(2,))
    before = (await house.table.list("crew")).tasks
    refusal = await house.change(1, add_blocked_by=(3,), subject="other")
    assert (
        isinstance(refusal, Refusal) and refusal.code == "cycle" and "#3 before #1 before #2 before #3" in refusal.words
    )
    assert (await house.change(2, add_blocks=(2,))).code == "cycle"
    assert (await house.make("4", blocks=(1,), blocked_by=(3,))).code == "cycle"
    assert (await house.make("4", blocks=(77,))).code == "task_not_found"
    assert (await house.change(1, add_blocks=(3, 78))).code == "task_not_found"
    assert (await house.table.list("crew")).tasks == before and (await house.make("4")).id == 4
    await house.change(1, status="completed")  # a completed one could be set back, so it still counts
    assert (await house.change(1, add_blocked_by=(3,))).code == "cycle"


@pytest.mark.spec("K4", "K3")
async def test_a_claim_that_adds_what_it_waits_for_is_blocked(house: House) -> None:
    await house.make("1")
    await house.make("2")
    owner = Owner("ada", ADA.agent)
    assert (await house.change(2, ADA, owner=owner, add_blocked_by=(1,))).code == "blocked"
    assert (await house.task(2)).blocked_by == ()
    await house.change(1, status="completed")
    assert (await house.change(2, ADA, owner=owner, add_blocked_by=(1,))).claimed


# --- owners


@pytest.mark.spec("K3", "K6")
async def test_a_claim_an_owner_and_a_former_owner(house: House) -> None:
    await house.make()
    claim = await house.table.claim("crew", TaskId(1), ADA)
    assert isinstance(claim, Done) and claim.claimed and (await house.task(1)).epoch == 1
    assert (await house.table.claim("crew", TaskId(1), BOB)).code == "already_claimed"
    (freed,) = await house.table.release_all("crew", ADA.agent)
    task = await house.task(1)
    assert freed.claimable and (task.status, task.owner, task.agent, task.epoch) == ("pending", None, None, 2)
    late = await house.change(1, ADA, status="completed")
    assert late.code == "already_claimed" and "not yours any more" in late.words
    await house.table.claim("crew", TaskId(1), BOB)
    late = await house.change(1, ADA, status="completed")
    assert late.code == "already_claimed" and "late result" in late.words and (await house.task(1)).owner == "bob"
    assert (await house.change(1, BOB, status="completed")).completed
    assert await house.table.release_all("crew", BOB.agent) == []  # what is completed stays
    assert (await house.table.claim("crew", TaskId(1), ADA)).code == "already_resolved"
    assert (await house.table.claim("crew", TaskId(9), ADA)).code == "task_not_found"
    assert (await house.table.claim("nowhere", TaskId(1), ADA)).code == "task_not_found"


@pytest.mark.spec("K6")
async def test_another_process_with_the_same_id_fences_off_the_first(house: House) -> None:
    """Another process took over the agent, freed the task and claimed it again: the first one's result is late."""
    await house.make()
    await house.table.claim("crew", TaskId(1), ADA)
    other = TaskTable(house.state.database)
    await other.release_all("crew", ADA.agent)
    await other.claim("crew", TaskId(1), ADA)
    assert (await house.change(1, ADA, status="completed")).code == "already_claimed"
    assert isinstance(await other.update("crew", TaskId(1), Change(status="completed"), ADA), Done)


@pytest.mark.spec("K6", "T6")
async def test_a_claim_outlives_its_process(house: House) -> None:
    await house.make()
    await house.table.claim("crew", TaskId(1), ADA)
    after_crash = TaskTable(house.state.database)
    done = await after_crash.update("crew", TaskId(1), Change(status="completed"), ADA)
    assert isinstance(done, Done) and done.completed


@pytest.mark.spec("K5", "K10")
async def test_the_first_free_task_is_claimed(house: House) -> None:
    for n in range(1, 6):
        await house.make(str(n))
    await house.change(1, add_blocked_by=(5,))
    await house.change(2, owner=Owner("bob", BOB.agent))
    await house.change(3, status="completed")
    assert await house.table.has_claimable("crew", [ADA])
    assert [done.id for _ in range(2) if (done := await house.table.claim_first("crew", ADA))] == [4, 5]
    assert await house.table.claim_first("crew", ADA) is None and not await house.table.has_claimable("crew", [ADA])
    await house.change(5, ADA, status="completed")
    done = await house.table.claim_first("crew", ADA)
    assert done and done.task and (done.id, done.task.owner, done.task.status) == (1, "ada", "in_progress")
    assert await house.table.claim_first("nowhere", ADA) is None


# --- processes


def race(path: Path, how: str, names: str, most: int = 0, crash: tuple[str, ...] = ()) -> list[list[str]]:
    """What each process printed; they start together."""
    argv = [sys.executable, str(RACER), str(path), how]
    pipe = subprocess.PIPE
    runs = [
        subprocess.Popen([*argv, name, str(most), *crash], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for name in names
    ]
    for run in runs:
        assert run.stdout and run.stdout.readline() == "ready\n"
    for run in runs:
        assert run.stdin
        run.stdin.write("\n")
        run.stdin.flush()
    out = [run.communicate(timeout=60) for run in runs]
    assert crash or not any(error for _, error in out), out
    return [said.split() for said, _ in out]


@pytest.mark.spec("K3")
@pytest.mark.one_machine
async def test_processes_that_claim_the_same_tasks_get_each_once(house: House) -> None:
    for n in range(60):
        await house.make(str(n))
    said = race(house.path, "each", "abcd", 60)
    won = [[int(word) for word in words if word.isdigit()] for words in said]
    assert sorted(n for words in won for n in words) == list(range(1, 61))
    assert {word for words in said for word in words if not word.isdigit()} <= {"already_claimed"}
    owners = {task.id: task.owner for task in (await house.table.list("crew")).tasks}
    assert owners == {n: name for name, words in zip("abcd", won, strict=True) for n in words}


@pytest.mark.spec("K3", "K5")
@pytest.mark.one_machine
async def test_processes_that_take_the_first_free_task_do_each_once(house: House) -> None:
    for n in range(60):
        await house.make(str(n))
    said = race(house.path, "first", "abcd")
    taken = Counter(int(word) for words in said for word in words)
    assert taken == Counter({sign * n: 1 for n in range(1, 61) for sign in (1, -1)})
    assert {task.status for task in (await house.table.list("crew")).tasks} == {"completed"}


@pytest.mark.spec("K3", "K6", "T6")
@pytest.mark.parametrize("point", ["state.commit", "state.committed"])
@pytest.mark.one_machine
async def test_a_claimer_that_is_killed_owns_what_it_had_and_nothing_else(house: House, point: str) -> None:
    for n in range(4):
        await house.make(str(n))
    (said,) = race(house.path, "first", "a", 0, (point, "3"))
    left = {task.id: (task.status, task.owner) for task in (await house.table.list("crew")).tasks}
    assert said == ["1", "-1"] and left[1] == ("completed", "a") and left[3] == ("pending", None)
    assert left[2] == (("in_progress", "a") if point == "state.committed" else ("pending", None))


# --- the same call again


@pytest.mark.spec("K2", "X2")
async def test_a_call_that_is_repeated_is_done_once(house: House) -> None:
    first = await house.make("x", call="c1")
    again = await house.make("x", call="c1")
    assert (first.id, again.id, again.repeated, again.task) == (1, 1, True, first.task)
    assert (await house.make("x", call="c2")).id == 2 and (await house.make("x", ADA, call="c1")).id == 3
    assert "#1" in (await house.table.applied(LEAD.agent, CallId("c1")) or "")
    assert await house.table.applied(LEAD.agent, CallId("c9")) is None
    await house.change(1, ADA, call="u1", owner=Owner("ada", ADA.agent))
    await house.change(1, LEAD, owner=NOBODY)
    again = await house.change(1, ADA, call="u1", owner=Owner("ada", ADA.agent))
    assert again.repeated and (await house.task(1)).owner is None
    refused = await house.change(99, ADA, call="u2", subject="y")
    assert refused.code == "task_not_found" and await house.table.applied(ADA.agent, CallId("u2")) is None


# --- lists


@pytest.mark.spec("K9")
async def test_a_team_takes_over_the_tasks_of_its_session(house: House) -> None:
    await house.state.register_session(SESSION, "/", 1)
    for n in range(1, 4):
        await house.table.create(SESSION, Draft(str(n), blocked_by=(TaskId(n - 1),) if n > 1 else ()), LEAD)
    await house.table.update(SESSION, TaskId(3), Change(status="deleted"), LEAD)
    await house.table.begin("crew", SESSION)
    before = (await house.table.list(SESSION)).tasks
    assert await house.table.adopt(SESSION, "crew")
    assert (await house.table.list("crew")).tasks == before and (await house.table.list(SESSION)).tasks == ()
    assert (await house.make("next")).id == 4
    own = await house.table.create(SESSION, Draft("later"), LEAD)
    assert isinstance(own, Done) and own.id == 4  # the session's numbers continue, too
    assert not await house.table.adopt(SESSION, "crew")  # it has tasks: they stay apart
    assert await house.table.lists(SESSION) == ["crew", SESSION]
    assert await house.table.adopt("unknown", "second") and (await house.table.list("second")).tasks == ()
    await house.state.delete_session(SESSION)
    assert await house.table.lists() == ["crew", "second"]  # a session's list goes with it, a team's does not


async def test_a_list_that_is_dropped_is_gone_with_all_that_hung_on_it(house: House) -> None:
    await house.make("1", call="c1")
    await house.make("2", blocked_by=(1,))
    assert await house.table.drop("crew") and not await house.table.drop("crew")
    counts = await house.state.database.read(
        lambda db: [
            db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("tasks", "task_edges", "task_calls")
        ]
    )
    assert counts == [0, 0, 0] and (await house.make("new")).id == 1


# --- faults and limits


@pytest.mark.spec("K7")
@pytest.mark.parametrize("fault", ["status = 'lost'", "metadata = '[1]'", "former = '{'", "subject = x'ff'"])
@pytest.mark.one_machine
async def test_a_record_that_cannot_be_read_is_reported_and_passed_over(house: House, fault: str) -> None:
    await house.make("one")
    await house.make("two")
    house.damage(f"UPDATE tasks SET {fault} WHERE id = 1")
    listing = await house.table.list("crew")
    assert [task.id for task in listing.tasks] == [2] and len(listing.problems) == 1 and "#1" in listing.problems[0]
    assert await house.table.get("crew", TaskId(1)) is None
    assert (await house.change(1, subject="y")).code == "task_not_found"
    done = await house.table.claim_first("crew", ADA)
    assert done and done.id == 2


@pytest.mark.one_machine
async def test_a_list_has_room_for_so_many_and_metadata_for_so_much(house: House) -> None:
    await house.make("1")
    house.damage(f"UPDATE task_lists SET count = {MOST_TASKS}")
    refusal = await house.make("2")
    assert refusal.code == "list_full" and "10000" in refusal.words
    assert (await house.change(1, metadata={"a": "x" * 9000})).task
    refusal = await house.change(1, metadata={"b": "x" * 9000}, subject="y")
    assert refusal.code == "too_large" and (await house.task(1)).subject == "1"


@pytest.mark.parametrize(("sql", "index"), [(FREE, "tasks_free"), (KEPT, "tasks_kept")])
async def test_a_claim_in_a_long_list_looks_at_few_rows(house: House, sql: str, index: str) -> None:
    """By the query plan, not by a clock."""

    def plan(db: sqlite3.Connection) -> str:
        found = db.execute(f"EXPLAIN QUERY PLAN {sql}", {"n": 1, "name": "ada", "me": '"A"'})
        return " ".join(str(row[3]) for row in found)

    words = await house.state.database.read(plan)
    assert index in words and "SCAN" not in words and "TEMP B-TREE" not in words
