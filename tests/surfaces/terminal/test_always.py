"""A yes that lasts: for the session, the project or one agent, by the exact command or a wider rule; and all edits."""

import json
import subprocess
from typing import Any

import pytest
from stage import Stage, staged
from tui_parts import Host, make_view, question, screen_text, until

from conftest import Walker
from teamwright.app import open_workspace
from teamwright.app.saved_rules import drop_rules, keep_rules
from teamwright.app.workspace import read_rules
from teamwright.core.errors import UsageError
from teamwright.library.trust import decision as trust
from teamwright.library.trust import snapshot
from teamwright.models.scripted import call
from teamwright.store.settings.schema import LOCAL
from teamwright.surfaces.port.trust_question import open_question, remember
from teamwright.surfaces.terminal.dialogs.question_list import screen_for
from teamwright.surfaces.terminal.messages import AnswerQuestion

pytestmark = [pytest.mark.anyio, pytest.mark.spec("M5")]
MAKE = [[call("Bash", command="make one")], [call("Bash", command="make two")], "done"]


async def choose(stage: Stage, *keys: str) -> None:
    await stage.shows("Yes, this once")
    await stage.until(lambda: not stage.app.screen.query("Choices").first().deaf)  # type: ignore[attr-defined]
    await stage.press(*keys)


def local(walker: Any) -> Any:
    return json.loads((walker.project / LOCAL).read_text())


def rules_of(walker: Any) -> list[tuple[str, str]]:
    options = walker.options()
    return [(str(rule), rule.source) for rule in read_rules(options, open_workspace(options))[0].rules.allow]


async def test_the_wider_rule_is_one_key_away_and_is_said_before_it_is_given() -> None:
    asked = question(command="npm run build", suggestions=("Bash(npm run build)",), wider=("Bash(npm run *)",))
    host = Host(lambda: screen_for(asked, make_view().agents, grace=0.0))
    async with host.run_test(size=(60, 24)) as pilot:
        await until(pilot, lambda: "x  Let always mean Bash(npm run *)" in screen_text(host))
        assert screen_text(host).count("Bash(npm run build)") == 3
        await pilot.press("x")
        await until(pilot, lambda: "x  Let always mean only Bash(npm run build)" in screen_text(host))
        assert screen_text(host).count("Bash(npm run *)") == 3
        await pilot.press("p")
        await until(pilot, lambda: host.heard)
    (said,) = (message for message in host.heard if isinstance(message, AnswerQuestion))
    assert said.rule_scope == "project" and said.wide


async def test_always_in_this_project_lasts_beyond_the_session(walker: Any) -> None:
    subprocess.run(["git", "init", "-q", str(walker.project)], check=True, timeout=20)
    async with staged(walker, MAKE) as stage:
        await stage.say("go")
        await choose(stage, "x", "p")
        await stage.rests()  # the second make is not asked about
        assert not stage.view.questions
    assert local(walker) == {"permissions": {"allow": ["Bash(make *)"]}}
    seen = subprocess.run(
        ["git", "-C", str(walker.project), "status", "--porcelain"], check=True, timeout=20, capture_output=True
    )
    assert seen.stdout == b""
    assert rules_of(walker) == [("Bash(make *)", "local")] and open_question(walker.options()) is None
    async with staged(walker, MAKE) as stage:
        await stage.say("go")
        await stage.rests()
        assert not stage.view.questions


async def test_always_in_this_session_writes_nothing(walker: Any) -> None:
    async with staged(walker, [*MAKE[:1], *MAKE]) as stage:
        await stage.say("go")
        await choose(stage, "a")
        await stage.shows("make two")
        await choose(stage, "n")
        await stage.rests()
    assert not (walker.project / ".teamwright").exists() and rules_of(walker) == []


async def test_edits_are_accepted_from_now_on(walker: Any) -> None:
    writes = [[call("Write", file_path=str(walker.project / name), content="x")] for name in ("a", "b")]
    async with staged(walker, [*writes, "done"]) as stage:
        await stage.say("go")
        await stage.shows("e  Yes, and accept edits from now on")
        await choose(stage, "e")
        await stage.rests()
        assert stage.app.session.facts.mode == "acceptEdits"
    assert (walker.project / "b").exists() and not (walker.project / ".teamwright").exists()


async def test_what_accepting_edits_would_not_allow_does_not_offer_it(walker: Any) -> None:
    async with staged(
        walker, [[call("Write", file_path=str(walker.project / ".envrc"), content="x")], "done"]
    ) as stage:
        await stage.say("go")
        await stage.shows("Yes, this once")
        assert "accept edits" not in stage.screen
        await choose(stage, "n")
        await stage.rests()


async def test_a_rule_that_cannot_be_saved_holds_for_the_session(walker: Any) -> None:
    (walker.project / ".teamwright").symlink_to(walker.home)
    async with staged(walker, [*MAKE[:1], *MAKE[:1], "done"], size=(200, 30)) as stage:
        await stage.say("go")
        await choose(stage, "p")
        await stage.shows("always holds for this session only")
        await stage.rests()
    assert not (walker.home / "settings.local.json").exists()


def with_hook(walker: Walker, file: str) -> None:
    path = walker.project / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}))


async def test_a_kept_rule_neither_ends_trust_nor_asks_for_it(walker: Walker) -> None:
    with_hook(walker, ".claude/settings.json")
    asked = open_question(walker.options())
    assert asked is not None
    remember(asked, trusted=True)
    keep_rules(walker.options(), "allow", ["Bash(make *)"])
    assert open_workspace(walker.options()).trusted and open_question(walker.options()) is None
    assert drop_rules(walker.options(), "allow", ["Bash(make *)"])
    assert open_workspace(walker.options()).trusted and rules_of(walker) == []
    assert not drop_rules(walker.options(), "allow", ["Bash(make *)"])


async def test_where_nothing_is_trusted_only_the_persons_own_rules_count(walker: Walker) -> None:
    with_hook(walker, ".claude/settings.json")
    keep_rules(walker.options(), "allow", ["Bash(make *)"])
    ground = open_workspace(walker.options())
    assert not ground.trusted and not ground.settings.hooks and rules_of(walker) == [("Bash(make *)", "local")]
    asked = open_question(walker.options())
    assert asked is not None and asked.found.settings == (".claude/settings.json",)
    told = [line for part in asked.found.parts for line in part.lines]
    assert "Stop: true" in told and not any("make" in line for line in told)
    remember(asked, trusted=True)
    assert open_workspace(walker.options()).trusted
    both = {**local(walker), "model": "x"}
    (walker.project / LOCAL).write_text(json.dumps(both))  # another process's change is news
    assert not open_workspace(walker.options()).trusted and rules_of(walker) == []


async def test_what_somebody_else_put_there_is_not_agreed_to_beside_a_rule(walker: Walker) -> None:
    with_hook(walker, LOCAL)
    with pytest.raises(UsageError, match="not agreed to"):
        keep_rules(walker.options(), "allow", ["Bash(make *)"])
    assert rules_of(walker) == [] and not snapshot.is_agreed(walker.project, LOCAL, state=walker.home / ".teamwright")
    assert not trust.is_trusted(walker.project, state=walker.home / ".teamwright")


async def test_rules_are_listed_with_their_source_and_revoked(walker: Any) -> None:
    keep_rules(walker.options(), "allow", ["Bash(make *)"])
    script = [[call("Bash", command="touch a")], "done", [call("Bash", command="make b")], "end"]
    async with staged(walker, script, disallowed_tools=["Bash(curl *)"], size=(100, 40)) as stage:
        await stage.say("go")
        await choose(stage, "t")
        await stage.rests()
        await stage.say("/permissions")
        await stage.shows("rule to remove: type to search")
        await stage.press("escape")
        await stage.shows("/permissions remove NUMBER")
        rows = [" ".join(line.split()) for line in stage.screen.split("\n")]
        for row in (
            "1 deny Bash(curl *) flag",
            "2 allow Bash(make *) local",
            "3 allow Bash(touch a) session, for main alone",
        ):
            assert any(row in line for line in rows), stage.screen
        await stage.say("/permissions remove 1")
        await stage.shows("flag settings, which are not changed from here")
        await stage.say("/permissions remove Bash(touch a)")
        await stage.shows("Revoked: allow Bash(touch a) (session, for main alone)")
        await stage.say("/permissions remove 2")
        await stage.shows("Revoked: allow Bash(make *) (local)")
        assert rules_of(walker) == []
        assert not (walker.project / LOCAL).exists()  # an empty one would ask for trust at the next start
        await stage.say("again")
        await choose(stage, "n")  # it is asked about now
        await stage.rests()
