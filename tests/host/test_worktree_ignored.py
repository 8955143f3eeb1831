"""What an agent made where git does not look counts as work, and is never silently removed."""

from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.files.read_write import write_whole
from teamwright.host.git.worktrees.ignored import MOST_BYTES
from teamwright.host.git.worktrees.worktree import Worktree, check_name, close, find_one, make, remove, state
from worktree_kit import git, known, new_repo, save

TAG = "Signature: 8a477f597d28d172789f06886806bc55\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = new_repo(tmp_path / "re po ü")
    lines = "*.local\nout/\ntarget/\nnode_modules\n.venv/\n*.pyc\n__pycache__/\n"
    (repo / ".gitignore").write_text(lines)
    save(repo)
    return repo


@pytest.fixture
async def tree(repo: Path) -> Worktree:
    (repo / "node_modules").mkdir()
    return await make(repo, "work", owner="a1", links=("node_modules",))


def put(tree: Worktree, *names: str) -> None:
    for name in names:
        (tree.path / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.path / name).write_text(f"{name}\n")


@pytest.mark.spec("W3")
@pytest.mark.parametrize(
    "name", ["note.local", "out/deep/report", "a/b/c.local", "target/notes", "out/__pycache__/../x"]
)
async def test_an_ignored_file_keeps_the_worktree(tree: Worktree, name: str):
    put(tree, name)
    found = await state(tree)
    assert found.changed and "ignored by git" in found.summary
    kept = await close(tree)
    assert kept and (tree.path / name).exists() and "ignored by git" in kept.summary


@pytest.mark.spec("W3", "W4")
async def test_caches_and_our_own_links_do_not(repo: Path, tree: Worktree):
    put(tree, "a/__pycache__/x.pyc", "b.pyc", ".venv/lib/x", "out/__pycache__/x")
    put(tree, "target/debug/built")
    (tree.path / "target" / "CACHEDIR.TAG").write_text(TAG)
    (tree.path / "out" / "empty").mkdir()
    assert (tree.path / "node_modules").is_symlink()
    assert not (await state(tree)).changed
    assert await close(tree) is None and known(repo) == []


@pytest.mark.spec("W3", "W8")
@pytest.mark.parametrize("name", ["a/node_modules/lib/patched.js", ".venv/notes.txt", "out/made/new.txt", "kept.pyc"])
async def test_what_a_tool_of_ours_wrote_there_is_work(repo: Path, tree: Worktree, name: str):
    put(tree, "a/node_modules/lib/other.js", "out/made/CACHEDIR.TAG", "old.pyc")
    (tree.path / "out" / "made" / "CACHEDIR.TAG").write_text(TAG)
    assert not (await state(tree)).changed
    write_whole(tree.path / name, b"precious\n", basis=None)
    found = await state(tree)
    assert found.changed and f"ignored by git: {name}" in found.summary
    assert await close(tree) and (tree.path / name).exists()
    ref = await remove(tree)
    files = git(repo, "ls-tree", "-r", "--name-only", ref or "").split()
    assert name in files and not {"old.pyc", "a/node_modules/lib/other.js"} & {*files}


@pytest.mark.spec("W3")
async def test_one_that_it_took_away_again_is_not(tree: Worktree):
    write_whole(tree.path / ".venv" / "a.txt", b"x", basis=None)
    (tree.path / ".venv" / "a.txt").unlink()
    assert not (await state(tree)).changed


@pytest.mark.spec("W8")
async def test_removed_by_name_they_stay_under_the_hidden_ref(repo: Path, tree: Worktree):
    put(tree, "note.local", "out/a", "out/__pycache__/x", "plain")
    ref = await remove(tree)
    assert ref
    files = git(repo, "ls-tree", "-r", "--name-only", ref).split()
    assert {"note.local", "out/a", "plain"} <= {*files} and not any("pycache" in f or "node_mod" in f for f in files)


@pytest.mark.spec("W8")
async def test_what_is_too_large_to_keep_is_not_removed(repo: Path, tree: Worktree):
    put(tree, "out/big")
    with (tree.path / "out" / "big").open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ToolError, match="Move or delete them first"):
        await remove(tree)
    assert (tree.path / "out" / "big").exists()


@pytest.mark.spec("W3", "W8")
async def test_one_that_a_crash_left_is_listed_as_changed(repo: Path, tree: Worktree):
    put(tree, "note.local")
    found = await find_one(repo, "work")
    assert found and found.state.changed


@pytest.mark.spec("W2")
@pytest.mark.parametrize("name", ["CON", "nul.txt", "Com1", "HEAD", "head", "FETCH_HEAD", "orig_head", "stash"])
def test_names_that_others_keep_for_themselves_are_refused(name: str):
    with pytest.raises(ToolError, match="keeps that name for itself"):
        check_name(name)
    assert check_name(f"my-{name}")
