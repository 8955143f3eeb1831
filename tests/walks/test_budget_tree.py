"""Limits as a tree, and spending shown as one."""

import json
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import after, agent, bash, crew, ended_calls, marking, results
from program import Program
from teamwright.core.errors import ModelError
from teamwright.core.policies.budget import Limits
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


@pytest.mark.spec("O6")
async def test_a_child_draws_on_the_sessions_tokens_and_ends_with_what_it_said(walker: Walker) -> None:
    steps = [[f"step {n}", bash("true")] for n in range(20)]
    scripts = {"main": [agent("child"), "the last report"], "child": steps}
    async with crew(walker, scripts, limits=Limits(tokens=40_000)) as play:
        end = await play.play()
    asked = len(play.requests("child"))
    assert 1 < asked < 20
    text = ended_calls(play)[0].content[0].text
    assert f"step {asked - 1}" in text and "40,000 tokens" in text and "shares" in text
    assert "report now" not in str(play.requests("child")[-1].messages)  # no turn of its own to report
    assert end.reason == "max_budget" and end.text == "the last report" and len(play.requests()) == 2


@pytest.mark.spec("O6")
async def test_a_limit_is_overshot_by_the_replies_in_flight_and_no_more(walker: Walker) -> None:
    scripts = {"main": [[agent("child") for _ in range(5)]], "child": [["w", bash("true")]] * 30}
    async with crew(walker, scripts, limits=Limits(tokens=30_000)) as play:
        await play.play()
    used = play.session.meter.usage.total
    each = max(used // max(1, len(play.model.requests)), 1)
    assert 30_000 <= used <= 30_000 + 8 * each * 2


@pytest.mark.spec("O6", "D12")
async def test_turns_are_each_agents_own(walker: Walker) -> None:
    scripts = {"main": [agent("child"), "end"], "child": [bash("true")] * 5 + ["report"]}
    async with crew(walker, scripts, limits=Limits(turns=2)) as play:
        end = await play.play()
    assert len(play.requests("child")) == 6 and end.text == "end"


@pytest.mark.spec("O6")
async def test_the_sessions_time_is_shared(walker: Walker) -> None:
    scripts = {"main": [agent("child")], "child": [["so far", bash("sleep 0.9")], "never"]}
    async with crew(walker, scripts, limits=Limits(seconds=0.8)) as play:
        end = await play.play()
    assert len(play.requests("child")) == 1 and end.reason == "max_budget"
    assert "so far" in ended_calls(play)[0].content[0].text


@pytest.mark.spec("O5")
async def test_the_meters_add_up_to_every_request_of_the_tree(walker: Walker) -> None:
    scripts = {"main": [[agent("one"), agent("two", run_in_background=True)]], "one": [agent("two"), "r"], "two": ["r"]}
    async with crew(walker, scripts) as play:
        await play.play()
    used = [job.result.usage.total_tokens for job in play.session.supervisor.jobs.all()]
    assert play.session.meter.usage.total == sum(used) + play.session.main.history.usage.total


def child(script: str, **more: Any) -> dict[str, Any]:
    return {"tool": "Agent", "input": {"description": f"does {script}", "prompt": f"SCRIPT:{script}"} | more}


@pytest.mark.spec("O5")
def test_cost_shows_the_tree_and_adds_up(program: Program) -> None:
    script = {
        "main": [[child("one", name="ann"), child("two", run_in_background=True)], "end"],
        "one": [child("two"), "r"],
        "two": ["r"],
    }
    ran = program.prompt(script, text="SCRIPT:main")
    assert ran.rc == 0
    cost = json.loads(program.run("cost", "--json").out)
    agents = cost["agents"]
    assert len(agents) == 4
    ids = {a["id"]: a for a in agents}
    (main,) = [a for a in agents if a["parent"] is None]
    (ann,) = [a for a in agents if a["name"] == "ann"]
    assert ann["parent"] == main["id"] and sorted(a["parent"] in ids for a in agents) == [False, True, True, True]
    assert sum(a["parent"] == ann["id"] for a in agents) == 1 and ann["turns"] == 2
    for field in ("input_tokens", "cached_tokens", "output_tokens"):
        assert cost[field] == sum(a[field] for a in agents) and cost[field] >= 0
    lines = [x["message"]["usage"] for x in ran.lines if x["type"] == "assistant"]
    assert cost["output_tokens"] == sum(u["output_tokens"] for u in lines)


@pytest.mark.spec("B8", "O6")
async def test_a_child_that_fails_alone_leaves_its_siblings_alone(walker: Walker) -> None:
    fails = anyio.Event()
    scripts = {
        "main": [[agent("bad"), agent("good")]],
        "bad": [lambda _: (fails.set(), ModelError("refused", "auth"))[1]],
        "good": [after(fails, "fine")],
    }
    async with crew(walker, scripts) as play:
        await play.play()
    bad, good = results(play.requests()[1].messages[-1])
    assert bad[1] and "refused" in bad[0] and not good[1] and "fine" in good[0]


@pytest.mark.spec("O6")
async def test_a_background_child_at_a_shared_limit_is_told_as_such(walker: Walker) -> None:
    go = anyio.Event()
    scripts = {
        "main": [
            agent("child", run_in_background=True),
            marking(go, call("TaskOutput", task_id=r"{{re:agentId: (\w+)}}")),
        ],
        "child": [after(go, ["so far", bash("true")]), *[bash("true")] * 20],
    }
    async with crew(walker, scripts, limits=Limits(tokens=30_000)) as play:
        await play.play()
    task = ended_calls(play)[1].data["task"]
    assert task["status"] == "completed" and task["result"] == "so far" and "shares" in task["error"]
