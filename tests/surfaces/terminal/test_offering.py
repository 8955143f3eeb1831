"""The offer of the sandbox at the first start: what each answer does, and that it is asked once."""

import json
from pathlib import Path

import pytest
from tmux_kit import Terminal
from tui_parts import until

from conftest import Walker
from teamwright.app import open_workspace
from teamwright.app.sandbox import answer_offer, offered_tier, read_sandbox
from teamwright.core.errors import ModelError, TeamwrightError
from teamwright.surfaces.terminal.dialogs.offer_screen import OfferScreen
from teamwright.surfaces.terminal.offering import settle_sandbox
from teamwright.surfaces.terminal.starting import StartApp

pytestmark = [pytest.mark.spec("V1")]
ANSWERS = [("y", "yes"), ("n", "no"), ("enter", "no"), ("l", "later"), ("escape", "later"), ("ctrl+c", None)]


@pytest.fixture
def tier(walker: Walker) -> str:
    found = offered_tier(walker.options())
    if not found:
        pytest.skip("no tier holds here")
    return found


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "answer"), ANSWERS)
async def test_each_key_means_one_answer_and_enter_turns_nothing_on(key: str, answer: str | None) -> None:
    app = StartApp(OfferScreen("bwrap", grace=0.0), "dark")
    async with app.run_test(size=(60, 20)) as pilot:
        await until(pilot, lambda: app.screen.query("Choices"))
        await pilot.press(key)
    assert app.return_value == answer


@pytest.mark.anyio
async def test_where_nothing_is_to_be_offered_nothing_is_shown(walker: Walker) -> None:
    assert await settle_sandbox(walker.options(sandbox=False), "dark") == ""


def test_in_a_terminal_it_is_asked_once_and_a_yes_counts_for_this_session(tmp_path: Path, tier: str) -> None:
    terminal = Terminal(tmp_path, (100, 30))
    try:
        terminal.start(["done"], env={"TEAMWRIGHT_SANDBOX": tier})
        terminal.shows("Run commands in a sandbox?", tier, "/sandbox on or off")
        terminal.press_until("y", "Run commands in a sandbox?", gone=True)
        terminal.shows(f"sandbox {tier}")
        kept = json.loads((terminal.home / ".teamwright/settings.json").read_text())
        assert kept["sandbox"] == {"enabled": True, "autoAllowBashIfSandboxed": True}
        terminal.beside().start(["done"], env={"TEAMWRIGHT_SANDBOX": tier})
        second = terminal.beside()
        second.shows(f"sandbox {tier}")
        assert "Run commands in a sandbox?" not in second.screen
    finally:
        terminal.close()


@pytest.mark.anyio
async def test_an_answer_that_cannot_be_kept_changes_nothing(walker: Walker, tier: str) -> None:
    state = walker.home / ".teamwright"
    state.mkdir(exist_ok=True)
    (state / "settings.json").write_text("{ not json")
    with pytest.raises(TeamwrightError, match=r"settings\.json"):
        answer_offer(walker.options(), on=True)
    assert read_sandbox(walker.options(), open_workspace(walker.options())) is None
    assert offered_tier(walker.options()) == tier


def test_without_a_model_that_is_said_and_nothing_is_asked(walker: Walker, tier: str) -> None:
    options = walker.options()
    options.own_model, options.interactive = None, True
    with pytest.raises(ModelError, match="No model is set up"):
        offered_tier(options)
