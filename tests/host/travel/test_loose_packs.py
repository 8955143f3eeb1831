"""We write a call's changes into a pack ourselves, and git finds in it what it needs."""

import random
import subprocess
from pathlib import Path

import pytest

from teamwright.core.data.code import SavedTree
from teamwright.host.git.travel.trees.loose_pack import Added, pack_added
from travel_kit import Machines
from worktree_kit import git, new_repo, save

NAMES = ("a", "b", "b/c", "b/d/e", "old.txt", "README.md", "f/g")


def change(tree: Path, choose: random.Random) -> None:
    """Write or remove one of the paths, or turn a directory into a file or the other way round."""
    path = tree / choose.choice(NAMES)
    for above in (path.parent, path):
        if above != tree and above.is_file():
            above.unlink()
    if path.is_dir():
        subprocess.run(["rm", "-r", path], check=True)
    if choose.random() < 0.8:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{choose.random()}\n" * choose.choice((0, 1, 500)))
        path.chmod(choose.choice((0o644, 0o755)))


def files_of(tree: Path) -> dict[str, tuple[int, bytes]]:
    paths = [path for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(tree)): (path.stat().st_mode & 0o111, path.read_bytes()) for path in paths}


@pytest.mark.spec("Z9")
@pytest.mark.parametrize("kind", ["sha1", "sha256"])
async def test_whatever_is_changed_arrives(tmp_path: Path, kind: str):
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main", f"--object-format={kind}")
    (repo / "old.txt").write_text("old\n" * 20)
    (repo / "README.md").write_text("hello\n")
    save(repo)
    machines, choose, chain = Machines(tmp_path, repo), random.Random(7), list[SavedTree]()
    journey = await machines.depart()
    room = await machines.room(journey)
    for n in range(12):
        for _ in range(choose.randint(1, 3)):
            change(room.path, choose)
        if n == 5:
            git(room.path, "gc", "-q")  # from here on, what it saved is in a pack
        if (saved := await room.save()) is not None:
            chain.append(saved)
    again = await machines.room(journey, "w2", saved=chain)
    assert files_of(again.path) == files_of(room.path)
    git(again.path, "fsck", "--strict", "--no-dangling")


def added_to(repo: Path, path: str, text: str) -> Added:
    (repo / path).parent.mkdir(parents=True, exist_ok=True)
    (repo / path).write_text(text)
    commit = save(repo)
    return Added(commit, git(repo, "rev-parse", "HEAD^{tree}").strip(), (path, "not/there"))


@pytest.mark.spec("Z9")
def test_a_pack_holds_the_commit_and_what_is_on_the_way_to_each_path(tmp_path: Path):
    repo = new_repo(tmp_path / "repo")
    git(tmp_path, "clone", "-q", str(repo), "other")
    pack = pack_added(repo / ".git", added_to(repo, "b/d/e", "new\n"))
    assert pack is not None
    known = subprocess.run(
        ["git", "index-pack", "--stdin", "--strict"],
        cwd=tmp_path / "other",
        input=pack,
        capture_output=True,
        check=True,
    )
    assert known.stdout.startswith(b"pack\t")
    tip = git(repo, "rev-parse", "HEAD").strip()
    assert git(tmp_path / "other", "show", f"{tip}:b/d/e") == "new\n"
    assert int.from_bytes(pack[8:12], "big") == 5  # the commit, three trees, the file


@pytest.mark.spec("Z9")
def test_what_is_large_many_or_packed_is_left_to_git(tmp_path: Path):
    repo = new_repo(tmp_path / "repo")
    large = added_to(repo, "large", "".join(random.Random(1).choices("0123456789abcdef", k=200_000)))
    assert pack_added(repo / ".git", large) is None
    small = added_to(repo, "small", "x")
    assert pack_added(repo / ".git", Added(small.commit, small.tree, ("small",) * 33)) is None
    assert pack_added(repo / ".git", small) is not None
    git(repo, "gc", "-q")
    assert pack_added(repo / ".git", small) is None


@pytest.mark.spec("Z9")
def test_a_spoilt_object_is_left_to_git(tmp_path: Path):
    repo = new_repo(tmp_path / "repo")
    added = added_to(repo, "small", "x")
    place = repo / ".git" / "objects" / added.tree[:2] / added.tree[2:]
    place.chmod(0o644)
    for spoilt in (b"", b"no zlib", place.read_bytes()[:-5]):
        place.write_bytes(spoilt)
        assert pack_added(repo / ".git", added) is None
