"""A yes is deliberate: Enter means No, padding is a count, and nothing unseen can be allowed."""

from typing import Any

import pytest
from textual.pilot import Pilot
from tui_parts import Host, answered, ask, make_view, question, screen_text, until

from teamwright.core.ids import AgentId, CallId, QuestionId
from teamwright.core.permissions.consent import Allow, Deny, Question
from teamwright.library.trust.decision import Part, TrustContents
from teamwright.surfaces.terminal.dialogs.base import QuestionScreen, make_room, show_hidden
from teamwright.surfaces.terminal.dialogs.question_list import QuestionsScreen, screen_for
from teamwright.surfaces.terminal.dialogs.trust_screen import TrustScreen
from teamwright.surfaces.terminal.widgets.sheet import Sheet
from teamwright.surfaces.view.diff import rows_of
from teamwright.surfaces.view.sentences import SAID_NO as NO

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M5")]
LONG = "\n".join(f"echo {n}" for n in range(200))
PLAN = {"tool": "ExitPlanMode", "suggestions": (), "name": "main", "agent": "main-1", "plan": "1. Write"}


def elicitation(message: str, schema: Any) -> Question:
    args = {"server": "near", "message": message, "schema": schema}
    return Question(QuestionId("q1"), AgentId("main"), "MCP server near", CallId(""), "Elicitation", args, "asks")


def dialog(asked: Question) -> Host:
    return Host(lambda: screen_for(asked, make_view().agents, grace=0.0))


async def to_the_end(pilot: Pilot[Any], host: Host) -> None:
    sheet = host.screen.query_one(Sheet)
    while not sheet.is_read:
        before = sheet.scroll_offset.y
        await pilot.press("pagedown")
        await until(pilot, lambda before=before: sheet.scroll_offset.y > before)


@pytest.mark.parametrize(
    "asked",
    [
        question(),
        question(suggestions=()),
        question(**PLAN),
        elicitation("Delete it all?", {}),
        elicitation("?", {"properties": {"sure": {"type": "boolean", "title": "Delete?"}}, "required": ["sure"]}),
    ],
    ids=["permission", "without rules", "plan", "server", "server's yes or no"],
)
async def test_enter_alone_never_allows(asked: Question) -> None:
    host = dialog(asked)
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Ctrl+L: decide later" in screen_text(host))
        await pilot.press("enter")
        await until(pilot, lambda: host.heard)
    assert isinstance(answered(host)[0][1], Deny)


@pytest.mark.parametrize(
    ("padding", "mark"),
    [
        (" " * 4000, "⟨4,000 blanks⟩"), ("\t" * 300, "⟨300 blanks⟩"), ("\u2003" * 90, "⟨90 blanks⟩"),
        ("\u2800" * 90, "⟨90 blanks⟩"), ("\u3000 \xa0" * 30, "⟨90 blanks⟩"), ("\n" * 400, "⟨399 empty lines⟩"),
        (" \n\t\n" * 40, "⟨79 empty lines⟩"),
    ],
)  # fmt: skip
async def test_padding_is_a_count(padding: str, mark: str) -> None:
    host = dialog(question(command=f"echo hi{padding}; touch pwned"))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ctrl+L: decide later" in screen_text(host))
        assert mark in screen_text(host) and "; touch pwned" in screen_text(host)
    view = make_view()
    ask(view, question(command=f"echo hi{padding}; touch pwned"))
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents, grace=0.0))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: mark in screen_text(host) and "; touch pwned" in screen_text(host))


def test_an_indentation_is_no_padding() -> None:
    code = "def f():\n            return 1\n\n\nx = 1\n"
    assert [row.text for row in rows_of("Write", {"file_path": "/a", "content": code})][1:] == code.rstrip().split("\n")


@pytest.mark.parametrize("key", ["y", "1", "t", "a", "p", "2", "3", "4", "click"])
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
async def test_no_yes_before_the_last_line_was_seen(key: str, size: tuple[int, int]) -> None:
    host = dialog(question(command=LONG))
    async with host.run_test(size=size) as pilot:
        await until(pilot, lambda: "to allow it" in screen_text(host))
        if key == "click":
            await pilot.click("Choices", offset=(3, 1))
        else:
            await pilot.press("down", "enter", key)  # before it was read, Down reaches only No
        await until(pilot, lambda: True)
        assert not [one for one in answered(host) if isinstance(one[1], Allow)]
    host = dialog(question(command=LONG))
    async with host.run_test(size=size) as pilot:
        await until(pilot, lambda: "to allow it" in screen_text(host))
        await to_the_end(pilot, host)
        await until(pilot, lambda: "echo 199" in screen_text(host))
        await (pilot.click("Choices", offset=(3, 1)) if key == "click" else pilot.press(key))
        await until(pilot, lambda: host.heard)
        assert isinstance(answered(host)[0][1], Allow)


async def test_a_no_needs_no_reading() -> None:
    host = dialog(question(command=LONG))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "to allow it" in screen_text(host))
        await pilot.press("n")
        await until(pilot, lambda: host.heard)
    assert answered(host) == [("q1", Deny(NO), "once")]


async def test_a_dialog_that_closes_is_laid_out_no_more() -> None:
    host = dialog(question(command="make"))
    async with host.run_test(size=(80, 30)) as pilot:
        await until(pilot, lambda: "Ctrl+L: decide later" in screen_text(host))
        await host.screen.query(".dialog--more").remove()  # the parts disappear one by one
        make_room(host.screen)
        show_hidden(host.screen, Sheet.Scrolled(1, 2, 3), yes=())


async def test_rules_that_are_too_long_for_an_answer_are_read_with_the_rest() -> None:
    rules = tuple(f"Bash({n} {'x' * 100} *)" for n in range(8))
    host = dialog(question(suggestions=rules))
    async with host.run_test(size=(60, 20)) as pilot:
        await until(pilot, lambda: "always in this session: the rules above" in screen_text(host))
        await pilot.press("a")
        await pilot.pause()
        assert not host.heard
        await to_the_end(pilot, host)
        await pilot.press("a")
        await until(pilot, lambda: host.heard)
        assert answered(host) == [("q1", Allow(), "all")]


async def test_a_list_allows_only_what_was_seen_whole() -> None:
    view = make_view()
    ask(view, question("q1"), question("q2", command=LONG))
    host = Host(lambda: QuestionsScreen(lambda: view.questions, view.agents, grace=0.0))
    async with host.run_test(size=(100, 30)) as pilot:
        await until(
            pilot, lambda: "2 questions are waiting" in screen_text(host) and "always: Bash" in screen_text(host)
        )
        await pilot.press("space")
        await until(pilot, lambda: "y opens it" in screen_text(host))
        await pilot.press("space")
        await until(pilot, lambda: screen_text(host).count("[x]") == 2)
        await pilot.press("y")
        await until(pilot, lambda: isinstance(host.screen, QuestionScreen))
        assert answered(host) == [("q1", Allow(), "once")]


async def test_a_servers_words_are_read_to_the_end() -> None:
    host = dialog(elicitation("word\n" * 300 + "and delete it all", {}))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "to allow it" in screen_text(host))
        await pilot.press("y")
        await pilot.pause()
        assert not host.heard
        await to_the_end(pilot, host)
        await until(pilot, lambda: "and delete it all" in screen_text(host))
        await pilot.press("y")
        await until(pilot, lambda: host.heard)
    assert isinstance(answered(host)[0][1], Allow)


async def test_trust_is_read_to_the_end(tmp_path: Any) -> None:
    found = TrustContents(tmp_path, parts=(Part("hooks", tuple(f"Stop: make {n}" for n in range(100))),))
    host = Host(lambda: TrustScreen(found, grace=0.0))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "to allow it" in screen_text(host))
        await pilot.press("y", "2")
        await pilot.pause()
        assert not host.results
        await to_the_end(pilot, host)
        await until(pilot, lambda: "make 99" in screen_text(host))
        await pilot.press("y")
        await until(pilot, lambda: host.results)
    assert host.results == [True]


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (100, 30)])
async def test_no_letter_of_a_long_command_lies_below_the_scrollbar(size: tuple[int, int]) -> None:
    command = "".join(f"{n:04}" for n in range(1, 900))
    host = dialog(question(command=command))
    async with host.run_test(size=size) as pilot:
        await until(pilot, lambda: "PgDn to the end to allow it" in screen_text(host))
        sheet = host.screen.query_one(Sheet)
        await until(pilot, lambda: sheet.show_vertical_scrollbar and sheet.is_laid_out)
        shown = [line.strip("│ ") for line in screen_text(host).split("\n")]
        lines = [line.removeprefix("↪ ").rstrip(" ▁▂▃▄▅▆▇█") for line in shown]
        digits = "".join(line for line in lines if line.isdigit())
    assert len(digits) > 3 * (size[0] - 10) and command.startswith(digits)
