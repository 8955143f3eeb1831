"""The examples run unchanged, as programs of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path


def run(name: str, place: Path, *args: str) -> list[str]:
    """The lines that an example prints; in an empty project, without a key."""
    env = {"HOME": str(place), "PATH": os.environ["PATH"], "TEAMWRIGHT_HOME": str(place / "state")}
    ended = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *args],
        cwd=place / "project", env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_ask(place: Path) -> None:
    call, outcome, answer = run("ask.py", place)
    assert call.startswith("calls Bash") and outcome == "  fine" and "changed nothing" in answer
    assert not (place / "state").exists(), "an example leaves nothing behind"


def test_ask_takes_a_prompt_and_a_model(place: Path) -> None:
    script = place / "script.json"
    script.write_text(json.dumps([{"tool": "Bash", "input": {"command": "touch made"}}, "I may not."]))
    call, denied, failed, answer = run("ask.py", place, "Make it.", f"script/{script}")
    assert "touch made" in call and "nobody is attached" in denied and failed == "  failed" and answer == "I may not."
    assert not (place / "project" / "made").exists()


def test_own_tool(place: Path) -> None:
    answer, stock, *results = run("own_tool.py", place)
    assert "ordered 50" in answer and stock == "{'bolt': 120, 'nut': 50}"
    assert results[:2] == ["fine 120", "fine 0"] and results[2].startswith("failed There is no part 'gear'")
    assert json.loads(results[3].removeprefix("fine "))["now"] == 50


def test_answer_questions(place: Path) -> None:
    lines = run("answer_questions.py", place)
    assert [line for line in lines if line.startswith("asked: ")] == [
        "asked: Write {'file_path': 'plan.md', 'content': '1. Measure.\\n'}",
        "asked: Bash {'command': 'touch built'}",
    ]
    assert lines[-1] == r"plan.md: '<!-- by an agent -->\n1. Measure.\n'"
    assert not any("built:" in line for line in lines)


def test_team(place: Path) -> None:
    ready, told = (lines := run("team.py", place))[:2], lines[2:]
    assert sorted(ready) == ["clerk: Ready.", "cook: Ready."]
    assert sorted(told[:2]) == ["clerk: The menu is written.", "cook: The soup is done."]
    assert told[2:] == [
        "The clerk answers: Soup.",
        "#1 Make soup: completed by cook",
        "#2 Write the menu: completed by clerk",
        "cook leaves: True",
        "clerk leaves: True",
        "menu.txt: Today: soup",
    ]


def test_every_example_is_tested() -> None:
    tested = {"ask.py", "own_tool.py", "answer_questions.py", "team.py"}
    assert {file.name for file in EXAMPLES.glob("*.py")} == tested
