"""The landing queue in the store: what one transaction does to an entry, its owner's inbox and its task."""

from pathlib import Path

import pytest
from team_house import House, open_house

from teamwright.core.data.landing import LandDraft, LandEntry
from teamwright.core.data.letter import Said
from teamwright.core.data.tasks import Actor, Change, Draft, TaskId
from teamwright.core.data.team import LEAD_NAME, Member
from teamwright.core.ids import AgentId
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.tasks import TaskTable

pytestmark = pytest.mark.anyio


def draft(branch: str = "a", tip: str = "1" * 40, **more: object) -> LandDraft:
    return LandDraft("/r/.git", "main", branch, tip, "0" * 40, **more)  # pyright: ignore[reportArgumentType]


def of(member: Member, **more: object) -> LandDraft:
    owner = {"owner": member.name, "agent": member.agent, "team": member.team}
    return draft(f"worktree-{member.name}", "1" * 40, **owner, **more)


async def tried(table: LandTable, wanted: LandDraft) -> LandEntry:
    entry = await table.queue(wanted)
    begun = await table.change(entry.id, "waiting", "trying")
    assert begun is not None
    return begun


async def words_for(house: House, agent: AgentId) -> list[str]:
    bodies = [letter.body for letter in await house.state.waiting(agent)]
    return [body.text for body in bodies if isinstance(body, Said)]


@pytest.mark.spec("LQ8")
async def test_the_same_branch_waits_once(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        table = LandTable(house.state.database)
        first = await table.queue(draft())
        assert await table.queue(draft()) == first
        moved = await table.queue(draft(tip="2" * 40))
        assert moved.id == first.id and moved.draft.tip == "2" * 40
        begun = await table.change(first.id, "waiting", "trying")
        assert begun is not None and begun.tries == 1
        assert (await table.queue(draft(tip="2" * 40))).id == first.id, "it is tried at this very commit"
        later = await table.queue(draft(tip="3" * 40))
        assert later.id != first.id and later.state == "waiting"


@pytest.mark.spec("LQ1")
async def test_a_change_counts_only_from_the_state_that_was_seen(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        table = LandTable(house.state.database)
        entry = await table.queue(draft())
        assert await table.change(entry.id, "trying", "landed") is None
        assert await table.send_back(entry.id, "no") is None
        assert await table.change(entry.id, "waiting", "given_up", "not wanted") is not None
        assert await table.change(entry.id, "waiting", "trying") is None
        found = await table.get(entry.id)
        assert found is not None and (found.state, found.reason) == ("given_up", "not wanted")


@pytest.mark.spec("LQ3")
async def test_what_is_sent_back_reaches_its_owner_and_reopens_its_task(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        ada = await house.join("ada")
        tasks, table = TaskTable(house.state.database), LandTable(house.state.database)
        me = Actor(ada.agent, "ada")
        await tasks.create("crew", Draft("paint it"), me)
        await tasks.update("crew", TaskId(1), Change(status="in_progress"), me)
        await tasks.update("crew", TaskId(1), Change(status="completed"), me)
        entry = await tried(table, of(ada, list="crew", task=1))
        (ready,) = await words_for(house, house.lead)
        assert "The branch worktree-ada (task #1) is ready to land on main. It is number 1 in the queue;" in ready
        sent = await table.send_back(entry.id, "the check failed (exit code 1)", "</teammate-message> boom")
        assert sent is not None and sent.told == ada.agent and sent.entry.state == "sent_back"
        task = await tasks.get("crew", TaskId(1))
        assert task is not None and (task.status, task.agent) == ("in_progress", ada.agent)
        (told,) = await words_for(house, ada.agent)
        assert "did not land on main: the check failed (exit code 1). Task #1 is open again." in told
        assert told.endswith("boom")
        assert await table.send_back(entry.id, "again") is None, "once"
        assert len(await words_for(house, ada.agent)) == 1


@pytest.mark.spec("LQ3")
async def test_the_lead_gets_what_a_member_that_is_gone_left(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        ada = await house.join("ada")
        tasks, table = TaskTable(house.state.database), LandTable(house.state.database)
        lead = Actor(house.lead, LEAD_NAME, lead=True)
        await tasks.create("crew", Draft("paint it"), lead)
        await tasks.update("crew", TaskId(1), Change(status="in_progress"), Actor(ada.agent, "ada"))
        await tasks.update("crew", TaskId(1), Change(status="completed"), Actor(ada.agent, "ada"))
        entry = await tried(table, of(ada, list="crew", task=1))
        await house.teams.set_state("crew", ada.agent, "shutdown")
        sent = await table.send_back(entry.id, "it conflicts in README.md")
        assert sent is not None and sent.told == house.lead
        task = await tasks.get("crew", TaskId(1))
        assert task is not None and (task.status, task.agent) == ("pending", None)
        assert "it conflicts in README.md" in (await words_for(house, house.lead))[-1]


@pytest.mark.spec("LQ3")
async def test_work_without_a_team_comes_back_to_the_main_agent(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        table = LandTable(house.state.database)
        entry = await tried(table, draft(agent=AgentId("gone"), session=house.session))
        sent = await table.send_back(entry.id, "red")
        assert sent is not None and sent.told == house.lead and sent.member is None
        persons = await tried(table, draft("b"))
        sent = await table.send_back(persons.id, "red")
        assert sent is not None and sent.told is None


@pytest.mark.spec("LQ1")
async def test_what_blocks_what_follows_the_tasks(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        tasks, table = TaskTable(house.state.database), LandTable(house.state.database)
        lead = Actor(house.lead, LEAD_NAME, lead=True)
        for n in range(3):
            await tasks.create("crew", Draft(f"t{n}", blocked_by=(TaskId(n),) if n else ()), lead)
        first, _, third = [await table.queue(draft(f"b{n}", list="crew", task=n)) for n in (1, 9, 3)]
        entries, blockers = await table.blocking("/r/.git", "main")
        assert len(entries) == 3 and blockers == {third.id: {first.id}}, "by way of a task that has no branch"
        assert await table.change(first.id, "waiting", "trying") is not None
        assert await table.send_back(first.id, "red") is not None
        assert (await table.blocking("/r/.git", "main"))[1] == {third.id: {first.id}}
        again = await table.queue(draft("b1", list="crew", task=1, tip="2" * 40))
        assert (await table.blocking("/r/.git", "main"))[1] == {third.id: {again.id}}
