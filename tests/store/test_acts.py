"""Acts: each has a name, survives JSON, and has the same outcome wherever it is applied in the same order."""

import importlib
import inspect
import pkgutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from team_house import House, open_house

from journal import Journal
from store_kit import Chosen
from teamwright.core.data.job import JobResult
from teamwright.core.data.landing import LandDraft
from teamwright.core.data.letter import SYSTEM, Letter, Notice, Said, Signal
from teamwright.core.data.message import Usage
from teamwright.core.data.schedule import Schedule, ScheduleId
from teamwright.core.data.tasks import Actor, Change, Draft, Owner, TaskId
from teamwright.core.data.team import LEAD_NAME, Member, RequestId, TeamRequest
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, new_session_id
from teamwright.store import acts
from teamwright.store.acts.registry import ACTS, NAMES, decode_acts, encode_acts
from teamwright.store.acts.sessions import WithdrawLetter
from teamwright.store.tables.jobs import NONE, JobRow, JobTable, NewAgent
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.schedules import ScheduleTable
from teamwright.store.tables.tasks import TaskTable

pytestmark = [pytest.mark.anyio, pytest.mark.spec("Z1")]
ON_ENGINES = ("hosts.", "snapshot.", "workers.", "remote.", "bundles.")


def test_every_act_has_a_name() -> None:
    found: set[type] = set()
    for module in pkgutil.iter_modules(acts.__path__, f"{acts.__name__}."):
        kinds = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        found |= {k for _, k in kinds if issubclass(k, msgspec.Struct) and hasattr(k, "apply")}
    assert found == set(NAMES) and len(NAMES) == len(ACTS)


def test_acts_are_written_down_and_read_again() -> None:
    written = [WithdrawLetter(LetterId("l1")), WithdrawLetter(LetterId("l2"))]
    assert encode_acts(written) == b'[["letters.withdraw",{"id":"l1"}],["letters.withdraw",{"id":"l2"}]]'
    assert decode_acts(encode_acts(written)) == written


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'[["letters.burn", {}]]', "knows no act 'letters.burn'. Update the program"),
        (b'[["letters.withdraw", {"id": 7}]]', "no act that this version of teamwright knows: Expected `str`"),
        (b'[["letters.withdraw"]]', "no act that this version"),
        (b"{", "no act that this version"),
    ],
)
def test_what_is_no_act_is_an_error(data: bytes, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        decode_acts(data)


async def test_each_act_has_the_same_outcome_in_an_empty_store(tmp_path: Path) -> None:
    """`open_house` replays; this test makes sure that nothing is left out."""
    async with open_house(tmp_path) as house:
        await house.create()
        await _letters(house)
        await _ledger_and_jobs(house)
        await _schedules(house)
        await _members(house)
        await _mail_and_requests(house)
        await _tasks(house)
        await _landing(house)
        await _ends(house)
        journal = house.state.database
        if Chosen.engine:
            return  # its replica is compared instead
        assert isinstance(journal, Journal)
        done = {NAMES[type(act)] for entry in journal.entries for act in decode_acts(entry.data)}
        of_engines = {name for name in ACTS if name.startswith(ON_ENGINES)}  # see test_engine_leases, test_worker_acts
        of_engines |= {"sessions.remove", "sessions.purged"}  # see test_engine_removal
        assert set(ACTS) - done - of_engines == {"processes.leave"}  # the house does it at its end
        assert len(journal.entries) > len(set(ACTS) - of_engines)


async def _letters(house: House) -> None:
    letters = [Letter(LetterId(f"n{n}"), house.lead, SYSTEM, Said(f"word {n}")) for n in range(4)]
    for letter in letters:
        await house.state.post(letter)
    assert await house.state.withdraw(letters[0].id)
    await house.state.delivered([letters[1].id])
    assert await house.mail.drop_letters([letters[2].id]) == [letters[2].id]
    await house.state.database.write(ACTS["letters.set_aside"](letters[3].id, "it is no letter"))
    assert await house.state.waiting(house.lead) == []


async def _ledger_and_jobs(house: House) -> None:
    row = await house.state.open_call(house.session, house.lead, "m", 100)
    house.state.settle_soon(row, Usage(input=1, output=2**50), 0.1, 7, "ok")
    jobs, owner = JobTable(house.state.database), house.lead
    agent = NewAgent(AgentId("sub"), house.session, owner, "x", "sub", 1)
    for id in ("j1", "j2"):
        job = JobRow(JobId(id), 1, owner, "agent", CallId("c"), "d", "running", False, NONE, None, JobResult(), 5, None)
        await jobs.begin(job, house.session, agent=agent if id == "j1" else None)
        await jobs.send_to_background(job.id, 1)
        assert await jobs.finish(job.id, 1, "completed", JobResult("fine"), owed=True)
    notice = Letter(LetterId("n-j1"), owner, SYSTEM, Notice(JobId("j1"), "completed", "done", "fine", ""))
    assert await jobs.post_notice(JobId("j1"), 1, notice) and not await jobs.post_notice(JobId("j1"), 1, notice)
    assert await jobs.claim(JobId("j2"), 1, CallId("c2"), LetterId("n-j2"))
    await jobs.owe_again(JobId("j2"), 1)


async def _schedules(house: House) -> None:
    table, schedule = ScheduleTable(house.state.database), Schedule(ScheduleId("s1"), "look", "* * * * *", True, 10, 1)
    assert await table.add(house.session, schedule, "k", 5) == schedule
    assert await table.move(schedule.id, 10, 20)
    (due,) = await table.all(house.session)
    assert await table.fire(due, Letter(LetterId("c-s1-20"), house.lead, SYSTEM, Said("look")), 30)
    assert await table.remove(house.session, schedule.id)


async def _members(house: House) -> None:
    ada = await house.join("ada")
    await house.join("ada")
    await house.teams.set_place("crew", ada.agent, "local", {"pid": 7})
    await house.teams.note_trouble("crew", ada.agent, "no server")
    await house.processes.claim_agent(ada.agent, house.process.id)
    house.teams.runs_soon("crew", ada.agent, epoch=1)
    assert await house.processes.release_agent(ada.agent, house.process.id)
    await house.teams.take_over("crew", house.lead_member(await house.another_session()), house.process.id)
    await house.teams.take_over("crew", house.lead_member(), house.process.id)


async def _mail_and_requests(house: House) -> None:
    ada = await house.teams.find("crew", "ada")
    assert ada is not None
    for _ in range(2):
        mail = house.note(house.lead, ada)
        await house.mail.post_mail(mail)
    for _ in range(3):
        dead = await house.mail.failed([mail.letter.id], "it cannot be read")
    await house.mail.told(dead)
    await _report(house, ada)
    house.mail.worked_soon(ada.agent)
    house.mail.progressed_soon(ada.agent)
    await house.state.database.write(ACTS["mail.tell_of_rounds"]("crew", 0))
    for n in range(2):
        await house.requests.open(TeamRequest(RequestId(f"r{n}"), "plan", "crew", ada.agent, house.lead, {"n": n}))
    assert await house.requests.expire(RequestId("r0"))
    await house.requests.answer(RequestId("r1"), house.lead, {"approve": True})
    assert await house.requests.handled(RequestId("r1"))


async def _report(house: House, ada: Member) -> None:
    """It waits until nobody works, and then wakes its reader."""
    draft = house.note(ada, ada, id="i-ada-1")
    report = Signal("idle_notification", '{"type":"idle_notification"}', held=True)
    await house.mail.post_mail(replace(draft, letter=replace(draft.letter, body=report), control=True))
    await house.mail.release_reports("crew")
    found = [letter.body for letter in await house.state.waiting(ada.agent) if letter.id == "i-ada-1"]
    assert found == [replace(report, held=False)]


async def _tasks(house: House) -> None:
    table, lead = TaskTable(house.state.database), Actor(house.lead, LEAD_NAME, lead=True)
    ada = await house.teams.find("crew", "ada")
    assert ada is not None
    await table.begin("crew", house.session)
    await table.create("crew", Draft("one"), lead, id=await table.reserve("crew"))
    await table.create("crew", Draft("two", metadata={"k": [1.5, None]}), lead, owner=Owner("ada", ada.agent))
    await table.update("crew", TaskId(2), Change(metadata={"k": None, "more": True}), lead, CallId("u"))
    assert await table.claim_first("crew", Actor(ada.agent, "ada"))
    assert len(await table.release_all("crew", ada.agent, "ada is gone")) == 2
    assert await table.adopt("crew", "other") and await table.drop("other")


async def _landing(house: House) -> None:
    table = LandTable(house.state.database)
    entry = await table.queue(LandDraft("/r/.git", "main", "a", "1" * 40, "0" * 40, session=house.session))
    assert await table.change(entry.id, "waiting", "trying") is not None
    assert await table.send_back(entry.id, "red", "output") is not None


async def _ends(house: House) -> None:
    for member in await house.teams.members("crew"):
        if not member.is_lead:
            await house.teams.set_state("crew", member.agent, "shutdown")
    await house.teams.delete_team("crew", key="k")
    await house.teams.cleared("crew")
    await house.teams.delete_left("crew")
    session = new_session_id()
    await house.state.register_session(session, "/", 1)
    assert await house.state.forget_unused(session)
    with pytest.raises(StoreError, match="no agent nobody"):  # what cannot be done is refused everywhere alike
        await house.teams.create_team("x", "", Member(AgentId("nobody"), LEAD_NAME, "", "x"), house.process.id)
