"""The app as a person uses it: prompts, steps, interrupts, the queue, questions, commands, leaving."""

from typing import Any

import pytest
from stage import Stage, staged

from teamwright.core.ids import AgentId
from teamwright.models.scripted import ScriptedModel, call, thinking
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.view.shapes import Note, Spoken, Step

pytestmark = pytest.mark.anyio

SLOW = {"text": "word " * 2_000, "pace": 1_000}


def steps(stage: Stage) -> list[Step]:
    return [item for item in stage.items if isinstance(item, Step)]


@pytest.mark.spec("O1")
async def test_a_prompt_is_answered_in_markdown(walker: Any) -> None:
    async with staged(walker, ["# Title\n\n- *one*\n- `two`"]) as stage:
        await stage.type("hello")
        await stage.press("enter")
        await stage.shows("• two")
        assert "▌ hello" in stage.screen and "*one*" not in stage.screen and "# Title" not in stage.screen


async def test_text_is_shown_while_it_is_written(walker: Any) -> None:
    async with staged(walker, [SLOW]) as stage:
        await stage.say("go")
        await stage.until(lambda: any(isinstance(i, Spoken) and i.streaming and "word" in i.text for i in stage.items))
        await stage.shows("word word")
        await stage.shows("Esc interrupts")


async def test_a_step_is_one_line_that_opens_to_the_whole(walker: Any) -> None:
    (walker.project / "a.txt").write_text("old line\nsame\n")
    edit = call("Edit", file_path="a.txt", old_string="old line", new_string="new line")
    script = [[thinking("let me see\nmore"), call("Read", file_path="a.txt")], [edit], "done"]
    async with staged(walker, script, mode="acceptEdits") as stage:
        await stage.say("go")
        await stage.rests()
        await stage.shows("✓ Edit  a.txt")
        assert "+1 -1" in stage.screen and "thought  let me see" in stage.screen
        assert "1 - old line" in stage.screen and "1 + new line" in stage.screen  # a small change is seen at once
        await stage.press("tab", "up", "enter")
        await stage.shows("2  same")
        await stage.press("escape")
        assert stage.app.focused is stage.app.prompt
        await stage.press("ctrl+o")
        await stage.gone("thought  let me see")
        assert "2  same" in stage.screen
        await stage.press("ctrl+o")
        await stage.gone("2  same")


async def test_what_went_wrong_is_seen_without_opening_it(walker: Any) -> None:
    async with staged(walker, [[call("Bash", command="echo broken; exit 3")], "oh"], allowed_tools=["Bash"]) as stage:
        await stage.say("go")
        await stage.rests()
        await stage.shows("✗ Bash")
        assert "│ broken" in stage.screen and "Exit code 3" in stage.screen


async def test_escape_ends_the_turn_and_twice_goes_back_to_before_the_prompt(walker: Any) -> None:
    async with staged(walker, [SLOW]) as stage:
        await stage.say("write much")
        await stage.shows("word word")
        await stage.press("escape")
        await stage.shows("Interrupted")
        await stage.rests()
        await stage.press("escape", "escape")
        await stage.shows("which prompt?")
        await stage.press("enter")
        await stage.shows("what goes back?")
        await stage.press("c")
        await stage.until(lambda: stage.app.prompt.text == "write much")


@pytest.mark.spec("Q1", "Q2")
async def test_what_is_typed_meanwhile_is_queued_visible_and_can_be_taken_back(walker: Any) -> None:
    script = ScriptedModel({"main": [SLOW], "next": {"when": "later one", "steps": ["second"]}})
    async with staged(walker, script) as stage:
        await stage.say("first")
        await stage.shows("word word")
        await stage.say("later one")
        await stage.say("later two")
        await stage.shows("queued  later two")
        await stage.press("up")
        await stage.until(lambda: stage.app.prompt.text == "later two")
        await stage.gone("queued  later two")
        await stage.press("ctrl+c", "escape")
        await stage.until(lambda: [i.text for i in stage.items if isinstance(i, Spoken) and i.role == "person"][1:])
        await stage.rests()
        await stage.shows("second")
        said = [item.text for item in stage.items if isinstance(item, Spoken) and item.role == "person"]
        assert said == ["first", "later one"] and not stage.view.queue
    letters = [m.text for m in stage.session.main.history.messages if m.role == "user"]
    assert not any("later two" in text for text in letters)


@pytest.mark.spec("M5")
async def test_a_question_is_asked_and_answered(walker: Any) -> None:
    async with staged(walker, [[call("Bash", command="touch made")], "done"]) as stage:
        await stage.say("go")
        await stage.shows("main: Bash?")
        assert "touch made" in stage.screen
        await stage.press("ctrl+l")
        await stage.shows("1 question for you")
        await stage.press("enter")
        await stage.shows("Yes, this once")
        await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
        await stage.press("y")
        await stage.rests()
        assert (walker.project / "made").exists() and steps(stage)[0].status == "ok"


async def test_leaving_takes_two_presses_and_what_is_typed_is_put_away_first(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.type("text")
        await stage.press("ctrl+c")
        assert stage.app.is_running and not stage.app.prompt.text
        await stage.press("ctrl+c")
        await stage.shows("Ctrl+C again quits")
        await stage.press("ctrl+c")
        await stage.until(lambda: not stage.app.is_running)
        assert stage.app.return_value is not None and stage.app.return_value.origin is None


async def test_ctrl_c_interrupts_a_turn_before_it_leaves(walker: Any) -> None:
    script = ScriptedModel([[call("Bash", command="sleep 60")], "not reached"])
    async with staged(walker, script, mode="bypassPermissions") as stage:
        await stage.say("wait")
        await stage.until(lambda: bool(steps(stage)) and steps(stage)[0].status == "running")
        await stage.press("ctrl+c")
        await stage.rests()
        await stage.shows("Interrupted")
        assert stage.app.is_running


@pytest.mark.spec("T7")
async def test_another_agents_conversation_is_opened_and_talked_to(walker: Any) -> None:
    script = ScriptedModel({
        "main": [[call("Agent", description="look", prompt="SCRIPT:child", run_in_background=True)], "started"],
        "child": {"steps": [{"text": "child words " * 400, "pace": 300}, "got it"]},
    })  # fmt: skip
    async with staged(walker, script) as stage:
        await stage.say("go")
        await stage.until(lambda: len(stage.view.agents) == 2)
        await stage.press("shift+down")
        await stage.shows("child words")
        assert stage.app.here != stage.view.main and "to general-purpose" in stage.screen
        await stage.say("hurry up")
        await stage.shows("hurry up")
        await stage.press("shift+up")
        await stage.shows("started")
        await stage.press("f2")
        await stage.shows("F2 next")
        await stage.press("escape")


@pytest.mark.spec("Y3")
async def test_control_b_lets_the_caller_go_on(walker: Any) -> None:
    script = ScriptedModel({
        "main": [[call("Agent", description="look", prompt="SCRIPT:child")], "I go on."],
        "child": {"steps": [{"text": "slow " * 2_000, "pace": 200}]},
    })  # fmt: skip
    async with staged(walker, script) as stage:
        await stage.say("go")
        await stage.until(lambda: any(a.parent for a in stage.view.agents.values()))
        await stage.until(lambda: any(not job.background for job in stage.session.supervisor.jobs.running()))
        await stage.press("ctrl+b")
        await stage.shows("I go on.")
        assert len(stage.session.supervisor.jobs.running()) == 1


async def test_the_mode_is_changed_by_a_key_and_stands_in_the_status_line(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.shows("ask · script/")
        await stage.press("shift+tab")
        await stage.shows("accept edits ·")
        await stage.press("shift+tab")
        await stage.shows("plan · script/")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("/help", "start a new session"),
        ("/keys", "Shift+Enter"),
        ("/model", "model: type to search"),
        ("/permissions plan", "Mode plan"),
        ("/permissions wild", "unknown permission mode"),
        ("/hooks", "No hooks"),
        ("/memory", "No AGENTS.md or CLAUDE.md"),
        ("/cost", "no usage yet"),
        ("/jobs", "no jobs"),
        ("/team", "no teams"),
        ("/mcp", "no MCP servers"),
        ("/why", "WAITS FOR"),
        ("/fork", "nothing to fork"),
        ("/theme blue", "/theme takes one of"),
        ("/tasks", "no tasks"),
        ("/land", "nothing is in the landing queue"),
        ("/inbox", "mail"),
        ("/agents", "main"),
        ("/btw", "needs a question"),
        ("/compact", "nothing to compact"),
        ("/kinds", "general-purpose"),
    ],
)
async def test_commands_do_what_they_say(walker: Any, typed: str, shown: str) -> None:
    async with staged(walker, size=(110, 50)) as stage:
        await stage.say(typed)
        await stage.shows(shown)


async def test_clear_resume_and_fork_lead_to_another_session(walker: Any) -> None:
    async with staged(walker) as stage:
        await stage.say("hello")
        await stage.rests()
        first = stage.session.id
        await stage.say("/clear")
        await stage.until(lambda: not stage.app.is_running)
        left = stage.app.return_value
        assert left is not None and left.origin is not None and left.origin.resume is None
    async with staged(walker) as stage:
        await stage.say("/resume")
        await stage.shows("hello")
        await stage.press("enter")
        await stage.until(lambda: not stage.app.is_running)
        left = stage.app.return_value
        assert left is not None and left.origin is not None and left.origin.resume == first
        origin = left.origin
    async with staged(walker, origin=origin) as stage:
        await stage.shows("▌ hello")
        await stage.shows("done")
        await stage.say("/fork")
        await stage.until(lambda: not stage.app.is_running)
        left = stage.app.return_value
        assert left is not None and left.origin is not None and left.origin.fork


async def test_export_writes_the_whole_conversation_and_overwrites_nothing(walker: Any) -> None:
    async with staged(walker, [[call("Glob", pattern="*")], "the answer"]) as stage:
        await stage.say("the question")
        await stage.rests()
        await stage.say("/export talk.md")
        await stage.shows("Written to")
        text = (walker.project / "talk.md").read_text()
        assert "> the question" in text and "**Glob** *" in text and "the answer" in text
        await stage.say("/export talk.md")
        await stage.shows("cannot write")


async def test_btw_is_answered_beside_the_conversation(walker: Any) -> None:
    async with staged(walker, ["first", "beside"]) as stage:
        await stage.say("hello")
        await stage.rests()
        await stage.say("/btw what?")
        await stage.until(lambda: any(isinstance(i, Note) and i.kind == "aside" for i in stage.items))


async def test_themes(walker: Any) -> None:
    async with staged(walker, ["*x*"]) as stage:
        await stage.say("hello")
        await stage.rests()
        for name in ("light", "none", "dark"):
            await stage.say(f"/theme {name}")
            await stage.until(lambda name=name: stage.app.theme == f"tw-{name}")
            await stage.until(lambda name=name: stage.app.conversation.palette.name == name)
            colours = [
                s.style.color for strip in stage.app.screen._compositor.render_strips() for s in strip if s.style
            ]
            assert colours
        await stage.until(lambda: (stage.app.home.root / "input" / "theme").read_text() == "dark")


@pytest.mark.spec("A12")
async def test_hostile_words_of_everybody_stay_words(walker: Any) -> None:
    evil = "\x1b]52;c;aGk=\x07\x1b[2J\u202e\u200b[bold red]x[/] [@click=app.leave]y[/]"
    (walker.project / "evil.txt").write_text(evil)
    script = [[thinking(evil), evil, call("Bash", command=f"cat evil.txt; echo '{evil}'"), call("Nope" + evil)], evil]
    async with staged(walker, script, allowed_tools=["Bash"]) as stage:
        await stage.say(evil)
        await stage.shows("Yes, this once")
        assert "\\x1b]52;c;aGk=" in stage.screen
        await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
        await stage.press("y")
        await stage.rests()
        await stage.press("ctrl+o")
        await stage.shows("[@click=app.leave]y[/]")
        assert not any(ord(c) < 32 or c in "\u202e\u200b\x7f\x9b" for c in stage.screen.replace("\n", ""))


@pytest.mark.parametrize("size", [(60, 20), (40, 12), (200, 60)])
async def test_every_size_has_input_and_status(walker: Any, size: tuple[int, int]) -> None:
    async with staged(walker, ["字字 " * 100], size=size) as stage:
        await stage.say("hello " * 30)
        await stage.rests()
        await stage.shows("字字")
        lines = stage.screen.split("\n")
        assert len(lines) == size[1] and "›" in stage.screen and "ask · " in lines[-1]
        await stage.press("f2")
        await stage.shows("agents")


async def test_old_items_are_read_again_when_scrolled_to(walker: Any) -> None:
    walk = await walker.walk([f"answer {n}" for n in range(130)], [f"question {n}" for n in range(130)])
    async with staged(walker, origin=Origin(walk.session.id)) as stage:
        await stage.shows("answer 129")
        fold = stage.view.folds[AgentId(stage.view.main)]
        extra = len(fold.talk.items) - 125
        del fold.talk.items[:extra]
        fold.talk.dropped += extra
        fold.talk.version += 1
        talk = stage.app.conversation
        await stage.shows("answer 129")
        talk.focus()

        def top() -> bool:
            talk.action_top()
            return "question 0\n" in stage.screen + "\n"

        await stage.until(top, "the first question")
        talk.action_bottom()
        await stage.shows("answer 129")


async def test_reading_above_the_end_is_not_disturbed_by_what_comes(walker: Any) -> None:
    async with staged(walker, ["line\n\n" * 100, SLOW]) as stage:
        await stage.say("first")
        await stage.rests()
        await stage.press("pageup", "pageup")
        before = stage.app.conversation.scroll_y
        await stage.say("second")
        await stage.until(lambda: any(isinstance(i, Spoken) and i.streaming and len(i.text) > 400 for i in stage.items))
        assert stage.app.conversation.scroll_y == before
        await stage.press("ctrl+end")
        await stage.shows("word word")
