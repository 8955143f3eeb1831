"""There is one way into a box: no other part of the program knows how to make one or start a program in it."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import teamwright

ROOT = Path(teamwright.__file__).parent
BOXES = ROOT / "host" / "sandbox"
MECHANISMS = re.compile(r"\b(?:bwrap|landlock|seatbelt|sandbox-exec|nsenter|seccomp)\b", re.IGNORECASE)
STARTERS = {"bwrap", "landlock", "seatbelt"}
MAKERS = {"runtime/sandbox/fence.py", "host/sandbox/probe.py"}  # of boxes
RUNNERS = {"host/process/run.py", "host/sandbox/probe.py"}  # of programs in them


@functools.cache
def sources() -> list[tuple[str, ast.Module]]:
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in sorted(ROOT.rglob("*.py"))]


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def calls(tree: ast.Module) -> Iterator[str]:
    """The words of each call, such as `box.start` or `Box`."""
    found = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (ast.unparse(named) for named in found if isinstance(named, ast.Name | ast.Attribute))


@pytest.mark.spec("V2")
def test_only_a_box_starts_programs_by_a_mechanism() -> None:
    starts = re.compile(rf"teamwright\.host\.sandbox\.(?:{'|'.join(STARTERS)})(?:\.start)?")
    users = {name for name, tree in sources() if any(starts.fullmatch(one) for one in imported(tree))}
    assert users == {"host/sandbox/box.py"}


@pytest.mark.spec("V2")
def test_boxes_are_made_and_used_in_two_places_each() -> None:
    called = {name: set(calls(tree)) for name, tree in sources()}
    made = {name for name, words in called.items() if "Box" in words}
    used = {name for name, words in called.items() if "box.start" in words}
    assert made == MAKERS and used == RUNNERS


@pytest.mark.spec("V2")
def test_nobody_else_starts_a_mechanism_as_a_program() -> None:
    """Outside the box code these names are words for people, never an argument of a call that starts something."""
    found = [
        f"{name}: {ast.unparse(node)[:80]}"
        for name, tree in sources()
        if not (ROOT / name).is_relative_to(BOXES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2]
        in {"Popen", "run", "open_process", "execv", "execve", "posix_spawn"}
        and MECHANISMS.search(ast.unparse(node))
    ]
    assert found == []
