"""`/config`: settings are chosen or typed, written to the person's own file, and refused if invalid."""

import json
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, staged

from teamwright.surfaces.terminal.dialogs.value_entry import ValueEntry
from teamwright.surfaces.terminal.dialogs.value_picker import ValuePicker

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AP7")]


def settings_of(walker: Any) -> Path:
    file = walker.home / ".teamwright" / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


async def choose(stage: Stage, setting: str) -> None:
    await stage.shows("setting to change")
    await stage.type(setting)
    await stage.shows("1 of ")
    await stage.press("enter")


async def test_a_value_is_chosen_and_written_beside_what_is_there(walker: Any) -> None:
    file = settings_of(walker)
    file.write_text(json.dumps({"other": 1, "teamwright": {"maxAgents": 7}}))
    async with staged(walker, size=(110, 40)) as stage:
        await stage.say("/config")
        await choose(stage, "notify desktop")
        await stage.shows("teamwright.notify: type to search")
        await stage.shows("● desktop")
        await stage.type("bell")
        await stage.shows("1 of 4")
        await stage.press("enter")
        await stage.shows("setting to change")  # for the next one
        await stage.press("escape")
        await stage.shows("teamwright.notify is bell, written to")
    assert json.loads(file.read_text()) == {"other": 1, "teamwright": {"maxAgents": 7, "notify": "bell"}}


async def test_a_number_that_does_not_fit_stays_to_be_corrected(walker: Any) -> None:
    file = settings_of(walker)
    async with staged(walker, size=(110, 40)) as stage:
        await stage.say("/config")
        await choose(stage, "teamwright.maxAgents")
        await stage.until(lambda: isinstance(stage.app.screen, ValueEntry))
        await stage.press("ctrl+u", "0", "enter")
        await stage.shows("teamwright.maxAgents: expected `int` >= 1")
        await stage.press("ctrl+u", "x", "enter")
        await stage.shows("a number is needed, not x")
        assert not file.exists()
        await stage.press("ctrl+u", "5", "enter")
        await stage.shows("setting to change")
        await stage.shows("5")
        await stage.press("escape")
        await stage.shows("teamwright.maxAgents is 5")
    assert json.loads(file.read_text()) == {"teamwright": {"maxAgents": 5}}


async def test_a_setting_is_named_with_its_value(walker: Any) -> None:
    file = settings_of(walker)
    async with staged(walker, size=(110, 40)) as stage:
        await stage.say("/config permissions.defaultMode yolo")
        await stage.shows("permissions.defaultMode takes one of: plan, dontAsk")
        await stage.say("/config model no-such-model")
        await stage.shows("no-such-model")
        assert not file.exists()
        await stage.say("/config effort high")
        await stage.shows("effort is high")
        assert (await stage.app.session.status()).effort == "high"  # here, too
        await stage.say("/config editorMode vim")
        await stage.until(lambda: stage.app.prompt.is_vim)
        await stage.say("/config statusLine echo hello")
        await stage.shows("statusLine is echo hello")
    assert json.loads(file.read_text()) == {
        "effort": "high",
        "editorMode": "vim",
        "statusLine": {"type": "command", "command": "echo hello"},
    }


async def test_a_setting_is_taken_out_again(walker: Any) -> None:
    file = settings_of(walker)
    file.write_text(json.dumps({"teamwright": {"lean": True}, "language": "German"}))
    async with staged(walker, size=(110, 40)) as stage:
        await stage.say("/config teamwright.lean (not set)")
        await stage.shows("teamwright.lean is not set any more")
    assert json.loads(file.read_text()) == {"language": "German"}


async def test_a_source_that_counts_before_is_named(walker: Any) -> None:
    async with staged(walker, size=(120, 40), settings='{"language": "French"}') as stage:
        await stage.say("/config language German")
        await stage.shows("--settings sets it to French, which counts before")


async def test_a_file_that_cannot_be_read_is_left_alone(walker: Any) -> None:
    file = settings_of(walker)
    file.write_text("{broken")
    async with staged(walker, size=(120, 40)) as stage:
        await stage.say("/config language German")
        await stage.shows("Nothing was changed; repair or remove that file")
    assert file.read_text() == "{broken"


async def test_a_linked_file_stays_a_link(walker: Any) -> None:
    file, true = settings_of(walker), walker.home / "dotfiles.json"
    true.write_text("{}")
    file.symlink_to(true)
    async with staged(walker, size=(120, 40)) as stage:
        await stage.say("/config language German")
        await stage.shows("language is German")
    assert file.is_symlink() and json.loads(true.read_text()) == {"language": "German"}


@pytest.mark.parametrize("width", [60, 200])
async def test_the_list_fits_and_says_what_a_setting_is_for(walker: Any, width: int) -> None:
    async with staged(walker, size=(width, 24)) as stage:
        await stage.say("/config")
        await stage.until(lambda: isinstance(stage.app.screen, ValuePicker))
        await stage.shows("colours of the app")
        await stage.press("down", "down")
        await stage.shows("the model of new sessions")
        await stage.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1)
