"""What counts as a change in a worktree, what is removed at the end, and what is saved before that."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.worktrees.worktree import close, find, make, remove, state
from worktree_kit import branches, change, git, kept_refs, known, new_repo, nothing_left, save, untouched


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return new_repo(tmp_path / "re po ü")


# --- what counts as a change


def _commit_on_another_branch(tree: Path) -> None:
    git(tree, "checkout", "-q", "-b", "feature")
    change(tree)


def _commit_and_leave_the_branch(tree: Path) -> None:
    change(tree)
    git(tree, "checkout", "-q", "--detach", "HEAD~1")


def _stash(tree: Path) -> None:
    (tree / "README.md").write_text("more\n")
    git(tree, "stash", "-q")


def _hide(flag: str) -> Callable[[Path], object]:
    def act(tree: Path) -> None:
        git(tree, "update-index", flag, "README.md")
        (tree / "README.md").write_text("more\n")

    return act


def _untracked_not_shown(tree: Path) -> None:
    git(tree, "config", "status.showUntrackedFiles", "no")
    (tree / "new.txt").write_text("new")


CHANGES: dict[str, Callable[[Path], object]] = {
    "tracked": lambda tree: (tree / "README.md").write_text("more\n"),
    "untracked": lambda tree: (tree / "new\x1b.txt").write_text("new\n"),
    "staged": lambda tree: ((tree / "new.txt").write_text("new\n"), git(tree, "add", "new.txt")),
    "staged and gone": lambda tree: ((tree / "n").write_text("n\n"), git(tree, "add", "n"), (tree / "n").unlink()),
    "deleted": lambda tree: (tree / "README.md").unlink(),
    "renamed": lambda tree: git(tree, "mv", "old.txt", "new.txt"),
    "mode": lambda tree: (tree / "README.md").chmod(0o755),
    "link": lambda tree: (tree / "link").symlink_to("/nowhere"),
    "commit": change,
    "commit on another branch": _commit_on_another_branch,
    "commit and another HEAD": _commit_and_leave_the_branch,
    "empty commit": lambda tree: git(tree, "commit", "-q", "--allow-empty", "-m", "x"),
    "stash": _stash,
    "assume-unchanged": _hide("--assume-unchanged"),
    "skip-worktree": _hide("--skip-worktree"),
    "a repository inside": lambda tree: git(tree, "init", "-q", "inner"),
    "untracked not shown": _untracked_not_shown,
    "bisection": lambda tree: git(tree, "bisect", "start"),
    "no branch at all": lambda tree: git(tree, "checkout", "-q", "--orphan", "empty"),
    "ignored": lambda tree: ((tree / "ignored").mkdir(), (tree / "ignored" / "file").write_text("x")),
    "a worktree inside": lambda tree: git(tree, "worktree", "add", "-q", "--detach", "ignored/inner"),
    "its tie is cut": lambda tree: (tree / ".git").unlink(),
    "its tie leads elsewhere": lambda tree: ((tree / ".git").unlink(), git(tree, "init", "-q")),
}  # fmt: skip


@pytest.mark.spec("W3", "W8")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_one_is_kept(repo: Path, change: str):
    tree = await make(repo, "x")
    CHANGES[change](tree.path)
    kept = await close(tree)
    assert kept and (kept.path, kept.branch) == (tree.path, "worktree-x") and tree.path.is_dir()
    assert "x" in known(repo) and tree.branch in branches(repo)
    assert "\nlocked" not in git(repo, "worktree", "list", "--porcelain") and untouched(repo)
    assert kept.summary or kept.note
    assert "\x1b" not in kept.summary


UNCHANGED: dict[str, Callable[[Path], object]] = {
    "nothing": lambda tree: None,
    "touched": lambda tree: os.utime(tree / "README.md", (1, 1)),
    "changed back": lambda tree: ((tree / "README.md").write_text("x\n"), (tree / "README.md").write_text("hello\n")),
    "another branch, no commit": lambda tree: git(tree, "checkout", "-q", "-b", "feature"),
    "a name for the branch": lambda tree: git(tree, "branch", "-m", "better"),
}


@pytest.mark.spec("W3")
@pytest.mark.parametrize("act", UNCHANGED)
async def test_an_unchanged_one_goes(repo: Path, act: str):
    tree = await make(repo, "x")
    UNCHANGED[act](tree.path)
    assert await close(tree) is None
    assert not tree.path.exists() and known(repo) == [] and "worktree-x" not in branches(repo)
    assert kept_refs(repo) == [] and untouched(repo)


@pytest.mark.spec("W3")
async def test_the_figures_and_the_summary(repo: Path):
    """Commits, staged, unstaged and untracked changes together; a rename is one file; the index does not change."""
    tree = await make(repo, "x")
    change(tree.path)
    git(tree.path, "mv", "old.txt", "moved.txt")
    (tree.path / "new.txt").write_text("1\n2\n3\n")
    (tree.path / "data.bin").write_bytes(bytes(range(256)))
    before = git(tree.path, "status", "--porcelain")
    found = await state(tree)
    assert (found.ahead, found.files, found.insertions, found.deletions) == (1, 4, 4, 1)
    assert found.summary.splitlines()[-1] == "4 files changed, +4 -1; 1 commit; not all is committed"
    assert "old.txt => moved.txt | +0 -0" in found.summary and "new.txt | +3 -0" in found.summary
    assert git(tree.path, "status", "--porcelain") == before


async def test_the_summary_is_bounded(repo: Path):
    tree = await make(repo, "x")
    for n in range(200):
        (tree.path / f"{n:03}{'y' * 200}").write_text("")
    found = await state(tree)
    assert found.files == 200 and len(found.summary) < 5000 and "... and 170 more" in found.summary


@pytest.mark.spec("W3")
async def test_commits_that_were_thrown_away_stay_within_reach(repo: Path):
    """The tree is as it was, so it is removed; the hidden ref keeps what its reflog knew."""
    tree = await make(repo, "x")
    change(tree.path)
    lost = git(tree.path, "rev-parse", "HEAD").strip()
    git(tree.path, "reset", "-q", "--hard", "HEAD~1")
    assert await close(tree) is None and nothing_left(repo)
    assert git(repo, "merge-base", "--is-ancestor", lost, kept_refs(repo)[0]) == ""


async def test_submodules(repo: Path, tmp_path: Path):
    """We do not check them out, and say so; once checked out they may hold work, so the worktree stays."""
    inner = new_repo(tmp_path / "inner")
    git(repo, "submodule", "--quiet", "add", str(inner), "lib")
    save(repo)
    plain = await make(repo, "plain")
    assert plain.warnings and "git submodule update --init" in plain.warnings[0]
    assert await close(plain) is None
    tree = await make(repo, "x")
    git(tree.path, "submodule", "--quiet", "update", "--init")
    kept = await close(tree)
    assert kept and "submodules" in kept.summary
    with pytest.raises(ToolError, match="other repositories"):
        await remove(tree)
    assert (tree.path / "lib" / "README.md").exists()


async def test_a_worktree_of_a_submodule(repo: Path, tmp_path: Path):
    inner = new_repo(tmp_path / "inner")
    git(repo, "submodule", "--quiet", "add", str(inner), "lib")
    save(repo)
    tree = await make(repo / "lib", "x")
    assert tree.path == repo / "lib" / ".teamwright" / "worktrees" / "x"
    assert (tree.path / "README.md").exists() and not git(repo / "lib", "status", "--porcelain")
    assert (await make(tree.path, "y")).path == tree.path.with_name("y")
    assert await close(tree) is None


async def test_a_directory_that_was_deleted_under_the_agent(repo: Path):
    tree = await make(repo, "x")
    change(tree.path)
    subprocess.run(["rm", "-rf", str(tree.path)], check=True)
    kept = await close(tree)
    assert kept and "is gone" in kept.note
    listed = await find(repo)
    assert [(f.use, f.state.ahead) for f in listed] == [("orphan", 1)]
    again = await make(repo, "x")
    assert (again.path / "README.md").read_text() == "more\n" and (await state(again)).ahead == 1


# --- removing on request


async def test_removing_keeps_everything_under_a_hidden_ref(repo: Path):
    """Files as they are on disk, staged ones, hidden ones and commits; but no ignored files and no links of ours."""
    (repo / "node_modules").mkdir()
    tree = await make(repo, "x", links=["node_modules"])
    change(tree.path)
    own = git(tree.path, "rev-parse", "HEAD").strip()
    (tree.path / "s").write_text("staged\n")
    git(tree.path, "add", "s")
    (tree.path / "s").write_text("later\n")
    (tree.path / "new.txt").write_text("new\n")
    git(tree.path, "update-index", "--assume-unchanged", "old.txt")
    (tree.path / "old.txt").write_text("hidden edit\n")
    ref = await remove(tree)
    assert ref and ref.startswith("refs/teamwright/kept/x-") and nothing_left(repo) and not tree.path.exists()
    assert git(repo, "show", f"{ref}:s") == "later\n" and git(repo, "show", f"{ref}:new.txt") == "new\n"
    assert git(repo, "show", f"{ref}:old.txt") == "hidden edit\n"
    assert "node_modules" not in git(repo, "ls-tree", "--name-only", ref).split()
    parents = git(repo, "rev-parse", f"{ref}^@").split()
    assert own in parents and "staged\n" in [git(repo, "show", f"{p}:s") for p in parents if p != own]


async def test_removing_a_clean_one_keeps_no_ref(repo: Path):
    assert await remove(await make(repo, "x")) is None
    assert nothing_left(repo) and kept_refs(repo) == []


async def test_a_persons_own_lock_is_respected(repo: Path):
    tree = await make(repo, "x")
    git(repo, "worktree", "unlock", str(tree.path))
    git(repo, "worktree", "lock", "--reason", "mine!", str(tree.path))
    kept = await close(tree)
    assert kept and "locked by somebody else" in kept.note
    with pytest.raises(ToolError, match="mine!"):
        await remove(tree)
    assert tree.path.is_dir() and not (await make(repo, "x")).made
