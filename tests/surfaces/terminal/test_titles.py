"""What a call is about, in a few words; and table lines that are too long for the screen."""

from typing import Any

import pytest

from teamwright.surfaces.terminal.render.cells import hang
from teamwright.surfaces.view.text import title

ASKED = [{"question": "Which one?"}, {"question": "How many?"}, "not a question"]


@pytest.mark.parametrize(
    ("tool", "args", "shown"),
    [
        ("Bash", {"command": "ls -la", "description": "lists"}, "ls -la"),
        ("Agent", {"description": "prices"}, "general-purpose: prices"),
        ("Agent", {"name": "ada", "subagent_type": "Explore", "description": "prices"}, "ada (Explore): prices"),
        ("SendMessage", {"to": "ben", "summary": "where", "message": "It is here."}, "ben: where"),
        ("SendMessage", {"to": "ben", "message": "It is\nhere."}, "ben: It is here."),
        ("SendMessage", {"to": "ben", "message": {"type": "shutdown_request"}}, "ben: shutdown request"),
        ("TaskUpdate", {"taskId": "3", "status": "completed"}, "#3 completed"),
        ("TaskUpdate", {"taskId": "3", "owner": "ada"}, "#3 owner ada"),
        ("ExitPlanMode", {"plan": "\n# A plan\n\n1. do it"}, "A plan"),
        ("AskUserQuestion", {"questions": ASKED}, "Which one? · How many?"),
        ("AskUserQuestion", {"questions": 3, "other": "x"}, "x"),
        ("mcp__a__b", {"n": 3, "words": "hello\x1b[2J"}, "hello\\x1b[2J"),
        ("Nothing", {}, ""),
    ],
)
def test_a_title_says_what_a_call_is_about(tool: str, args: dict[str, Any], shown: str) -> None:
    assert title(tool, args) == shown


def test_a_long_line_of_a_table_goes_on_beneath_its_last_column() -> None:
    assert (
        hang("  Esc    end the running turn, or go back", 30) == "  Esc    end the running turn,\n         or go back"
    )
    assert hang("  short", 30) == "  short"
    assert hang("  many words and no columns here", 20) == "  many words and no\n  columns here"
    assert max(map(len, hang("x" * 100, 30).split("\n"))) == 30


@pytest.mark.spec("AP9")
@pytest.mark.parametrize(
    ("tool", "path", "shown"),
    [
        ("Read", "/home/me/shop/src/a.py", "src/a.py"),
        ("Edit", "src/a.py", "src/a.py"),
        ("Write", "/home/me/shopping/a.py", "/home/me/shopping/a.py"),
        ("Read", "/home/me/shop", "/home/me/shop"),
    ],
)
def test_a_file_is_named_from_the_working_directory(tool: str, path: str, shown: str) -> None:
    assert title(tool, {"file_path": path}, "/home/me/shop") == shown
    assert title(tool, {"file_path": path}, "/home/me/shop/") == shown
