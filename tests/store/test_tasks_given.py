"""Tasks that are given back or kept for somebody: who gets which, also after a restart and in an older store."""

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from team_house import open_house

from teamwright.core.data.letter import Signal
from teamwright.core.data.tasks import NOBODY, Actor, Change, Done, Draft, Owner, Refusal, TaskId
from teamwright.core.data.team import LEAD_NAME
from teamwright.core.ids import AgentId
from teamwright.store.db.database import Database, open_database
from teamwright.store.db.schema import STEPS
from teamwright.store.tables.tasks import TaskTable

pytestmark = pytest.mark.anyio
LEAD, ADA, BOB = Actor(AgentId("L"), "team-lead", lead=True), Actor(AgentId("A"), "ada"), Actor(AgentId("B"), "bob")


class House:
    def __init__(self, database: Database) -> None:
        self.database, self.table = database, TaskTable(database)

    async def make(self, **owner: Any) -> int:
        done = await self.table.create("crew", Draft("x"), LEAD, **owner)
        assert isinstance(done, Done)
        return done.id

    async def change(self, id: int, by: Actor, **ask: Any) -> Done | Refusal:
        return await self.table.update("crew", TaskId(id), Change(**ask), by)

    async def handed(self, by: Actor) -> int | None:
        done = await self.table.claim_first("crew", by)
        return done.id if done else None


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    database = await open_database(tmp_path / "state.db")
    yield House(database)
    await database.close()


@pytest.mark.spec("K11")
@pytest.mark.parametrize("how", [{"status": "pending"}, {"owner": NOBODY}, {"owner": Owner("bob", BOB.agent)}])
async def test_what_was_given_back_or_on_is_handed_to_others_only(house: House, how: dict[str, Any]) -> None:
    await house.make()
    assert await house.handed(ADA) == 1
    await house.change(1, ADA, **how)
    if "owner" in how and how["owner"].agent:
        await house.change(1, BOB, status="pending")  # assigned and not begun: given back all the same
        assert await house.handed(BOB) is None
    else:
        assert await house.handed(ADA) is None and await house.handed(BOB) == 1
    assert not await house.table.has_claimable("crew", [ADA])


@pytest.mark.spec("K11")
async def test_it_is_handed_again_once_somebody_else_changes_it(house: House) -> None:
    await house.make()
    await house.handed(ADA)
    await house.change(1, ADA, status="pending", description="I could not do it")
    await house.change(1, ADA, metadata={"tried": True})
    assert await house.handed(ADA) is None  # her own change does not count
    done = await house.change(1, LEAD, description="now with the key")
    assert isinstance(done, Done) and done.claimable and await house.handed(ADA) == 1


@pytest.mark.spec("K11")
async def test_two_that_both_give_it_back_do_not_hand_it_to_each_other(house: House) -> None:
    await house.make()
    for who in (ADA, BOB):
        assert await house.handed(who) == 1
        await house.change(1, who, status="pending", description=f"not for {who.name}")
    assert await house.handed(ADA) is None and await house.handed(BOB) is None
    assert not await house.table.has_claimable("crew", [ADA, BOB])


@pytest.mark.spec("K11")
async def test_a_task_that_its_owner_lost_is_not_given_back(house: House) -> None:
    """The lead freed it, or its owner was gone: the owner may get it again."""
    await house.make()
    await house.handed(ADA)
    await house.table.release_all("crew", ADA.agent)
    assert await house.handed(ADA) == 1
    await house.change(1, LEAD, owner=NOBODY)
    assert await house.handed(ADA) == 1


@pytest.mark.spec("K11", "T6")
async def test_it_is_remembered_over_a_restart(tmp_path: Path) -> None:
    database = await open_database(tmp_path / "state.db")
    house = House(database)
    await house.make()
    await house.handed(ADA)
    await house.change(1, ADA, status="pending")
    await database.close()
    database = await open_database(tmp_path / "state.db")
    assert await House(database).handed(ADA) is None and await House(database).handed(BOB) == 1
    await database.close()


@pytest.mark.spec("K2")
async def test_a_task_is_kept_for_a_name_that_nobody_has_yet(house: House) -> None:
    await house.make(owner=Owner("Bob", None))
    await house.make()
    assert await house.handed(ADA) == 2 and await house.handed(ADA) is None
    for ask in ({"owner": Owner("ada", ADA.agent)}, {"status": "in_progress"}, {"status": "completed"}):
        refusal = await house.change(1, ADA, **ask)
        assert isinstance(refusal, Refusal) and "kept for Bob, who has not joined" in refusal.words
    assert not await house.table.has_claimable("crew", [ADA]) and await house.table.has_claimable("crew", [ADA, BOB])
    assert await house.handed(BOB) == 1
    task = await house.table.get("crew", TaskId(1))
    assert task and (task.owner, task.agent, task.status, task.assigner) == ("bob", "B", "in_progress", "team-lead")


@pytest.mark.spec("K2")
async def test_what_is_kept_for_one_comes_first_and_can_be_given_to_another_or_to_all(house: House) -> None:
    await house.make()
    await house.make()
    done = await house.change(2, LEAD, owner=Owner("bob", None))
    assert isinstance(done, Done) and done.claimable  # an idle agent of that name looks
    assert await house.table.claim_first("crew", ADA, kept=True) is None
    assert await house.handed(BOB) == 2
    await house.change(2, LEAD, owner=Owner("eve", None))
    await house.change(2, LEAD, owner=NOBODY)
    assert await house.handed(ADA) == 1 and await house.handed(ADA) == 2


@pytest.mark.spec("K2", "K4")
async def test_a_kept_task_waits_for_what_blocks_it(house: House) -> None:
    await house.make()
    await house.table.create("crew", Draft("x", blocked_by=(TaskId(1),)), LEAD, owner=Owner("bob", None))
    await house.change(1, ADA, status="in_progress")
    assert await house.handed(BOB) is None
    done = await house.change(1, ADA, status="completed")
    assert isinstance(done, Done) and done.claimable and await house.handed(BOB) == 2


@pytest.mark.spec("T6", "K11")
async def test_an_older_store_is_brought_up_to_date_with_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = await open_database(path, STEPS[:6])
    await database.close()
    db = sqlite3.connect(path)
    with db:
        db.execute("INSERT INTO task_lists (name, origin, next, count) VALUES ('crew', 's', 3, 2)")
        row = "INSERT INTO tasks (list, id, subject, description, active_form, metadata, created, updated, status) "
        db.execute(row + "VALUES (1, 1, 'old', '', '', '{}', 1, 1, 'completed')")
        db.execute(row + "VALUES (1, 2, 'open', '', '', '{}', 1, 1, 'pending')")
    db.close()
    database = await open_database(path)
    house = House(database)
    assert await house.handed(ADA) == 2
    await house.change(2, ADA, status="pending")
    assert await house.handed(ADA) is None and await house.handed(BOB) == 2
    await database.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT credited FROM tasks ORDER BY id").fetchall() == [(1,), (0,)]
    db.close()


@pytest.mark.spec("K8", "X2")
async def test_an_assignment_and_its_letter_are_one_change(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        bob, table = await house.join("bob"), TaskTable(house.state.database)
        lead = Actor(house.lead, LEAD_NAME, lead=True)

        async def assign(id: int, to: Owner) -> Any:
            return await table.update("crew", TaskId(id), Change(owner=to), lead)

        async def told() -> list[str]:
            return [letter.id for letter in await house.state.waiting(bob.agent)]

        await table.create("crew", Draft("1"), lead)
        await table.create("crew", Draft("2", blocked_by=(TaskId(1),)), lead)
        to_bob = Owner("bob", bob.agent)
        done = await assign(2, to_bob)
        assert (done.task.owner, done.task.status) == ("bob", "pending") and await told() == []
        await table.update("crew", TaskId(1), Change(status="completed"), lead)
        assert await told() == ["a-crew-2-1-0"]  # when it became free
        await table.create("crew", Draft("3"), lead)
        commits = house.state.database.commits
        await assign(3, to_bob)
        assert house.state.database.commits == commits + 1
        await assign(3, to_bob)  # again: nothing new to tell
        assert await told() == ["a-crew-2-1-0", "a-crew-3-1-0"]
        letter = (await house.state.waiting(bob.agent))[0]
        assert isinstance(letter.body, Signal) and letter.body.kind == "task_assignment"
        assert json.loads(letter.body.line)["assignedBy"] == letter.sender.name == LEAD_NAME
        await table.create("crew", Draft("4"), lead)
        await assign(4, Owner("eve", AgentId("E")))  # not a member: nobody there to read it
        assert await told() == ["a-crew-2-1-0", "a-crew-3-1-0"]
