"""A change rings only those it concerns, and an idle process writes nothing: a ring must not cause more rings."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine_kit import Engines, Host, caught_up, open_host, seq_of
from teamwright.core.data.letter import Letter, Said, Sender
from teamwright.core.data.tasks import Actor, Done, Draft
from teamwright.core.data.team import LEAD_NAME, Mail, Member
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.acts.mail import MarkTold
from teamwright.store.acts.tasks import ClaimFirst
from teamwright.store.engine.touched import Touched
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import Stored
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable

pytestmark = [pytest.mark.anyio, pytest.mark.one_machine]
SESSION = SessionId("11111111-1111-4111-8111-111111111111")
LEAD, ADA = AgentId(SESSION), AgentId("a1")


class Pair:
    """A lead that writes, and another machine, with what it was told."""

    def __init__(self, lead: Host, other: Host) -> None:
        self.lead, self.other, self.told = lead, other, list[Touched]()
        other.replica.on_touched = self.told.append

    async def heard(self) -> Touched:
        """Who is concerned by all changes since the last call."""
        await caught_up(self.other, self.lead)
        found = Touched()
        for touched in self.told:
            found |= touched
        self.told.clear()
        return found


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    address = Engines.get().new_space()
    async with open_host(tmp_path / "lead", address) as lead, open_host(tmp_path / "other", address) as other:
        await StateStore(lead.database).begin_session(SESSION, "/x", 1)
        await StateStore(lead.database).register_agent(ADA, SESSION, LEAD, "x", "ada", 1)
        me = await ProcessTable(lead.database, tmp_path / "run").register(SESSION)
        teams = TeamTable(lead.database)
        await teams.create_team("crew", "", Member(LEAD, LEAD_NAME, "", "team-lead"), me.id)
        await teams.add_member(Member(ADA, "ada", "crew", "x"))
        found = Pair(lead, other)
        await found.heard()
        yield found


@pytest.mark.spec("Z13")
async def test_a_letter_concerns_its_reader_and_a_task_its_team(pair: Pair) -> None:
    letter = Letter(LetterId("l1"), ADA, Sender("agent", LEAD_NAME, LEAD), Said("hello"))
    mail = Mail(letter, "crew", LEAD_NAME, "ada", "hello", "")
    assert isinstance(await MailTable(pair.lead.database).post_mail(mail), Stored)
    assert await pair.heard() == Touched(agents=frozenset({ADA}))
    done = await TaskTable(pair.lead.database).create("crew", Draft("work"), Actor(LEAD, LEAD_NAME))
    assert isinstance(done, Done)
    assert await pair.heard() == Touched(teams=frozenset({"crew"}))
    claimed = await TaskTable(pair.lead.database).claim_first("crew", Actor(ADA, "ada"))
    assert claimed is not None
    assert await pair.heard() == Touched(agents=frozenset({ADA}), teams=frozenset({"crew"}))


@pytest.mark.spec("Z13")
async def test_what_changes_nothing_is_not_written_and_rings_nobody(pair: Pair) -> None:
    before, by = await seq_of(pair.lead), Actor(ADA, "ada")
    tasks, mail = TaskTable(pair.lead.database), MailTable(pair.lead.database)
    assert await tasks.claim_first("crew", by) is None
    assert await tasks.claim_first("crew", by, kept=True) is None
    await mail.told([])
    assert await seq_of(pair.lead) == before
    rung = await pair.other.replica.data_version()
    assert await pair.lead.replica.write(ClaimFirst("crew", by)) is None  # for example, it lost a race
    await pair.lead.replica.write(MarkTold(()))
    assert await pair.heard() == Touched()
    assert await pair.other.replica.data_version() == rung
