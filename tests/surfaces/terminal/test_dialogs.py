"""Questions: who asks, what exactly, every kind of answer; lists, plans, the agent's own questions, trust."""

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input
from tui_parts import EVIL, Host, answered, ask, make_view, question, screen_text, until

from teamwright.core.permissions.consent import Allow, Deny, Question
from teamwright.library.trust.decision import TrustContents
from teamwright.surfaces.terminal.dialogs.base import QuestionScreen
from teamwright.surfaces.terminal.dialogs.question_list import QuestionsScreen, screen_for
from teamwright.surfaces.terminal.dialogs.trust_screen import TrustScreen
from teamwright.surfaces.view.diff import compare, read_before, rows_of
from teamwright.surfaces.view.sentences import SAID_NO as NO

QUESTIONS: dict[str, Any] = {
    "questions": [
        {
            "question": "Which database?",
            "header": "DB",
            "options": [
                {"label": "SQLite", "description": "one file"},
                {"label": "Postgres", "description": "a server"},
            ],
        },
        {
            "question": "Which parts?",
            "header": "Parts",
            "multiSelect": True,
            "options": [{"label": "API", "description": "x"}, {"label": "Web", "description": "y"}],
        },
    ]
}


def dialog(asked: Question, grace: float = 0.0) -> Host:
    return Host(lambda: screen_for(asked, make_view().agents, others=2, grace=grace))


@pytest.mark.anyio
@pytest.mark.spec("M5")
@pytest.mark.parametrize("width", [60, 100, 200])
async def test_who_asks_and_the_exact_command_are_seen(width: int) -> None:
    host = dialog(question(command="git push \\\n  --force origin main", description="pushes"))
    async with host.run_test(size=(width, 30)) as pilot:
        await until(pilot, lambda: "y  Yes, this once" in screen_text(host))
        text = screen_text(host)
        assert "■ ada (general-purpose) of site: Bash?" in text
        assert "git push \\" in text and "--force origin main" in text and "description: pushes" in text
        for where in ("in this session", "in this project", "for ada"):
            assert f"Yes, and always {where}: Bash(git push *)" in " ".join(text.replace("│", " ").split())
        assert "2 more waiting" in text
        color = host.screen.query_one(".dialog--head").visual.spans[0].style  # type: ignore[attr-defined]
        assert "#6ea8fe" in str(color)


@pytest.mark.anyio
@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("key", "decision", "scope"),
    [
        ("1", Allow(), "once"), ("y", Allow(), "once"), ("enter", Deny(NO), "once"), ("2", Allow(), "all"),
        ("a", Allow(), "all"), ("3", Allow(), "project"), ("p", Allow(), "project"), ("4", Allow(), "agent"),
        ("t", Allow(), "agent"), ("5", Deny(NO), "once"), ("n", Deny(NO), "once"),
    ],
)  # fmt: skip
async def test_each_answer_has_a_key(key: str, decision: object, scope: str) -> None:
    host = dialog(question())
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Yes, " in screen_text(host))
        await pilot.press(key)
        await until(pilot, lambda: host.heard)
        assert answered(host) == [("q1", decision, scope)]
        await until(pilot, lambda: not isinstance(host.screen, QuestionScreen))


@pytest.mark.anyio
@pytest.mark.spec("M5")
async def test_no_with_words_reaches_the_model() -> None:
    host = dialog(question())
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Yes, " in screen_text(host))
        await pilot.press("w")
        await until(pilot, lambda: host.screen.query_one(Input).has_focus)
        await pilot.press(*"1y no", "escape", "6", *"!", "enter")
        await until(pilot, lambda: host.heard)
        assert answered(host) == [("q1", Deny(f"{NO} They say: 1y no!", words="1y no!"), "once")]


@pytest.mark.anyio
@pytest.mark.spec("M10")
async def test_it_can_be_left_waiting() -> None:
    host = dialog(question())
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Yes, " in screen_text(host))
        await pilot.press("ctrl+l")
        await until(pilot, lambda: not isinstance(host.screen, QuestionScreen))
        assert host.heard == []


@pytest.mark.anyio
@pytest.mark.spec("AP2", "M10")
@pytest.mark.parametrize("words", ["", "use make"])
@pytest.mark.parametrize("tool", ["Bash", "ExitPlanMode", "AskUserQuestion"])
async def test_escape_is_a_no_that_can_be_worded(tool: str, words: str) -> None:
    args: dict[str, Any] = QUESTIONS if tool == "AskUserQuestion" else {"plan": "1. Read"} if tool != "Bash" else {}
    host = dialog(question(tool=tool, suggestions=(), **args))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Esc: " in screen_text(host))
        await pilot.press("escape")
        await until(pilot, lambda: host.screen.query_one(Input).has_focus)
        await pilot.press("escape")  # back to the answers
        await until(pilot, lambda: not host.screen.query_one(Input).has_focus)
        await pilot.press("escape", *words, "enter")
        await until(pilot, lambda: host.heard)
    [(_, decision, _)] = answered(host)
    assert isinstance(decision, Deny) and decision.words == words
    assert not words or decision.reason.endswith(f" They say: {words}")


@pytest.mark.anyio
@pytest.mark.spec("AP2")
async def test_escape_in_a_list_says_no_to_the_one_under_the_cursor() -> None:
    view = make_view()
    ask(view, question("q1"), question("q2", command="make"))
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents, grace=0.0))
    async with host.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "2 questions are waiting" in screen_text(host))
        await pilot.press("down", "escape")
        await until(pilot, lambda: isinstance(host.screen, QuestionScreen) and host.screen.query_one(Input).has_focus)
        await pilot.press(*"no", "enter")
        await until(pilot, lambda: host.heard)
    assert answered(host) == [("q2", Deny(f"{NO} They say: no", words="no"), "once")]


@pytest.mark.anyio
async def test_keys_typed_when_it_appears_answer_nothing() -> None:
    host = dialog(question(), grace=60.0)
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Yes, " in screen_text(host))
        await pilot.press("y", "1", "3", "a", "enter", "n")
        await pilot.click("Choices", offset=(3, 0))
        await pilot.pause()
        assert host.heard == [] and isinstance(host.screen, QuestionScreen)


@pytest.mark.anyio
async def test_the_mouse_answers() -> None:
    host = dialog(question())
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "n  No" in screen_text(host))
        await pilot.click("Choices", offset=(3, 1))
        await until(pilot, lambda: host.heard)
        assert answered(host) == [("q1", Allow(), "once")]


@pytest.mark.anyio
@pytest.mark.spec("A12")
async def test_hostile_commands_are_shown_whole_and_written_out() -> None:
    hidden = f"echo ok{' ' * 500}; rm -rf / #{EVIL}"
    host = dialog(question(command=hidden, suggestions=(f"Bash({EVIL})",), name=f"ada{EVIL}"))
    async with host.run_test(size=(60, 40)) as pilot:
        await until(pilot, lambda: "Yes, " in screen_text(host))
        text = screen_text(host)
        assert "echo ok ⟨500 blanks⟩ ; rm -rf / #\\x1b[31mred\\x1b]52;c;aGk=" in text.replace(" │\n│ ↪ ", "")
        assert "\u202e" not in text and "\u200b" not in text and not any(ord(c) < 32 and c != "\n" for c in text)
        assert "[bold]x[/bold]" in text


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(60, 20), (100, 30), (200, 50)])
async def test_however_long_it_is_the_answers_can_be_seen(size: tuple[int, int]) -> None:
    host = dialog(question(tool="Write", file_path="/p/a.py", content="\n".join(f"line {n}" for n in range(200))))
    async with host.run_test(size=size) as pilot:
        await until(pilot, lambda: "w  No, and say why" in screen_text(host) and "Ctrl+L: later" in screen_text(host))
        await until(pilot, lambda: "of 200: PgDn to the end to allow it" in screen_text(host))
        assert "+ line 0" in screen_text(host) and ": Write " in screen_text(host)
        await pilot.press("pagedown")
        await until(pilot, lambda: "+ line 0" not in screen_text(host))
        assert "y  Yes, this once" in screen_text(host)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
async def test_a_long_list_leaves_room_for_its_keys(size: tuple[int, int]) -> None:
    view = make_view()
    ask(view, *(question(f"q{n}", command="\n".join(["make"] * 30)) for n in range(20)))
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents))  # type: ignore[arg-type]
    async with host.run_test(size=size) as pilot:
        await until(
            pilot, lambda: "Space selects" in screen_text(host) and "20 questions are waiting" in screen_text(host)
        )
        assert screen_text(host).count("[ ] ada") >= 2 and "Esc" in screen_text(host)


@pytest.mark.anyio
@pytest.mark.spec("A12")
async def test_a_megabyte_on_one_line_is_there_to_the_end() -> None:
    host = dialog(question(command="x" * 1_000_000 + "THE END"))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "PgDn to the end" in screen_text(host))
        assert "lines 1 to" in screen_text(host)
        await pilot.press("tab")
        await until(pilot, lambda: host.screen.focused is not None and host.screen.focused.id is None)
        host.screen.query_one("Sheet").scroll_end(animate=False)
        await until(pilot, lambda: "THE END" in screen_text(host))


@pytest.mark.spec("A12")
def test_nothing_that_is_asked_for_is_left_out() -> None:
    rows = rows_of("Bash", {"command": "ls", "timeout": 5, "odd": {"deep": ["\x1b[2J"]}})
    text = "\n".join(row.text for row in rows)
    assert "timeout: 5" in text and "odd: {" in text and "\\u001b[2J" in text
    assert rows_of("mcp__x__y", {}) == []
    assert "command: 7" in rows_of("Bash", {"command": 7})[0].text


def test_an_edit_is_a_diff() -> None:
    args = {"file_path": "/a", "old_string": "a\nb\nc\n", "new_string": "a\nB\nc\n", "replace_all": True}
    rows = rows_of("Edit", args)
    assert [(r.kind, r.text) for r in rows] == [
        ("strong", "/a"), ("dim", "a"), ("del", "b"), ("add", "B"), ("dim", "c"), ("plain", "replace_all: true"),
    ]  # fmt: skip
    assert [r.text for r in compare("a\n", "a")] == ["the last line loses its line end"]
    assert {r.kind for r in compare("a\n" * 5_000, "b\n" * 5_000)} == {"del", "add"}


@pytest.mark.anyio
async def test_a_written_file_is_compared_with_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\n")
    host = dialog(question(tool="Write", file_path=str(path), content="one\nthree\n"))
    async with host.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "- two" in screen_text(host) and "+ three" in screen_text(host))
        assert "+1 -1" in screen_text(host)


def test_only_plain_files_are_read_for_a_comparison(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", "/dev/zero", "relative", "/\x00"):
        assert read_before("Write", {"file_path": str(path)}) is None
    assert read_before("Edit", {"file_path": str(tmp_path)}) is None


@pytest.mark.anyio
@pytest.mark.spec("H2")
async def test_a_plan_is_read_and_approved_or_sent_back() -> None:
    plan = question(tool="ExitPlanMode", suggestions=(), name="main", agent="main-1", plan="1. Read\n2. Write")
    host = dialog(plan)
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "main has a plan" in screen_text(host))
        assert "2 Write" in screen_text(host) and "always" not in screen_text(host)
        await pilot.press("w")
        await until(pilot, lambda: host.screen.query_one(Input).has_focus)
        await pilot.press(*"test it", "enter")
        await until(pilot, lambda: host.heard)
        assert answered(host) == [("q1", Deny(f"{NO} They say: test it", words="test it"), "once")]
    host = dialog(plan)
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "main has a plan" in screen_text(host))
        await pilot.press("y")
        await until(pilot, lambda: host.heard)
        assert answered(host) == [("q1", Allow(), "once")]


@pytest.mark.anyio
async def test_an_agents_own_questions_are_answered_one_after_the_other() -> None:
    asked = question(tool="AskUserQuestion", suggestions=(), **QUESTIONS)
    host = dialog(asked)
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Which database?" in screen_text(host))
        assert "■ ada asks you" in screen_text(host)
        await pilot.press("2")
        await until(pilot, lambda: "Which parts?" in screen_text(host))
        await pilot.press("space", "down", "space", "enter")
        await until(pilot, lambda: host.heard)
        [(_, decision, _)] = answered(host)
        assert isinstance(decision, Allow) and decision.args is not None
        assert decision.args["answers"] == {"Which database?": "Postgres", "Which parts?": "API, Web"}
        assert decision.args["questions"] == asked.args["questions"]


@pytest.mark.anyio
async def test_an_agents_question_takes_other_words_or_none() -> None:
    one = {"questions": QUESTIONS["questions"][:1]}
    host = dialog(question(tool="AskUserQuestion", suggestions=(), **one))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Something else" in screen_text(host))
        await pilot.press("3")
        await until(pilot, lambda: host.screen.query_one(Input).has_focus)
        await pilot.press(*"DuckDB", "enter")
        await until(pilot, lambda: host.heard)
        assert answered(host)[0][1].args["answers"] == {"Which database?": "DuckDB"}
    host = dialog(question(tool="AskUserQuestion", suggestions=(), **one))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Skip" in screen_text(host))
        await pilot.press("4")
        await until(pilot, lambda: host.heard)
        assert isinstance(answered(host)[0][1], Deny)


@pytest.mark.anyio
async def test_a_question_that_cannot_be_read_is_shown_like_any_call() -> None:
    host = dialog(question(tool="AskUserQuestion", suggestions=(), questions="what?"))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "questions: what?" in screen_text(host))


@pytest.mark.anyio
@pytest.mark.spec("M5", "M10")
async def test_several_are_answered_together() -> None:
    view = make_view()
    ask(view, question("q1"), question("q2", command="make"), question("q3", command="curl x"))
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents, grace=0.0))
    async with host.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "3 questions are waiting for you" in screen_text(host))
        assert "always: Bash(git push *)" in screen_text(host)
        await pilot.press("space", "space", "y")
        await until(pilot, lambda: len(host.heard) == 2)
        assert answered(host) == [("q1", Allow(), "once"), ("q2", Allow(), "once")]
        view.questions[:] = view.questions[2:]
        await until(pilot, lambda: "1 question is waiting for you" in screen_text(host))
        await pilot.press("n")
        await until(pilot, lambda: len(host.heard) == 3)
        assert answered(host)[2] == ("q3", Deny(NO), "once")
        view.questions.clear()
        await until(pilot, lambda: not isinstance(host.screen, QuestionsScreen))


@pytest.mark.anyio
async def test_a_list_opens_one_whole_and_never_approves_a_plan_blindly() -> None:
    view = make_view()
    plan = question("q1", tool="ExitPlanMode", suggestions=(), plan="1. Delete everything")
    ask(view, plan)
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents, grace=0.0))
    async with host.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "1 question is waiting" in screen_text(host))
        await pilot.press("y")
        await until(pilot, lambda: isinstance(host.screen, QuestionScreen))
        assert host.heard == []
        await pilot.press("ctrl+l", "enter")
        await until(pilot, lambda: isinstance(host.screen, QuestionScreen))


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "trusted"), [("y", True), ("n", False), ("escape", False), ("enter", False)])
async def test_trust_lists_what_would_run(key: str, trusted: bool) -> None:
    found = TrustContents(
        Path("/home/me/project"), (".claude/settings.json",), ("reviewer",), (), (), ("PreToolUse",), (EVIL,)
    )
    host = Host(lambda: TrustScreen(found, grace=0.0))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Do you trust this directory?" in screen_text(host))
        text = screen_text(host)
        assert "/home/me/project" in text and "PreToolUse" in text and ".claude/settings.json" in text
        assert "reviewer" in text and "\\x1b[31mred" in text
        await pilot.press(key)
        await until(pilot, lambda: host.results)
        assert host.results == [trusted]
