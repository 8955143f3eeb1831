"""While a command runs in the main tree, others work there, the person and agents in worktrees: nothing is undone."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from sandbox_kit import TIERS, need, run, use

from conftest import Walker
from crew import LIMIT, after, agent, crew, marking, results
from teamwright.app.saved_rules import keep_rules
from teamwright.core.data.message import Request
from teamwright.core.permissions.consent import Allow, Question
from teamwright.models.scripted import call
from worktree_kit import git, known, new_repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("V5", "V17")]

BUSY = "touch begun; for i in $(seq 1000); do ls .teamwright/worktrees/*/mine 2>/dev/null && break; sleep 0.02; done"


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest, walker: Walker) -> str:
    use(walker, need(request.param))
    walker.project.rmdir()
    new_repo(walker.project)
    return request.param


def once(there: Path, step: Any) -> Callable[[Request], Awaitable[Any]]:
    """A step that waits until the file exists."""

    async def play(_: Request) -> Any:
        with anyio.fail_after(LIMIT):
            while not there.exists():
                await anyio.sleep(0.01)
        return step

    return play


@pytest.mark.parametrize("before", ["nothing", "settings"])
@pytest.mark.parametrize("first", ["the command", "the worktree"])
async def test_a_tree_in_which_another_agent_works_stays(walker: Walker, tier: str, first: str, before: str) -> None:
    """The command ends after the other agent has written; its work is still there, and git knows the tree."""
    if before == "settings":
        (walker.project / ".teamwright").mkdir()
        (walker.project / ".teamwright/settings.json").write_text("{}")
    begun, ended = walker.project / "begun", anyio.Event()
    apart = agent("apart", isolation="worktree", run_in_background=True)
    beside = agent("beside", run_in_background=True)
    scripts = {
        "main": [beside, once(begun, apart), "on"] if first == "the command" else [apart, beside, "on"],
        "beside": [run(BUSY), marking(ended, "r")],
        "apart": [
            once(begun, run("echo work > mine")),
            after(ended, run("cat mine; git add mine; git status -s")),
            "r",
        ],
    }
    async with crew(walker, scripts, sandbox=True, trust=True) as walk:
        await walk.play()
        ((told, is_error),) = results(walk.requests("apart")[-1].messages[-1])
        ((command, _),) = results(walk.requests("beside")[-1].messages[-1])
    assert not is_error and told.split() == ["work", "A", "mine"], (told, command)
    assert "The sandbox" not in command
    assert git(walker.project, "status", "--short", "-uno") == ""


async def test_a_tree_that_comes_and_goes_while_a_command_runs_is_not_made_anew(walker: Walker, tier: str) -> None:
    begun, gone = walker.project / "begun", walker.project / "gone"
    wait = "touch begun; for i in $(seq 1000); do [ -e gone ] && break; sleep 0.02; done"

    def end(_: Request) -> str:
        gone.touch()
        return "on"

    scripts = {
        "main": [agent("beside", run_in_background=True), once(begun, agent("apart", isolation="worktree")), end],
        "beside": [run(wait), "r"],
        "apart": [run("ls"), "r"],
    }
    async with crew(walker, scripts, sandbox=True, trust=True) as walk:
        await walk.play()
        ((command, _),) = results(walk.requests("beside")[-1].messages[-1])
    assert "The sandbox" not in command and known(walker.project) == []
    assert not list((walker.project / ".teamwright/worktrees").glob("*"))


@pytest.mark.parametrize("before", ["nothing", "settings"])
async def test_a_rule_that_the_person_saves_while_a_command_runs_stays(walker: Walker, tier: str, before: str) -> None:
    settings = walker.project / ".teamwright/settings.local.json"
    if before == "settings":
        settings.parent.mkdir()
        settings.write_text("{}")
    wait = "touch begun; for i in $(seq 1000); do [ -e saved ] && break; sleep 0.02; done; echo {} > .mcp.json"

    async def save(_: Request) -> str:
        await anyio.to_thread.run_sync(keep_rules, walker.options(trust=True), "allow", ["Bash(make)"])
        (walker.project / "saved").touch()
        return "on"

    async def later(request: Request) -> str:
        await once(walker.project / "begun", "on")(request)
        return await save(request)

    scripts = {"main": [agent("beside", run_in_background=True), later], "beside": [run(wait), "r"]}
    async with crew(walker, scripts, sandbox=True, trust=True) as walk:
        await walk.play()
    assert json.loads(settings.read_text()) == {"permissions": {"allow": ["Bash(make)"]}}
    assert not (walker.project / ".mcp.json").exists(), "what the command planted is gone"


@pytest.mark.parametrize("before", ["nothing", "notes"])
async def test_what_a_file_tool_writes_while_a_command_runs_stays(walker: Walker, tier: str, before: str) -> None:
    """But nothing beside it does."""
    folder = walker.project / ".claude/commands"
    if before == "notes":
        folder.mkdir(parents=True)
        (folder / "old.md").write_text("old")
    wait = "touch begun; for i in $(seq 1000); do [ -e saved ] && break; sleep 0.02; done"
    plant = "mkdir -p .claude/commands; echo evil > .claude/commands/evil.md; echo evil > .claude/settings.json; true"
    write = call("Write", file_path=str(folder / "new.md"), content="new")
    saved = call("Write", file_path=str(walker.project / "saved"), content="x")

    async def yes(_: Question) -> Allow:
        return Allow()

    beside = [run(f"{wait}; {plant}"), "r"]
    main = [agent("beside", run_in_background=True), once(walker.project / "begun", write), saved, "end"]
    scripts = {"main": main, "beside": beside}
    async with crew(walker, scripts, sandbox=True, trust=True, answer=yes) as walk:
        await walk.play()
    assert (folder / "new.md").read_text() == "new"
    assert {path.name for path in folder.iterdir()} == {"new.md"} | ({"old.md"} if before == "notes" else set())
    assert not (walker.project / ".claude/settings.json").exists()


async def test_a_tree_whose_agent_has_ended_is_guarded_again(walker: Walker, tier: str) -> None:
    plant = "for tree in .teamwright/worktrees/*; do echo x > $tree/planted; done; true"
    scripts = {
        "main": [agent("apart", isolation="worktree"), run(plant), "end"],
        "apart": [run("echo work > mine; git add mine; git commit -q -m work"), "r"],
    }
    async with crew(walker, scripts, sandbox=True, trust=True) as walk:
        await walk.play()
    (tree,) = (walker.project / ".teamwright/worktrees").iterdir()
    assert (tree / "mine").read_text() == "work\n" and not (tree / "planted").exists()


@pytest.mark.spec("V4", "M3")
async def test_what_rules_deny_is_denied_in_worktrees_too(walker: Walker, tier: str) -> None:
    """By programs of agents inside, from the main tree, and from another worktree."""
    for name in ("secrets", "gen"):
        (walker.project / name).mkdir()
        (walker.project / name / "k").write_text("CANARY\n")
    git(walker.project, "add", "-A")
    git(walker.project, "commit", "-qm", "both")
    rules = {"deny": ["Read(./secrets/**)", "Edit(/gen/**)"]}
    read, write = 'n=secr; cat "$PWD/${n}ets/k" README.md', 'n=ge; echo x > "$PWD/${n}n/k"; cat gen/k'
    there = 'cd .teamwright/worktrees/w; n=secr; cat "$PWD/${n}ets/k"; true'
    steps = [call("EnterWorktree", name="w"), run(read), run(write), call("ExitWorktree", action="keep"), run(there)]
    steps += [call("EnterWorktree", name="v"), run('n=secr; cat "$PWD/../w/${n}ets/k"; true')]
    walk = await walker.walk(
        [*steps, "end"],
        mode="bypassPermissions",
        settings=json.dumps({"permissions": rules, "sandbox": {"enabled": True}}),
    )
    _, inside, _, _, beside, _, sibling = (text for text, _ in walk.results)
    assert (walker.project / ".teamwright/worktrees/w/gen/k").read_text() == "CANARY\n"
    assert "hello" in inside and (
        tier == "landlock" or "CANARY" not in inside + beside + sibling
    )  # landlock hides no file
