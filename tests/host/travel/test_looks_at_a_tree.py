"""A scan of an agent's tree misses nothing, whatever state its repository is in."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from teamwright.core.data.code import Author, SavedTree
from teamwright.host.git.travel.rooms.room import Room
from teamwright.host.git.travel.trees.index_file import file_clock, find_changed, read_index
from travel_kit import Machines, opened_files, settled, without_git
from worktree_kit import git, new_repo, save


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path, new_repo(tmp_path / "repo"))


def look(index: Path, tree: Path, looked: int) -> list[str] | None:
    known = read_index(index, 20)
    return None if known is None else find_changed({e.path: e.stamp for e in known.entries}, tree, looked)


async def saved_of(room: Room) -> SavedTree:
    saved = await room.save()
    assert saved is not None
    return saved


@pytest.mark.spec("Z9")
async def test_branches_are_seen_however_git_keeps_them(machines: Machines):
    """Loose, packed, symbolic, and written by hand: we do not ask git each time, and still miss nothing."""
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
    git(tree, "update-ref", "refs/elsewhere/x", "HEAD")  # this changes no file below refs/heads
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
async def test_a_file_that_was_only_touched_is_read_once(machines: Machines, tmp_path: Path):
    room = await machines.start()
    os.utime(room.path / "README.md", ns=(1, 1))
    with opened_files() as once:
        assert await room.save() is None
    settled(room.path / "old.txt")
    assert await room.save() is None
    with opened_files() as again, without_git(tmp_path / "no git"):
        assert await room.save() is None
    assert "README.md" in once and "README.md" not in again


@pytest.mark.spec("Z9")
async def test_where_attributes_convert_files_one_that_was_only_touched_is_read_once(machines: Machines):
    (machines.repo / ".gitattributes").write_text("* text=auto\n")
    save(machines.repo)
    room = await machines.start()
    os.utime(room.path / "README.md", ns=(1, 1))
    assert await room.save() is None
    ours = os.environ | {"GIT_INDEX_FILE": str(room.path.parent / "index")}
    words = ["git", "diff-files", "--name-only"]
    assert subprocess.run(words, cwd=room.path, env=ours, capture_output=True, check=True).stdout == b""


def true_tree(room: Room, scratch: Path) -> str:
    """The tree according to git alone, with a separate index."""
    env = os.environ | {"GIT_INDEX_FILE": str(scratch)}
    for words in (["read-tree", "HEAD"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=room.path, env=env, check=True)
    return subprocess.run(
        ["git", "write-tree"], cwd=room.path, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.spec("Z9")
async def test_no_change_is_missed_however_soon_it_follows_the_last_look(machines: Machines, tmp_path: Path):
    """Same file, same size, within the same tick of the kernel's clock; new, deleted, made a link, executable."""
    room = await machines.start()
    tree, dice, commit = room.path, random.Random(3), "HEAD"
    names = [tree / name for name in ("README.md", "a", "sub/b", "sub/deep/c")]
    for n in range(60):
        path = dice.choice(names)
        path.parent.mkdir(parents=True, exist_ok=True)
        match dice.randrange(6):
            case 0:
                path.unlink(missing_ok=True)
            case 1:
                path.unlink(missing_ok=True)
                path.symlink_to(f"{n:03}")
            case 2 if path.is_file() and not path.is_symlink():
                path.chmod(dice.choice((0o644, 0o755)))
            case _:
                if path.is_symlink():
                    path.unlink()
                path.write_text(f"{n:03}")
        saved = await room.save()
        commit = saved.commit if saved else commit
        stored = git(tree, "rev-parse", f"{commit}^{{tree}}").strip()
        assert stored == true_tree(room, tmp_path / "index of git"), (n, path)


@pytest.mark.spec("Z9")
async def test_a_tree_in_which_nothing_has_changed_needs_no_git(machines: Machines, tmp_path: Path):
    room = await machines.start()
    (room.path / "new").write_text("new")
    await saved_of(room)
    settled(room.path / "new")
    assert await room.save() is None
    with without_git(tmp_path / "no git"):
        assert await room.save() is None


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("change", ["untracked", "version 4", "assume-unchanged", "intent-to-add"])
async def test_what_an_index_file_does_not_tell_is_left_to_git(machines: Machines, change: str):
    room = await machines.start()
    index, tree = room.path / ".git" / "index", room.path
    settled(tree / "README.md")
    assert look(index, tree, file_clock()) == []
    if change == "untracked":
        (tree / "x").write_text("x")
    elif change == "version 4":
        git(tree, "update-index", "--index-version", "4")
    elif change == "assume-unchanged":
        git(tree, "update-index", "--assume-unchanged", "README.md")
    else:
        (tree / "x").write_text("x")
        git(tree, "add", "-N", "x")
    assert look(index, tree, file_clock()) is None


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
    """Whoever is named as its author, git accepts it as valid."""
    journey = await machines.depart()
    machines.author = Author("<>\n", "a<b>\nparent x")
    room = await machines.room(journey)
    (room.path / "x").write_text("x")
    saved = await saved_of(room)
    told = git(room.path, "log", "-1", "--format=%an|%ae|%s|%P", saved.commit)
    assert told == f"nobody|abparent x|saved|{journey.base}\n"
    git(room.path, "fsck", "--strict", "--no-dangling", saved.commit)
    assert git(room.path, "rev-parse", "refs/teamwright/saved").strip() == saved.commit


@pytest.mark.spec("Z9")
async def test_a_file_of_the_same_tick_as_the_last_look_is_read_again(machines: Machines):
    """It may have been written again within that tick, and only its content would show that."""
    room = await machines.start()
    index, tree = room.path / ".git" / "index", room.path
    written = max(path.stat().st_mtime_ns for path in tree.iterdir() if path.is_file())
    late = look(index, tree, written)
    assert late and set(late) <= {path.name for path in tree.iterdir()}
    assert look(index, tree, written + 1) == []
    (tree / "README.md").write_text("other")
    assert look(index, tree, written + 1) == ["README.md"]
    (tree / "README.md").unlink()
    assert look(index, tree, written + 1) == ["README.md"]


@pytest.mark.spec("Z9")
async def test_where_files_have_whole_seconds_a_tick_is_longer(machines: Machines):
    room = await machines.start()
    index, tree, second = room.path / ".git" / "index", room.path, 10**9
    for path in tree.iterdir():
        os.utime(path, ns=(5 * second, 5 * second))
    git(tree, "update-index", "--refresh")
    assert sorted(look(index, tree, 6 * second) or []) == [".gitignore", "README.md", "old.txt"]
    assert look(index, tree, 7 * second) == []
