"""A room that its agent left unchanged serves the next agent; any trace of the first one prevents that."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.core.data.code import Author
from teamwright.host.git.travel.rooms.closed_rooms import delete_closed
from teamwright.host.git.travel.rooms.room import Room
from travel_kit import Machines
from worktree_kit import git, new_repo


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr("teamwright.host.git.travel.rooms.closed_rooms._PLENTY", 0)  # however little is free here
    return Machines(tmp_path, new_repo(tmp_path / "repo"))


async def next_room(machines: Machines, name: str) -> Room:
    return await machines.room(await machines.depart(), name=name)


def inode_of(room: Room) -> int:
    return (room.path / "old.txt").stat().st_ino


@pytest.mark.spec("Z9")
async def test_an_unchanged_room_serves_the_next_agent_under_its_own_name(machines: Machines):
    await next_room(machines, "first")  # stays open
    read_only = await next_room(machines, "reader")
    (read_only.path / "old.txt").read_text()
    assert await read_only.save() is None
    assert await read_only.back() is None
    before = inode_of(read_only)
    await read_only.close()
    machines.author = Author("Grace", "grace@localhost")
    room = await next_room(machines, "second")
    assert inode_of(room) == before
    assert git(room.path, "branch", "--format=%(refname:short)").split() == [room.branch]
    assert git(room.path, "config", "--local", "user.name") == "Grace\n"
    assert git(room.path, "status", "--porcelain") == ""
    assert not read_only.path.exists()
    (room.path / "old.txt").write_text("changed")
    saved = await room.save()
    assert saved is not None
    assert git(room.path, "show", f"{saved.commit}:old.txt") == "changed"
    assert git(room.path, "log", "-1", "--format=%an", saved.commit) == "Grace\n"


def rewritten_in_place(tree: Path) -> None:
    """Rewritten with the old times: only the inode's change time shows it."""
    file = tree / "old.txt"
    facts = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"LINE")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def made_and_removed(tree: Path) -> None:
    (tree / "passing").write_text("x")
    (tree / "passing").unlink()


TRACES: dict[str, Callable[[Path], object]] = {
    "rewritten": rewritten_in_place,
    "ignored": lambda tree: shutil.copytree(tree / ".git" / "refs", tree / "ignored" / "refs"),
    "empty directory": lambda tree: (tree / "empty").mkdir(),
    "mode": lambda tree: (tree / "old.txt").chmod(0o755),
    "mode of the top": lambda tree: tree.chmod(0o755),
    "removed": lambda tree: (tree / "old.txt").unlink(),
    "link elsewhere": lambda tree: (tree.parent.parent.parent / "kept").hardlink_to(tree / "old.txt"),
    "branch": lambda tree: git(tree, "branch", "side"),
    "setting": lambda tree: git(tree, "config", "core.hooksPath", "/tmp"),
    "hook": lambda tree: (tree / ".git" / "hooks").mkdir(),
    "hidden": lambda tree: git(tree, "update-index", "--assume-unchanged", "old.txt"),
    "beside the tree": lambda tree: (tree.parent / "notes").write_text("x"),
    "made and removed": made_and_removed,
}


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("trace", TRACES)
async def test_a_room_with_any_trace_of_its_agent_serves_nobody(machines: Machines, trace: str):
    await next_room(machines, "first")
    room = await next_room(machines, "writer")
    TRACES[trace](room.path)
    with (room.path / "README.md").open() as kept:  # while it is open, nobody else gets its inode
        await room.close()
        second = await next_room(machines, "second")
        assert (second.path / "README.md").stat().st_ino != os.fstat(kept.fileno()).st_ino
    assert (second.path / "old.txt").read_text() == (machines.repo / "old.txt").read_text()
    assert sorted(path.name for path in second.path.iterdir()) == [".git", ".gitignore", "README.md", "old.txt"]
    assert "hookspath" not in git(second.path, "config", "--local", "--list")


@pytest.mark.spec("Z9")
async def test_what_is_written_in_the_tick_of_the_seal_is_seen(machines: Machines):
    """Repeated, because only some of the rooms are written to within their tick."""
    await next_room(machines, "first")
    for n in range(20):
        room = await next_room(machines, f"writer{n}")
        (room.path / "README.md").write_text("HELLO\n")  # the same length as before
        await room.close()
        reader = await next_room(machines, f"reader{n}")
        assert (reader.path / "README.md").read_text() == "hello\n"
        await reader.close()


@pytest.mark.spec("Z9")
async def test_deleted_and_missing_spares_are_passed_over(machines: Machines):
    await next_room(machines, "first")
    for name in ("one", "two"):
        await (await next_room(machines, name)).close()
    folder = machines.top / "w1" / "remote"
    shutil.rmtree(folder / "closed")
    assert (await next_room(machines, "three")).path.joinpath("old.txt").exists()
    await (await next_room(machines, "four")).close()
    delete_closed(folder)
    assert (await next_room(machines, "five")).path.joinpath("old.txt").exists()
