"""SQL placeholders are all `?`: numbered ones with a sequence are an error from Python 3.14 on."""

import ast
import re
from pathlib import Path

import teamwright

SOURCES = Path(teamwright.__file__).parent
VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|REPLACE)\b")


def test_no_statement_numbers_its_placeholders() -> None:
    numbered = [
        f"{file.relative_to(SOURCES)}:{node.lineno}"
        for file in (SOURCES / "store").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if VERB.search(node.value) and re.search(r"\?\d", node.value)
    ]
    assert numbered == []
