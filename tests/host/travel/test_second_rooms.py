"""The second agent that starts at a commit gets the same tree as the first, without running git."""

import os
from pathlib import Path

import pytest

from teamwright.host.git.travel.rooms.closed_rooms import claim_rooms, delete_closed
from teamwright.host.git.travel.rooms.room import Room
from travel_kit import Machines, without_git
from worktree_kit import git, save

ODD = os.fsdecode(b"not \xff utf-8")


def repo_of_all_kinds(top: Path, kind: str) -> Path:
    top.mkdir()
    git(top, "init", "-q", "-b", "main", f"--object-format={kind}")
    git(top, "config", "user.name", "Ada")
    git(top, "config", "user.email", "ada@localhost")
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "sub" / "deep" / "file").write_text("deep\n")
    (top / "lines.txt").write_text("one\ntwo\n")
    (top / ".gitattributes").write_text("lines.txt text eol=crlf\nid.txt ident\n")
    (top / "id.txt").write_text("$Id$\n")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("sub/deep/file")
    (top / "dangling").symlink_to("/nowhere")
    (top / "empty").write_text("")
    (top / ODD).write_text("odd")
    save(top, "all kinds")
    return top


def content_of(tree: Path) -> dict[str, tuple[int, bytes]]:
    found = dict[str, tuple[int, bytes]]()
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if name.startswith(".git/") or (path.is_dir() and not path.is_symlink()):
            continue
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[name] = (path.lstat().st_mode, data)
    return found


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
async def test_the_second_room_is_as_the_first_and_needs_no_git(tmp_path: Path, kind: str):
    machines = Machines(tmp_path, repo_of_all_kinds(tmp_path / "repo", kind))
    journey = await machines.depart()
    first = await machines.room(journey)
    with without_git(tmp_path / "no git"):
        second = await machines.room(journey, name="second")
    assert content_of(second.path) == content_of(first.path)
    assert (second.path / "lines.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert len((second.path / "id.txt").read_text()) > len("$Id$\n")
    assert git(second.path, "status", "--porcelain") == ""
    assert git(second.path, "diff-index", "--cached", "HEAD") == ""
    assert git(second.path, "ls-files", "-s") == git(first.path, "ls-files", "-s")
    git(second.path, "fsck", "--strict", "--no-dangling")
    assert await second.save() is None
    (second.path / "empty").write_text("no more")
    (second.path / "link").unlink()
    saved = await second.save()
    assert saved is not None
    changed = git(second.path, "diff-tree", "-r", "--name-status", journey.base, saved.commit)
    assert changed == "M\tempty\nD\tlink\n"


async def changed_room(machines: Machines, name: str) -> Room:
    room = await machines.room(await machines.depart(), name=name)
    (room.path / "lines.txt").write_text("spoilt")
    return room


@pytest.mark.spec("Z9")
async def test_what_an_agent_changes_is_in_no_later_room(tmp_path: Path):
    machines = Machines(tmp_path, repo_of_all_kinds(tmp_path / "repo", "sha1"))
    await changed_room(machines, "first")
    await changed_room(machines, "second")
    third = await machines.room(await machines.depart(), name="third")
    assert (third.path / "lines.txt").read_bytes() == b"one\r\ntwo\r\n"


@pytest.mark.spec("Z9")
async def test_a_closed_room_is_gone_at_once_and_deleted_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("teamwright.host.git.travel.rooms.closed_rooms._PLENTY", 0)  # however little is free here
    machines = Machines(tmp_path, repo_of_all_kinds(tmp_path / "repo", "sha1"))
    room = await machines.start()
    folder = room.path.parents[2]
    await room.close()
    assert list((folder / "rooms").iterdir()) == []
    assert [path.name.startswith("a-far-") for path in (folder / "closed").iterdir()] == [True]
    delete_closed(folder)
    assert not (folder / "closed").exists()
    delete_closed(folder)


@pytest.mark.spec("Z9")
async def test_on_a_disk_with_little_space_a_closed_room_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    machines = Machines(tmp_path, repo_of_all_kinds(tmp_path / "repo", "sha1"))
    room = await machines.start()
    monkeypatch.setattr("teamwright.host.git.travel.rooms.closed_rooms._PLENTY", 1 << 60)
    await room.close()
    assert [path.name for path in room.path.parents[2].iterdir() if path.name == "closed"] == []
    assert not room.path.exists()


@pytest.mark.spec("Z3")
def test_rooms_that_a_killed_worker_left_are_deleted_unless_another_works_there(tmp_path: Path):
    left = tmp_path / "rooms" / "a-1" / "tree" / "file"

    def leave() -> None:
        left.parent.mkdir(parents=True)
        left.write_text("x")

    leave()
    first = claim_rooms(tmp_path)
    assert not left.exists()
    delete_closed(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rooms.lock"]
    leave()  # it works now
    second = claim_rooms(tmp_path)
    first.release()
    third = claim_rooms(tmp_path)
    assert left.exists()
    for claim in (second, third):  # as if they were killed
        claim.release()
    claim_rooms(tmp_path).release()
    assert not left.exists()
