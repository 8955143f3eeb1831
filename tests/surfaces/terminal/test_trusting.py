"""The question at the start: asked once for a directory's content, and again when there is something new."""

import json
from pathlib import Path

import pytest
from tui_parts import screen_text, until

from conftest import Walker
from teamwright.app import Options, open_workspace
from teamwright.library.trust import decision as trust
from teamwright.surfaces.port.trust_question import TrustAnswer, change_rows, open_question, remember
from teamwright.surfaces.terminal.dialogs.trust_screen import TrustScreen
from teamwright.surfaces.terminal.starting import StartApp


def with_hooks(project: Path, *events: str) -> None:
    (project / ".git").mkdir(exist_ok=True)
    (project / ".claude").mkdir(exist_ok=True)
    hooks = {event: [{"hooks": [{"type": "command", "command": "true"}]}] for event in events}
    (project / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))


def test_there_is_nothing_to_ask_where_nothing_would_run(walker: Walker) -> None:
    assert open_question(walker.options()) is None


def asked_about(options: Options) -> TrustAnswer:
    asked = open_question(options)
    assert asked is not None
    return asked


def test_a_no_is_remembered_until_there_is_something_new(walker: Walker) -> None:
    with_hooks(walker.project, "PreToolUse")
    options = walker.options()
    first = asked_about(options)
    assert first.found.hooks == ("PreToolUse",)
    remember(first, trusted=False)
    assert open_question(options) is None
    assert not open_workspace(options).trusted
    with_hooks(walker.project, "PreToolUse", "Stop")
    again = asked_about(options)
    assert again.found.hooks == ("PreToolUse", "Stop")
    remember(again, trusted=True)
    assert open_question(options) is None
    assert open_workspace(options).trusted
    assert open_question(walker.options(trust=True)) is None


def test_records_that_were_written_before_still_count(walker: Walker) -> None:
    state = walker.home / ".teamwright"
    state.mkdir()
    (state / "trust.json").write_text(json.dumps({"version": 1, "directories": {str(walker.project.resolve()): {}}}))
    with_hooks(walker.project, "Stop")
    assert open_question(walker.options()) is None and open_workspace(walker.options()).trusted
    with_hooks(walker.project, "Stop", "SessionStart")  # the old content is trusted, this is new
    assert [change.file for change in asked_about(walker.options()).found.changes] == [".claude/settings.json"]
    assert trust.untrust(walker.project, state=state)
    assert asked_about(walker.options()).found.changes == ()


def test_a_change_of_what_was_trusted_is_asked_about_with_a_diff(walker: Walker) -> None:
    with_hooks(walker.project, "PreToolUse")
    agents = walker.project / ".claude/agents"
    agents.mkdir()
    (agents / "cook.md").write_text("---\nname: cook\ndescription: cooks\n---\nYou cook.\n")
    options = walker.options()
    remember(asked_about(options), trusted=True)
    assert open_workspace(options).trusted

    (agents / "cook.md").write_text("---\nname: cook\ndescription: cooks\n---\nYou burn.\n")
    (walker.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": "evil"}}}))
    ground = open_workspace(options)
    assert not ground.trusted and "has changed since you trusted it" in ground.notes[-1]
    assert open_workspace(walker.options(trust=True)).trusted  # for that run
    asked = asked_about(options)
    shown = [(row.kind, row.text) for row in change_rows(asked.found)]
    assert ("del", "You cook.") in shown and ("add", "You burn.") in shown
    assert any(kind == "add" and "evil" in text for kind, text in shown)
    remember(asked, trusted=False)
    assert open_question(options) is None and not open_workspace(options).trusted
    (agents / "cook.md").write_text("---\nname: cook\ndescription: cooks\n---\nYou freeze.\n")
    remember(asked_about(options), trusted=True)
    assert open_question(options) is None and open_workspace(options).trusted


def test_what_changes_while_the_question_is_open_is_asked_about_the_next_time(walker: Walker) -> None:
    with_hooks(walker.project, "PreToolUse")
    options = walker.options()
    asked = asked_about(options)
    with_hooks(walker.project, "PreToolUse", "Stop")
    remember(asked, trusted=True)
    assert not open_workspace(options).trusted and open_question(options) is not None


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False), ("ctrl+c", None)])
async def test_the_question_stands_alone_on_the_screen(walker: Walker, key: str, answer: bool | None) -> None:
    with_hooks(walker.project, "PreToolUse")
    app = StartApp(TrustScreen(asked_about(walker.options()).found, grace=0.0), "dark")
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: "PreToolUse" in screen_text(app))
        await pilot.press(key)
        await until(pilot, lambda: not app.is_running or app.return_value is not None)
    assert app.return_value is answer
