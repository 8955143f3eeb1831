"""Hooks around turns: the session, prompts, stops, other agents, compaction, tasks and worktrees."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from crew import ID, agent, bash, crew, write_agent
from hook_kit import deciding, hook, hooked, logging, saying, use_hooks
from program import Program
from teamwright.core.data.event import TurnEnded, Warned
from teamwright.core.data.op import Compact
from teamwright.core.errors import ModelError, UsageError
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.extensions.hook_points import MOST_ROUNDS
from worktree_kit import new_repo

pytestmark = pytest.mark.anyio


def once(walker: Walker, words: str) -> str:
    """Send the agent back to work, the first time only."""
    mark = walker.home / "once"
    return f"test -e {mark} || {{ touch {mark}; echo {words} >&2; exit 2; }}"


def in_turn(*steps: Any) -> ScriptedModel:
    """A model that answers by these steps, whatever the conversation looks like."""
    left = iter(steps)
    return ScriptedModel(lambda _: next(left))


@pytest.mark.spec("T8")
async def test_what_a_session_and_a_prompt_begin_with(walker: Walker) -> None:
    events = {"SessionStart": "echo monday", "UserPromptSubmit": "echo be-brief", "SessionEnd": "true"}
    use_hooks(walker, **{event: hook(logging(walker, then)) for event, then in events.items()})
    walk = await walker.walk(["one", "two"], ["first", "second"])
    told = walk.model.requests[0].messages[-1].text
    assert told.startswith("first") and "monday" in told and "be-brief" in told
    assert "monday" not in walk.model.requests[1].messages[-1].text
    assert walk.session.main.history.prompts == ["first", "second"]  # a hook's words are no prompts
    names = [x["hook_event_name"] for x in hooked(walker)]
    assert names == ["SessionStart", "UserPromptSubmit", "UserPromptSubmit", "SessionEnd"]
    assert [x["prompt"] for x in hooked(walker, "UserPromptSubmit")] == ["first", "second"]
    assert hooked(walker, "SessionEnd")[0]["reason"] == "other"

    again = await walker.walk(["three"], origin=Origin(walk.session.id))
    assert [x["source"] for x in hooked(walker, "SessionStart")] == ["startup", "resume"] and again.ends


@pytest.mark.spec("T8")
async def test_a_refused_prompt_reaches_no_model_and_the_session_goes_on(walker: Walker) -> None:
    refuse = 'case "$x" in *secret*) echo no-secrets-please >&2; exit 2;; esac'
    use_hooks(walker, UserPromptSubmit=hook(logging(walker, refuse)), StopFailure=hook(logging(walker)))
    walk = await walker.walk(["answer"], ["my secret", "a question"])
    assert [end.reason for end in walk.ends] == ["failed", "done"] and "no-secrets-please" in walk.ends[0].error
    (request,) = walk.model.requests
    assert "my secret" not in "".join(m.text for m in request.messages)
    assert not hooked(walker, "StopFailure")


@pytest.mark.spec("T8", "S3")
def test_a_command_of_its_own_context_is_a_prompt_too(program: Program) -> None:
    file = program.home / ".claude/skills/audit/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\ndescription: d\ncontext: fork\n---\nLook at $ARGUMENTS.\n")
    guard = 'case "$x" in *secret*) echo no-secrets-please >&2; exit 2;; esac; echo be-brief'
    use_hooks(program, UserPromptSubmit=hook(logging(program, guard)))
    refused = program.prompt(["never"], text="/audit my secret")
    assert refused.rc == 1 and "no-secrets-please" in refused.result["result"]
    done = program.prompt(["shut"], text="/audit the doors")
    assert done.rc == 0 and done.result["result"] == "shut"
    assert [x["prompt"].rpartition("\n")[2] for x in hooked(program)] == ["Look at my secret.", "Look at the doors."]
    (told,) = (program.state / "projects").glob("*/*/agents/*.jsonl")
    assert "be-brief" in told.read_text()


async def test_a_stop_is_put_off_and_the_hook_is_told_that_it_was(walker: Walker) -> None:
    use_hooks(walker, Stop=hook(logging(walker, once(walker, "run-the-tests-first"))))
    walk = await walker.walk(["I am done", "really done"])
    assert walk.model.requests[1].messages[-1].text == "run-the-tests-first"
    assert [x["stop_hook_active"] for x in hooked(walker)] == [False, True]
    assert [x["last_assistant_message"] for x in hooked(walker)] == ["I am done", "really done"]
    assert walk.ends[0].text == "really done" and len(walk.ends) == 1


@pytest.mark.spec("T8")
async def test_a_stop_hook_that_never_lets_go_is_overruled(walker: Walker) -> None:
    use_hooks(walker, Stop=hook("echo again >&2; exit 2"))
    walk = await walker.walk(["done"] * (MOST_ROUNDS + 1))
    assert walk.ends[0].reason == "done" and len(walk.model.requests) == MOST_ROUNDS + 1
    assert any("back to work" in w.text for w in walk.of(Warned))


@pytest.mark.spec("T8")
async def test_a_stop_hook_that_ends_everything_says_why(walker: Walker) -> None:
    answer = {"decision": "block", "reason": "go on", "continue": False, "stopReason": "enough for today"}
    use_hooks(walker, Stop=hook(saying(**answer)))
    walk = await walker.walk(["done", "never"])
    assert [end.reason for end in walk.ends] == ["done"] and len(walk.model.requests) == 1
    assert [w.text for w in walk.of(Warned)] == ["A hook ended the turn: enough for today"]


async def test_a_turn_that_failed_is_told(walker: Walker) -> None:
    use_hooks(walker, StopFailure=hook(logging(walker)), Stop=hook(logging(walker)))
    walk = await walker.walk([ModelError("the server is on fire", "server")])
    assert walk.ends[0].reason == "failed"
    (told,) = hooked(walker)
    assert told["hook_event_name"] == "StopFailure" and "on fire" in told["error"]


@pytest.mark.spec("T8")
async def test_around_an_agent(walker: Walker) -> None:
    context = deciding("SubagentStart", additionalContext="mind-the-gap")
    use_hooks(
        walker, SubagentStart=hook(logging(walker, context), "general-purpose"),
        SubagentStop=hook(logging(walker, once(walker, "look-again"))), Stop=hook(logging(walker)),
    )  # fmt: skip
    async with crew(walker, {"main": [agent("child"), "end"], "child": ["too early", "the report"]}) as walk:
        await walk.play()
        first, second = walk.requests("child")
        assert "mind-the-gap" in first.messages[-1].text and second.messages[-1].text == "look-again"
        start, stop, again, main = hooked(walker)
        assert {x["agent_id"] for x in (start, stop, again)} == {walk.children[0]}
        assert (again["stop_hook_active"], again["last_assistant_message"]) == (True, "the report")
        assert Path(stop["agent_transcript_path"]).is_file() and main["hook_event_name"] == "Stop"


@pytest.mark.spec("T8")
async def test_an_agent_can_be_kept_from_beginning(walker: Walker) -> None:
    use_hooks(walker, SubagentStart=hook("echo not-on-sundays >&2; exit 2"))
    async with crew(walker, {"main": [agent("child"), "end"], "child": ["never"]}) as walk:
        await walk.play()
        assert not walk.requests("child")
        assert "not-on-sundays" in str(walk.requests()[1].messages[-1])


@pytest.mark.spec("D9")
async def test_the_stop_of_a_definition_is_the_end_of_its_agent(walker: Walker) -> None:
    entry = json.dumps({"Stop": [hook(once(walker, "one-more-look"))]})
    write_agent(walker, "careful", f"hooks: {entry}")
    scripts = {"main": [agent("child", subagent_type="careful"), "end"], "child": ["early", "late"]}
    async with crew(walker, scripts) as walk:
        await walk.play()
        assert [r.messages[-1].text for r in walk.requests("child")][1:] == ["one-more-look"]
        assert len(walk.requests()) == 2


async def test_an_agent_that_waits_for_its_jobs_has_not_stopped(walker: Walker) -> None:
    use_hooks(walker, SubagentStop=hook(logging(walker)))
    scripts = {
        "main": [agent("child"), "end"],
        "child": [agent("grand", run_in_background=True), "waiting", "all done"],
        "grand": ["tiny report"],
    }
    async with crew(walker, scripts) as walk:
        await walk.play()
    last = [x["last_assistant_message"] for x in hooked(walker)]
    assert sorted(last) == ["all done", "tiny report"]


@pytest.mark.spec("I1")
async def test_around_a_compaction(walker: Walker) -> None:
    use_hooks(
        walker, PreCompact=hook(logging(walker, deciding("PreCompact", additionalContext="keep the names"))),
        PostCompact=hook(logging(walker)), SessionStart=hook(logging(walker, "echo good-day")),
    )  # fmt: skip
    async with crew(walker, {"main": ["one", "the gist", "two"]}) as walk:
        await walk.play("first")
        await walk.submit(Compact("be short"))
        await walk.play("second")
        asked, last = walk.model.requests[1].messages[-1].text, walk.model.requests[2].messages
    assert "be short" in asked and "keep the names" in asked
    assert [x["hook_event_name"] for x in hooked(walker)] == [
        "SessionStart",
        "PreCompact",
        "PostCompact",
        "SessionStart",
    ]
    assert hooked(walker, "PreCompact")[0]["trigger"] == "manual"
    assert hooked(walker, "SessionStart")[1]["source"] == "compact"
    assert "good-day" in "".join(m.text for m in last)


async def test_a_compaction_can_be_refused(walker: Walker) -> None:
    use_hooks(walker, PreCompact=hook("echo not-now >&2; exit 2"))
    async with crew(walker, {"main": ["one", "never"]}) as walk:
        await walk.play("first")
        with pytest.raises(UsageError, match="not-now"):
            await walk.submit(Compact())
        assert len(walk.model.requests) == 1


@pytest.mark.spec("I1", "T8")
@pytest.mark.parametrize("event", ["PostCompact", "SessionStart"])
@pytest.mark.parametrize("refused", [False, True])
async def test_a_hook_can_end_the_turn_after_a_compaction(walker: Walker, event: str, refused: bool) -> None:
    """Whether it was due, or the provider had refused the conversation."""
    stop = (
        'case "$x" in *SessionStart*startup*) ;; *) '
        + saying(**{"continue": False, "stopReason": "enough"})
        + ";; esac"
    )
    use_hooks(walker, **{event: hook(logging(walker, stop))}, StopFailure=hook(logging(walker)))
    too_long = ModelError("prompt is too long: 215000 tokens > 200000 maximum", "context", status=400)
    long = bash("head -c 25000 /dev/zero | tr '\\0' x")
    model = in_turn(*([bash("true"), too_long] if refused else [long, long]), "the gist", "went on")
    windows = json.dumps({"teamwright": {"windows": {"script/given": 13_000}, "lean": False}})
    async with crew(walker, model, tools=["Bash"], system_prompt="Work.", settings=windows) as walk:
        end = await walk.play("paint it")
        assert (end.reason, end.error) == ("failed", "A hook ended the turn: enough")
        assert len(model.requests) == 3 and not hooked(walker, "StopFailure")
        assert (await walk.play("and now?")).text == "went on"


async def test_a_hook_that_ends_turns_does_not_undo_a_compaction_that_was_asked_for(walker: Walker) -> None:
    use_hooks(walker, PostCompact=hook(saying(**{"continue": False, "stopReason": "enough"})))
    async with crew(walker, in_turn("one", "the gist", "two")) as walk:
        await walk.play("first")
        await walk.submit(Compact())
        assert (await walk.play("second")).text == "two"


@pytest.mark.spec("K2", "T8")
async def test_a_task_can_be_refused_and_so_can_its_completion(walker: Walker) -> None:
    create = 'case "$x" in *paint*) echo we-do-not-paint >&2; exit 2;; esac'
    use_hooks(
        walker, TaskCreated=hook(logging(walker, create)), TaskCompleted=hook(logging(walker, "echo wet >&2; exit 2"))
    )
    script = [
        call("TaskCreate", subject="paint it", description="red"),
        call("TaskCreate", subject="build it", description="well"),
        call("TaskUpdate", taskId="2", status="completed"),
        call("TaskList"),
        "end",
    ]
    walk = await walker.walk(script)
    painted, built, completed, listing = walk.results
    assert painted[1] and "we-do-not-paint" in painted[0] and not built[1]
    assert completed[1] and "wet" in completed[0]
    assert "build it" in listing[0] and "paint" not in listing[0] and "completed" not in listing[0]
    assert [x["task_subject"] for x in hooked(walker)] == ["paint it", "build it", "build it"]


@pytest.mark.spec("T8", "L1")
async def test_a_teammate_is_kept_at_work(walker: Walker) -> None:
    use_hooks(walker, TeammateIdle=hook(logging(walker, once(walker, "check-the-docs"))))
    mate = call("Agent", description="d", prompt="SCRIPT:mate", name="ann", subagent_type="general-purpose")
    scripts = {"main": [call("TeamCreate", team_name="crew"), mate, "end"], "mate": ["tired", "fine, more"]}
    async with crew(walker, scripts) as walk:
        await walk.play()
        assert "check-the-docs" in walk.requests("mate")[1].messages[-1].text
    assert {(x["teammate_name"], x["team_name"]) for x in hooked(walker)} == {("ann", "crew")}


async def test_a_hook_that_ends_a_teammates_turn_says_why(walker: Walker) -> None:
    answer = {"decision": "block", "reason": "go on", "continue": False, "stopReason": "enough for today"}
    use_hooks(walker, TeammateIdle=hook(saying(**answer)))
    mate = call("Agent", description="d", prompt="SCRIPT:mate", name="ann", subagent_type="general-purpose")
    scripts = {"main": [call("TeamCreate", team_name="crew"), mate, "end"], "mate": ["tired", "never"]}
    async with crew(walker, scripts) as walk:
        await walk.play()
        assert len(walk.requests("mate")) == 1
    told = [warned.text for warned in walk.of(Warned)]
    assert told == ["A hook ended the turn: enough for today"]


@pytest.mark.spec("W7", "C3")
@pytest.mark.parametrize("place", ["home/made", "project/.teamwright/worktrees/made"])
async def test_an_agent_resumes_in_the_worktree_that_a_hook_made(walker: Walker, place: str) -> None:
    """The hook is not asked again: this one would fail. Ours would have lain in the second place."""
    walker.project.rmdir()
    new_repo(walker.project)
    made = walker.project.parent / place
    made.parent.mkdir(parents=True, exist_ok=True)
    use_hooks(walker, WorktreeCreate=hook(logging(walker, f"mkdir {made} && echo {made}")))
    send = call("SendMessage", to=ID, message="more", summary="more")
    scripts = {
        "main": [agent("child", isolation="worktree"), send, "on", "end"],
        "child": [bash("pwd"), "report", bash("pwd; echo again"), "done"],
    }
    async with crew(walker, scripts) as walk:
        await walk.play()
        assert f"{made}\\nagain" in str(walk.requests("child")[3].messages[-1].blocks)
    assert len(hooked(walker)) == 1


@pytest.mark.spec("W7")
async def test_a_worktree_of_other_version_control_is_made_by_a_hook_and_kept(walker: Walker) -> None:
    made = walker.home / "made"
    use_hooks(walker, WorktreeCreate=hook(logging(walker, f"mkdir -p {made}; echo {made}")))
    scripts = {"main": [agent("child", isolation="worktree"), "end"], "child": [bash("touch here"), "report"]}
    async with crew(walker, scripts) as walk:
        await walk.play()
    assert (made / "here").exists() and hooked(walker)[0]["name"]


async def test_a_worktree_hook_that_prints_nothing_is_an_error(walker: Walker) -> None:
    use_hooks(walker, WorktreeCreate=hook("true"))
    async with crew(walker, {"main": [agent("child", isolation="worktree"), "end"], "child": ["never"]}) as walk:
        await walk.play()
        assert "WorktreeCreate" in str(walk.requests()[1].messages[-1]) and not walk.requests("child")


@pytest.mark.spec("D5")
async def test_what_is_wrong_with_hooks_is_told_and_the_rest_runs(walker: Walker) -> None:
    use_hooks(walker, BeforeBreakfast=hook("true"), Stop=[hook("exit 1"), hook(logging(walker)), {"hooks": "no"}])
    walk = await walker.walk(["end"])
    assert any("BeforeBreakfast" in note for note in walk.session.notes)
    assert len(hooked(walker)) == 1 and any("exit status 1" in w.text for w in walk.of(Warned))


async def test_words_for_the_person_are_shown(walker: Walker) -> None:
    use_hooks(walker, Stop=hook(saying(systemMessage="tea is ready\u001b[31m")))
    walk = await walker.walk(["end"])
    (warned,) = walk.of(Warned)
    assert warned.text.startswith("tea is ready") and "\x1b" not in warned.text
    assert [type(e) for e in walk.events][-1] is TurnEnded


@pytest.mark.spec("T8")
async def test_settings_that_change_while_a_session_runs_are_told(walker: Walker) -> None:
    use_hooks(walker, ConfigChange=hook(logging(walker, "echo look-at-that >&2; exit 2"), "user_settings"))
    mine = walker.home / ".teamwright" / "settings.json"
    async with crew(walker, {"main": ["one", "two", "three"]}) as walk:
        await walk.play()
        mine.write_text("{}")
        await walk.play()
        await walk.play()
    (told,) = hooked(walker)
    assert told["source"] == "user_settings" and told["file_path"] == str(mine)
    assert [w.text for w in walk.of(Warned)] == ["look-at-that"]
