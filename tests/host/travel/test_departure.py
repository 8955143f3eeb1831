"""Code leaves for another machine, and an agent gets a clone of it there."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.travel.departure import author_of
from travel_kit import Machines
from worktree_kit import git, new_repo, save


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path, new_repo(tmp_path / "re po ü"))


def files_of(top: Path) -> dict[str, str]:
    found = [path for path in sorted(top.rglob("*")) if ".git" not in path.relative_to(top).parts and not path.is_dir()]
    return {str(path.relative_to(top)): path.read_text() for path in found}


@pytest.mark.spec("Z11")
async def test_an_agent_starts_from_the_commit_that_is_head(machines: Machines):
    head = git(machines.repo, "rev-parse", "HEAD").strip()
    journey = await machines.depart()
    room = await machines.room(journey)
    assert journey.base == head and journey.directory == "" and journey.left == 0 and journey.note == ""
    assert git(room.path, "rev-parse", "HEAD").strip() == head
    assert git(room.path, "branch", "--show-current") == "worktree-far\n"
    assert git(room.path, "status", "--porcelain") == "" and files_of(room.path) == files_of(machines.repo)
    root = git(machines.repo, "rev-list", "--max-parents=0", "HEAD").strip()
    assert journey.project == hashlib.sha256(root.encode()).hexdigest()
    assert git(room.path, "log", "-1", "--format=%s") == "more\n"


@pytest.mark.spec("Z11")
async def test_uncommitted_files_stay_and_are_counted(machines: Machines):
    (machines.repo / "README.md").write_text("edited\n")
    (machines.repo / "staged").write_text("staged\n")
    git(machines.repo, "add", "staged")
    (machines.repo / "deep").mkdir()
    (machines.repo / "deep" / "new").write_text("new\n")
    before = git(machines.repo, "status", "--porcelain")
    journey = await machines.depart()
    room = await machines.room(journey)
    assert journey.left == 3 and journey.note == "3 files with uncommitted changes stay here."
    assert (room.path / "README.md").read_text() == "hello\n" and not (room.path / "staged").exists()
    assert git(machines.repo, "status", "--porcelain") == before


@pytest.mark.spec("Z11")
async def test_configuration_hooks_remotes_stashes_and_ignored_files_stay(machines: Machines):
    repo, canary = machines.repo, "canary-5d1f"
    git(repo, "config", "http.extraheader", f"AUTHORIZATION: {canary}")
    git(repo, "remote", "add", "origin", f"https://{canary}@localhost/x.git")
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\necho {canary} > {machines.top}/hook-ran\n")
    hook.chmod(0o755)
    (repo / "ignored").mkdir()
    (repo / "ignored" / ".env").write_text(canary)
    (repo / "README.md").write_text(canary)
    git(repo, "stash")
    git(repo, "tag", "-m", canary, "v1")
    git(repo, "branch", "other")
    room = await machines.start()
    assert not (machines.top / "hook-ran").exists() and not (room.path / "ignored").exists()
    shown = [git(room.path, *words) for words in (("config", "--list"), ("remote",), ("stash", "list"), ("tag",))]
    assert canary not in "".join(shown) and shown[1:] == ["", "", ""]
    assert git(room.path, "branch", "--format=%(refname:short)") == "worktree-far\n"
    kept = [p.read_bytes() for p in machines.objects.folder.rglob("*") if p.is_file()]
    assert kept and not any(canary.encode() in data for data in kept)


@pytest.mark.spec("Z11")
async def test_what_the_engine_has_is_not_sent_again(machines: Machines):
    first = await machines.depart()
    again = await machines.depart()
    assert first.parcels and not again.parcels and len(machines.objects.puts) == 1
    (machines.repo / "big").write_bytes(os.urandom(200_000))
    save(machines.repo)
    (machines.repo / "more").write_text("more")
    tip = save(machines.repo)
    second = await machines.depart()
    (parcel,) = second.parcels
    assert parcel.tip == tip and parcel.prerequisites == (first.base,) and 200_000 < parcel.bytes < 202_000
    (machines.repo / "third").write_text("third")
    save(machines.repo)
    (small,) = (await machines.depart()).parcels
    assert small.prerequisites == (tip,) and small.bytes < 1000
    room = await machines.room(await machines.depart(), "w2")  # a worker that has nothing fetches all three
    assert (room.path / "third").exists() and (room.path / "big").stat().st_size == 200_000


@pytest.mark.spec("Z11")
async def test_an_older_commit_and_another_branch_find_their_way(machines: Machines):
    first = git(machines.repo, "rev-parse", "HEAD").strip()
    (machines.repo / "a").write_text("a")
    second = save(machines.repo)
    await machines.depart()
    git(machines.repo, "checkout", "-q", "--detach", first)
    room = await machines.start("old", "w2")
    assert git(room.path, "rev-parse", "HEAD").strip() == first and not (room.path / "a").exists()
    git(machines.repo, "checkout", "-q", "-b", "side")
    (machines.repo / "b").write_text("b")
    save(machines.repo)
    git(machines.repo, "merge", "-q", "-m", "both", second)
    journey = await machines.depart()
    assert set(journey.parcels[0].prerequisites) == {second}
    assert {"a", "b"} <= files_of((await machines.room(journey, "w3")).path).keys()


@pytest.mark.spec("Z11")
async def test_the_directory_within_the_repository(machines: Machines):
    (machines.repo / "src" / "deep").mkdir(parents=True)
    (machines.repo / "src" / "deep" / "x").write_text("x")
    save(machines.repo)
    link = machines.top / "link"
    link.symlink_to(machines.repo)
    assert (await machines.depart(machines.repo / "src" / "deep")).directory == "src/deep"
    assert (await machines.depart(link / "src")).directory == "src"


@pytest.mark.spec("Z11")
async def test_a_linked_worktree_sends_its_own_head(machines: Machines):
    git(machines.repo, "worktree", "add", "-q", "-b", "side", str(machines.top / "side"))
    (machines.top / "side" / "y").write_text("y")
    tip = save(machines.top / "side")
    journey = await machines.depart(machines.top / "side")
    assert journey.base == tip and (await machines.room(journey)).path.joinpath("y").exists()


@pytest.mark.spec("Z11")
async def test_no_repository_no_commit_and_a_shallow_clone_are_told(machines: Machines):
    plain, empty, shallow = machines.top / "plain", machines.top / "empty", machines.top / "shallow"
    plain.mkdir()
    empty.mkdir()
    git(empty, "init", "-q")
    (machines.repo / "a").write_text("a")
    save(machines.repo)
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{machines.repo}", str(shallow)], check=True)
    with pytest.raises(ToolError, match=r"git repository.*git init"):
        await machines.depart(plain)
    with pytest.raises(ToolError, match=r"no commit.*first commit"):
        await machines.depart(empty)
    with pytest.raises(ToolError, match="git fetch --unshallow"):
        await machines.depart(shallow)
    assert not machines.objects.puts


@pytest.mark.spec("Z28")
async def test_a_repository_that_is_too_large_is_refused_with_its_size(machines: Machines):
    (machines.repo / "big").write_bytes(os.urandom(3 << 20))
    save(machines.repo)
    with pytest.raises(ToolError, match=r"has 3 MB, and at most 1 MB.*codeMB"):
        await machines.depart(code_mb=1)
    (machines.repo / "big").write_bytes(os.urandom(9 << 20))
    save(machines.repo)
    with pytest.raises(ToolError, match=r"has 12 MB"):
        await machines.depart(code_mb=1)
    assert not machines.objects.puts and (await machines.depart(code_mb=16)).parcels


@pytest.mark.spec("Z11")
async def test_replacements_and_grafts_do_not_change_what_is_sent(machines: Machines):
    (machines.repo / "a").write_text("a")
    tip = save(machines.repo)
    root = git(machines.repo, "rev-list", "--max-parents=0", "HEAD").strip()
    (machines.repo / ".git" / "info").mkdir(exist_ok=True)
    (machines.repo / ".git" / "info" / "grafts").write_text(f"{tip}\n")
    journey = await machines.depart()
    room = await machines.room(journey)
    assert git(room.path, "rev-list", "HEAD").split() == [tip, root]


@pytest.mark.spec("Z9", "Z11")
async def test_files_of_every_kind_arrive(machines: Machines):
    repo = machines.repo
    for name in ("a b", "новый", 'quote"d', "tab\there", "new\nline", "-dash", ":(glob)x", os.fsdecode(b"bytes\xff")):
        (repo / name).write_text(name.encode("utf-8", "replace").decode())
    (repo / "run").write_text("#!/bin/sh\n")
    (repo / "run").chmod(0o755)
    (repo / "link").symlink_to("../outside")
    (repo / "crlf").write_bytes(b"a\r\nb\r\n")
    (repo / "empty").touch()
    save(repo)
    room = await machines.start()
    assert {path.name for path in room.path.iterdir()} == {path.name for path in repo.iterdir()}
    assert (room.path / "run").stat().st_mode & 0o111 and str((room.path / "link").readlink()) == "../outside"
    assert (room.path / "crlf").read_bytes() == b"a\r\nb\r\n" and git(room.path, "status", "--porcelain") == ""


@pytest.mark.spec("Z11")
async def test_the_repository_with_sha256_names(tmp_path: Path):
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main", "--object-format=sha256")
    git(repo, "config", "user.name", "A Person")
    git(repo, "config", "user.email", "person@localhost")
    (repo / "a").write_text("a")
    tip = save(repo)
    machines = Machines(tmp_path, repo)
    room = await machines.start()
    assert git(room.path, "rev-parse", "HEAD").strip() == tip and len(tip) == 64
    (room.path / "b").write_text("b")
    landed = await machines.land(await room.back())
    assert git(repo, "show", f"{landed.branch}:b") == "b"


@pytest.mark.spec("Z11")
async def test_large_files_of_lfs_and_submodules_are_told(machines: Machines):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (machines.repo / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (machines.repo / "a.bin").write_text(pointer)
    new_repo(machines.top / "inner")
    save(machines.repo)
    git(machines.repo, "submodule", "add", "-q", str(machines.top / "inner"), "sub")
    save(machines.repo)
    room = await machines.start()
    assert any("LFS" in note for note in room.notes) and any("Submodules" in note for note in room.notes)
    assert (room.path / "a.bin").read_text() == pointer and not list((room.path / "sub").iterdir())
    assert await room.save() is None and await room.back() is None


async def test_whose_name_commits_carry(machines: Machines):
    assert await author_of(machines.repo) == await author_of(machines.repo / ".git" / "..")
    git(machines.repo, "config", "user.name", "Ada <x>\u202e")
    git(machines.repo, "config", "user.email", "ada@localhost")
    found = await author_of(machines.repo)
    assert (found.name, found.email) == ("Ada x", "ada@localhost")
