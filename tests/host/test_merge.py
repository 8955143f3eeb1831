"""Merging a worktree's branch into the branch here: cleanly, or not at all and with an explanation."""

import os
import stat
from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.guard import trust_repository
from teamwright.host.git.run import Ran
from teamwright.host.git.worktrees.listing import view
from teamwright.host.git.worktrees.merge import Merged, Preview, merge, preview_merge
from teamwright.host.git.worktrees.worktree import FoundTree, Worktree, find_one, make, release
from worktree_kit import change, git, new_repo, save


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A trusted repository, so that a merge runs the person's own hooks and filters."""
    repo = new_repo(tmp_path / "re po ü")
    trust_repository(repo, trusted=True)
    return repo


@pytest.fixture
async def tree(repo: Path) -> Worktree:
    """A worktree with one commit on its branch, released by its agent."""
    tree = await make(repo, "work", owner="a1", session="s1")
    (tree.path / "new.txt").write_text("new\n")
    save(tree.path, "one more file")
    await release(tree)
    return tree


async def found(repo: Path, name: str = "work") -> FoundTree:
    one = await find_one(repo, name)
    assert one is not None
    return one


async def tried(repo: Path, cwd: Path | None = None) -> Preview:
    return await preview_merge(await found(repo), cwd or repo)


async def done(repo: Path, cwd: Path | None = None) -> Merged:
    return await merge(await found(repo), cwd or repo)


async def refused(repo: Path, cwd: Path | None = None) -> str:
    """Why the merge was refused; and that nothing has changed."""
    place = cwd or repo
    before = _picture(place)
    with pytest.raises(ToolError) as error:
        await done(repo, cwd)
    assert _picture(place) == before
    assert str(error.value).isprintable()
    return str(error.value)


def _picture(tree: Path) -> tuple[str, str, dict[str, bytes]]:
    files = {
        str(p): p.read_bytes() for p in tree.rglob("*") if p.is_file() and not {".git", ".teamwright"} & {*p.parts}
    }
    return git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain", "--ignored"), files


def hook(repo: Path, name: str, script: str) -> None:
    path = repo / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# --- merges that succeed


@pytest.mark.usefixtures("tree")
async def test_the_branch_here_only_moves_on(repo: Path):
    seen = await tried(repo)
    assert seen.passes and (seen.into, seen.commits, seen.touched) == ("main", 1, ("new.txt",))
    assert not (repo / "new.txt").exists(), "a preview touches nothing"
    merged = await done(repo)
    assert merged.forward and (repo / "new.txt").read_text() == "new\n"
    assert merged.commit == git(repo, "rev-parse", "main", "worktree-work").split()[1]
    assert (await tried(repo)).commits == 0 and "has everything" in await refused(repo)


async def test_two_lines_of_work_come_together(repo: Path, tree: Worktree):
    """A merge commit, with hooks, beside edits that are not in the way."""
    (repo / "README.md").write_text("here\n")
    save(repo)
    (repo / "old.txt").write_text("edited here\n")
    (repo / "untracked").write_text("mine\n")
    hook(repo, "commit-msg", 'echo "through the hook" >> "$1"')
    hook(repo, "post-merge", "touch after-the-merge")
    merged = await done(repo)
    assert not merged.forward and len(git(repo, "rev-list", "--parents", "-1", "HEAD").split()) == 3
    message = git(repo, "log", "-1", "--format=%B")
    assert message.startswith("Merge branch 'worktree-work'") and "through the hook" in message
    assert (repo / "old.txt").read_text() == "edited here\n" and (repo / "untracked").exists()
    assert (repo / "after-the-merge").exists() and tree.path.is_dir()


@pytest.mark.spec("A10")
@pytest.mark.usefixtures("tree")
async def test_a_hook_of_the_person_gets_their_environment_without_keys(repo: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_EDITOR_OF_CHOICE", "ed")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    for name in ("ANTHROPIC_API_KEY", "SOME_SERVICE_TOKEN", "PYTHON_PAT"):
        monkeypatch.setenv(name, "never-to-be-seen")
    hook(repo, "post-merge", "env > seen.txt")
    await done(repo)
    seen = (repo / "seen.txt").read_text()
    assert "MY_EDITOR_OF_CHOICE=ed" in seen and "SSH_AUTH_SOCK=" in seen and "never-to-be-seen" not in seen


@pytest.mark.usefixtures("tree")
async def test_into_another_worktree_and_from_a_subdirectory(repo: Path):
    other = await make(repo, "other", owner="a2")
    (other.path / "sub").mkdir()
    merged = await done(repo, other.path / "sub")
    assert merged.preview.into == "worktree-other" and (other.path / "new.txt").exists()
    assert not (repo / "new.txt").exists()


async def test_a_branch_whose_directory_is_gone(repo: Path, tree: Worktree):
    for path in sorted(tree.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    tree.path.rmdir()
    assert (await done(repo)).forward


@pytest.mark.usefixtures("tree")
async def test_an_editor_is_never_opened(repo: Path, tmp_path: Path):
    (repo / "README.md").write_text("here\n")
    save(repo)
    asked = tmp_path / "asked"
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\ntouch '{asked}'\nexit 1\n")
    editor.chmod(0o755)
    git(repo, "config", "core.editor", str(editor))
    git(repo, "config", "branch.main.mergeOptions", "--edit --no-commit")
    assert (await done(repo)).commit and not asked.exists()


# --- merges that are refused


async def test_conflicts_are_listed_and_nothing_is_touched(repo: Path, tree: Worktree):
    for place, text in ((repo, "here\n"), (tree.path, "there\n")):
        (place / "README.md").write_text(text)
        (place / "two words\u202e.txt").write_text(text)
        save(place)
    seen = await tried(repo)
    assert not seen.passes and seen.conflicts == ("README.md", "two words\u202e.txt")
    assert "README.md" in await refused(repo)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("edit", [
    "echo mine > new.txt", "echo mine > new.txt; git add new.txt",
    "echo new.txt >> .git/info/exclude; echo mine > new.txt", "mkdir new.txt; echo mine > new.txt/deep",
])  # fmt: skip
async def test_what_is_not_committed_here_is_never_written_over(repo: Path, edit: str):
    """Including an ignored file, which git would silently overwrite."""
    assert os.system(f"cd '{repo}' && {edit}") == 0
    assert "new.txt" in await refused(repo)


async def test_a_tracked_file_that_is_edited_here(repo: Path, tree: Worktree):
    change(tree.path)
    (repo / "README.md").write_text("edited\n")
    assert "README.md" in (await tried(repo)).blocked[0]
    assert "write over" in await refused(repo)
    git(repo, "update-index", "--assume-unchanged", "README.md")
    assert "README.md" in await refused(repo)


async def test_a_file_where_the_merge_needs_a_directory(repo: Path, tree: Worktree):
    (tree.path / "sub").mkdir()
    (tree.path / "sub" / "deep").write_text("x")
    save(tree.path)
    (repo / "sub").write_text("mine\n")
    assert "sub" in await refused(repo)


@pytest.mark.parametrize("edit", ["echo x > loose.txt", "echo x >> README.md", "git rm -q --cached README.md"])
async def test_a_worktree_with_loose_work_must_commit_first(repo: Path, tree: Worktree, edit: str):
    assert os.system(f"cd '{tree.path}' && {edit}") == 0
    text = await refused(repo)
    assert "not committed" in text and str(tree.path) in text


async def test_commits_beside_the_branch(repo: Path, tree: Worktree):
    git(tree.path, "checkout", "-q", "--detach")
    change(tree.path)
    assert "has commits that worktree-work has not" in await refused(repo)


@pytest.mark.usefixtures("tree")
async def test_a_detached_head_here(repo: Path):
    git(repo, "checkout", "-q", "--detach")
    assert "HEAD is detached here" in await refused(repo)


async def test_from_inside_the_worktree_itself(repo: Path, tree: Worktree):
    assert "checked out here itself" in await refused(repo, tree.path)


@pytest.mark.usefixtures("tree")
async def test_a_lock_that_git_left_is_named_and_not_removed(repo: Path):
    lock = repo / ".git" / "index.lock"
    lock.write_text("")
    assert str(lock) in await refused(repo)
    assert lock.exists()


async def test_another_merge_under_way(repo: Path, tree: Worktree):
    git(repo, "checkout", "-q", "-b", "side")
    (repo / "side.txt").write_text("x")
    save(repo)
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-commit", "--no-ff", "side")
    assert "a merge is under way here" in await refused(repo)
    assert (repo / ".git" / "MERGE_HEAD").exists() and tree.path.exists()


@pytest.mark.usefixtures("tree")
async def test_a_hook_that_says_no_leaves_everything_as_it_was(repo: Path):
    (repo / "README.md").write_text("here\n")
    save(repo)
    (repo / "old.txt").write_text("edited here\n")
    hook(repo, "pre-merge-commit", "echo 'error: the house rule says no' >&2; exit 1")
    assert "the house rule says no" in await refused(repo)
    assert not (repo / ".git" / "MERGE_HEAD").exists()


async def test_a_branch_that_is_gone(repo: Path, tree: Worktree):
    git(tree.path, "checkout", "-q", "--detach")
    git(repo, "branch", "-D", "worktree-work")
    assert "no branch worktree-work" in await refused(repo)


async def test_an_older_git_is_told(repo: Path, tmp_path: Path, tree: Worktree, monkeypatch: pytest.MonkeyPatch):
    seen = await found(repo)
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(
        '#!/bin/sh\nfor w; do [ "$w" = version ] && exec echo git version 2.34.1; done\nexec /usr/bin/git "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    with pytest.raises(ToolError, match=r"needs git 2\.38 or newer.*2\.34\.1"):
        await merge(seen, repo)
    assert tree.path.exists()


def test_a_git_that_was_killed_says_by_what():
    assert Ran(-25, "", "").complaint == "ended by signal 25"


# --- the view


async def test_one_in_full(repo: Path, tree: Worktree):
    change(repo)
    (tree.path / "loose.txt").write_text("a\nb\n")
    seen = await view(await found(repo), repo)
    assert (seen.here, seen.ahead, seen.behind) == ("main", 1, 1)
    assert [line.split(" ", 1)[1] for line in seen.commits] == ["one more file"]
    assert {(line.path, line.plus) for line in seen.lines} == {("new.txt", 1), ("loose.txt", 2)}
    assert (seen.found.worktree.owner, seen.found.worktree.session) == ("a1", "s1")


async def test_the_view_of_what_is_only_a_branch_any_more(repo: Path, tree: Worktree):
    git(repo, "worktree", "remove", "--force", str(tree.path))
    seen = await view(await found(repo), repo)
    assert seen.found.use == "orphan" and seen.ahead == 1 and [line.path for line in seen.lines] == ["new.txt"]
    assert await find_one(repo, "nobody") is None
