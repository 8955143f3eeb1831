"""Requests between agents: one id, one answer, by the one who was asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from team_house import House, open_house

from teamwright.core.data.team import Member, Refused, RequestId, RequestKind, Team, TeamRequest, new_request_id
from teamwright.core.ids import AgentId

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as house:
        await house.create()
        yield house


def code(found: object) -> str:
    assert isinstance(found, Refused), found
    return found.code


def ask(kind: RequestKind, asker: AgentId, answerer: AgentId) -> TeamRequest:
    return TeamRequest(new_request_id(kind), kind, "crew", asker, answerer, {"reason": "done"})


async def put(house: House, request: TeamRequest) -> TeamRequest:
    found = await house.requests.open(request)
    assert isinstance(found, TeamRequest)
    return found


@pytest.mark.spec("H3", "H1", "H2", "H4")
@pytest.mark.parametrize("kind", ["shutdown", "plan", "permission"])
async def test_a_request_is_answered_once_by_the_one_who_was_asked(house: House, kind: RequestKind) -> None:
    ada, bob = await house.join("ada"), await house.join("bob")
    request = await put(house, ask(kind, house.lead, ada.agent))
    assert request.asked_at and await house.requests.open_for(ada.agent) == [request]
    assert await house.requests.asked_by(house.lead) == [request] and await house.requests.open_for(bob.agent) == []
    assert code(await house.requests.answer(RequestId("no-such"), ada.agent, {})) == "unknown_request"
    assert code(await house.requests.answer(request.id, bob.agent, {"approve": True})) == "not_yours"
    assert code(await house.requests.answer(request.id, house.lead, {"approve": True})) == "not_yours"
    answered = await house.requests.answer(request.id, ada.agent, {"approve": False, "reason": "busy"})
    assert isinstance(answered, TeamRequest) and answered.answer == {"approve": False, "reason": "busy"}
    assert code(await house.requests.answer(request.id, ada.agent, {"approve": True})) == "answered"
    assert await house.requests.by_id(request.id) == answered and await house.requests.open_for(ada.agent) == []


@pytest.mark.spec("H3", "M6")
async def test_an_answer_is_kept_until_the_asker_has_acted_on_it_once(house: House) -> None:
    ada = await house.join("ada")
    request = await put(house, ask("permission", ada.agent, house.lead))
    await house.requests.answer(request.id, house.lead, {"behavior": "allow"})
    (found,) = await house.requests.asked_by(ada.agent)
    assert found.answer == {"behavior": "allow"} and not found.handled
    assert [await house.requests.handled(request.id) for _ in range(2)] == [True, False]
    assert await house.requests.asked_by(ada.agent) == []


@pytest.mark.spec("M6", "M10")
async def test_an_answer_after_the_time_limit_is_refused_and_kept(house: House) -> None:
    ada = await house.join("ada")
    request = await put(house, ask("permission", ada.agent, house.lead))
    assert [await house.requests.expire(request.id) for _ in range(2)] == [True, False]
    assert await house.requests.open_for(house.lead) == [] and await house.requests.asked_by(ada.agent) == []
    assert code(await house.requests.answer(request.id, house.lead, {"behavior": "allow"})) == "expired"
    late = await house.requests.by_id(request.id)
    assert late is not None and (late.state, late.answer) == ("expired", {"behavior": "allow"})
    answered = await put(house, ask("permission", ada.agent, house.lead))
    await house.requests.answer(answered.id, house.lead, {})
    assert not await house.requests.expire(answered.id)


@pytest.mark.spec("H3")
async def test_a_request_and_its_letter_are_stored_together_or_not_at_all(house: House) -> None:
    ada = await house.join("ada")
    request = ask("shutdown", house.lead, ada.agent)
    mail = house.note(house.lead, ada, '{"type":"shutdown_request"}', control=True)
    first = await house.requests.open(request, mail=mail, key="s:c1")
    again = await house.requests.open(replace(request, id=RequestId("other")), mail=mail, key="s:c1")
    assert isinstance(first, TeamRequest) and again == first == await house.requests.by_key("s:c1")
    assert len(await house.state.waiting(ada.agent)) == 1
    await house.teams.set_state("crew", ada.agent, "shutdown")
    late = ask("shutdown", house.lead, ada.agent)
    assert code(await house.requests.open(late, mail=house.note(house.lead, ada, control=True))) == "shut_down"
    assert await house.requests.by_id(late.id) is None


@pytest.mark.spec("H3", "M6")
async def test_an_asker_that_is_gone_does_not_undo_the_answer(house: House) -> None:
    ada = await house.join("ada")
    request = await put(house, ask("plan", ada.agent, house.lead))
    await house.teams.set_state("crew", ada.agent, "shutdown")
    mail = house.note(house.lead, ada, '{"type":"plan_approval_response"}', control=True)
    answered = await house.requests.answer(request.id, house.lead, {"approve": True}, mail=mail)
    assert isinstance(answered, TeamRequest) and answered.state == "answered"
    assert [entry.state for entry in await house.mail.audit("crew")] == ["refused"]


@pytest.mark.spec("T11", "H3")
async def test_open_requests_go_to_whoever_leads_now(house: House) -> None:
    ada = await house.join("ada")
    to_lead = await put(house, ask("plan", ada.agent, house.lead))
    other = await house.another_session()
    await house.processes.leave(house.process.id)
    process = await house.processes.register(house.session)
    assert isinstance(await house.teams.take_over("crew", house.lead_member(other), process.id), Team)
    assert code(await house.requests.answer(to_lead.id, house.lead, {})) == "not_yours"
    assert [r.id for r in await house.requests.open_for(other)] == [to_lead.id]
    assert isinstance(await house.requests.answer(to_lead.id, other, {"approve": True}), TeamRequest)
    await house.processes.leave(process.id)


async def test_a_deleted_team_has_no_requests(house: House) -> None:
    ada: Member = await house.join("ada")
    request = await put(house, ask("shutdown", house.lead, ada.agent))
    await house.teams.set_state("crew", ada.agent, "shutdown")
    await house.teams.delete_team("crew")
    assert await house.requests.by_id(request.id) is None
    assert code(await house.requests.open(request)) == "no_team"
