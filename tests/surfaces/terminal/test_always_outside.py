"""A lasting yes to leaving the sandbox: for the session or the project, for exactly these words."""

import json
from typing import Any

import pytest
from stage import Stage, staged

from teamwright.app import open_workspace
from teamwright.app.sandbox import read_sandbox
from teamwright.app.workspace import read_rules
from teamwright.models.scripted import call
from teamwright.store.settings.schema import LOCAL

pytestmark = [pytest.mark.anyio, pytest.mark.spec("V14")]


@pytest.fixture
def out(walker: Any) -> Any:
    """A command that leaves a mark where only programs outside can write."""
    options = walker.options(sandbox=True)
    setup = read_sandbox(options, open_workspace(options))
    if setup is None or not setup.holds:
        pytest.skip("no tier holds here")
    (walker.project / "out.sh").write_text(f'echo "$1" >> {walker.home}/left\n')
    return call("Bash", command="sh out.sh one", dangerouslyDisableSandbox=True)


def left(walker: Any) -> list[str]:
    return (walker.home / "left").read_text().split()


async def choose(stage: Stage, key: str) -> None:
    await stage.shows("Yes, this once")
    await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
    await stage.press(key)


async def test_for_the_session_it_writes_nothing_and_answers_the_same_words(walker: Any, out: Any) -> None:
    plain, other = call("Bash", command="sh out.sh one"), call("Bash", command="sh out.sh two")
    async with staged(walker, [[out], [out], [plain], [other], "done"], sandbox=True) as stage:
        await stage.say("go")
        await stage.shows("always outside in this session: sh out.sh one")
        await choose(stage, "a")
        await stage.rests()
        assert not stage.view.questions
    assert left(walker) == ["one"] * 3, "the same words ran outside, others inside"
    assert not (walker.project / ".teamwright").exists()


async def test_for_the_project_it_lasts_and_is_revoked_by_number(walker: Any, out: Any) -> None:
    async with staged(walker, [[out], "done"], sandbox=True) as stage:
        await stage.say("go")
        await choose(stage, "p")
        await stage.rests()
    rule = "Bash(sh out.sh one)"
    kept = json.loads((walker.project / LOCAL).read_text())
    assert kept == {"permissions": {"allow": [rule]}, "sandbox": {"excludedCommands": ["sh out.sh one"]}}
    async with staged(walker, [[out], "done"], sandbox=True, size=(120, 40)) as stage:
        await stage.say("go")
        await stage.rests()
        assert not stage.view.questions and left(walker) == ["one"] * 2
        rules = await stage.app.session.rules()
        listed = [(one.behaviour, one.rule, one.source) for one in rules]
        assert ("outside", rule, "local") in listed
        await stage.say(f"/permissions remove {listed.index(('outside', rule, 'local')) + 1}")
        await stage.shows(f"Revoked: outside {rule} (local)")
    assert "excludedCommands" not in json.loads((walker.project / LOCAL).read_text()).get("sandbox", {})
    options = walker.options(sandbox=True)
    assert read_rules(options, open_workspace(options))[0].rules.outside == ()
