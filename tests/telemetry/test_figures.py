"""Figures of single tool calls."""

from typing import Any

import pytest

from teamwright.core.data.event import AgentStarted
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.telemetry.facts.ids import Spot
from teamwright.telemetry.facts.shapes import ToolUse, Who
from teamwright.telemetry.signals.figures import changed_lines

WHO = Who(AgentId("a" * 17), 0, AgentStarted(SessionId("s"), "/p", "1"))


def use(**fields: Any) -> ToolUse:
    spot = Spot("1" * 32, "1" * 16)
    return ToolUse(who=WHO, spot=spot, parent="", start=0, end=1, name="Write", call=CallId("toolu_1"), **fields)


@pytest.mark.spec("U10")
@pytest.mark.parametrize(("content", "lines"), [("", 0), ("one", 1), ("one\n", 1), ("one\ntwo", 2), ("\n", 1)])
def test_a_new_file_adds_as_many_lines_as_it_has(content: str, lines: int) -> None:
    assert changed_lines(use(args=lambda: {"content": content}, data={"type": "create"})) == (lines, 0)
