"""The owner of agents: each agent ends exactly once whatever happens inside it, and nothing is left behind."""

from collections import Counter
from typing import Any

import anyio
import pytest
from msgspec import Struct

from conftest import Walker
from crew import LIMIT, after, agent, bash, check_valid, crew, ended_calls, events_of, results
from program import alive
from teamwright.core.data.event import AgentEnded, JobEnded, JobStarted
from teamwright.core.data.message import Request
from teamwright.core.data.op import Interrupt
from teamwright.core.errors import ModelError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.models.scripted import call
from teamwright.runtime.agents.agent import current_agent
from teamwright.tools.define import spec

pytestmark = pytest.mark.anyio
BACK = {"run_in_background": True}


class ProbeArgs(Struct, frozen=True):
    breaks: bool = False


class Probe:
    """A user's tool that asks who runs it, or fails."""

    spec = spec("Probe", "Looks at who calls.", ProbeArgs, parallel=True)

    def __init__(self) -> None:
        self.seen: list[tuple[AgentId, AgentId | None]] = []

    async def call(self, args: Any, ctx: ToolContext) -> Outcome:
        await anyio.lowlevel.checkpoint()
        if args.get("breaks"):
            raise RuntimeError("a bug in somebody's tool")
        self.seen.append((ctx.agent, current_agent.get(None)))
        return said("looked")


def broken(_: Any) -> Any:
    raise RuntimeError("a bug in the model")


@pytest.mark.spec("B1", "B4", "Y5")
async def test_every_started_agent_ends_exactly_once(walker: Walker) -> None:
    scripts: dict[str, Any] = {
        "good": ["r"],
        "bad": [ModelError("no", "auth")],
        "buggy": [broken],
        "breaking": [call("Probe", breaks=True)],
        "empty": [[], [], []],
        "boss": [agent("good"), agent("bad", **BACK), "r", "r"],
    }
    calls = [agent(name, **more) for name in scripts for more in ({}, BACK)]
    async with crew(walker, {"main": [calls], **scripts}, own_tools=[Probe()]) as play:
        assert (await play.play()).reason == "done"
        assert play.session.supervisor.agents == [play.session.main]
        assert not play.session.supervisor.jobs.running()
    started, ended = Counter(e.job for e in play.of(JobStarted)), Counter(e.job for e in play.of(JobEnded))
    assert started == ended and set(started.values()) == {1} and len(started) == 16
    for id in play.children:
        assert sum(isinstance(e, AgentEnded) for e in events_of(walker, id)) == 1
    states = Counter(e.status for e in play.of(JobEnded))
    assert states == {"completed": 6, "failed": 10} and len(play.notices) == 6
    check_valid(play.session.main.history.messages)


@pytest.mark.spec("Y4")
async def test_a_bug_in_a_child_is_the_childs_end_alone(walker: Walker) -> None:
    scripts = {"main": [[agent("buggy"), agent("fine")]], "buggy": [broken], "fine": ["r"]}
    async with crew(walker, scripts) as play:
        assert (await play.play()).reason == "done"
    first, second = results(play.requests()[1].messages[-1])
    assert first[1] and "internal error" in first[0] and not second[1]


@pytest.mark.spec("R13")
async def test_users_code_sees_its_own_agent_and_never_anothers(walker: Walker) -> None:
    probe = Probe()
    scripts = {
        "main": [[agent("child") for _ in range(4)], call("Probe")],
        "child": [call("Probe"), agent("deep"), "r"],
        "deep": [call("Probe"), "r"],
    }
    async with crew(walker, scripts, own_tools=[probe], allowed_tools=["Probe"]) as play:
        await play.play()
    children = [pair for pair in probe.seen if pair[0] != play.id]
    assert len(children) == 8 == len(set(children)) and all(told == own for told, own in children)
    assert [own for told, own in probe.seen if told == play.id] in ([None], [play.id])


@pytest.mark.spec("Y4", "B2", "A3")
async def test_twenty_children_at_work_end_with_the_turn_that_started_them(walker: Walker) -> None:
    work = bash("echo $$ >> pids; while :; do sleep 0.05; done")
    scripts = {"main": [[agent("child") for _ in range(20)], "unasked"], "child": [["so far", work]]}
    pids = walker.project / "pids"
    async with crew(walker, scripts) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            while not pids.exists() or len(pids.read_text().split()) < 20:
                await anyio.sleep(0.02)
            await play.submit(Interrupt())
            await play.session.main.at_rest()
        assert play.session.supervisor.agents == [play.session.main]
        assert not any(alive(int(pid)) for pid in pids.read_text().split())
        assert {j.status for j in play.session.supervisor.jobs.all()} == {"killed"}
        assert (await play.play("go on")).reason == "done"
    assert len(play.of(JobEnded)) == 20 and not play.notices
    check_valid(play.session.main.history.messages)


@pytest.mark.spec("B2", "A3")
async def test_closing_the_session_leaves_nothing_running(walker: Walker) -> None:
    work = bash("echo $$ > pid; while :; do sleep 0.05; done")
    pid = walker.project / "pid"
    async with crew(walker, {"main": [agent("child", **BACK)], "child": [work]}) as play:
        await play.say("go")
        with anyio.fail_after(LIMIT):
            while not pid.exists() or not pid.read_text().strip():
                await anyio.sleep(0.02)
    assert not alive(int(pid.read_text())) and [e.status for e in play.of(JobEnded)] == ["killed"]


@pytest.mark.spec("B7")
async def test_an_agent_that_is_stopped_takes_its_own_agents_along(walker: Walker) -> None:
    deep, never = anyio.Event(), anyio.Event()
    stop = call("TaskStop", task_id=r"{{re:agentId: (\w+)}}")

    async def stop_both(_: Request) -> Any:
        with anyio.fail_after(LIMIT):
            await deep.wait()
            while all(one.history.last_words != "I wait" for one in play.session.supervisor.agents):
                await anyio.sleep(0.005)
        return stop

    scripts = {
        "main": [agent("boss", **BACK), stop_both, "end"],
        "boss": [agent("worker", **BACK), "I wait"],
        "worker": [lambda r: (deep.set(), after(never, "x")(r))[1]],
    }
    async with crew(walker, scripts) as play:
        await play.play()
    assert {j.description: j.status for j in play.session.supervisor.jobs.all()} == {
        "does boss": "killed", "does worker": "killed",
    }  # fmt: skip
    assert "I wait" in ended_calls(play)[1].content[0].text and not play.notices
