"""`teamwright worktrees` for teammates: theirs for as long as they live, whether a process runs or not."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from place_kit import CREATE, FREE, mate, say, until
from program import LIMIT, Live, Program, bash, tool
from worktree_kit import new_repo


@pytest.fixture
def repo(program: Program) -> Path:
    program.project.rmdir()
    return new_repo(program.project)


def listed(program: Program) -> list[dict[str, Any]]:
    return json.loads(program.run("worktrees", "--json").out)


SCRIPT = {
    "main": [CREATE, [mate("ada", isolation="worktree"), mate("bob", isolation="worktree")], "on"],
    "ada": [bash("echo work > new.txt"), "ready"],
    "bob": ["ready"],
    "back": [say("ada", "SCRIPT:more"), "on"],
    "more": [bash("cat new.txt; echo more >> new.txt"), "on"],
    "none": ["there is no team"],
    "close": [[tool("TaskStop", task_id="ada@crew"), tool("TaskStop", task_id="bob@crew")], "on"],
}


@pytest.mark.spec("W8", "T12", "T6")
def test_that_of_a_parked_teammate_is_in_use_and_never_cleaned(program: Program, repo: Path) -> None:
    ran = program.prompt(SCRIPT, FREE)
    assert ran.rc == 0, ran.err
    rows = listed(program)
    assert [row["state"] for row in rows] == ["in_use", "in_use"]
    table = program.run("worktrees").out
    assert "kept for ada@crew (not running)" in table and "kept for bob@crew (not running)" in table
    cleaned = program.run("worktrees", "clean").out
    assert "nothing to clean up" in cleaned and "`teamwright teams delete crew` ends the team" in cleaned
    refused = program.run("worktrees", "clean", rows[0]["name"])
    assert refused.rc == 2 and "@crew" in refused.err and "`teamwright teams delete crew`" in refused.err
    assert "not running" in program.run("worktrees", "show", rows[0]["name"]).out
    back = program.prompt(SCRIPT, FREE, "--resume", program.transcript().stem, text="SCRIPT:back")
    assert back.rc == 0 and "left by a process" not in back.err, back.err
    (tree,) = (Path(row["path"]) for row in listed(program) if row["files_changed"])
    assert (tree / "new.txt").read_text() == "work\nmore\n"
    end = program.prompt(SCRIPT, FREE, "--resume", program.transcript().stem, text="SCRIPT:close")
    assert end.rc == 0, end.err
    assert [(row["path"], row["state"]) for row in listed(program)] == [(str(tree), "changed")]


COMMITTED = SCRIPT | {"ada": [bash("echo work > new.txt; git add -A; git commit -qm work"), "ready"]}


@pytest.mark.spec("CL2", "CL3", "W8")
def test_a_parked_teammates_work_is_merged_and_its_team_deleted_without_a_model(program: Program, repo: Path) -> None:
    assert program.prompt(COMMITTED, FREE).rc == 0
    table = program.run("worktrees").out
    assert "OWNER" in table and "ada@crew" in table
    merged = program.run("worktrees", "merge", "ada")
    assert merged.rc == 0 and (repo / "new.txt").exists(), merged.err
    assert "`teamwright teams delete crew`" in merged.out and "`teamwright worktrees clean" in merged.out
    gone = program.run("teams", "delete", "crew")
    assert gone.rc == 0 and "its work is merged" in gone.out and "held no work" in gone.out, gone.err
    assert program.run("teams").out == "no teams\n" and not (program.state / "teams/crew").exists()
    (row,) = listed(program)
    assert row["state"] == "merged" and row["name"] == "ada"
    assert "  ada  " in program.run("worktrees").out  # it still says whose it was
    assert "removed" in program.run("worktrees", "clean").out and listed(program) == []


@pytest.mark.spec("W8", "T6")
def test_merged_work_of_a_parked_teammate_is_cleaned_and_its_worktree_made_again(program: Program, repo: Path) -> None:
    assert program.prompt(COMMITTED, FREE).rc == 0
    assert program.run("worktrees", "merge", "ada").rc == 0
    assert {row["name"]: row["state"] for row in listed(program)} == {"ada": "merged", "bob": "in_use"}
    cleaned = program.run("worktrees", "clean")
    assert cleaned.rc == 0 and [row["name"] for row in listed(program)] == ["bob"], cleaned.out
    back = program.prompt(COMMITTED, FREE, "--resume", program.transcript().stem, text="SCRIPT:back")
    assert back.rc == 0, back.err
    (tree,) = (Path(row["path"]) for row in listed(program) if row["files_changed"])
    assert (tree / "new.txt").read_text() == "work\nmore\n" and (repo / "new.txt").read_text() == "work\n"


@pytest.mark.spec("CL3")
def test_a_team_that_is_led_is_not_deleted_and_one_left_with_work_keeps_it(program: Program, repo: Path) -> None:
    live = program.talk(SCRIPT, FREE)
    live.say("go")
    until(lambda: len(idle(live)) >= 2, "both are idle")
    led = program.run("teams", "delete", "crew")
    assert led.rc == 2 and "has a lead that runs" in led.err and "crew" in program.run("teams").out
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(LIMIT)
    shown = program.run("teams").out
    assert "running" not in shown and "lead gone" in shown and "gone" in shown
    done = json.loads(program.run("teams", "delete", "crew", "--json").out)
    assert sorted((tree["agent"], tree["removed"]) for tree in done["worktrees"]) == [("ada", False), ("bob", True)]
    (row,) = listed(program)
    assert (Path(row["path"]) / "new.txt").read_text() == "work\n" and row["state"] in ("changed", "orphan")
    back = program.prompt(SCRIPT, FREE, "--resume", program.transcript().stem, text="SCRIPT:none")
    assert back.rc == 0, back.err


@pytest.mark.spec("W8", "T6")
def test_after_a_kill_it_is_its_teammates_and_not_left_behind(program: Program, repo: Path) -> None:
    live = program.talk(SCRIPT, FREE)
    live.say("go")
    until(lambda: len(idle(live)) >= 2, "both are idle")
    assert {row["state"] for row in listed(program)} == {"in_use"}
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(LIMIT)
    assert {row["state"] for row in listed(program)} == {"in_use"} and "not running" in program.run("worktrees").out
    back = program.prompt(SCRIPT, FREE, "--resume", program.transcript().stem, text="SCRIPT:back")
    assert back.rc == 0 and "left by a process" not in back.err, back.err


def idle(live: Live) -> list[Any]:
    return [line for line in live.lines if line.get("subtype") == "team_event" and line["kind"] == "idle"]
