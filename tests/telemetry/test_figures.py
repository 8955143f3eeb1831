"""Figures of single tool calls."""

from typing import Any, Literal

import pytest

from teamwright.core.data.event import AgentStarted
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.core.permissions.consent import Answerer, Consent
from teamwright.telemetry.facts.ids import Spot
from teamwright.telemetry.facts.shapes import ToolUse, Who
from teamwright.telemetry.signals.figures import changed_lines, decision_of

WHO = Who(AgentId("a" * 17), 0, AgentStarted(SessionId("s"), "/p", "1"))


def use(**fields: Any) -> ToolUse:
    spot = Spot("1" * 32, "1" * 16)
    return ToolUse(who=WHO, spot=spot, parent="", start=0, end=1, name="Write", call=CallId("toolu_1"), **fields)


@pytest.mark.spec("U10")
@pytest.mark.parametrize(("content", "lines"), [("", 0), ("one", 1), ("one\n", 1), ("one\ntwo", 2), ("\n", 1)])
def test_a_new_file_adds_as_many_lines_as_it_has(content: str, lines: int) -> None:
    assert changed_lines(use(args=lambda: {"content": content}, data={"type": "create"})) == (lines, 0)


@pytest.mark.spec("U10")
@pytest.mark.parametrize(
    ("by", "verdict", "told"),
    [
        ("person", "allow", ("accept", "user_temporary")),
        ("person", "deny", ("reject", "user_reject")),
        ("code", "allow", ("accept", "user_temporary")),  # a program answers in a person's place, and is no hook
        ("code", "deny", ("reject", "user_reject")),
        ("nobody", "expired", ("reject", "user_abort")),
    ],
)
def test_who_decided_about_a_call(
    by: Answerer, verdict: Literal["allow", "deny", "expired"], told: tuple[str, str]
) -> None:
    consent = Consent(by, "terminal", verdict, 0, 1)
    assert decision_of(use(args=dict, consent=consent)) == told
