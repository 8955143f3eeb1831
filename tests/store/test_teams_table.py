"""Teams in the store: rosters, states, the lease of the lead."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from team_house import START, House, finish, open_house, start

from teamwright.core.data.team import FOLLOWS, LEAD_NAME, Member, Moved, Refused, State, Team
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.store.tables.jobs import NewAgent
from teamwright.store.tables.processes import Lease
from teamwright.store.tables.state import StateStore as Store
from teamwright.store.tables.teams import Deleted, TeamTable

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as house:
        yield house


def code(found: object) -> str:
    assert isinstance(found, Refused), found
    return found.code


# --- teams


@pytest.mark.spec("T1", "T2")
async def test_a_new_team_has_its_lead_as_first_member(house: House) -> None:
    team = await house.create()
    assert (team.name, team.description, team.lead, team.session) == ("crew", "a crew", house.lead, house.session)
    assert team.process == house.process.id and team.epoch == 1 and team.created_at > START
    (lead,) = await house.teams.members("crew")
    assert (lead.name, lead.address, lead.state, lead.agent) == (LEAD_NAME, "team-lead@crew", "running", house.lead)
    assert lead.color and lead.joined_at > START and await house.teams.teams() == [team]


@pytest.mark.spec("T11", "T3")
async def test_a_name_of_a_team_that_exists_is_refused_also_in_other_letters(house: House) -> None:
    await house.create("Crew")
    again = await house.teams.create_team("crew", "", house.lead_member(), house.process.id)
    assert code(again) == "team_exists"
    safe = await house.create("../../evil team")
    assert safe.name == "evil-team"


@pytest.mark.spec("T11", "T3")
async def test_the_name_of_another_leads_team_gets_a_number(house: House) -> None:
    """Whether that lead lives or not: its team waits for it."""
    await house.create("crew")
    other = await house.another_session()
    made = await house.teams.create_team("crew", "", house.lead_member(other), house.process.id)
    assert not isinstance(made, Refused) and made.name == "crew-2" and made.lead == other


async def test_the_same_call_makes_one_team_and_one_member(house: House) -> None:
    first = await house.create(key="s:c1")
    assert await house.create(key="s:c1") == first
    ada = await house.join("ada", key="s:c2")
    assert (await house.join("ada", key="s:c2")) == ada
    assert len(await house.teams.members("crew")) == 2


@pytest.mark.spec("T11")
async def test_the_current_team_is_the_last_one_and_then_the_one_before(house: House) -> None:
    assert await house.teams.teams_of(house.lead) == []
    for name in ("one", "two", "three"):
        await house.create(name)
    taken = await house.teams.take_over("two", house.lead_member(), house.process.id)
    assert isinstance(taken, Team) and taken.epoch == 1  # it was its own already
    order = [team.name for team in await house.teams.teams_of(house.lead)]
    assert order == ["two", "three", "one"]
    for name in order:
        assert (await house.teams.teams_of(house.lead))[0].name == name
        assert isinstance(await house.teams.delete_team(name), Deleted)
    assert await house.teams.teams_of(house.lead) == []


@pytest.mark.spec("T1")
async def test_a_team_is_not_deleted_while_a_member_works(house: House) -> None:
    await house.create()
    ada, bob = await house.join("ada"), await house.join("bob")
    refused = await house.teams.delete_team("crew")
    assert code(refused) == "members_running" and isinstance(refused, Refused) and "ada, bob" in refused.reason
    for member, states in ((ada, ["running", "idle"]), (bob, ["shutdown"])):
        for state in states:
            await house.teams.set_state("crew", member.agent, state)  # type: ignore[arg-type]
    deleted = await house.teams.delete_team("crew")
    assert isinstance(deleted, Deleted) and [m.name for m in deleted.idle if m.state == "idle"] == ["ada"]
    assert await house.teams.team("crew") is None and await house.teams.members("crew") == []
    assert code(await house.teams.delete_team("crew")) == "no_team"


async def test_who_lost_the_lead_cannot_delete(house: House) -> None:
    team = await house.create()
    assert code(await house.teams.delete_team("crew", epoch=team.epoch + 1)) == "fenced"
    assert isinstance(await house.teams.delete_team("crew", epoch=team.epoch), Deleted)


@pytest.mark.spec("T11")
@pytest.mark.one_machine
async def test_a_deleted_session_takes_its_members_but_not_the_team(house: House) -> None:
    await house.create()
    await house.join("ada")
    await house.state.delete_session(house.session)
    (team,) = await house.teams.teams()
    assert team.lead == "" and await house.teams.members("crew") == []
    other = await house.another_session()
    process = await house.processes.register(house.session)
    assert code(await house.teams.take_over("crew", house.lead_member(other), process.id)) == "held"
    await house.processes.leave(house.process.id)
    taken = await house.teams.take_over("crew", house.lead_member(other), process.id)
    assert isinstance(taken, Team) and taken.lead == other
    await house.processes.leave(process.id)


# --- members


@pytest.mark.spec("T3")
async def test_names_and_colours_are_unique_also_when_many_join_at_once(house: House) -> None:
    await house.create()
    joined: list[Member] = []

    async def join(name: str) -> None:
        joined.append(await house.join(name))

    async with anyio.create_task_group() as group:
        for name in ("ada", "bob", "bob", "Bob", "team-lead"):
            group.start_soon(join, name)
    names = {member.name for member in joined}
    assert {"ada", "bob", "bob-2", "teammate"} < names and {n.casefold() for n in names} >= {"bob-3"}
    assert len({m.color for m in await house.teams.members("crew")}) == 6


@pytest.mark.spec("T3")
async def test_a_name_is_given_again_after_a_shutdown(house: House) -> None:
    await house.create()
    first = await house.join("ada")
    await house.teams.set_state("crew", first.agent, "shutdown")
    found = await house.teams.find("crew", "ada")
    assert found is not None and (found.agent, found.state) == (first.agent, "shutdown")
    second = await house.join("ada")
    assert second.address == first.address and second.agent != first.agent
    found = await house.teams.find("crew", "ADA")
    assert found is not None and found.agent == second.agent
    members = await house.teams.members("crew")
    assert [(m.name, m.agent) for m in members[1:]] == [("ada", second.agent)]


async def test_a_member_that_cannot_get_its_first_mail_is_not_there_at_all(house: House) -> None:
    await house.create()
    id = AgentId("a1")
    agent = NewAgent(id, house.session, house.lead, "x", "ada", 1)

    draft = Member(id, "ada", "crew", "x")
    with pytest.raises(StoreError, match="longer than 256 KiB"):
        await house.teams.add_member(draft, agent=agent, first=house.note(house.lead, draft, "x" * 300_000))
    assert await house.teams.find("crew", "ada") is None and len(await house.teams.members("crew")) == 1
    member = await house.teams.add_member(draft, agent=agent, first=house.note(house.lead, draft, "begin"))
    assert isinstance(member, Member) and [x.body for x in await house.state.waiting(id)]
    assert code(await house.teams.add_member(Member(id, "ada", "nobody", "x"))) == "no_team"


async def test_the_place_of_a_member_changes_but_not_who_it_is(house: House) -> None:
    await house.create()
    ada = await house.join("ada")
    pane = {"backend": "tmux", "id": "%3", "pid": 7}
    await house.teams.set_place("crew", ada.agent, "tmux", pane)
    found = await house.teams.member(ada.agent)
    assert found == replace(ada, pane=pane, backend="tmux")
    assert code(await house.teams.set_place("crew", AgentId("nobody"), "tmux", pane)) == "no_member"


# --- states


@pytest.mark.spec("T5")
@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.sampled_from(sorted(FOLLOWS)), max_size=8))
async def test_states_only_follow_their_diagram(tmp_path_factory: pytest.TempPathFactory, steps: list[State]) -> None:
    async with open_house(tmp_path_factory.mktemp("house")) as house:
        await house.create()
        ada = await house.join("ada")
        expected: State = "created"
        for new in steps:
            found = await house.teams.set_state("crew", ada.agent, new)
            if new == expected or new in FOLLOWS[expected]:
                assert found == Moved(expected, new)
                expected = new
            else:
                assert code(found) == "not_allowed"
            member = await house.teams.member(ada.agent)
            assert member is not None and member.state == expected


@pytest.mark.one_machine
@pytest.mark.spec("T5")
async def test_a_state_has_its_time_and_a_late_owner_cannot_set_it(house: House) -> None:
    await house.create()
    ada = await house.join("ada")
    lease = await house.processes.claim_agent(ada.agent, house.process.id)
    assert isinstance(lease, Lease) and lease.epoch == 1
    await house.processes.release_agent(ada.agent, house.process.id)
    later = await house.processes.claim_agent(ada.agent, house.process.id)
    assert isinstance(later, Lease) and later.epoch == 2
    assert code(await house.teams.set_state("crew", ada.agent, "running", epoch=1)) == "fenced"
    house.clock.now += 5000
    assert await house.teams.set_state("crew", ada.agent, "running", epoch=2) == Moved("created", "running")
    found = await house.teams.member(ada.agent)
    assert found is not None and found.since == house.clock.now
    assert code(await house.teams.set_state("crew", AgentId("nobody"), "idle")) == "no_member"


# --- the lease of the lead


@pytest.mark.spec("T11")
@pytest.mark.one_machine
async def test_a_team_is_taken_over_only_from_a_process_that_is_gone(house: House) -> None:
    await house.create()
    ada = await house.join("ada")
    await house.mail.post_mail(house.note(ada, (await house.teams.members("crew"))[0], "to the lead", id="m1"))
    other = await house.another_session()
    process = await house.processes.register(house.session)
    assert code(await house.teams.take_over("crew", house.lead_member(other), process.id)) == "held"
    assert code(await house.teams.take_over("nobody", house.lead_member(other), process.id)) == "no_team"
    await house.processes.leave(house.process.id)
    team = await house.teams.take_over("crew", house.lead_member(other), process.id)
    assert isinstance(team, Team) and (team.lead, team.process, team.epoch) == (other, process.id, 2)
    assert [(m.name, m.agent) for m in await house.teams.members("crew")] == [("ada", ada.agent), (LEAD_NAME, other)]
    assert await house.state.waiting(house.lead) == []
    (letter,) = await house.state.waiting(other)
    assert (letter.id, letter.to) == ("m1", other) and await house.teams.teams_of(house.lead) == []
    # The first one comes back once the second is gone.
    again = await house.processes.register(house.session)
    assert code(await house.teams.take_over("crew", house.lead_member(), again.id)) == "held"
    await house.processes.leave(process.id)
    team = await house.teams.take_over("crew", house.lead_member(), again.id)
    assert isinstance(team, Team) and (team.lead, team.epoch) == (house.lead, 3)
    assert [x.id for x in await house.state.waiting(house.lead)] == ["m1"]
    await house.processes.leave(again.id)


RACE = """
import sys, anyio
from pathlib import Path
from teamwright.core.data.team import Member, Team
from teamwright.store.tables.processes import Lease, ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import TeamTable

async def main():
    root, lead, agent = sys.argv[1:]
    state = await StateStore.open(Path(root) / "state.db")
    processes = ProcessTable(state.database, Path(root) / "run")
    me = await processes.register("s")
    teams = TeamTable(state.database)
    print("ready", flush=True)
    sys.stdin.readline()
    team = await teams.take_over("crew", Member(lead, "", "", "team-lead"), me.id)
    lease = await processes.claim_agent(agent, me.id)
    won = isinstance(team, Team), isinstance(lease, Lease)
    print(*won, team.epoch if won[0] else 0, lease.epoch if won[1] else 0, flush=True)
    sys.stdin.readline()

anyio.run(main)
"""


@pytest.mark.one_machine
@pytest.mark.spec("T11", "C5")
async def test_of_many_processes_one_takes_over_and_after_its_kill_the_next_one(house: House) -> None:
    await house.create()
    ada = await house.join("ada")
    await house.processes.claim_agent(ada.agent, house.process.id)
    await house.processes.leave(house.process.id)
    for epoch in (2, 3):
        runners = [start(RACE, str(house.root), house.lead, ada.agent) for _ in range(5)]
        for runner in runners:
            assert runner.stdout is not None and runner.stdin is not None
            assert runner.stdout.readline() == "ready\n"
        for runner in runners:
            runner.stdin.write("go\n")  # type: ignore[union-attr]
            runner.stdin.flush()  # type: ignore[union-attr]
        said = [runner.stdout.readline().split() for runner in runners]  # type: ignore[union-attr]
        assert sorted((s[0], s[2]) for s in said) == [("False", "0")] * 4 + [("True", str(epoch))]
        assert sorted((s[1], s[3]) for s in said) == [("False", "0")] * 4 + [("True", str(epoch))]
        for runner in runners:
            finish(runner, kill=True)
    team = await house.teams.team("crew")
    assert team is not None and team.process is not None and not house.processes.alive(team.process)


@pytest.mark.one_machine
@pytest.mark.spec("X7", "X3")
async def test_a_corrupt_store_is_set_aside_and_said_so_and_the_roster_can_be_made_anew(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
    path = tmp_path / "state.db"
    data = bytearray(path.read_bytes())
    data[:4096] = b"\xff" * 4096
    path.write_bytes(data)
    state = await Store.open(path)
    assert "was damaged and is now state.db.corrupt-" in state.notes[0]
    assert len(list(tmp_path.glob("state.db.corrupt-*"))) == 1
    teams = TeamTable(state.database)
    assert await teams.teams() == []
    await state.close()
