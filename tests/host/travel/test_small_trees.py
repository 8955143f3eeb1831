"""Changes of files that were there before are stored without git, and exactly as git stores them."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from teamwright.core.data.code import SavedTree
from teamwright.host.git.travel.rooms.room import Room
from travel_kit import Machines, settled, without_git
from worktree_kit import git, save


def nested_repo(top: Path, kind: str = "sha1") -> Path:
    top.mkdir()
    git(top, "init", "-q", "-b", "main", f"--object-format={kind}")
    # Names around the slash: `a-b` stands before the directory `a`, and `a0` after it.
    for name in ("a/x", "a/y/z", "a-b", "a0", "top", "b/c/d/e", "run.sh"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{name}\n")
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("top")
    (top / ".gitignore").write_text("ignored\n")
    save(top)
    return top


def tree_of(room: Room, commit: str) -> str:
    return git(room.path, "rev-parse", f"{commit}^{{tree}}").strip()


def true_tree(room: Room, scratch: Path) -> str:
    """By git alone, with an index of its own."""
    env = os.environ | {"GIT_INDEX_FILE": str(scratch)}
    scratch.unlink(missing_ok=True)
    for words in (["read-tree", "HEAD"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=room.path, env=env, check=True)
    ran = subprocess.run(["git", "write-tree"], cwd=room.path, env=env, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


async def saved_of(room: Room, path: Path | None = None) -> SavedTree:
    saved = await room.save(path)
    assert saved is not None
    return saved


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
async def test_changed_files_are_stored_without_git(tmp_path: Path, kind: str):
    machines = Machines(tmp_path, nested_repo(tmp_path / "repo", kind))
    room = await machines.start()
    settled(room.path / ".git" / "index")
    assert await room.save() is None  # git may have to look at what was checked out in the tick of the clone
    chain = list[SavedTree]()
    with without_git(tmp_path / "no git"):
        for name, text in (("b/c/d/e", "deep"), ("a-b", "x\0y"), ("a/x", ""), ("b/c/d/e", "again")):
            (room.path / name).write_text(text)
            chain.append(await saved_of(room))
        (room.path / "top").chmod(0o755)
        chain.append(await saved_of(room))
        (room.path / "a0").write_text("by a tool")
        chain.append(await saved_of(room, room.path / "a0"))
        assert await room.save(room.path / "a0") is None
        assert await room.save() is None
    assert tree_of(room, chain[-1].commit) == true_tree(room, tmp_path / "index of git")
    git(room.path, "fsck", "--strict", "--no-dangling")
    again = await machines.room(await machines.depart(), "w2", saved=chain)
    assert (again.path / "b/c/d/e").read_text() == "again"
    assert git(again.path, "status", "--porcelain").split("\n") == git(room.path, "status", "--porcelain").split("\n")


@pytest.mark.spec("Z9")
async def test_what_git_stores_later_builds_on_what_was_stored_without_it(tmp_path: Path):
    """Each of these makes git take over, with an index that knows nothing of the change before."""
    machines = Machines(tmp_path, nested_repo(tmp_path / "repo"))
    for n, name in enumerate(("new", "deleted", "reverted", "reverted and ignored", "tool", "committed", "large")):
        room = await machines.start(f"far{n}")
        (room.path / "a/y/z").write_text("stored without git")
        await saved_of(room)
        if name == "new":
            (room.path / "b/new").write_text("new")
        elif name == "deleted":
            (room.path / "a/x").unlink()
        elif name.startswith("reverted"):
            (room.path / "a/y/z").write_text("a/y/z\n")
            (room.path / ("new" if name == "reverted" else "ignored")).write_text("x")
        elif name == "tool":
            (room.path / "b/by-tool").write_text("x")
        elif name == "committed":
            save(room.path)
        else:
            (room.path / "top").write_text("x" * 100_000)
        saved = await saved_of(room, room.path / "b/by-tool" if name == "tool" else None)
        assert tree_of(room, saved.commit) == true_tree(room, tmp_path / "index of git"), name
        (room.path / "b/c/d/e").write_text("and after it")
        saved = await saved_of(room)
        assert tree_of(room, saved.commit) == true_tree(room, tmp_path / "index of git"), name


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("place", [".gitattributes", ".git/info/attributes"])
async def test_where_attributes_convert_files_git_stores_them(tmp_path: Path, place: str):
    repo = nested_repo(tmp_path / "repo")
    if place == ".gitattributes":
        (repo / place).write_text("* text eol=lf\n")
        save(repo)
    machines = Machines(tmp_path, repo)
    room = await machines.start()
    if place != ".gitattributes":
        (room.path / ".git" / "info").mkdir(exist_ok=True)
        (room.path / place).write_text("* text eol=lf\n")
    (room.path / "top").write_bytes(b"one\r\ntwo\r\n")
    saved = await saved_of(room)
    assert git(room.path, "show", f"{saved.commit}:top") == "one\ntwo\n"


@pytest.mark.spec("Z9")
async def test_a_directory_that_became_a_link_leads_nowhere(tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("secret")
    machines = Machines(tmp_path, nested_repo(tmp_path / "repo"))
    room = await machines.start()
    (room.path / "a" / "x").unlink()
    (room.path / "a" / "y" / "z").unlink()
    (room.path / "a" / "y").rmdir()
    (room.path / "a").rmdir()
    (room.path / "a").symlink_to(tmp_path / "outside")
    saved = await saved_of(room)
    assert "secret" not in git(room.path, "log", "-p", saved.commit)
    assert tree_of(room, saved.commit) == true_tree(room, tmp_path / "index of git")


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("seed", range(3))
async def test_any_walk_of_changes_is_stored_as_git_would(tmp_path: Path, seed: int):
    machines = Machines(tmp_path, nested_repo(tmp_path / "repo"))
    room, dice = await machines.start(), random.Random(seed)
    known = sorted(path for path in room.path.rglob("*") if path.is_file() and ".git" not in path.parts)
    commit = git(room.path, "rev-parse", "HEAD").strip()
    for n in range(25):
        path = dice.choice(known)
        match dice.randint(0, 9):
            case 0:
                path.unlink(missing_ok=True)
            case 1:
                path.with_name("ignored").write_text(f"{n}")
            case 2:
                path.with_name(f"new{dice.randint(0, 3)}").write_text(f"{n}")
            case 3 if path.is_file():
                path.chmod(dice.choice((0o644, 0o755)))
            case 4 if git(room.path, "status", "--porcelain"):
                save(room.path)
            case _:
                path.write_text(f"{dice.randint(0, 2)}\n")  # often what it was before
        if n % 5 == 4:  # the end of a turn
            await room.back()
        saved = await room.save()
        commit = saved.commit if saved else commit
        assert tree_of(room, commit) == true_tree(room, tmp_path / "index of git"), n
