"""Malicious bundles, saved trees and branches: refused with a reason, and nothing is run or written."""

import hashlib
import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.core.data.code import BranchBack, Parcel, SavedTree
from teamwright.core.errors import ToolError
from travel_kit import Machines
from worktree_kit import git, new_repo, save


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path, new_repo(tmp_path / "repo"))


def raw_object(repo: Path, kind: str, data: bytes) -> str:
    """An object that git itself would not make."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = repo / ".git" / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return name


def commit_with(repo: Path, entries: list[tuple[str, bytes, str]]) -> str:
    """A commit whose tree has these entries: mode, name, object."""
    tree = raw_object(repo, "tree", b"".join(f"{m} ".encode() + n + b"\0" + bytes.fromhex(o) for m, n, o in entries))
    return git(repo, "commit-tree", tree, "-p", "HEAD", "-m", "evil").strip()


def bundle_of(repo: Path, tip: str, without: str, edit: Callable[[bytes], bytes] = bytes) -> bytes:
    words = ["git", "pack-objects", "--revs", "--stdout", "-q"]
    pack = subprocess.run(words, cwd=repo, input=f"{tip}\n^{without}\n".encode(), check=True, capture_output=True)
    return edit(f"# v2 git bundle\n-{without} \n{tip} refs/heads/x\n\n".encode() + pack.stdout)


def put(machines: Machines, data: bytes) -> str:
    name = f"code/{hashlib.sha256(data).hexdigest()}"
    path = machines.objects.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


async def refused(machines: Machines, tip: str, data: bytes) -> str:
    """Why the lead refuses this bundle as a branch; no branch may be left."""
    base = git(machines.repo, "rev-parse", "HEAD").strip()
    other = machines.top / f"clone-{len(list(machines.top.iterdir()))}"  # without the objects of an earlier bundle
    git(machines.repo, "clone", "-q", "--no-local", str(machines.repo), str(other))
    with pytest.raises(ToolError) as found:
        await machines.land(BranchBack(base, {"": tip}, put(machines, data)), repo=other)
    assert "worktree-far" not in git(other, "branch")
    return str(found.value)


@pytest.mark.spec("Z11", "Z12")
async def test_trees_that_would_write_outside_or_into_git_are_refused(machines: Machines):
    repo = machines.repo
    base, blob = git(repo, "rev-parse", "HEAD").strip(), git(repo, "rev-parse", "HEAD:README.md").strip()
    inner = raw_object(repo, "tree", b"100644 config\0" + bytes.fromhex(blob))
    link = raw_object(repo, "blob", b"/etc")
    for entries in (
        [("40000", b".git", inner)],
        [("40000", b"..", inner)],
        [("100644", b"a/b", blob)],
        [("40000", b".GIT", inner)],
        [("40000", b"git~1", inner)],
        [("120000", b".gitmodules", link)],
    ):
        tip = commit_with(repo, entries)
        said = await refused(machines, tip, bundle_of(repo, tip, base))
        assert "refused" in said, entries


@pytest.mark.spec("Z11")
async def test_bundles_that_are_damaged_or_no_bundles_are_refused(machines: Machines):
    base = git(machines.repo, "rev-parse", "HEAD").strip()
    (machines.repo / "x").write_bytes(os.urandom(5000))
    tip = save(machines.repo)
    good = bundle_of(machines.repo, tip, base)
    git(machines.repo, "update-ref", "refs/heads/main", base)
    git(machines.repo, "reset", "-q", "--hard")
    strange = b"a" * 40
    for data, words in (
        (b"", "no bundle"),
        (b"PACK", "no bundle"),
        (good[:-100], "refused"),
        (good[:200] + b"\0\0" + good[202:], "refused"),
        (good.replace(f"-{base}".encode(), b"-" + strange, 1), "not here"),
        (good.replace(f"{tip} ".encode(), strange + b" ", 1), "does not hold"),
        (b"# v2 git bundle\n\nPACK", "no commit"),
        (b"# v3 git bundle\n@filter=blob:none\n" + good.partition(b"\n")[2], "cannot be read"),
        (b"# v2 git bundle\n--upload-pack=x refs/heads/x\n\n", "cannot be read"),
        (b"# v2 git bundle\n" + b"x" * 10_000, "cannot be read"),
    ):
        assert words in await refused(machines, tip, data), data[:60]


@pytest.mark.spec("Z11")
async def test_a_commit_whose_history_is_missing_is_refused(machines: Machines):
    """The pack lacks a file of its tree, and git says so before any branch is made."""
    base = git(machines.repo, "rev-parse", "HEAD").strip()
    tip = commit_with(machines.repo, [("100644", b"gone", "1" * 40)])
    words = ["git", "pack-objects", "--stdout", "-q"]
    names = f"{tip}\n{git(machines.repo, 'rev-parse', tip + '^{tree}')}".encode()
    pack = subprocess.run(words, cwd=machines.repo, input=names, check=True, capture_output=True).stdout
    said = await refused(machines, tip, f"# v2 git bundle\n-{base} \n{tip} refs/heads/x\n\n".encode() + pack)
    assert "refused" in said or "not whole" in said


@pytest.mark.spec("Z11")
async def test_an_object_under_a_wrong_name_is_not_used(machines: Machines):
    journey = await machines.depart()
    path = machines.objects.folder / journey.parcels[0].object
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ToolError, match="something else"):
        await machines.room(journey)
    path.unlink()
    with pytest.raises(ToolError, match="has no code"):
        await machines.room(journey)
    assert not (machines.top / "w1" / "remote" / "rooms").exists()


@pytest.mark.spec("Z11")
async def test_parcels_that_lie_are_refused(machines: Machines):
    journey = await machines.depart()
    (good,) = machines.parcels
    lies: list[list[Parcel]] = [
        [replace(good, tip="--help", prerequisites=())],
        [replace(good, object="../../etc/passwd")],
        [replace(good, prerequisites=(good.tip,))],
        [replace(good, prerequisites=("--all",))],
        [],
    ]
    for parcels in lies:
        machines.parcels = parcels
        with pytest.raises(ToolError):
            await machines.room(journey)
    other = new_repo(machines.top / "other")
    git(other, "commit", "-q", "--amend", "-m", "another")
    tip = git(other, "rev-parse", "HEAD").strip()
    machines.parcels = [replace(good, tip=tip)]  # the object is valid, but of another commit
    with pytest.raises(ToolError, match="does not hold"):
        await machines.room(replace(journey, base=tip))
    for project in ("../up", "x" * 63, ""):
        with pytest.raises(ToolError):
            await machines.room(replace(journey, project=project))


@pytest.mark.spec("Z9")
async def test_saved_trees_that_lie_are_refused(machines: Machines):
    journey = await machines.depart()
    room = await machines.room(journey)
    (room.path / "x").write_text("x")
    saved = await room.save()
    assert saved is not None
    lies: list[SavedTree] = [
        replace(saved, head="refs/remotes/origin/x"),
        replace(saved, head="../../HEAD"),
        replace(saved, refs={"refs/heads/../../config": journey.base}),
        replace(saved, refs={"refs/heads/a\nupdate refs/heads/b": journey.base}),
        replace(saved, refs={"HEAD": journey.base}),
        replace(saved, refs={"refs/heads/x": "1" * 40}),
        replace(saved, commit="HEAD"),
        replace(saved, commit="1" * 40),
        replace(saved, object="code/" + "0" * 64),
        replace(saved, object=""),
    ]
    for lie in lies:
        with pytest.raises(ToolError):
            await machines.room(journey, "w2", saved=[lie])


@pytest.mark.spec("Z12")
async def test_names_of_agents_and_branches_cannot_reach_other_refs(machines: Machines):
    room = await machines.start()
    (room.path / "x").write_text("x")
    back = await room.back()
    assert back is not None
    names = ("../../heads/main", "main\nupdate", "--force", "a b\u202e", ".", "x.lock", "")
    for number, name in enumerate(names):
        landed = await machines.land(back, name, agent=f"a{number}")
        assert landed.branch.startswith("worktree-") and landed.branch == landed.branch.strip()
    tip = back.refs[""]
    odd = replace(back, refs={"": tip, "../main": tip, "a\nb": tip, "a b": tip, "@{-1}": tip})
    landed = await machines.land(odd, "odd")
    assert len(landed.others) == 4 and all(branch.startswith("worktree-odd+") for branch in landed.others)
    with pytest.raises(ToolError, match="id of an agent"):
        await machines.land(back, agent="../x")
    base = git(machines.repo, "rev-parse", "main").strip()
    assert base == back.base and git(machines.repo, "branch", "--show-current") == "main\n"
    with pytest.raises(ToolError, match="commit"):
        await machines.land(replace(back, refs={"": "main"}), "lie")
    with pytest.raises(ToolError, match="names no commit"):
        await machines.land(replace(back, refs={}), "lie")


@pytest.mark.spec("Z11")
async def test_nothing_of_an_untrusted_repository_runs(machines: Machines):
    repo, ran = machines.repo, machines.top / "ran"
    (repo / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    save(repo)
    for name in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "diff.evil.textconv", "core.pager"):
        git(repo, "config", name, f"touch {ran}; cat")
    for hook in ("post-checkout", "reference-transaction", "pre-commit", "post-index-change"):
        path = repo / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    (repo / "README.md").write_text("edited\n")
    room = await machines.start()
    (room.path / "x").write_text("x")
    await room.save()
    await machines.land(await room.back())
    assert not ran.exists()
