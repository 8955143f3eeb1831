"""Configured hooks: what is read, and that an error costs its own hook and no other."""

from typing import Any

import pytest

from teamwright.core.data.extensions.hook import DEFAULT_SECONDS, EVENTS, CommandHook, Hook, HttpHook
from teamwright.library.hooks import MOST_HOOKS, MOST_SECONDS, read_hooks

GOOD = {"hooks": [{"type": "command", "command": "true"}]}


def only(entries: Any, event: str = "PreToolUse") -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """The hooks of one event, beside a good hook of another event that no error may cost."""
    book, problems = read_hooks([("a.json", {event: entries, "Notification": [GOOD]})])
    assert book.hooks["Notification"] == (Hook("", CommandHook("true"), DEFAULT_SECONDS, "a.json"),)
    return book.hooks.get(event, ()), problems  # type: ignore[arg-type]


def test_every_event_is_known() -> None:
    book, problems = read_hooks([("a.json", {event: [GOOD] for event in EVENTS})])
    assert (set(book.hooks), problems, len(EVENTS)) == (set(EVENTS), (), 22)


def test_hooks_of_all_files_in_their_order() -> None:
    first = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "a", "timeout": 5}]}]}
    second = {"PreToolUse": [{"matcher": "*", "hooks": [{"command": "b"}, {"type": "command", "command": "c"}]}]}
    book, problems = read_hooks([("1", first), ("2", second)])
    assert problems == ()
    assert book.hooks["PreToolUse"] == (
        Hook("Bash", CommandHook("a"), 5.0, "1"),
        Hook("*", CommandHook("b"), 60.0, "2"),
        Hook("*", CommandHook("c"), 60.0, "2"),
    )


@pytest.mark.spec("T8", "D5")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BeforeBreakfast", "docs/hooks.md lists"),
        ("preToolUse", "mean PreToolUse?"),
        ("PostToolsUse", "mean PostToolUse?"),
    ],
)
def test_an_unknown_event_is_told_by_file_and_disables_nothing_else(name: str, hint: str) -> None:
    hooks, problems = only([GOOD], name)
    assert hooks == () and len(problems) == 1
    assert problems[0].startswith(f"a.json: hooks: there is no event `{name}`") and hint in problems[0]


@pytest.mark.parametrize(
    ("entries", "place"),
    [
        ("true", "hooks.PreToolUse: must be a list"),
        ({"hooks": []}, "hooks.PreToolUse: must be a list"),
        (None, "hooks.PreToolUse: must be a list"),
        (["true"], "hooks.PreToolUse[0]: must be an object"),
        ([{"type": "command", "command": "true"}], "hooks.PreToolUse[0]: has no list `hooks`"),
        ([{"matcher": 7, "hooks": []}], "hooks.PreToolUse[0]: `matcher` must be text"),
        ([{"hooks": ["true"]}], "hooks.PreToolUse[0].hooks[0]: must be an object"),
        ([{"hooks": [{"type": "command"}]}], "hooks.PreToolUse[0].hooks[0]: `command` must be text"),
        ([{"hooks": [{"type": "command", "command": " "}]}], "hooks.PreToolUse[0].hooks[0]: `command` must be text"),
        (
            [{"hooks": [{"type": "command", "command": "a\0b"}]}],
            "hooks.PreToolUse[0].hooks[0]: `command` cannot be used",
        ),
        (
            [{"hooks": [{"type": "command", "command": "\ud800"}]}],
            "hooks.PreToolUse[0].hooks[0]: `command` cannot be used",
        ),
        (
            [{"hooks": [{"type": "command", "command": "x" * 200_000}]}],
            "hooks.PreToolUse[0].hooks[0]: `command` cannot be used",
        ),
        ([{"hooks": [{"type": "prompt", "prompt": " "}]}], "hooks.PreToolUse[0].hooks[0]: `prompt` must be text"),
        ([{"hooks": [{"type": "prompt", "prompt": "x", "model": 7}]}], "hooks.PreToolUse[0].hooks[0]: `model` must"),
        ([{"hooks": [{"type": "agent", "prompt": "x"}]}], "hooks.PreToolUse[0].hooks[0]: hooks of the type agent do"),
        ([{"hooks": [{"type": "smoke"}]}], "hooks.PreToolUse[0].hooks[0]: `type` smoke is not known"),
        ([{"hooks": [{"type": ["command"]}]}], "hooks.PreToolUse[0].hooks[0]: `type` "),
        ([{"hooks": [{"type": "http", "url": "ftp://x"}]}], "hooks.PreToolUse[0].hooks[0]: `url` must"),
        ([{"hooks": [{"type": "http", "url": "http:// x"}]}], "hooks.PreToolUse[0].hooks[0]: `url` must"),
        ([{"hooks": [{"type": "http", "url": "http://x", "headers": []}]}], "[0].hooks[0]: `headers` must"),
        ([{"hooks": [{"type": "http", "url": "http://x", "headers": {"a": "b\r\nc"}}]}], "the header `a` must"),
        ([{"hooks": [{"type": "http", "url": "http://x", "headers": {"a b": "c"}}]}], "the header `a b` must"),
        ([{"hooks": [{"type": "http", "url": "http://x", "allowedEnvVars": [7]}]}], "`allowedEnvVars` must"),
    ],
)
def test_what_cannot_be_read_is_told_by_its_place_and_skipped(entries: Any, place: str) -> None:
    hooks, problems = only(entries)
    assert hooks == () and len(problems) == 1 and problems[0].startswith("a.json: ") and place in problems[0]
    assert problems[0].isprintable()


def test_a_fault_costs_its_own_hook_alone() -> None:
    hooks, problems = only([{"hooks": [{"type": "command"}, {"command": "a"}]}, 7, {"hooks": [{"command": "b"}]}])
    assert [hook.run for hook in hooks] == [CommandHook("a"), CommandHook("b")] and len(problems) == 2


def test_a_guard_with_a_broken_matcher_guards_everything() -> None:
    broken = [{"matcher": "mcp__(", "hooks": [{"command": "a"}]}]
    hooks, problems = only(broken)
    assert [hook.matcher for hook in hooks] == [""] and "used for all" in problems[0]
    hooks, problems = only(broken, "PostToolUse")
    assert hooks == () and "skipped" in problems[0]


@pytest.mark.parametrize("timeout", [0, -1, "5", True, float("inf"), float("nan"), [], {}])
def test_a_bad_timeout_is_told_and_the_default_holds(timeout: Any) -> None:
    hooks, problems = only([{"hooks": [{"command": "a", "timeout": timeout}]}])
    assert hooks[0].seconds == DEFAULT_SECONDS and "`timeout`" in problems[0]


def test_timeouts_are_seconds_and_bounded() -> None:
    hooks, problems = only([{"hooks": [{"command": "a", "timeout": 0.5}, {"command": "b", "timeout": 10**9}]}])
    assert [hook.seconds for hook in hooks] == [0.5, MOST_SECONDS] and problems == ()


def test_an_http_hook_with_all_its_fields() -> None:
    said = {"type": "http", "url": "https://h/x?y", "headers": {"A": "$T"}, "allowedEnvVars": ["T"], "timeout": 2}
    hooks, problems = only([{"matcher": "Bash", "hooks": [said]}])
    assert hooks == (Hook("Bash", HttpHook("https://h/x?y", (("A", "$T"),), ("T",)), 2.0, "a.json"),)
    assert problems == ()


def test_too_many_are_told_of() -> None:
    hooks, problems = only([{"hooks": [{"command": "a"}] * (MOST_HOOKS + 1)}])
    assert len(hooks) == MOST_HOOKS and "only the first" in problems[0]
    _, problems = read_hooks([("a", {f"No{n}": [] for n in range(500)})])
    assert len(problems) == 51 and "450 more" in problems[-1]


def test_only_commands_run_beside_their_event_and_only_if_it_says_true() -> None:
    hooks, problems = only(
        [{"hooks": [{"command": "a", "async": True}, {"command": "b", "async": "yes"}, {"command": "c"}]},
         {"hooks": [{"type": "http", "url": "http://x", "async": True}]}]
    )  # fmt: skip
    assert [hook.beside for hook in hooks] == [True, False, False, False] and not problems
