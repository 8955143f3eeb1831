"""Calls that change only our own store and were in flight at a kill: their outcome is looked up."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from team_house import open_house

from teamwright.core.data.conversation.history import fold
from teamwright.core.data.event import AgentStarted, Replied, ToolStarted
from teamwright.core.data.letter import Said
from teamwright.core.data.message import Message, Text, ToolCall, Usage
from teamwright.core.data.tasks import Actor, Draft
from teamwright.core.ids import AgentId, CallId, LetterId, SessionId
from teamwright.runtime.agents.outcomes import Books, Outcomes
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import call_key
from teamwright.tools.catalog import CATALOG

pytestmark = [pytest.mark.anyio, pytest.mark.spec("A2", "X2", "T6")]


async def no_job(_agent: AgentId, _call: CallId) -> None:
    return None


async def answered(left: Outcomes, agent: AgentId, name: str, id: str, **input: object) -> tuple[str, bool]:
    call = ToolCall(CallId(id), name, msgspec.Raw(msgspec.json.encode(input)))
    reply = Replied(Message("assistant", (call,), "m"), "tool_use", Usage())
    (ended,) = await left.after_crash(agent, fold([AgentStarted("s", "/", "0"), reply, ToolStarted(call.id)]))
    (content,) = ended.content
    assert isinstance(content, Text)
    return content.text, ended.is_error


async def test_what_was_stored_is_found_and_what_was_not_is_said(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create(key=call_key(house.lead, CallId("c1")))
        ada = await house.join("ada", key=call_key(house.lead, CallId("c2")))
        await house.mail.post_mail(house.note(ada, ada, id=f"m-{ada.agent}-c3"))
        table = TaskTable(house.state.database)
        await table.create("crew", Draft("x"), Actor(ada.agent, "ada"), CallId("c4"))
        books = Books(session=SessionId("s"), mail=house.mail, requests=house.requests, teams=house.teams, tasks=table)
        left = Outcomes(job=no_job, status=lambda _: "", posted=house.state.has_letter, books=books, catalog=CATALOG)
        text = {"message": "hello", "to": "ada"}
        found = [
            await answered(left, house.lead, "TeamCreate", "c1"),
            await answered(left, house.lead, "Agent", "c2"),
            await answered(left, ada.agent, "SendMessage", "c3", **text),
            await answered(left, ada.agent, "TaskCreate", "c4"),
        ]
        assert not any(is_error for _, is_error in found) and "crew" in found[0][0] and "ada@crew" in found[1][0]
        lost = [
            await answered(left, house.lead, "TeamCreate", "c9"),
            await answered(left, ada.agent, "SendMessage", "c9", **text),
            await answered(left, ada.agent, "TaskCreate", "c9"),
        ]
        assert all(is_error and "unknown" not in words for words, is_error in lost)
        copied = replace(left, books=None)  # of another session: its letters have other ids
        assert "unknown" in (await answered(copied, ada.agent, "SendMessage", "c9", **text))[0]
        assert await house.state.has_letter(LetterId(f"m-{ada.agent}-c3"))


@pytest.mark.spec("T12")
async def test_a_team_rests_once_nothing_is_unread_and_nobody_works(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        ada = await house.join("ada")
        assert (await house.teams.unrest("crew")).mates  # it was only just made
        await house.teams.set_state("crew", ada.agent, "running")
        await house.teams.set_state("crew", ada.agent, "idle")
        assert not (await house.teams.unrest("crew")).mates
        note = house.note(house.lead, ada)
        await house.mail.post_mail(note)
        assert (await house.teams.unrest("crew")).mates
        await house.state.delivered([note.letter.id])
        lead = house.teams.find("crew", "team-lead")
        reply = house.note(ada, await lead)
        await house.mail.post_mail(reply)
        found = await house.teams.unrest("crew")
        assert found.lead and not found.mates
        await house.state.delivered([reply.letter.id])
        assert not (await house.teams.unrest("crew")).lead


@pytest.mark.spec("K6")
async def test_tasks_go_back_to_the_list_together_with_the_word_about_it(tmp_path: Path) -> None:
    async with open_house(tmp_path) as house:
        await house.create()
        ada = await house.join("ada")
        lead = await house.teams.find("crew", "team-lead")
        assert lead is not None
        table, by = TaskTable(house.state.database), Actor(ada.agent, "ada")
        await table.create("crew", Draft("x"), by)
        await table.claim_first("crew", by)
        assert len(await house.state.waiting(ada.agent)) == 1
        before = house.state.database.commits
        (done,) = await table.release_all("crew", ada.agent, "ada has shut down")
        assert house.state.database.commits == before + 1 and done.id == 1
        (letter,) = await house.state.waiting(lead.agent)
        assert isinstance(letter.body, Said) and letter.body.text == "ada has shut down. Free again: #1 x."
        assert await house.state.waiting(ada.agent) == []  # nobody begins what is not its own any more
