"""Our own git runs nothing that a repository names, unless the person trusts the repository."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import Walker
from program import ARGV
from teamwright.models.scripted import call
from worktree_kit import git, new_repo, save

pytestmark = pytest.mark.anyio


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "PWNED"


@pytest.fixture
def hostile(walker: Walker, canary: Path) -> Path:
    """A repository whose configuration and attributes run a program at every opportunity."""
    walker.project.rmdir()
    top = new_repo(walker.project)
    (top / ".gitattributes").write_text("*.md filter=x diff=y merge=z\n*.txt filter=a=b\n*.py filter=inc\n")
    (top / "some.py").write_text("1\n")
    save(top)
    run = f"touch {canary}; cat"
    for name in ("filter.x.smudge", "filter.x.clean", "filter.a=b.smudge", "filter.a=b.clean", "diff.y.textconv"):
        git(top, "config", name, run)
    git(top, "config", "filter.x.required", "true")
    git(top, "config", "core.fsmonitor", f"touch {canary} #")
    git(top, "config", "merge.z.driver", f"touch {canary} #")
    git(top, "config", "include.path", "more")
    (top / ".git" / "more").write_text(
        f'[filter "inc"]\nsmudge = "{run}"\nclean = "{run}"\nprocess = "{run}"\n[diff]\nexternal = "touch {canary} #"\n'
    )
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = top / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
        hook.chmod(0o755)
    return top


def command(walker: Walker, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **walker.env}
    return subprocess.run(
        [*ARGV, "worktrees", *args], cwd=walker.project, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.spec("W6")
async def test_entering_a_worktree_runs_nothing(walker: Walker, hostile: Path, canary: Path):
    walk = await walker.walk([call("EnterWorktree", name="w"), "end"])
    assert not walk.results[0][1], walk.results
    tree = hostile / ".teamwright" / "worktrees" / "w"
    assert (tree / "README.md").read_text() == "hello\n" and (tree / "some.py").read_text() == "1\n"
    assert not canary.exists()


@pytest.mark.spec("W6")
async def test_an_agent_in_a_worktree_runs_nothing(walker: Walker, hostile: Path, canary: Path):
    start = call("Agent", description="work apart", prompt="SCRIPT:child", isolation="worktree")
    write = call("Write", file_path="new.md", content="changed\n")
    scripts = {"main": [start, "end"], "child": [write, "done"]}
    walk = await walker.walk(scripts, ["SCRIPT:main"], mode="acceptEdits")
    assert "new.md" in walk.results[-1][0], walk.results
    assert not canary.exists()


@pytest.mark.spec("W6")
async def test_the_commands_run_nothing(walker: Walker, hostile: Path, canary: Path):
    await walker.walk([call("EnterWorktree", name="w"), "end"])
    tree = hostile / ".teamwright" / "worktrees" / "w"
    (tree / "README.md").write_text("one way\n")
    (tree / "old.txt").write_text("other\n")
    quiet = ("-c", "filter.x.clean=cat", "-c", "filter.x.required=false", "-c", "core.hooksPath=/dev/null")
    rest = ("-c", "core.fsmonitor=false", "-c", "filter.inc.process=", "-c", "filter.inc.clean=cat")
    (hostile / ".git" / "info" / "attributes").write_text("* -filter\n")
    git(tree, *quiet, *rest, "commit", "-qam", "there")
    (hostile / "README.md").write_text("another way\n")
    git(hostile, *quiet, *rest, "commit", "-qam", "here")
    (hostile / ".git" / "info" / "attributes").unlink()
    for path in (tree / "README.md", hostile / "README.md", tree / "some.py"):
        os.utime(path, (1, 1))  # so that git must look into it
    canary.unlink(missing_ok=True)
    for args in ((), ("show", "w"), ("merge", "w", "--preview")):
        ran = command(walker, *args)
        assert "Traceback" not in ran.stderr and not canary.exists(), (args, ran)
    assert "would conflict" in command(walker, "merge", "w", "--preview").stdout
    refused = command(walker, "merge", "w")
    assert refused.returncode and not canary.exists()
    git(hostile, *quiet, *rest, "reset", "-q", "--hard", "HEAD~")
    canary.unlink(missing_ok=True)
    refused = command(walker, "merge", "w")
    assert "not trusted" in refused.stderr and "filter.x.smudge" in refused.stderr and not canary.exists()
    assert command(walker, "clean", "w").returncode == 0 and not tree.exists()
    assert not canary.exists()


@pytest.mark.spec("W6")
async def test_in_a_trusted_repository_filters_work(walker: Walker):
    walker.project.rmdir()
    top = new_repo(walker.project)
    (top / ".gitattributes").write_text("*.md filter=up\n")
    save(top)
    git(top, "config", "filter.up.smudge", "tr a-z A-Z")
    git(top, "config", "filter.up.clean", "tr A-Z a-z")
    walk = await walker.walk([call("EnterWorktree", name="w"), call("ExitWorktree", action="keep"), "end"], trust=True)
    assert not walk.results[0][1], walk.results
    tree = top / ".teamwright" / "worktrees" / "w"
    assert (tree / "README.md").read_text() == "HELLO\n"
    assert "none" in command(walker, "--trust").stdout


@pytest.mark.spec("W6")
async def test_a_working_tree_elsewhere_is_not_followed(walker: Walker, tmp_path: Path):
    walker.project.rmdir()
    top = new_repo(walker.project)
    (tmp_path / "other").mkdir()
    git(top, "config", "core.worktree", str(tmp_path / "other"))
    walk = await walker.walk([call("EnterWorktree", name="w"), "end"])
    assert walk.results[0][1] and "core.worktree" in walk.results[0][0]
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.spec("W6")
async def test_a_configuration_that_cannot_be_read_is_told(walker: Walker):
    walker.project.rmdir()
    top = new_repo(walker.project)
    (top / ".git" / "config").write_text("[core\n")
    walk = await walker.walk([call("EnterWorktree", name="w"), "end"])
    assert walk.results[0][1] and "cannot be read" in walk.results[0][0]


@pytest.mark.spec("W6")
async def test_a_submodule_is_not_asked(walker: Walker, tmp_path: Path, canary: Path):
    """To look for changes inside one, git would start another git, which obeys the submodule's configuration."""
    walker.project.rmdir()
    top = new_repo(walker.project)
    new_repo(tmp_path / "other")
    git(top, "submodule", "add", "-q", str(tmp_path / "other"), "sub")
    git(top, "config", "-f", ".gitmodules", "submodule.sub.ignore", "none")
    save(top)
    git(top / "sub", "config", "core.fsmonitor", f"touch {canary} #")
    await walker.walk([call("EnterWorktree", name="w"), "end"])
    tree = top / ".teamwright" / "worktrees" / "w"
    (tree / "README.md").write_text("one way\n")
    git(tree, "commit", "-qam", "there")
    canary.unlink(missing_ok=True)
    assert "would merge" in command(walker, "merge", "w", "--preview").stdout
    assert command(walker).returncode == 0 and not canary.exists()
