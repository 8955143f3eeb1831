"""The question at the start: asked once for what a directory holds, and again when there is something new."""

import json
from pathlib import Path

import pytest
from tui_parts import screen_text, until

from conftest import Walker
from teamwright.library import trust
from teamwright.surfaces.terminal.trusting import TrustApp, open_question, remember


def with_hooks(project: Path, *events: str) -> None:
    (project / ".git").mkdir(exist_ok=True)
    (project / ".claude").mkdir(exist_ok=True)
    hooks = {event: [{"hooks": [{"type": "command", "command": "true"}]}] for event in events}
    (project / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))


def test_there_is_nothing_to_ask_where_nothing_would_run(walker: Walker) -> None:
    assert open_question(walker.options()) is None


def test_a_no_is_remembered_until_there_is_something_new(walker: Walker) -> None:
    with_hooks(walker.project, "PreToolUse")
    options = walker.options()
    found = open_question(options)
    assert found is not None and found.hooks == ("PreToolUse",)
    remember(options, found, trusted=False)
    assert open_question(options) is None
    assert not trust.is_trusted(found.project, state=walker.home / ".teamwright")
    with_hooks(walker.project, "PreToolUse", "Stop")
    again = open_question(options)
    assert again is not None and again.hooks == ("PreToolUse", "Stop")
    remember(options, again, trusted=True)
    assert open_question(options) is None
    assert trust.is_trusted(found.project, state=walker.home / ".teamwright")
    assert open_question(walker.options(trust=True)) is None


def test_records_that_were_written_before_still_count(walker: Walker) -> None:
    state = walker.home / ".teamwright"
    state.mkdir()
    (state / "trust.json").write_text(json.dumps({"version": 1, "directories": {str(walker.project.resolve()): {}}}))
    with_hooks(walker.project, "Stop")
    assert open_question(walker.options()) is None
    assert trust.untrust(walker.project, state=state)
    assert open_question(walker.options()) is not None


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False), ("ctrl+c", None)])
async def test_the_question_stands_alone_on_the_screen(walker: Walker, key: str, answer: bool | None) -> None:
    with_hooks(walker.project, "PreToolUse")
    found = open_question(walker.options())
    assert found is not None
    app = TrustApp(found, "dark", grace=0.0)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: "PreToolUse" in screen_text(app))
        await pilot.press(key)
        await until(pilot, lambda: not app.is_running or app.return_value is not None)
    assert app.return_value is answer
