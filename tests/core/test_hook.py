"""What hooks are told, what their answers mean, and how several become one."""

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.data.extensions.hook import (
    EVENTS,
    GATES,
    NOTHING,
    CommandHook,
    Fired,
    HookEvent,
    HttpHook,
    matches,
    merge,
    name_hook,
    payload,
)
from teamwright.core.data.extensions.hook_answer import MOST_TEXT, read_exit, read_object, read_text, unanswered

REST = [event for event in EVENTS if event not in GATES]
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"


def answer(event: HookEvent = "PreToolUse", *, top: Any = None, **own: Any) -> Fired:
    return read_object(event, {"hookSpecificOutput": own} | (top or {}), "`h`")


@pytest.mark.spec("D9")
@pytest.mark.parametrize(
    ("matcher", "subject", "expected"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Read|Glob", "Glob", True),
        ("Read | Glob", "Glob", True),
        ("Read, Glob", "Read", True),
        ("Read|Glob", "Grep", False),
        ("mcp__x__.*", "mcp__x__do", True),
        ("mcp__x__.*", "mcp__y__do", False),
        ("mcp__my-server__do", "mcp__my-server__do_more", False),
        ("^Notebook", "NotebookEdit", True),
        ("Write.?|Edit$", "Edit", True),
        ("startup", "resume", False),
        ("Bash", "", True),
    ],
)
def test_a_matcher_is_whole_names_or_an_expression(matcher: str, subject: str, expected: bool) -> None:
    assert matches(matcher, subject) is expected


@pytest.mark.spec("D9")
def test_the_payload_has_what_is_known_and_nothing_else() -> None:
    data = payload("Stop", {"session_id": "s", "agent_id": None}, {"cwd": Path("/x"), "stop_hook_active": False})
    assert json.loads(data) == {"hook_event_name": "Stop", "session_id": "s", "cwd": "/x", "stop_hook_active": False}


def test_text_that_no_encoding_can_write_still_reaches_a_hook() -> None:
    data = payload("PreToolUse", {}, {"tool_input": {"command": "echo \ud83d"}})
    assert json.loads(data)["tool_input"] == {"command": "echo \ud83d"}
    assert data.isascii()


# --- exit status


@pytest.mark.spec("T8")
@pytest.mark.parametrize("event", EVENTS)
def test_exit_status_2_refuses_with_the_words_on_stderr(event: HookEvent) -> None:
    fired = read_exit(event, 2, '{"continue": false}', " not today\n", "`h`")
    assert fired.blocked == "not today" and fired.stop is None
    assert fired.decision == ("deny" if event in GATES else None)


def test_a_refusal_without_words_names_the_hook() -> None:
    assert "`guard`" in (read_exit("Stop", 2, "", "  ", "`guard`").blocked or "")


@pytest.mark.spec("T8")
@pytest.mark.parametrize("event", EVENTS)
def test_any_other_exit_status_is_told_and_blocks_nothing(event: HookEvent) -> None:
    fired = read_exit(event, 1, '{"decision": "block"}', f"it broke{ESCAPES}", "`h`")
    (message,) = fired.messages
    assert "`h`" in message and "exit status 1: it broke" in message and message.isprintable()
    assert fired == Fired(messages=fired.messages)


@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_that_gives_no_answer_refuses_only_where_it_guards(event: HookEvent) -> None:
    fired = unanswered(event, "`h`", "did not end within 3 s")
    if event in GATES:
        assert fired.decision == "deny" and "did not end within 3 s" in fired.reason and fired.blocked
    else:
        assert fired.blocked is None and "did not end within 3 s" in fired.messages[0]


# --- what is printed at exit 0


@pytest.mark.spec("T8")
@pytest.mark.parametrize("event", EVENTS)
def test_plain_text_is_context_only_where_the_event_says_so(event: HookEvent) -> None:
    fired = read_exit(event, 0, "it is Monday\n", "noise", "`h`")
    assert fired.context == (("it is Monday",) if event in ("SessionStart", "UserPromptSubmit") else ())
    assert fired.printed == (("it is Monday",) if event == "WorktreeCreate" else ())
    assert fired.decision is None and fired.blocked is None and fired.messages == ()


def test_text_that_only_begins_like_json() -> None:
    assert read_text("SessionStart", "{x} is a set", "`h`").context == ("{x} is a set",)
    assert "begins like JSON" in read_text("PostToolUse", "{x} is a set", "`h`").messages[0]


@pytest.mark.spec("M10")
def test_a_guard_whose_json_cannot_be_read_refuses() -> None:
    for text in ("{" * 100_000, '{"hookSpecificOutput": {"permissionDecision": "deny", "why": "no "rm""}}'):
        fired = read_text("PreToolUse", text, "`h`")
        assert fired.decision == "deny" and "begins like JSON" in fired.reason


@pytest.mark.spec("W7")
def test_the_lines_of_worktree_create_come_as_they_are() -> None:
    assert read_text("WorktreeCreate", "making it\n/a b/\u202etree\n\n", "`h`").printed == (
        "making it",
        "/a b/\u202etree",
    )
    own = {"hookSpecificOutput": {"worktreePath": "/made"}}
    assert read_text("WorktreeCreate", json.dumps(own), "`h`").printed == ("/made",)
    assert read_text("WorktreeCreate", "{odd}/dir", "`h`").printed == ("{odd}/dir",)


@pytest.mark.spec("D9")
@pytest.mark.parametrize("event", sorted(GATES))
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"permissionDecision": "allow", "permissionDecisionReason": "fine"}, Fired("allow", "fine")),
        ({"permissionDecision": "ask", "permissionDecisionReason": "hm"}, Fired("ask", "hm")),
        ({"permissionDecision": "deny", "permissionDecisionReason": "no"}, Fired("deny", "no", blocked="no")),
        ({"updatedInput": {"a": 1}}, Fired(updated_input={"a": 1})),
        ({"updatedInput": {}}, Fired(updated_input={})),
        ({"decision": {"behavior": "deny", "message": "no"}}, Fired("deny", "no", blocked="no")),
        ({"decision": {"behavior": "allow", "updatedInput": {"a": 1}}}, Fired("allow", updated_input={"a": 1})),
        ({"additionalContext": "mind the gap", "permissions": "*", "x": 1}, Fired(context=("mind the gap",))),
    ],
)
def test_the_typed_fields_of_a_gate(event: HookEvent, said: dict[str, Any], expected: Fired) -> None:
    assert answer(event, **said) == expected


def test_block_beats_what_the_same_answer_allows() -> None:
    fired = answer(top={"decision": "block", "reason": "no"}, permissionDecision="allow")
    assert (fired.decision, fired.reason) == ("deny", "no")
    assert answer(top={"decision": "approve"}).decision == "allow"


@pytest.mark.parametrize("event", REST)
def test_only_gates_decide_about_calls(event: HookEvent) -> None:
    fired = answer(event, permissionDecision="deny", updatedInput={"a": 1})
    assert (fired.decision, fired.updated_input, fired.blocked) == (None, None, None)
    fired = answer(event, top={"decision": "block", "reason": "tests are red"})
    assert (fired.decision, fired.blocked) == (None, "tests are red")


@pytest.mark.parametrize("said", ["denied", "", 7, True, ["deny"], {"deny": 1}])
def test_a_decision_that_cannot_be_read_refuses(said: Any) -> None:
    older = answer(top={"decision": said})
    assert older.decision == "deny" and older.blocked
    fired = answer(permissionDecision=said)
    assert fired.decision == "deny" and fired.blocked


def test_arguments_that_are_no_object_refuse() -> None:
    fired = answer(permissionDecision="allow", updatedInput="rm")
    assert fired.decision == "deny" and fired.updated_input is None


def test_fields_of_the_wrong_kind_are_told_and_the_rest_holds() -> None:
    top = {"systemMessage": 7, "continue": "false", "reason": [], "decision": 3, "hookSpecificOutput": "x"}
    fired = read_object("PostToolUse", top, "`h`")
    assert fired == Fired(messages=fired.messages)
    names = ("hookSpecificOutput", "reason", "systemMessage", "continue")
    assert all(f"`{n}`" in m for n, m in zip(names, fired.messages, strict=True))


@pytest.mark.parametrize("event", EVENTS)
def test_continue_false_stops_and_a_gate_refuses_too(event: HookEvent) -> None:
    fired = answer(event, top={"continue": False, "stopReason": "lunch"}, permissionDecision="allow")
    assert fired.stop == "lunch" and fired.decision == ("deny" if event in GATES else None)
    assert answer(event, top={"continue": False}).stop
    assert answer(event, top={"continue": True}).stop is None


@pytest.mark.spec("A12")
def test_nothing_that_a_hook_says_can_move_a_terminal() -> None:
    top = {"systemMessage": ESCAPES, "decision": "block", "reason": ESCAPES}
    fired = answer("UserPromptSubmit", top=top, additionalContext=f"a\tb\n{ESCAPES}")
    texts = [*fired.messages, fired.blocked or "", *fired.context]
    assert len(texts) == 3 and all(c.isprintable() or c in "\n\t" for text in texts for c in text)
    assert fired.context[0].startswith("a\tb\n")


def test_what_the_model_reads_is_bounded() -> None:
    (text,) = read_text("SessionStart", "x" * (MOST_TEXT + 5), "`h`").context
    assert len(text) < MOST_TEXT + 50 and text.endswith("5 characters left out]")


# --- together


@pytest.mark.spec("D9", "M10")
@pytest.mark.parametrize("kinds", [("allow", "deny", "ask"), ("deny", "allow", "allow"), ("allow", "allow", "deny")])
def test_one_denial_outweighs_every_allow(kinds: tuple[Any, ...]) -> None:
    fired = merge([answer(permissionDecision=kind, permissionDecisionReason=kind) for kind in kinds])
    assert (fired.decision, fired.reason, fired.blocked) == ("deny", "deny", "deny")


def test_asking_outweighs_allowing_and_silence_is_no_voice() -> None:
    assert merge([Fired("allow", "a"), NOTHING, Fired("ask", "b")]) == Fired("ask", "b")
    assert merge([NOTHING, Fired("allow")]).decision == "allow"
    assert merge([]) == NOTHING and merge([NOTHING, NOTHING]) == NOTHING


def test_everything_else_is_collected_in_the_order_of_the_files() -> None:
    one = Fired(context=("1",), blocked="x", messages=("m",), printed=("p",), updated_input={"a": 1})
    two = Fired(context=("2",), blocked="y", stop="s", updated_input={"a": 1})
    assert merge([one, two]) == Fired(
        context=("1", "2"), blocked="x\ny", stop="s", messages=("m",), printed=("p",), updated_input={"a": 1}
    )


def test_two_different_changes_are_told_and_the_last_counts() -> None:
    fired = merge([Fired(updated_input={"a": 1}), Fired(updated_input={"a": 2})])
    assert fired.updated_input == {"a": 2} and "the last one counts" in fired.messages[0]


@pytest.mark.spec("A12")
def test_a_hook_is_named_without_its_secrets() -> None:
    assert name_hook(CommandHook("curl -H 'key: s3cret' x")) == "curl …"
    assert name_hook(HttpHook("http://me:s3cret@host/a?k=s3cret#s3cret")) == "http://host/a"
    assert name_hook(CommandHook("\x1b[2Jx")).isprintable()
