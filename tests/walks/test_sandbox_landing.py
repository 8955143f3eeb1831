"""The landing queue's checks run in the sandbox if it is on, from the command and in a session; or not at all."""

import json
from pathlib import Path

import pytest
from sandbox_kit import ON, TIERS, need, outside, use

from landing_kit import branch, left_trees
from program import Program, tool
from worktree_kit import git, new_repo

pytestmark = pytest.mark.spec("LQ11")


@pytest.fixture(params=TIERS)
def repo(request: pytest.FixtureRequest, program: Program) -> Path:
    use(program, need(request.param))
    program.project.rmdir()
    return new_repo(program.project)


def configure(program: Program, check: str) -> None:
    program.state.mkdir(exist_ok=True)
    settings = {"sandbox": ON, "teamwright": {"land": {"check": check}}}
    (program.state / "settings.json").write_text(json.dumps(settings))


def reaching(program: Program) -> str:
    """A check that writes in its own tree, uses git there, and tries to write outside and in the main tree."""
    own = "touch made-here && git status --porcelain && git log -1 --format=%s"
    return f"{own}; echo x > {outside(program)}; echo x > {program.project}/planted; test -e made-here"


def test_a_check_of_the_command_writes_only_in_its_tree(program: Program, repo: Path) -> None:
    configure(program, reaching(program))
    branch(repo, "a", {"a.txt": "a"})
    ran = program.run("land", "a")
    assert ran.rc == 0, ran.out + ran.err
    assert not outside(program).exists() and not (repo / "planted").exists()
    assert (repo / "a.txt").exists() and not git(repo, "status", "--porcelain") and not left_trees(repo)


def test_a_check_of_a_session_writes_only_in_its_tree(program: Program, repo: Path) -> None:
    configure(program, reaching(program))
    branch(repo, "a", {"a.txt": "a"})
    ran = program.prompt([tool("Land", branch="a"), tool("Land", action="run"), "done"], "--allowedTools", "Land(run)")
    assert ran.tool_results[1] == ("1. a (main) onto main: landed", False), ran.tool_results
    assert not outside(program).exists() and not (repo / "planted").exists() and (repo / "a.txt").exists()


def test_where_nothing_holds_no_check_runs(program: Program) -> None:
    program.project.rmdir()
    repo = new_repo(program.project)
    program.env["TEAMWRIGHT_SANDBOX"] = "none"
    mark = program.root / "ran"
    configure(program, f"touch {mark}")
    branch(repo, "a", {"a.txt": "a"})
    ran = program.run("land", "a")
    assert ran.rc == 2 and "nothing here can hold it" in ran.err and not mark.exists()
    assert program.run("land", "a", "--no-sandbox").rc == 0 and mark.exists()
