"""Commands about the work: AGENTS.md, changes, the last answer, directories, settings; and lists to choose from."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from stage import staged
from test_aids import program

from teamwright.core.data.op import AddRules
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.terminal.dialogs.diff_screen import DiffScreen, diff_rows
from teamwright.surfaces.terminal.dialogs.value_picker import ValuePicker

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AP6")]


def git(walker: Any, *words: str) -> None:
    argv = ["git", "-C", str(walker.project), "-c", "user.name=x", "-c", "user.email=x@x", *words]
    subprocess.run(argv, check=True, capture_output=True, timeout=20)


async def test_init_asks_for_instructions(walker: Any) -> None:
    model = ScriptedModel(["written"])
    async with staged(walker, model) as stage:
        await stage.say("/init keep it short")
        await stage.shows("written")
        asked = model.requests[0].messages[0].text
        assert "AGENTS.md" in asked and asked.rstrip().endswith("Also: keep it short")


async def test_changes_are_shown_as_git_sees_them(walker: Any) -> None:
    async with staged(walker, size=(100, 40)) as stage:
        await stage.say("/diff")
        await stage.shows("git cannot say what changed here")
    git(walker, "init", "-q")
    (walker.project / "a.py").write_text("one\n-- two\n")
    git(walker, "add", ".")
    git(walker, "commit", "-qm", "first")
    async with staged(walker, size=(100, 40)) as stage:
        await stage.say("/diff")
        await stage.shows("Nothing has changed since the last commit.")
        (walker.project / "a.py").write_text("one\n++ three\n")
        (walker.project / "new.py").write_text("x\n")
        await stage.say("/diff")
        await stage.until(lambda: isinstance(stage.app.screen, DiffScreen))
        for words in ("a.py", "- -- two", "+ ++ three", "new.py (new, not in git yet)"):
            await stage.shows(words)
        assert "index " not in stage.screen and "+++ b/" not in stage.screen
        await stage.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1)


async def test_lines_that_look_like_headers_are_lines() -> None:
    rows = diff_rows("diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+++ new\n same\x1b[2J")
    kinds = [(row.kind, row.text, row.number) for row in rows[1:]]
    assert kinds == [("del", "-- old", 1), ("add", "++ new", 1), ("dim", "same\\x1b[2J", 2)]


def test_lines_of_several_files_are_numbered() -> None:
    head = "diff --git a/{0} b/{0}\nindex 1..2 100644\n--- a/{0}\n+++ b/{0}\n"
    one = (
        head.format("a.py") + "@@ -8,2 +8,3 @@ def f():\n x = 1\n-y = 1\n+y = 2\n z = 3\n\\ No newline at end of file\n"
    )
    two = head.format("b.bin").split("\n---")[0] + "\nBinary files a/b.bin and b/b.bin differ\n"
    found = diff_rows(one + two)
    assert found[3].marks == found[4].marks == ((4, 5),)  # the words that changed, as in every diff
    assert [(row.kind, row.text, row.number) for row in found] == [
        ("strong", "a.py", 0), ("dim", "⋯", 0), ("dim", "x = 1", 8), ("del", "y = 1", 9), ("add", "y = 2", 9),
        ("dim", "z = 3", 10),
        ("plain", "", 0), ("strong", "b.bin", 0), ("plain", "Binary files a/b.bin and b/b.bin differ", 0),
    ]  # fmt: skip


async def test_the_last_answer_is_copied(walker: Any, tmp_path: Path) -> None:
    async with staged(walker, ["first", "the last\nanswer"]) as stage:
        await stage.say("/copy")
        await stage.shows("there is no answer to copy yet")
        await stage.say("go")
        await stage.rests()
        await stage.say("/copy")
        await stage.shows("if your terminal allows it")
        assert stage.app.clipboard == "first"
        program(tmp_path / "bin", "wl-copy", f"cat > {tmp_path}/copied")
        stage.app.options.env.update(PATH=f"{tmp_path}/bin:/usr/bin:/bin", WAYLAND_DISPLAY="0")  # type: ignore[attr-defined]
        await stage.say("again")
        await stage.rests()
        await stage.say("/copy")
        await stage.shows("(15 characters).")
        assert (tmp_path / "copied").read_text() == stage.app.clipboard == "the last\nanswer"


async def test_a_directory_is_added(walker: Any, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "a.txt").write_text("found it")
    script = [[call("Read", file_path=str(tmp_path / "beside" / "a.txt"))], "read"]
    async with staged(walker, script) as stage:
        await stage.say("/add-dir ../nowhere")
        await stage.shows("nowhere is not")
        await stage.say("/add-dir ../beside")
        await stage.shows("may also work in")
        await stage.say("go")
        await stage.rests()
        assert not stage.view.questions


async def test_settings_are_listed_with_their_source(walker: Any) -> None:
    folder = walker.home / ".teamwright"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"teamwright": {"maxAgents": 7}}))
    async with staged(walker, size=(150, 40)) as stage:
        await stage.say("/config teamwright.maxAgents")
        await stage.shows("teamwright.maxAgents")
        (line,) = (text for text in stage.screen.split("\n") if "maxAgents  " in text)
        assert "7" in line and "user" in line


async def test_a_model_and_a_theme_are_chosen_from_a_list(walker: Any) -> None:
    async with staged(walker, size=(100, 30)) as stage:
        await stage.say("/theme")
        await stage.until(lambda: isinstance(stage.app.screen, ValuePicker))
        await stage.type("blue")
        await stage.shows("0 of 3")
        await stage.press("enter")  # takes nothing, and closes nothing
        assert isinstance(stage.app.screen, ValuePicker)
        await stage.press(*["backspace"] * 4)
        await stage.shows("3 of 3")
        await stage.type("lig")
        await stage.shows("1 of 3")
        await stage.press("enter")
        await stage.until(lambda: stage.app.theme == "tw-light")
        await stage.say("/model")
        await stage.shows("model: type to search")
        await stage.shows("● script/given")
        await stage.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1)
        assert stage.app.session.facts.model == "script/given"


@pytest.mark.spec("V1")
async def test_the_sandbox_is_shown_and_switched(walker: Any) -> None:
    file = walker.home / ".teamwright" / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"model": "kept"}')
    async with staged(walker, size=(100, 40)) as stage:
        await stage.say("/sandbox")
        await stage.shows("The sandbox is off")
        await stage.say("/sandbox maybe")
        await stage.shows("/sandbox takes on or off")
        await stage.say("/sandbox on")
        await stage.shows("the sandbox is on from the next session on")
    assert json.loads(file.read_text()) == {
        "model": "kept",
        "sandbox": {"enabled": True, "autoAllowBashIfSandboxed": True},
    }


async def test_the_effort_is_changed_by_name_and_from_a_list(walker: Any) -> None:
    model = ScriptedModel(["one", "two", "three"])
    async with staged(walker, model, size=(100, 40)) as stage:
        await stage.say("go")
        await stage.rests()
        await stage.say("/effort enormous")
        await stage.shows("/effort takes one of low, medium, high, xhigh, max, or default")
        stage.app.prompt.put("")
        await stage.say("/effort high")
        await stage.shows("The effort is high from the next request on.")
        await stage.say("again")
        await stage.until(lambda: len(model.requests) == 2)
        await stage.rests()
        await stage.say("/effort")
        await stage.shows("● high")
        await stage.type("def")
        await stage.press("enter")
        await stage.shows("The effort is the usual one of the model")
        await stage.say("once more")
        await stage.until(lambda: len(model.requests) == 3)
        await stage.rests()
        await stage.say("/effort low")
        await stage.shows("The effort is low")
        origin = Origin(stage.session.id)
    async with staged(walker, origin=origin) as stage:
        assert (await stage.app.session.status()).effort == "low"
    assert [request.effort for request in model.requests] == [None, "high", None]
    system = {request.system for request in model.requests}
    assert len(system) == 1


async def test_a_rule_is_removed_from_a_list_after_a_yes(walker: Any) -> None:
    async with staged(walker, size=(100, 40)) as stage:
        await stage.session.submit(AddRules(("Bash(yarn *)", "Bash(make *)"), "allow"))
        await stage.say("/permissions")
        await stage.shows("2 of 2")
        await stage.type("y")  # a letter of the search, as long as nothing is chosen
        await stage.shows("1 of 2")
        await stage.press("enter")
        await stage.shows("Remove allow Bash(yarn *) session?")
        await stage.press("n")
        await stage.shows("1 of 2")
        await stage.press("backspace")
        await stage.shows("2 of 2")
        assert len(await stage.app.session.rules()) == 2
        await stage.press("down", "enter")
        await stage.shows("Remove allow Bash(make *) session?")
        await stage.press("y")
        await stage.shows("Revoked: allow Bash(make *) (session).")
        assert [one.rule for one in await stage.app.session.rules()] == ["Bash(yarn *)"]
        await stage.say("/permissions")
        await stage.shows("1 of 1")
        await stage.press("escape")
        await stage.shows("/permissions remove NUMBER")
