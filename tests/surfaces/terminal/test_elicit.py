"""A server's questions to the person: each kind of field, errors in an answer, and every way out."""

from typing import Any

import pytest
from textual.widgets import Input
from tui_parts import EVIL, Host, answered, make_view, screen_text, until

from teamwright.core.ids import AgentId, CallId, QuestionId
from teamwright.core.permissions.consent import Allow, Deny, Question
from teamwright.surfaces.terminal.dialogs.elicit_form import DECLINED, fields_of
from teamwright.surfaces.terminal.dialogs.question_list import screen_for

pytestmark = [pytest.mark.anyio, pytest.mark.spec("D8")]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer"},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["small", "medium"]},
        "sure": {"type": "boolean", "description": "really?"},
    },
    "required": ["name", "sure"],
}


def elicitation(schema: Any, message: str = "Who are you?") -> Question:
    args = {"server": "near", "message": message, "schema": schema}
    return Question(QuestionId("q1"), AgentId("main"), "MCP server near", CallId(""), "Elicitation", args, "asks")


def host_of(question: Question) -> Host:
    return Host(lambda: screen_for(question, make_view().agents, grace=0.0))


async def test_field_after_field() -> None:
    host = host_of(elicitation(SCHEMA))
    async with host.run_test(size=(90, 30)) as pilot:
        await until(pilot, lambda: "Your name" in screen_text(host))
        assert "the MCP server near asks you" in screen_text(host) and "Who are you?" in screen_text(host)
        await pilot.press("enter")
        await until(pilot, lambda: "this field is required" in screen_text(host))
        await pilot.press(*"Ada", "enter")
        await until(pilot, lambda: "field 2 of 4" in screen_text(host))
        await pilot.press(*"old", "enter")
        await until(pilot, lambda: "enter a number" in screen_text(host))
        host.screen.query_one(Input).value = "36"
        await pilot.press("enter")
        await until(pilot, lambda: "medium" in screen_text(host))
        await pilot.press("2")
        await until(pilot, lambda: "really?" in screen_text(host))
        await pilot.press("1")
        await until(pilot, lambda: bool(answered(host)))
    ((_, decision, _),) = answered(host)
    assert isinstance(decision, Allow) and decision.args is not None
    assert decision.args["content"] == {"name": "Ada", "age": 36, "size": "m", "sure": True}


@pytest.mark.parametrize(("schema", "key"), [(SCHEMA, "ctrl+n"), (SCHEMA, "escape"), ({}, "n"), ("nonsense", "n")])
async def test_a_person_may_decline(schema: Any, key: str) -> None:
    host = host_of(elicitation(schema))
    async with host.run_test(size=(90, 30)) as pilot:
        await until(pilot, lambda: "asks you" in screen_text(host) and "Ctrl+L: decide later" in screen_text(host))
        await pilot.press(key)
        await until(pilot, lambda: bool(answered(host)))
    assert answered(host)[0][1] == Deny(DECLINED)


async def test_what_a_server_writes_cannot_move_the_cursor() -> None:
    host = host_of(elicitation({"properties": {EVIL: {"type": "string", "title": EVIL}}}, EVIL))
    async with host.run_test(size=(90, 30)) as pilot:
        await until(pilot, lambda: "asks you" in screen_text(host))
        assert "\x1b" not in screen_text(host)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: len(host.screen_stack) == 1)
    assert answered(host) == []


async def test_the_next_key_may_have_been_meant_for_something_else() -> None:
    host = Host(lambda: screen_for(elicitation(SCHEMA), make_view().agents, grace=600.0))
    async with host.run_test(size=(90, 30)) as pilot:
        await until(pilot, lambda: "Your name" in screen_text(host))
        await pilot.press(*"fix it", "enter")
        await until(pilot, lambda: host.screen.query_one(Input).value == "fix it")
        assert "field 1 of 4" in screen_text(host)
    assert answered(host) == []


def test_other_questions_are_not_taken_for_one() -> None:
    other = Question(QuestionId("q"), AgentId("main"), "x", CallId(""), "Bash", {}, "")
    assert fields_of(other) is None
