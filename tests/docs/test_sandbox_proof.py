"""Each class of attack in docs/sandbox-proof.md names tests, and each of these tests exists."""

import ast
import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/sandbox-proof.md"
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)


@functools.cache
def names_in(file: str) -> frozenset[str]:
    nodes = ast.walk(ast.parse((TESTS / file).read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_there_are_sixty_classes() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 61))


@pytest.mark.parametrize(("number", "what", "by"), ROWS, ids=[number for number, _, _ in ROWS])
def test_each_is_tried_by_tests_that_exist(number: str, what: str, by: str) -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", by)
    assert named and len(named) == by.count("::"), what
    for file, test in named:
        assert test in names_in(file), f"{number}: {file} has no {test}"
