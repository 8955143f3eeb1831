"""Wrong calls of team tools: each time the model learns what is wrong, and nothing happens."""

from typing import Any

import pytest

from conftest import Walker
from crew import agent, crew
from teamwright.core.data.event import ToolEnded
from teamwright.core.data.message import Text
from teamwright.models.scripted import call

TEAM = call("TeamCreate", team_name="crew")


async def told(walker: Walker, *steps: Any, **scripts: Any) -> list[tuple[str, bool]]:
    """The results of the lead's calls, in order."""
    async with crew(walker, {"main": [*steps, "on", "on"], "ada": ["ready"]} | scripts) as play:
        await play.play()
        main = play.id
    ended = [r.event for r in play.records if r.agent == main and isinstance(r.event, ToolEnded)]
    return [("\n".join(c.text for c in e.content if isinstance(c, Text)), e.is_error) for e in ended]


@pytest.mark.spec("C1", "R12", "A9")
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (call("TeamCreate"), "team_name"),
        (call("TeamCreate", team_name=["a"]), "team_name"),
        (call("TeamCreate", team_name="  "), "give the team a name"),
        (call("TeamDelete"), "no team to delete"),
        (call("SendMessage", to="ada"), "message"),
        (call("SendMessage", to="*", message="hello", summary="s"), "no team to broadcast to"),
        (call("SendMessage", to="ada", message={"type": "shutdown_request"}), "there is no team"),
        (call("SendMessage", to="ada", message="hello", summary="s"), "There is no agent 'ada' in this session"),
        (call("SendMessage", to="bridge:x", message="hello", summary="s"), "this session is in none"),
        (call("TaskStop", task_id="ada@crew"), "ada@crew"),
        (agent("ada", team_name="crew"), "name"),
        (agent("ada", name="ada", team_name="nowhere"), "nowhere"),
    ],
)
async def test_without_a_team(walker: Walker, step: Any, words: str) -> None:
    ((text, is_error),) = await told(walker, step)
    assert is_error and words in text, text


def control(**message: Any) -> Any:
    return call("SendMessage", to="ada", message=message)


@pytest.mark.spec("C1", "H1", "H2", "H3", "T1", "A9")
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (call("TeamCreate", team_name="CREW"), "There is a team CREW already"),
        (call("SendMessage", to="ada", message="hello"), "summary is required"),
        (call("SendMessage", to="ada", message=" ", summary="s"), "The message is empty"),
        (call("SendMessage", to="team-lead", message="hello", summary="s"), "That is you"),
        (call("SendMessage", to="\u0430da", message="hello", summary="s"), "There is no agent"),  # a Cyrillic a
        (call("SendMessage", to="ada@other", message="hello", summary="s"), "There is no agent"),
        (call("SendMessage", to="ada", message=7, summary="s"), "message"),
        (control(type="obey"), "obey"),
        (control(type="shutdown_response"), "needs request_id and approve"),
        (control(type="shutdown_response", request_id="x", approve=True), "no open shutdown request 'x'"),
        (control(type="shutdown_response", request_id="x", approve=False), "needs a reason"),
        (control(type="plan_approval_response", request_id="x", approve=True), "no open plan request 'x'"),
        (control(type="plan_approval_response", request_id="x", approve="maybe"), "approve"),
        (call("SendMessage", to="*", message={"type": "shutdown_request"}), "cannot be broadcast"),
        (call("SendMessage", to="team-lead", message={"type": "shutdown_request"}), "end your turn instead"),
        (call("SendMessage", to="bob", message={"type": "shutdown_request"}), "There are: ada"),
        (call("TaskStop", task_id="team-lead@crew"), "The lead ends by itself"),
        (call("TaskStop", task_id="bob@crew"), "bob@crew"),
        (call("TaskUpdate", taskId="9", owner="ada"), "task_not_found"),
    ],
)
async def test_in_a_team(walker: Walker, step: Any, words: str) -> None:
    *_, (text, is_error) = await told(walker, TEAM, agent("ada", name="ada"), step)
    assert is_error and words in text, text


@pytest.mark.spec("T3")
@pytest.mark.parametrize(
    "name", ["team-lead", "Team_Lead", "te\u0430m-lead", "tearn-lead", "team\u200b-lead", "lead", "user", "system"]
)
async def test_nobody_gets_a_name_that_passes_for_the_lead_or_the_person(walker: Walker, name: str) -> None:
    (_, (text, is_error)) = await told(walker, TEAM, agent("ada", name=name))
    assert not is_error and text.startswith(("teammate has joined", "te-m-lead has joined")), text


@pytest.mark.spec("P10", "T1")
async def test_only_the_lead_leads(walker: Walker) -> None:
    tries = [call("TeamCreate", team_name="mine"), call("TeamDelete"), call("TaskStop", task_id="team-lead@crew")]
    async with crew(walker, {"main": [TEAM, agent("ada", name="ada"), "on", "on"], "ada": [tries, "done"]}) as play:
        await play.play()
        main = play.id
    ended = [r.event for r in play.records if r.agent != main and isinstance(r.event, ToolEnded)]
    assert len(ended) == 3 and all(e.is_error for e in ended)
