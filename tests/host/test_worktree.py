"""Worktrees with their branches: how they are named, made, reused and linked."""

import os
from pathlib import Path

import anyio
import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.guard import trust_repository
from teamwright.host.git.worktrees.worktree import KeptTree, check_name, close, find, make, release, state
from worktree_kit import branches, git, kept_refs, known, new_repo, nothing_left, save, untouched


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return new_repo(tmp_path / "re po ü")


# --- names


@pytest.mark.spec("W2")
@pytest.mark.parametrize(("name", "flat"), [("a", "a"), ("fix/login-2.0_x", "fix+login-2.0_x"), ("x" * 64, "x" * 64),
                                            ("a+b", "a+b"), (".hidden", ".hidden")])  # fmt: skip
def test_good_names(name: str, flat: str):
    assert check_name(name) == flat


@pytest.mark.spec("W2")
@pytest.mark.parametrize("name", [
    "", ".", "..", "../up", "a/../b", "/abs", "a b", "a//b", "a/", "x;id", "$(id)", "é", "x" * 65, "a..b", "-b",
    "a.lock", "a.LOCK", "a.", ".git", ".GIT", "a\n", "a\nb", "a\0", "a\u202eb", "a/./b", "a\\b", "~", "a:b", "a@{1}",
    "a*", "+", "a?",
])  # fmt: skip
async def test_bad_names_are_refused_and_make_nothing(repo: Path, name: str):
    with pytest.raises(ToolError, match="cannot name a worktree") as refused:
        await make(repo, name)
    assert str(refused.value).isprintable()
    assert not (repo / ".teamwright").exists()


@pytest.mark.spec("W9")
async def test_a_name_that_somebody_else_has_gets_a_number(repo: Path):
    """Taken by a worktree, a branch or a directory, in any case; its previous owner gets the name again."""
    first = await make(repo, "ada", owner="a1", apart=True)
    git(repo, "branch", "worktree-Ada-2")
    (repo / ".teamwright" / "worktrees" / "ada-3").mkdir()
    git(repo, "branch", "worktree-ada-4/inner")
    second = await make(repo, "ada", owner="a2", apart=True)
    assert (first.name, second.name, second.branch) == ("ada", "ada-5", "worktree-ada-5") and second.made
    again = await make(repo, "ada-5", owner="a2", apart=True)
    assert again.path == second.path and not again.made
    assert (await make(repo, "ada", owner="a1", apart=True)).path == first.path
    assert await close(first) is None
    third = await make(repo, "ada", owner="a3", apart=True)
    assert third.name == "ada" and third.made


@pytest.mark.spec("W9")
async def test_agents_of_one_name_at_once_get_a_worktree_each(repo: Path):
    made: list[str] = []

    async def one(owner: str) -> None:
        made.append((await make(repo, "ada", owner=owner, apart=True)).name)

    async with anyio.create_task_group() as group:
        for owner in ("a1", "a2", "a3"):
            group.start_soon(one, owner)
    assert sorted(made) == ["ada", "ada-2", "ada-3"]


# --- merged


@pytest.mark.spec("W9")
async def test_what_is_in_another_branch_too_is_merged(repo: Path):
    tree = await make(repo, "ada", owner="a1")
    (tree.path / "new.txt").write_text("new\n")
    save(tree.path)
    await release(tree)

    async def use() -> str:
        (found,) = await find(tree.path)  # asked inside the worktree, where its own HEAD is the current one
        return found.use

    assert await use() == "changed"
    git(repo, "branch", "worktree-ben", tree.branch)
    assert await use() == "changed", "another agent's branch is not the person's"
    git(tree.path, "checkout", "-q", "-b", "topic")
    assert await use() == "changed", "nor is the one that is checked out there"
    git(repo, "merge", "-q", "--no-ff", "-m", "merged", tree.branch)
    assert await use() == "merged"
    (tree.path / "loose.txt").write_text("loose\n")
    assert await use() == "changed", "what is not committed is not merged"


# --- making


@pytest.mark.spec("W1", "W3")
async def test_a_tree_and_a_branch_from_the_parents_commit(repo: Path):
    (repo / "README.md").write_text("not committed\n")
    tree = await make(repo, "a/b", owner="a1")
    assert tree.path == repo / ".teamwright" / "worktrees" / "a+b" and tree.made
    assert git(tree.path, "branch", "--show-current").strip() == tree.branch == "worktree-a+b"
    assert tree.base == git(repo, "rev-parse", "HEAD").strip() == git(tree.path, "rev-parse", "HEAD").strip()
    assert (tree.path / "README.md").read_text() == "hello\n" and not git(tree.path, "status", "--porcelain")
    assert git(repo, "status", "--porcelain") == " M README.md\n"
    assert (repo / ".teamwright" / "worktrees").stat().st_mode & 0o777 == 0o700
    assert "locked" in git(repo, "worktree", "list", "--porcelain") and tree.warnings == ()
    assert await close(tree) is None
    assert nothing_left(repo) and not tree.path.exists() and kept_refs(repo) == []


async def test_the_exclusion_is_added_once(repo: Path):
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text("# no line end here")
    for name in ("one", "two"):
        await make(repo, name)
    text = (repo / ".git" / "info" / "exclude").read_text()
    assert text == "# no line end here\n/.teamwright/worktrees/\n"
    assert untouched(repo)


@pytest.mark.spec("W1")
async def test_from_a_parent_that_is_in_a_worktree_itself(repo: Path):
    """The new worktree is beside the parent's, and starts from the parent's own commit."""
    outer = await make(repo, "outer")
    (outer.path / "new.txt").write_text("new")
    head = save(outer.path)
    inner = await make(outer.path, "inner")
    assert inner.path == repo / ".teamwright" / "worktrees" / "inner" and inner.repo == repo
    assert inner.base == head and (inner.path / "new.txt").exists()
    assert await close(inner) is None
    assert isinstance(await close(outer), KeptTree)


async def test_from_a_detached_head_and_a_subdirectory(repo: Path):
    (repo / "sub").mkdir()
    git(repo, "checkout", "-q", "--detach")
    tree = await make(repo / "sub", "x")
    assert tree.path.parent.parent.parent == repo
    assert await close(tree) is None


async def test_a_bare_repository_with_linked_trees(repo: Path, tmp_path: Path):
    """Without a main tree it is placed below the current tree, and so is the next one."""
    git(tmp_path, "clone", "-q", "--bare", str(repo), "store.git")
    git(tmp_path / "store.git", "worktree", "add", "-q", str(tmp_path / "main"), "main")
    tree = await make(tmp_path / "main", "x")
    assert tree.path == tmp_path / "main" / ".teamwright" / "worktrees" / "x"
    assert (await make(tree.path, "y")).path == tree.path.with_name("y")
    with pytest.raises(ToolError, match="bare repository"):
        await make(tmp_path / "store.git", "z")
    assert await close(tree) is None and not git(tmp_path / "main", "status", "--porcelain")


async def test_a_repository_without_a_commit_or_none_at_all(tmp_path: Path):
    git(tmp_path, "init", "-q", "fresh")
    with pytest.raises(ToolError, match="first commit"):
        await make(tmp_path / "fresh", "x")
    with pytest.raises(ToolError, match="not in a git working tree"):
        await make(tmp_path, "x")


@pytest.mark.spec("W5")
async def test_an_existing_one_is_used_again(repo: Path):
    """With what was left there; even after it was unlocked, and after commits in the parent."""
    first = await make(repo, "x", owner="a1")
    (first.path / "left.txt").write_text("left")
    assert isinstance(await close(first), KeptTree)
    (repo / "later.txt").write_text("later")
    save(repo)
    again = await make(repo, "x", owner="a2")
    assert not again.made and (again.path, again.base) == (first.path, first.base)
    assert (again.path / "left.txt").read_text() == "left"
    assert (await state(again)).files == 1


@pytest.mark.spec("W5")
async def test_one_made_by_hand_is_used_too(repo: Path):
    path = repo / ".teamwright" / "worktrees" / "x"
    git(repo, "worktree", "add", "-q", "-b", "mine", str(path))
    (path / "new.txt").write_text("new")
    save(path)
    tree = await make(repo, "x")
    assert not tree.made and (await state(tree)).ahead == 1
    kept = await close(tree)
    assert kept and kept.path == path


async def test_a_branch_without_a_worktree(repo: Path):
    """If the branch has commits, it is reused; otherwise it starts again from the parent's commit."""
    git(repo, "branch", "worktree-old")
    git(repo, "checkout", "-q", "-b", "worktree-work")
    (repo / "work.txt").write_text("work")
    work = save(repo)
    git(repo, "checkout", "-q", "main")
    (repo / "later.txt").write_text("later")
    later = save(repo)
    old, tree = await make(repo, "old"), await make(repo, "work")
    assert git(old.path, "rev-parse", "HEAD").strip() == old.base == later
    assert git(tree.path, "rev-parse", "HEAD").strip() == work and (await state(tree)).ahead == 1
    assert await close(old) is None
    kept = await close(tree)
    assert kept and "work.txt" in kept.summary and "later.txt" not in kept.summary


async def test_a_branch_that_is_checked_out_elsewhere(repo: Path):
    git(repo, "checkout", "-q", "-b", "worktree-x")
    with pytest.raises(ToolError, match=r"(?i)worktree-x.*(checked out|used by)"):
        await make(repo, "x")
    assert known(repo) == [] and not list((repo / ".git" / "teamwright").glob("*.json"))


async def test_a_stranger_in_its_place_is_left_alone(repo: Path, tmp_path: Path):
    place = repo / ".teamwright" / "worktrees"
    (place / "x").mkdir(parents=True)
    (place / "x" / "precious").write_text("precious")
    (place / "y").symlink_to(tmp_path)
    for name in ("x", "y"):
        with pytest.raises(ToolError, match="is not a worktree of this repository"):
            await make(repo, name)
    assert (place / "x" / "precious").exists()
    assert {(f.worktree.name, f.use) for f in await find(repo)} == {("x", "orphan"), ("y", "orphan")}


async def test_a_linked_directory_of_worktrees_is_refused(repo: Path, tmp_path: Path):
    """A repository must not make us create files elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (repo / ".teamwright").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="is a link"):
        await make(repo, "x")
    assert known(repo) == []


@pytest.mark.parametrize("place", [".", ".git", ".teamwright/worktrees"])
async def test_a_directory_that_cannot_be_written(repo: Path, place: str):
    folder = repo / place
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("root may write everywhere")
        with pytest.raises(ToolError, match="Permission denied"):
            await make(repo, "x")
    finally:
        folder.chmod(0o700)
    assert known(repo) == [] and branches(repo) == ["main"]


async def test_git_that_cannot_register_it_leaves_no_branch(repo: Path):
    (repo / ".git" / "worktrees").write_text("")
    with pytest.raises(ToolError, match="git could not make the worktree"):
        await make(repo, "x")
    assert branches(repo) == ["main"] and not list((repo / ".git" / "teamwright").glob("*.json"))


async def test_a_file_where_the_directory_should_be(repo: Path):
    (repo / ".teamwright").write_text("")
    with pytest.raises(ToolError, match="No worktree can be made below"):
        await make(repo, "x")


async def test_a_checkout_that_fails_leaves_nothing(repo: Path):
    (repo / ".gitattributes").write_text("README.md filter=broken\n")
    save(repo)
    git(repo, "config", "filter.broken.smudge", "false")
    git(repo, "config", "filter.broken.required", "true")
    trust_repository(repo, trusted=True)
    with pytest.raises(ToolError, match="external filter 'false' failed"):
        await make(repo, "x")
    assert nothing_left(repo) and not (repo / ".teamwright" / "worktrees" / "x").exists()


async def test_a_make_that_is_cancelled_leaves_nothing(repo: Path, tmp_path: Path):
    begun = tmp_path / "begun"
    (repo / ".gitattributes").write_text("README.md filter=slow\n")
    save(repo)
    git(repo, "config", "filter.slow.smudge", f"touch '{begun}'; sleep 300; cat")
    trust_repository(repo, trusted=True)
    async with anyio.create_task_group() as group:
        group.start_soon(make, repo, "x")
        with anyio.fail_after(20):
            while not begun.exists():
                await anyio.sleep(0.005)
        with pytest.raises(ToolError, match="is being made at this moment"), anyio.fail_after(10):
            await make(repo, "x")
        assert [f.use for f in await find(repo)] == ["in_use"]
        group.cancel_scope.cancel()
    assert nothing_left(repo)


# --- links


@pytest.mark.spec("W4")
async def test_configured_directories_are_linked(repo: Path):
    """The link is no change, though an ignore rule with a final slash does not cover it; its target survives."""
    (repo / "node_modules" / "pkg").mkdir(parents=True)
    (repo / "a" / "cache").mkdir(parents=True)
    tree = await make(repo, "x", links=["node_modules/", ".venv", "a/cache"])
    assert (tree.path / "node_modules").readlink() == repo / "node_modules" and (tree.path / "a" / "cache").is_symlink()
    assert tree.warnings == () and not (tree.path / ".venv").exists()
    assert not (await state(tree)).changed
    assert await close(tree) is None
    assert (repo / "node_modules" / "pkg").is_dir() and (repo / "a" / "cache").is_dir()


@pytest.mark.spec("W4")
async def test_links_that_cannot_be_made_are_warnings(repo: Path, tmp_path: Path):
    (repo / "tracked").mkdir()
    (repo / "tracked" / "file").write_text("")
    (repo / "out").symlink_to("..")  # in the worktree it leads to another place
    (tmp_path / "below").mkdir()
    (repo / "file").write_text("")
    save(repo)
    bad = ["tracked", "../up", "/etc", "a/../..", ".git", ".teamwright", "file", "out/below", "", ".", "a\0b"]
    tree = await make(repo, "x", links=bad)
    assert len(tree.warnings) == len(bad), tree.warnings
    assert not (repo / ".teamwright" / "worktrees" / "below").is_symlink() and not (await state(tree)).changed
    assert await close(tree) is None


@pytest.mark.spec("W3", "W4")
async def test_a_link_that_was_replaced_is_a_change(repo: Path):
    (repo / "node_modules").mkdir()
    tree = await make(repo, "x", links=["node_modules"])
    (tree.path / "node_modules").unlink()
    (tree.path / "node_modules").mkdir()
    (tree.path / "node_modules" / "patched.js").write_text("work")
    kept = await close(tree)
    assert kept and "node_modules was replaced" in kept.summary and (tree.path / "node_modules" / "patched.js").exists()
