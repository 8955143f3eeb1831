"""What children may do: never more than their parent, the same way at all depths, and every refusal names the agent."""

from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import agent, bash, crew, ended_calls, results, write_agent
from program import Program
from teamwright.core.data.event import Denied
from teamwright.core.data.op import SetMode
from teamwright.core.permissions.consent import MODES, Allow, Decision, Deny, Question, mode_allowed
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


def write(walker: Walker, name: str = "f") -> Any:
    return call("Write", file_path=str(walker.project / name), content="x\n")


ALLOWED = {"plan": False, "dontAsk": False, "default": False, "acceptEdits": True, "bypassPermissions": True}


@pytest.mark.spec("P7", "M4", "M9")
@pytest.mark.parametrize("parent", MODES)
async def test_a_definitions_mode_is_never_wider_than_the_parents(walker: Walker, parent: Any) -> None:
    for mode in MODES:
        write_agent(walker, mode.lower(), f"permissionMode: {mode}")
    calls = [agent(f"c{n}", subagent_type=mode.lower()) for n, mode in enumerate(MODES)]
    scripts = {"main": [calls]} | {f"c{n}": [write(walker, mode), "r"] for n, mode in enumerate(MODES)}
    async with crew(walker, scripts, mode=parent, may_bypass=True) as play:
        await play.play()
    for mode in MODES:
        expected = ALLOWED[mode_allowed(parent, mode)]
        assert (walker.project / mode).exists() == expected, (parent, mode)


@pytest.mark.spec("P7", "M9")
async def test_a_grandchild_is_no_wider_than_the_child_in_between(walker: Walker) -> None:
    write_agent(walker, "strict", "permissionMode: plan")
    write_agent(walker, "wide", "permissionMode: bypassPermissions")
    scripts = {
        "main": [[agent("child", subagent_type="strict"), agent("other", mode="plan")]],
        "child": [agent("deep", subagent_type="wide"), "r"],
        "other": [agent("deep2"), "r"],
        "deep": [write(walker, "a"), "r"],
        "deep2": [write(walker, "b"), "r"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
    assert not (walker.project / "a").exists() and not (walker.project / "b").exists()
    assert len(play.requests("deep")) == len(play.requests("deep2")) == 2


@pytest.mark.spec("P7")
async def test_the_calls_mode_narrows_and_never_widens(walker: Walker) -> None:
    scripts = {
        "main": [[agent("a", mode="plan"), agent("b", mode="bypassPermissions")]],
        "a": [write(walker, "a"), "r"], "b": [bash("echo > b; chmod 600 b"), "r"],
    }  # fmt: skip
    async with crew(walker, scripts, mode="acceptEdits") as play:
        await play.play()
    assert not (walker.project / "a").exists() and not (walker.project / "b").exists()


@pytest.mark.spec("M9")
async def test_a_session_that_narrows_its_mode_narrows_its_running_children(walker: Walker) -> None:
    began, narrowed = anyio.Event(), anyio.Event()

    async def step(_: Any) -> Any:
        began.set()
        await narrowed.wait()
        return write(walker)

    async with crew(walker, {"main": [agent("child")], "child": [step, "r"]}) as play:
        await play.say("go")
        with anyio.fail_after(10):
            await began.wait()
            await play.submit(SetMode("plan"))
            narrowed.set()
            await play.session.idle()
    assert not (walker.project / "f").exists()


@pytest.mark.spec("M9")
async def test_a_child_that_enters_plan_mode_holds_the_children_it_has_already(walker: Walker) -> None:
    entered = anyio.Event()

    async def late(_: Any) -> Any:
        with anyio.fail_after(10):
            await entered.wait()
        return write(walker)

    def after_plan(_: Any) -> Any:
        entered.set()
        return "I only plan now"

    scripts = {
        "main": [agent("child")],
        "child": [agent("deep", run_in_background=True), call("EnterPlanMode"), after_plan, "r"],
        "deep": [late, "r"],
    }
    async with crew(walker, scripts) as play:
        await play.play()
    assert len(play.requests("deep")) == 2 and not (walker.project / "f").exists()


@pytest.mark.spec("M3", "M10")
async def test_rules_hold_at_every_depth_and_in_bypass(walker: Walker) -> None:
    scripts = {"main": [agent("one")], "one": [agent("two"), "r"], "two": [bash("touch f"), "r"]}
    async with crew(walker, scripts, disallowed_tools=["Bash(touch *)"]) as play:
        await play.play()
    assert not (walker.project / "f").exists()
    (denied,) = [r for r in play.records if isinstance(r.event, Denied)]
    assert denied.agent == play.children[1] and "general-purpose" in denied.event.reason


@pytest.mark.spec("M5", "M10")
async def test_a_childs_question_carries_its_name_and_both_answers_count(walker: Walker) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Allow() if question.args["command"] == "touch yes" else Deny("not on my machine")

    scripts = {"main": [agent("child", name="scout")], "child": [bash("touch yes"), bash("touch no"), "r"]}
    async with crew(walker, scripts, mode="default", answer=answer) as play:
        await play.play()
    (child,) = play.children
    assert [(q.agent, q.agent_name, q.tool) for q in asked] == [(child, "scout", "Bash")] * 2
    assert (walker.project / "yes").exists() and not (walker.project / "no").exists()
    assert "not on my machine" in results(play.requests("child")[2].messages[-1])[0][0]


@pytest.mark.spec("M10", "M5")
async def test_with_nobody_to_ask_the_denial_names_the_agent(walker: Walker) -> None:
    scripts = {"main": [agent("child", name="scout")], "child": [bash("touch f"), "r"]}
    async with crew(walker, scripts, mode="default") as play:
        await play.play()
    text, is_error = results(play.requests("child")[1].messages[-1])[0]
    assert is_error and "the agent scout" in text and "nobody" in text
    (denied,) = [r for r in play.records if isinstance(r.event, Denied)]
    assert denied.agent == play.children[0]


@pytest.mark.spec("M5")
def test_over_pipes_the_question_names_the_agent_and_the_denial_is_listed(program: Program) -> None:
    child = {"tool": "Agent", "input": {"description": "d", "prompt": "SCRIPT:child"}}
    run = {"tool": "Bash", "input": {"command": "touch f"}}
    live = program.talk({"main": [child, "end"], "child": [run, "r"]})
    live.say("SCRIPT:main")
    question = live.question()
    started = live.seen(type="system", subtype="task_started")
    assert question["request"]["agent_id"] == started["task_id"] and question["request"]["tool_name"] == "Bash"
    live.answer(question, behavior="deny", message="no")
    (result,) = live.results(1)
    assert [d["tool_name"] for d in result["permission_denials"]] == ["Bash"] and live.end().rc == 0


@pytest.mark.spec("R9", "M1")
async def test_a_denied_kind_is_not_offered_and_not_started(walker: Walker) -> None:
    scripts = {"main": [[agent("x", subagent_type="bash"), agent("y")]], "y": ["r"]}
    async with crew(walker, scripts, disallowed_tools=["Agent(bash)"]) as play:
        await play.play()
    spec = next(t for t in play.requests()[0].tools if t.name == "Agent")
    assert "- bash:" not in spec.description and "- explore:" in spec.description
    assert [e.is_error for e in ended_calls(play)].count(True) == 1 and not play.requests("x")


@pytest.mark.spec("M2")
async def test_agents_start_in_plan_mode_and_may_only_read(walker: Walker) -> None:
    (walker.project / "a").write_text("words\n")
    read = call("Read", file_path=str(walker.project / "a"))
    scripts = {"main": [agent("child")], "child": [[read, write(walker)], "r"]}
    async with crew(walker, scripts, mode="plan") as play:
        await play.play()
    first, second = results(play.requests("child")[1].messages[-1])
    assert "words" in first[0] and not first[1] and second[1] and not (walker.project / "f").exists()
