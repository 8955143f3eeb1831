"""A look at an agent's tree misses nothing, however its repository was left."""

import os
import subprocess
from pathlib import Path

import pytest

from teamwright.core.data.code import Author, SavedTree
from teamwright.host.git.travel.room import Room
from travel_kit import Machines
from worktree_kit import git, new_repo, save


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path, new_repo(tmp_path / "repo"))


async def saved_of(room: Room) -> SavedTree:
    saved = await room.save()
    assert saved is not None
    return saved


@pytest.mark.spec("Z9")
async def test_branches_are_seen_however_git_keeps_them(machines: Machines):
    """Loose, packed, symbolic, and written by hand: git is not asked each time, and nothing is missed."""
    room = await machines.start()
    tree, first = room.path, git(room.path, "rev-parse", "HEAD").strip()
    assert await room.save() is None
    git(tree, "branch", "one")
    assert "refs/heads/one" in (await saved_of(room)).refs
    git(tree, "pack-refs", "--all")
    assert await room.save() is None
    git(tree, "branch", "-D", "one")
    assert "refs/heads/one" not in (await saved_of(room)).refs
    git(tree, "update-ref", "refs/elsewhere/x", first)
    git(tree, "symbolic-ref", "refs/heads/link", "refs/elsewhere/x")
    assert (await saved_of(room)).refs["refs/heads/link"] == first
    (tree / "new").write_text("new")
    save(tree, "new")
    git(tree, "update-ref", "refs/elsewhere/x", "HEAD")  # no file below refs/heads has changed by this
    assert (await saved_of(room)).refs["refs/heads/link"] != first
    git(tree, "checkout", "-q", "--detach")
    assert (await saved_of(room)).head == git(tree, "rev-parse", "HEAD").strip()


@pytest.mark.spec("Z9")
async def test_a_head_that_names_nothing_and_a_git_that_was_killed_lose_nothing(machines: Machines):
    room = await machines.start()
    (room.path / "x").write_text("x")
    (room.path / ".git" / "HEAD").write_text("0" * 39 + "1\n")
    saved = await saved_of(room)
    assert "x" in git(room.path, "ls-tree", "--name-only", saved.commit).split()
    (room.path.parent / "index.lock").write_text("")
    (room.path / "y").write_text("y")
    assert "y" in git(room.path, "ls-tree", "--name-only", (await saved_of(room)).commit).split()


@pytest.mark.spec("Z9")
async def test_a_file_that_was_only_touched_is_read_once(machines: Machines):
    room = await machines.start()
    os.utime(room.path / "README.md", ns=(1, 1))
    assert await room.save() is None
    ours = os.environ | {"GIT_INDEX_FILE": str(room.path.parent / "index")}
    words = ["git", "diff-files", "--name-only"]
    assert subprocess.run(words, cwd=room.path, env=ours, capture_output=True, check=True).stdout == b""


@pytest.mark.spec("Z9", "Z24")
async def test_the_name_of_an_author_cannot_become_a_setting(machines: Machines):
    journey = await machines.depart()
    machines.author = Author('Ada "the\n[core]\n\tpager = evil\\', "ada@localhost\n[alias]\n\tx = !evil")
    room = await machines.room(journey)
    assert git(room.path, "config", "--local", "user.name") == 'Ada "the[core]pager = evil\\\n'
    assert git(room.path, "config", "--local", "user.email") == "ada@localhost[alias]x = !evil\n"
    assert "evil" not in git(room.path, "config", "--local", "--get-regexp", "^(core|alias)")


@pytest.mark.spec("Z9")
async def test_a_commit_that_we_write_is_one_of_git(machines: Machines):
    """Whoever its author is said to be, git finds nothing wrong with it."""
    journey = await machines.depart()
    machines.author = Author("<>\n", "a<b>\nparent x")
    room = await machines.room(journey)
    (room.path / "x").write_text("x")
    saved = await saved_of(room)
    told = git(room.path, "log", "-1", "--format=%an|%ae|%s|%P", saved.commit)
    assert told == f"nobody|abparent x|saved|{journey.base}\n"
    git(room.path, "fsck", "--strict", "--no-dangling", saved.commit)
    assert git(room.path, "rev-parse", "refs/teamwright/saved").strip() == saved.commit
