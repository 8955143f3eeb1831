"""git runs without ever waiting for a person, ignores stray variables, and ends when it must."""

import os
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.run import git, git_text, locate


def run(cwd: Path, *args: str) -> str:
    argv = [
        "git",
        "-c",
        "user.name=A Person",
        "-c",
        "user.email=person@localhost",
        "-c",
        "init.defaultBranch=main",
        *args,
    ]
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    top.mkdir()
    run(top, "init", "-q")
    (top / "README.md").write_text("hello\n")
    run(top, "add", "-A")
    run(top, "commit", "-q", "-m", "first")
    return top


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


async def gone(pid: int) -> None:
    with anyio.fail_after(5):
        while alive(pid):
            await anyio.sleep(0.005)


async def test_status_output_and_complaint_come_apart(repo: Path):
    good = await git("rev-parse", "--abbrev-ref", "HEAD", cwd=repo)
    assert (good.status, good.out, good.err) == (0, "main\n", "")
    bad = await git("rev-parse", "--verify", "nothing\x1b[31m", cwd=repo)
    assert bad.status == 128 and bad.out == ""
    assert bad.complaint.startswith("fatal: ") and "\x1b" not in bad.complaint


async def test_a_failure_has_the_words_of_git(repo: Path):
    with pytest.raises(ToolError, match=r"git rev-parse failed in .*repo: fatal: Needed a single revision"):
        await git_text("rev-parse", "--verify", "nothing", cwd=repo)
    with pytest.raises(ToolError, match=r"could not be started in .*nowhere"):
        await git("status", cwd=repo / "nowhere")


async def test_input_and_names_that_are_no_text(repo: Path):
    """A name of raw bytes comes back unchanged."""
    told = await git_text("hash-object", "-w", "--stdin", cwd=repo, input=b"x" * 300_000)
    tree = await git_text("mktree", "-z", cwd=repo, input=b"100644 blob " + told.strip().encode() + b"\ta\xff\nb\0")
    listed = await git_text("ls-tree", "-z", "--name-only", tree.strip(), cwd=repo)
    assert os.fsencode(listed) == b"a\xff\nb\0"


async def test_git_that_does_not_read_its_input(repo: Path):
    ran = await git("rev-parse", "HEAD", cwd=repo, input=b"x" * 1_000_000)
    assert ran.status == 0


@pytest.mark.spec("W6")
async def test_stray_variables_do_not_lead_elsewhere(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_EXTERNAL_DIFF"):
        monkeypatch.setenv(name, str(tmp_path / "other"))
    assert (await locate(repo)).top == repo
    assert (await git("status", "--porcelain", cwd=repo)).out == ""


@pytest.mark.spec("W6")
async def test_nobody_is_asked_and_no_helper_runs(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Editors, password helpers, hooks, pagers and monitors would all leave a trace."""
    trace, helper = tmp_path / "trace", tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\necho asked >> '{trace}'\nexec sleep 300\n")
    helper.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS", "GIT_EDITOR", "EDITOR", "VISUAL", "GIT_PAGER", "PAGER"):
        monkeypatch.setenv(name, str(helper))
    for name in ("core.editor", "core.askPass", "core.pager", "core.fsmonitor"):
        run(repo, "config", name, str(helper))
    for name in ("post-checkout", "pre-commit", "reference-transaction"):
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.symlink_to(helper)
    (repo / "README.md").write_text("more\n")
    assert (await git("status", "--porcelain", cwd=repo, limit=20)).out == " M README.md\n"
    us = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    assert (await git("commit", "-q", "-a", "--amend", cwd=repo, limit=20, extra=us)).status == 0
    assert (await git("checkout", "-q", "-b", "other", cwd=repo, limit=20)).status == 0
    await git("credential", "fill", cwd=repo, limit=20, input=b"protocol=https\nhost=localhost\n\n")
    assert not trace.exists()


def slow_program(tmp_path: Path) -> tuple[str, Path]:
    """A git alias that starts a child which ignores SIGTERM, and reports both pids."""
    pids = tmp_path / "pids"
    return f"alias.slow=!trap '' TERM; sleep 300 & echo $! $$ > '{pids}.new' && mv '{pids}.new' '{pids}'; wait", pids


async def test_the_time_limit_ends_git_and_its_children(repo: Path, tmp_path: Path):
    alias, pids = slow_program(tmp_path)
    begin = time.monotonic()
    with pytest.raises(ToolError, match=r"did not end within 0\.5 s"):
        await git("-c", alias, "slow", cwd=repo, limit=0.5)
    assert time.monotonic() - begin < 5
    for pid in pids.read_text().split():
        await gone(int(pid))


async def test_a_cancellation_ends_git_and_its_children(repo: Path, tmp_path: Path):
    alias, pids = slow_program(tmp_path)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: git("-c", alias, "slow", cwd=repo))
        with anyio.fail_after(10):
            while not pids.exists():
                await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    for pid in pids.read_text().split():
        await gone(int(pid))


async def test_output_is_bounded(repo: Path):
    """Beyond the limit, the rest is read and dropped; a caller that needs everything is told."""
    ran = await git("-c", "alias.loud=!head -c 40000000 /dev/zero", "loud", cwd=repo)
    assert ran.cut and len(ran.out) == 32 << 20
    with pytest.raises(ToolError, match="bytes of output"):
        await git_text("-c", "alias.loud=!head -c 40000000 /dev/zero", "loud", cwd=repo)


async def test_the_root_of_a_directory(repo: Path):
    deep = repo / "a b" / "ü"
    deep.mkdir(parents=True)
    assert (await locate(deep)).top == repo


async def test_the_main_tree_is_found_from_a_linked_one(repo: Path, tmp_path: Path):
    run(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    there = await locate(tmp_path / "linked")
    assert (there.top, there.here, there.common) == (repo, tmp_path / "linked", repo / ".git")
    assert there.head == run(repo, "rev-parse", "HEAD").strip()


@pytest.mark.spec("W1")
async def test_where_no_worktree_can_come_from(repo: Path, tmp_path: Path):
    with pytest.raises(ToolError, match="not in a git working tree"):
        await locate(tmp_path)
    run(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(ToolError, match="bare repository"):
        await locate(tmp_path / "bare")
    run(tmp_path, "init", "-q", "fresh")
    with pytest.raises(ToolError, match="no commit"):
        await locate(tmp_path / "fresh")
