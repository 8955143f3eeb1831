"""Hooks around calls: before they are judged, when somebody must be asked, after they ran or were refused."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import after, agent, bash, crew, results, write_agent
from hook_kit import deciding, hook, hooked, logging, saying, use_hooks
from teamwright.core.data.event import Denied, ToolEnded, TurnEnded, Warned
from teamwright.core.data.message import Request
from teamwright.core.permissions.consent import Allow, Decision, Deny, Question
from teamwright.models.scripted import ScriptedModel, call

pytestmark = pytest.mark.anyio


async def yes(_: Question) -> Decision:
    return Allow()


@pytest.mark.spec("D9", "M10")
async def test_exit_2_refuses_the_call_in_words_that_the_model_reads(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=hook(logging(walker, "echo not-today >&2; exit 2"), "Bash"))
    walk = await walker.walk([bash("touch ran"), "end"], mode="bypassPermissions")
    ((text, error),) = walk.results
    assert error and "not-today" in text and not (walker.project / "ran").exists()
    (told,) = hooked(walker)
    assert told["tool_input"] == {"command": "touch ran"} and told["tool_use_id"] and told["cwd"] == str(walker.project)
    assert told["session_id"] == walk.session.id and not {"agent_id", "agent_type"} & told.keys()
    assert told["permission_mode"] == "bypassPermissions"
    assert [d.tool for d in walk.of(Denied)] == ["Bash"]


@pytest.mark.spec("M3")
async def test_a_rule_that_denies_outweighs_a_hook_that_approves_everything(walker: Walker) -> None:
    use_hooks(
        walker, PreToolUse=hook(deciding("PreToolUse", permissionDecision="allow")),
        PermissionRequest=hook(deciding("PermissionRequest", permissionDecision="allow")),
    )  # fmt: skip
    script = [bash("touch ran"), bash("touch fine"), call("Write", file_path=".git/config", content="x"), "end"]
    (walker.project / ".git").mkdir()
    walk = await walker.walk(script, disallowed_tools=["Bash(touch ran)"])
    denied, fine, protected = walk.results
    assert denied[1] and "touch ran" in denied[0] and not (walker.project / "ran").exists()
    assert not fine[1] and (walker.project / "fine").exists()
    assert protected[1] and not (walker.project / ".git/config").exists()  # that needs a person's yes


@pytest.mark.spec("M3")
async def test_changed_arguments_are_judged_run_and_recorded(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=hook(deciding("PreToolUse", updatedInput={"command": "touch other"}), "Bash"))
    walk = await walker.walk([bash("touch at-first"), "end"], allowed_tools=["Bash(touch *)"])
    assert (walker.project / "other").exists() and not (walker.project / "at-first").exists()
    (ended,) = walk.of(ToolEnded)
    assert ended.args == {"command": "touch other"}
    use_hooks(walker, PreToolUse=hook(deciding("PreToolUse", updatedInput={"command": "curl x"}), "Bash"))
    walk = await walker.walk([bash("touch more"), "end"], mode="bypassPermissions", disallowed_tools=["Bash(curl *)"])
    assert walk.results[0][1] and "curl" in walk.results[0][0]


@pytest.mark.spec("D6")
async def test_changed_arguments_cannot_leave_the_limits_of_a_definition(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=hook(deciding("PreToolUse", updatedInput={"command": "touch out"}), "Bash"))
    write_agent(walker, "narrow", "tools: Bash(echo *)")
    scripts = {"main": [agent("child", subagent_type="narrow"), "end"], "child": [bash("echo in"), "report"]}
    async with crew(walker, scripts) as walk:
        await walk.play()
    assert not (walker.project / "out").exists()


async def test_a_hook_that_wants_it_asked_is_heard_in_every_mode(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=hook(deciding("PreToolUse", permissionDecision="ask", permissionDecisionReason="hm")))
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Deny("no")

    walk = await walker.walk([bash("touch ran"), "end"], mode="bypassPermissions", answer=answer)
    assert walk.results == [("no", True)] and asked[0].reason == "hm"
    walk = await walker.walk([bash("touch ran"), "end"], mode="dontAsk", allowed_tools=["Bash"])
    assert walk.results[0][1] and not (walker.project / "ran").exists()


async def test_a_request_for_permission_is_answered_by_a_hook_before_a_person(walker: Walker) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Decision:
        asked.append(question)
        return Deny("the person says no")

    say = 'case "$x" in *fine*) {};; *bad*) echo bad-word >&2; exit 2;; esac'
    yes = deciding("PermissionRequest", permissionDecision="allow", updatedInput={"command": "touch fine; echo k"})
    use_hooks(walker, PermissionRequest=hook(logging(walker, say.format(yes))))
    walk = await walker.walk([bash("touch fine"), bash("touch bad"), bash("touch else"), "end"], answer=answer)
    fine, bad, other = walk.results
    assert fine == ("k", False) and bad[1] and "bad-word" in bad[0] and other == ("the person says no", True)
    assert [q.args["command"] for q in asked] == ["touch else"]
    assert [x["tool_input"]["command"] for x in hooked(walker)] == ["touch fine", "touch bad", "touch else"]


async def test_what_was_refused_is_told_with_its_reason(walker: Walker) -> None:
    denied = hook(logging(walker, deciding("PermissionDenied", additionalContext="ask Ann")))
    use_hooks(
        walker, PermissionDenied=denied, PostToolUse=hook(logging(walker)), PostToolUseFailure=hook(logging(walker))
    )
    walk = await walker.walk([bash("touch ran"), call("Nope"), "end"])
    assert "ask Ann" in walk.results[0][0] and len(walk.results) == 2
    (told,) = hooked(walker)  # a tool that there is not has no hooks
    assert told["hook_event_name"] == "PermissionDenied" and "nobody is attached" in told["reason"]


async def test_after_a_call_the_model_reads_its_result_and_the_hooks_words(walker: Walker) -> None:
    use_hooks(
        walker, PostToolUse=hook(logging(walker, "echo tests-are-red >&2; exit 2"), "Bash"),
        PostToolUseFailure=hook(logging(walker, deciding("PostToolUseFailure", additionalContext="try again"))),
    )  # fmt: skip
    walk = await walker.walk([bash("echo the-output"), bash("echo it-failed; exit 3"), "end"], mode="bypassPermissions")
    first, second = walk.results
    assert not first[1] and first[0].startswith("the-output") and "tests-are-red" in first[0]
    assert second[1] and "it-failed" in second[0] and "try again" in second[0]
    post, failure = hooked(walker)
    assert post["tool_response"]["stdout"] == "the-output" and "it-failed" in failure["error"]


async def test_words_before_a_call_stand_beside_its_result(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=hook(deciding("PreToolUse", additionalContext="mind the gap")))
    walk = await walker.walk([bash("echo out"), "end"], mode="bypassPermissions")
    assert walk.results == [("out\nmind the gap", False)]


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
async def test_a_hook_can_end_the_turn(walker: Walker, event: Any) -> None:
    use_hooks(walker, **{event: hook(saying(**{"continue": False, "stopReason": "enough for today"}))})
    walk = await walker.walk([["working", bash("touch ran")], "never"], mode="bypassPermissions")
    assert [end.reason for end in walk.ends] == ["done"] and walk.ends[0].text == "working"
    assert len(walk.model.requests) == 1 and any("enough for today" in w.text for w in walk.of(Warned))
    assert (walker.project / "ran").exists() == (event == "PostToolUse")


async def test_a_new_directory_is_told(walker: Walker) -> None:
    (walker.project / "sub").mkdir()
    use_hooks(walker, CwdChanged=hook(logging(walker)))
    await walker.walk([bash("cd sub"), bash("true"), "end"], mode="bypassPermissions")
    (told,) = hooked(walker)
    assert (told["old_cwd"], told["new_cwd"]) == (str(walker.project), str(walker.project / "sub"))


async def test_a_question_that_waits_is_notified_and_not_held_up(walker: Walker) -> None:
    use_hooks(walker, Notification=hook(logging(walker, "sleep 30"), "permission_prompt"))
    walk = await walker.walk([bash("touch ran"), "end"], answer=yes)
    assert walk.ends[0].reason == "done" and (walker.project / "ran").exists()


@pytest.mark.spec("T8", "M10")
async def test_an_agents_calls_are_seen_like_the_main_ones(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=hook(logging(walker, "echo no-shell >&2; exit 2"), "Bash"))
    async with crew(walker, {"main": [agent("child"), "end"], "child": [bash("touch ran"), "report"]}) as walk:
        await walk.play()
        (told,) = hooked(walker)
        assert (told["agent_id"], told["agent_type"]) == (walk.children[0], "general-purpose")
    assert not (walker.project / "ran").exists()


@pytest.mark.spec("D9", "Y5")
async def test_hooks_of_a_definition_live_and_die_with_their_agent(walker: Walker) -> None:
    entry = f'{{"PreToolUse": [{{"matcher": "Bash", "hooks": [{{"type": "command", "command": "cat >> {walker.home}/hits; echo >> {walker.home}/hits"}}]}}]}}'  # noqa: E501
    write_agent(walker, "watched", f"hooks: {entry}")
    main = [bash("echo 1"), agent("child", subagent_type="watched"), bash("echo 3"), "end"]
    async with crew(walker, {"main": main, "child": [bash("echo 2"), "report"]}) as walk:
        await walk.play()
        hooks = walk.session.brought.points.hooks
        assert hooks is not None and not hooks.has("PreToolUse")
    assert (walker.home / "hits").read_text().count("PreToolUse") == 1


async def test_no_hooks_no_hook_code(program: Any) -> None:
    """Code that no configured hook needs is not imported."""
    check = "import sys; import teamwright.app, teamwright.surfaces.headless.arguments; print(*sys.modules)"
    import subprocess
    import sys

    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    unwanted = {
        "mcp",
        "teamwright.library.hooks",
        "teamwright.library.mcp_config",
        "teamwright.library.memory_dir",
        "teamwright.library.plugins",
        "teamwright.library.skills.book",
        "teamwright.runtime.extensions.hooks",
        "teamwright.runtime.extensions.mcp_pool",
        "teamwright.runtime.extensions.skills",
    }
    assert "teamwright.app.extensions.service" in found and unwanted.isdisjoint(found)


# --- a model judges


def judged(steps: list[Any], *verdicts: Any) -> ScriptedModel:
    """Plays the agent's steps; requests without tools are for the judge."""
    left = list(verdicts)

    def play(request: Request) -> Any:
        done = sum(message.role == "assistant" for message in request.messages)
        return steps[done] if request.tools else left.pop(0)

    return ScriptedModel(play)


def judging(prompt: str, **more: Any) -> dict[str, Any]:
    return {"matcher": "Bash", "hooks": [{"type": "prompt", "prompt": prompt} | more]}


@pytest.mark.spec("D9")
@pytest.mark.parametrize("prompt", ["Is this harmless? $ARGUMENTS", "Is this harmless?"])
async def test_a_model_that_says_no_refuses_the_call_in_its_own_words(walker: Walker, prompt: str) -> None:
    use_hooks(walker, PreToolUse=judging(prompt))
    verdict = 'I say: {"ok": false, "reason": "not on a Friday"}'
    walk = await walker.walk(judged([bash("touch ran"), "end"], verdict), mode="bypassPermissions")
    assert walk.results[0][1] and "not on a Friday" in walk.results[0][0] and not (walker.project / "ran").exists()
    asked = walk.model.requests[1]
    assert asked.tools == () and "JSON alone" in asked.system[0]
    words = asked.messages[0].text
    assert words.startswith("Is this harmless?") and '"command":"touch ran"' in words and "$ARGUMENTS" not in words


async def test_a_model_that_says_yes_lets_the_rules_decide(walker: Walker) -> None:
    use_hooks(walker, PreToolUse=judging("Is this harmless?"))
    model = judged([bash("touch ran"), "end"], '```json\n{"ok": true}\n```')
    walk = await walker.walk(model, allowed_tools=["Bash(touch *)"])
    assert not walk.results[0][1] and (walker.project / "ran").exists()
    assert walk.ends[0].text == "end" and len(walk.said) == 2  # its answer is not part of the conversation


@pytest.mark.parametrize("verdict", ["certainly", '{"ok": "yes"}', "{{{", {"error": {"fault": "overloaded"}}])
async def test_a_guard_that_gives_no_verdict_refuses(walker: Walker, verdict: Any) -> None:
    use_hooks(walker, PreToolUse=judging("Is this harmless?"))
    walk = await walker.walk(judged([bash("touch ran"), "end"], verdict), mode="bypassPermissions")
    assert walk.results[0][1] and "gave no answer" in walk.results[0][0] and not (walker.project / "ran").exists()


async def test_a_model_may_send_the_agent_back_to_work(walker: Walker) -> None:
    use_hooks(walker, Stop={"hooks": [{"type": "prompt", "prompt": "Is it finished?"}]})
    no, yes = '{"ok": false, "reason": "the tests are missing"}', '{"ok": true}'
    walk = await walker.walk(judged(["half", "whole"], no, yes))
    assert walk.ends[0].text == "whole" and [m.text for m in walk.said] == ["half", "whole"]
    assert "the tests are missing" in str(walk.model.requests[2].messages[-1])


@pytest.mark.spec("T8")
async def test_a_hook_that_nobody_waits_for_decides_nothing_and_is_heard_at_the_next_result(walker: Walker) -> None:
    told = anyio.Event()
    answer = deciding("PreToolUse", permissionDecision="deny", additionalContext="late words")
    late = f"until [ -e '{walker.project}/gate' ]; do sleep 0.02; done; "
    late += answer.replace('{"hook', '{"systemMessage": "for you", "hook')
    use_hooks(walker, PreToolUse=hook(late, "Write", **{"async": True}))
    steps = [call("Write", file_path="gate", content="x"), after(told, bash("true")), "end"]
    async with crew(walker, {"main": steps}) as play:
        await play.say("go")
        warned = await play.until(Warned)
        told.set()
        await play.until(TurnEnded)
        written, ran = (results(request.messages[-1])[0] for request in play.requests()[1:])
    assert "for you" in warned.text and not written[1] and (walker.project / "gate").exists()
    assert "late words" not in written[0] and "late words" in ran[0] and not ran[1]


@pytest.mark.spec("T8")
async def test_what_it_says_after_the_turn_is_read_with_the_next_prompt_and_starts_none(walker: Walker) -> None:
    late = f"until [ -e '{walker.project}/gate' ]; do sleep 0.02; done; "
    late += saying(systemMessage="for you", hookSpecificOutput={"additionalContext": "late words"})
    use_hooks(walker, Stop=hook(late, **{"async": True}))
    async with crew(walker, {"main": ["one", "two"]}) as play:
        await play.play()
        (walker.project / "gate").touch()
        await play.until(Warned)
        assert len(play.requests()) == 1
        await play.play("and now")
        assert "<hook-context>\nlate words" in play.requests()[1].messages[-1].text


@pytest.mark.spec("T8")
async def test_it_has_its_limit_and_ends_with_the_session(walker: Walker) -> None:
    told, pid = anyio.Event(), walker.home / "pid"
    use_hooks(
        walker,
        PostToolUse=[
            hook("sleep 300", "Write", **{"async": True, "timeout": 0.2}),
            hook(f"echo $$ > '{pid}.new'; mv '{pid}.new' '{pid}'; exec sleep 300", "Write", **{"async": True}),
        ],
        SessionEnd=hook(logging(walker), **{"async": True}),
    )
    wait = f"until [ -e '{pid}' ]; do sleep 0.02; done"
    async with crew(
        walker, {"main": [call("Write", file_path="a", content="x"), after(told, bash(wait)), "end"]}
    ) as play:
        await play.say("go")
        warned = await play.until(Warned)
        told.set()
        await play.until(TurnEnded)
        assert Path(f"/proc/{pid.read_text().strip()}").exists()
    assert "did not end within 0.2 s" in warned.text and len(hooked(walker, "SessionEnd")) == 1
    with anyio.fail_after(10):
        while Path(f"/proc/{pid.read_text().strip()}").exists():
            await anyio.sleep(0.01)
