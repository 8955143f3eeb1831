"""One agent from prompt to answer, with the real store, tools and gate."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from crew import check_valid, crew
from teamwright.core.data.event import Denied, LettersTaken, Reminded, Rendered, Replied, ToolEnded, Warned
from teamwright.core.data.message import Request, Text, ToolResult
from teamwright.core.errors import ModelError
from teamwright.core.policies.budget import Limits
from teamwright.models.scripted import ScriptedModel, ScriptStep, call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio


def bash(command: str):
    return call("Bash", command=command)


@pytest.mark.spec("O1", "A1")
async def test_results_go_back_in_the_order_of_the_calls(walker: Walker) -> None:
    (walker.project / "a").write_text("first\n")
    (walker.project / "b").write_text("second\n")
    reads = [call("Read", file_path=str(walker.project / name)) for name in "ab"]
    walk = await walker.walk([[*reads, bash("echo third")], "done"], mode="bypassPermissions")
    message = walk.model.requests[1].messages[-1]
    texts = [block.content[0].text for block in message.blocks if isinstance(block, ToolResult)]
    assert ["first" in texts[0], "second" in texts[1], "third" in texts[2]] == [True] * 3
    assert walk.ends[0].reason == "done" and walk.ends[0].text == "done"


@pytest.mark.spec("A1")
async def test_a_call_with_effects_sees_what_the_calls_before_it_did(walker: Walker) -> None:
    path = str(walker.project / "f")
    calls = [call("Write", file_path=path, content="one\n"), bash("cat f; echo two >> f"), call("Read", file_path=path)]
    walk = await walker.walk([calls, "done"], mode="bypassPermissions")
    assert "one" in walk.results[1][0] and "two" in walk.results[2][0]


@pytest.mark.spec("A9")
async def test_an_unknown_tool_is_answered_and_its_neighbour_runs(walker: Walker) -> None:
    walk = await walker.walk([[call("NoSuchTool", x=1), bash("echo neighbour")], "done"], mode="bypassPermissions")
    (unknown, failed), (neighbour, fine) = walk.results
    assert failed and "Bash" in unknown and not fine and "neighbour" in neighbour


@pytest.mark.spec("A9")
async def test_an_empty_reply_is_not_kept_and_does_not_loop(walker: Walker) -> None:
    walk = await walker.walk([[], [], [], "never"])
    assert len(walk.model.requests) == 3 and walk.ends[0].reason == "failed" and "empty" in walk.ends[0].error
    assert all(m.blocks for request in walk.model.requests for m in request.messages)


@pytest.mark.spec("A9")
async def test_an_empty_reply_once_is_healed_by_a_reminder(walker: Walker) -> None:
    walk = await walker.walk(lambda request: [] if len(request.messages) == 1 else "here I am")
    assert walk.ends[0].text == "here I am" and len(walk.of(Reminded)) == 1


@pytest.mark.spec("A8", "A9")
async def test_a_reply_cut_by_its_limit_runs_none_of_its_calls(walker: Walker) -> None:
    cut = {"blocks": ["so far", {"tool": "Bash", "input": {"command": "touch ran"}}], "stop": "max_tokens"}
    walk = await walker.walk([cut, "in smaller steps"], mode="bypassPermissions")
    assert not (walker.project / "ran").exists() and walk.results[0][1] and walk.ends[0].text == "in smaller steps"


@pytest.mark.spec("A9")
async def test_a_refusal_ends_the_turn_clearly(walker: Walker) -> None:
    walk = await walker.walk([{"blocks": ["I will not"], "stop": "refusal"}])
    assert walk.ends[0].reason == "refused" and "declined" in walk.ends[0].error


@pytest.mark.spec("A9")
@pytest.mark.parametrize("more", [[], [call("Bash", command="touch ran")]], ids=["words", "a call"])
async def test_what_it_declined_to_finish_is_not_sent_again(walker: Walker, more: Any) -> None:
    """A provider that stopped a reply refuses whatever still holds its words."""

    def play(request: Request) -> Any:
        check_valid(request.messages)
        if "how it is done" in str(request.messages) or len(request.messages) == 1:
            return ScriptStep((Text("This is how it is done"), *more), stop="refusal")
        return "fine"

    async with crew(walker, ScriptedModel(play)) as walk:
        end = await walk.play("something odd")
        again = await walk.play("something else")
    assert (end.reason, end.text, again.text) == ("refused", "", "fine") and not (walker.project / "ran").exists()
    first, note, _ = walk.model.requests[-1].messages
    assert first.text == "something odd" and note.text == "[the model declined to answer (refusal)]"
    async with crew(walker, ScriptedModel(play), origin=Origin(resume=walk.session.id)) as later:
        assert (await later.play("and after a resume")).text == "fine"


@pytest.mark.spec("A9")
@pytest.mark.parametrize("by_call", [False, True])
async def test_what_it_declines_again_and_again_is_left_out(walker: Walker, by_call: bool) -> None:
    """The prompt, or what a tool gave, is to blame: with it in the conversation nothing is answered."""

    def play(request: Request) -> Any:
        check_valid(request.messages)
        if "odd things" in str(request.messages):
            return ScriptStep((Text("no"),), stop="refusal")
        return bash("echo odd things | tr x y") if by_call and len(request.messages) == 1 else "fine"

    async with crew(walker, ScriptedModel(play)) as walk:
        await walk.play("look around" if by_call else "odd things")
        ends = [(await walk.play(words)).reason for words in ("two", "three")]
    assert ends == ["refused", "done"] and "left out" in str(walk.model.requests[-1].messages)
    async with crew(walker, ScriptedModel(play), origin=Origin(resume=walk.session.id)) as later:
        assert (await later.play("four")).reason == "done"


@pytest.mark.spec("A7", "A9")
async def test_a_fallback_model_is_tried_where_the_first_declines(walker: Walker, tmp_path: Path) -> None:
    script = tmp_path / "other.json"
    script.write_text('["from the other one"]')
    walk = await walker.walk([{"blocks": ["I will not"], "stop": "refusal"}], fallback_model=f"script/{script}")
    assert (walk.ends[0].reason, walk.ends[0].text) == ("done", "from the other one")
    assert [r.reason for r in walk.of(Rendered)] == ["fallback"] and "I will not" not in str(walk.said)
    assert any("declined to answer; continuing with" in warned.text for warned in walk.of(Warned))


@pytest.mark.spec("A9")
async def test_call_ids_are_unique_through_the_whole_conversation(walker: Walker) -> None:
    from teamwright.core.data.message import ToolCall
    from teamwright.core.ids import CallId

    same = ToolCall(CallId("same id!"), "Glob")
    walk = await walker.walk([[same, same], [same], "done"])
    ids = [call.id for message in walk.said for call in message.calls]
    assert len(ids) == 3 == len(set(ids)) and all(id.replace("_", "").isalnum() for id in ids)


@pytest.mark.spec("A7")
async def test_an_error_that_cannot_heal_ends_the_turn_with_its_sentence(walker: Walker) -> None:
    walk = await walker.walk([ModelError("the key was refused", "auth", status=401)])
    assert (walk.ends[0].reason, walk.ends[0].error, walk.ends[0].status) == ("failed", "the key was refused", 401)


@pytest.mark.spec("A7")
async def test_the_fallback_model_takes_over_and_the_change_is_recorded(walker: Walker, tmp_path: Path) -> None:
    script = tmp_path / "other.json"
    script.write_text('["from the other one"]')
    error = ModelError("overloaded", "overloaded", status=529)
    walk = await walker.walk([error], fallback_model=f"script/{script}")
    assert walk.ends[0].text == "from the other one"
    assert [r.reason for r in walk.of(Rendered)] == ["fallback"]


@pytest.mark.spec("O6")
async def test_the_last_turn_is_the_nth(walker: Walker) -> None:
    walk = await walker.walk([bash("echo again")] * 9, mode="bypassPermissions", limits=Limits(turns=3))
    assert len(walk.model.requests) == 3 and walk.ends[0].reason == "max_turns"
    assert len(walk.results) == 3  # the calls of the last turn have their results


@pytest.mark.spec("O6")
async def test_turns_count_anew_for_each_prompt(walker: Walker) -> None:
    walk = await walker.walk(lambda _: "short", ["one", "two", "three"], limits=Limits(turns=1))
    assert [end.reason for end in walk.ends] == ["done"] * 3


@pytest.mark.spec("O6")
async def test_at_a_limit_of_tokens_there_is_one_more_turn_to_report(walker: Walker) -> None:
    walk = await walker.walk([bash("echo x")] * 9, mode="bypassPermissions", limits=Limits(tokens=10))
    assert len(walk.model.requests) == 2 and walk.ends[0].reason == "max_budget"
    assert "report" in walk.model.requests[1].messages[-1].text and walk.results[-1][1]
    assert [reply.report for reply in walk.of(Replied)] == [False, True]  # after a kill its calls do not begin either


@pytest.mark.spec("A11")
async def test_each_request_extends_the_one_before(walker: Walker) -> None:
    walk = await walker.walk([bash("echo a"), [bash("echo b"), bash("echo c")], "done"], ["one", "two"])
    requests = walk.model.requests
    for a, b in pairwise(requests):
        assert b.messages[: len(a.messages)] == a.messages and b.previous == len(a.messages)
        assert a.system is b.system and a.tools is b.tools
        assert all(x is y for x, y in zip(a.messages, b.messages, strict=False))  # the same objects: encoded once


@pytest.mark.spec("M2", "M10")
async def test_nobody_to_ask_is_a_denial_that_is_recorded_and_read(walker: Walker) -> None:
    walk = await walker.walk([bash("touch ran"), "done"])
    assert not (walker.project / "ran").exists() and walk.results[0][1]
    (denied,) = walk.of(Denied)
    assert denied.tool == "Bash" and denied.args == {"command": "touch ran"} and walk.ends[0].reason == "done"


@pytest.mark.spec("O2")
async def test_what_is_written_is_private_and_resumes(walker: Walker) -> None:
    first = await walker.walk([bash("echo first-words"), "one"], mode="bypassPermissions")
    files = list((walker.home / ".teamwright").rglob("*.jsonl"))
    assert files and all(f.stat().st_mode & 0o777 == 0o600 for f in files)
    again = await walker.walk(lambda _: "two", origin=Origin(resume=first.session.id))
    (request,) = again.model.requests
    assert request.messages[: len(first.model.requests[-1].messages)] == first.model.requests[-1].messages
    assert request.system == first.model.requests[0].system and again.session.id == first.session.id


@pytest.mark.spec("Q5", "X2")
async def test_a_letter_is_delivered_once_by_its_id(walker: Walker) -> None:
    first = await walker.walk(lambda _: "ok", ["one", "two"])
    taken = [id for event in first.of(LettersTaken) for id in event.letters]
    assert len(taken) == len(set(taken)) == 2
    again = await walker.walk(lambda _: "ok", ["three"], origin=Origin(resume=first.session.id))
    assert [e.message.text for e in again.of(LettersTaken)] == ["three"]


async def test_plan_mode_is_told_and_held(walker: Walker) -> None:
    write = call("Write", file_path=str(walker.project / "f"), content="x")
    walk = await walker.walk([write, "the plan"], mode="plan")
    assert not (walker.project / "f").exists() and walk.results[0][1]
    assert "Plan mode" in walk.model.requests[0].messages[0].text


async def test_the_working_directory_is_kept_and_survives_resume(walker: Walker) -> None:
    (walker.project / "sub").mkdir()
    first = await walker.walk([bash("cd sub"), bash("pwd"), "one"], mode="bypassPermissions")
    assert first.results[1][0].strip().endswith("/sub")
    again = ScriptedModel(lambda request: bash("pwd") if request.messages[-1].text == "go on" else "two")
    walk = await walker.walk(again, ["go on"], mode="bypassPermissions", origin=Origin(resume=first.session.id))
    assert walk.results[0][0].strip().endswith("/sub")


@pytest.mark.spec("A2")
async def test_a_finished_result_is_on_disk_before_the_next_request(walker: Walker) -> None:
    seen: list[str] = []

    def play(request):
        files = list((walker.home / ".teamwright").rglob("*.jsonl"))
        seen.append(files[0].read_text())
        return bash("echo $((40 + 2))-out") if len(request.messages) == 1 else "done"

    walk = await walker.walk(play, mode="bypassPermissions")
    assert "42-out" not in seen[0] and "42-out" in seen[1]
    assert isinstance(walk.events[-2], Replied) and any(isinstance(e, ToolEnded) for e in walk.events)
    assert Text("done") in walk.said[-1].blocks
