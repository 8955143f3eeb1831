"""An agent in a worktree whose file tools climb into the tree that it came from: refused in every mode."""

import json
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.models.scripted import call

pytestmark = [pytest.mark.anyio, pytest.mark.spec("W1", "V17")]

UP = "../../.."  # from the worktree to the tree around it
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "id": "a", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
WAYS = (
    UP,
    f"./sub/../{UP}",
    "up",  # a link that was committed
    "sub/far",  # one that leads by an absolute path
    "sub/../up/sub/..",
    "up/.teamwright/worktrees/../..",
    "up/./up2",
)


@pytest.fixture
def repository(walker: Walker) -> Path:
    place = walker.project
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", str(place))
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (place / "README.md").write_text("hello\n")
    (place / "book.ipynb").write_text(NOTEBOOK)
    (place / "sub").mkdir()
    (place / "up").symlink_to(UP)
    (place / "up2").symlink_to(".")
    (place / "sub/far").symlink_to(place)
    (place / "leaf").symlink_to(f"{UP}/README.md")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    return place


def attempts() -> list[Any]:
    names, steps = count(), list[Any]()
    for way in WAYS:
        steps += [
            call("Read", file_path=f"{way}/README.md"),
            call("Edit", file_path=f"{way}/README.md", old_string="hello", new_string="planted"),
            call("Write", file_path=f"{way}/README.md", content="planted\n"),
            call("Write", file_path=f"{way}/new{next(names)}/deep", content="planted\n"),
            call("Read", file_path=f"{way}/book.ipynb"),
            call("NotebookEdit", notebook_path=f"{way}/book.ipynb", cell_id="a", new_source="planted"),
            call("NotebookEdit", notebook_path=f"{way}/book.ipynb", edit_mode="insert", new_source="planted"),
        ]
    return [*steps, call("Write", file_path="leaf", content="planted\n"), call("Write", file_path="mine", content="x")]


@pytest.mark.parametrize("rule", ["", "Edit(**)"])
@pytest.mark.parametrize("mode", MODES)
async def test_no_way_up_is_open(walker: Walker, repository: Path, mode: Mode, rule: str) -> None:
    before = {path: path.read_bytes() for path in repository.iterdir() if path.is_file()}
    names = {path.name for path in repository.iterdir()}
    child = call("Agent", description="work apart", prompt="SCRIPT:child", isolation="worktree")
    scripts = {"main": [child, "end"], "child": [*attempts(), "done"]}
    settings = json.dumps({"permissions": {"allow": ["Agent", "Edit", "Write", "NotebookEdit", rule] if rule else []}})
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode=mode, settings=settings)
    after = {path.name: path.read_bytes() for path in repository.iterdir() if path.is_file()}
    assert after == {path.name: data for path, data in before.items()}
    assert {path.name for path in repository.iterdir()} - names <= {".teamwright"}
    changes = [words for words, failed in walk.results if not failed and "planted" in words]
    assert not changes, changes
    trees = list((repository / ".teamwright/worktrees").glob("*/mine"))
    assert len(trees) == (mode in ("acceptEdits", "bypassPermissions") or (bool(rule) and mode != "plan")), trees
