"""A repository's current state in one line, found within a time limit."""

from pathlib import Path

import pytest

from teamwright.host.git.guard import trust_repository
from teamwright.host.git.now import GitNow, in_words, read_now
from worktree_kit import git, new_repo, save

pytestmark = pytest.mark.anyio


@pytest.mark.spec("A15")
async def test_branch_changes_and_last_commits(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "repo")
    for n in range(4):
        (repo / "README.md").write_text(f"{n}\n")
        save(repo, f"change {n} " + "x" * 100)
    clean = await read_now(repo)
    assert clean is not None and (clean.branch, clean.changed, len(clean.commits)) == ("main", 0, 3)
    assert clean.commits[0].split(" ", 1)[1].startswith("change 3 x") and len(clean.commits[0]) <= 60
    (repo / "new").mkdir()
    (repo / "new" / "a").write_text("")
    (repo / "new" / "b").write_text("")
    (repo / "README.md").write_text("changed\n")
    dirty = await read_now(repo / "new")
    assert dirty is not None and dirty.changed == 2
    words = in_words(dirty, commits=False)
    assert words == "git, when you began: branch main, 2 changed or new"
    assert "change 3" in in_words(dirty, commits=True)


@pytest.mark.spec("A15")
async def test_what_is_no_usual_repository(tmp_path: Path) -> None:
    assert await read_now(tmp_path) is None
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "trunk")
    assert await read_now(empty) == GitNow("trunk", 0)
    repo = new_repo(tmp_path / "repo")
    git(repo, "checkout", "-q", "--detach")
    detached = await read_now(repo)
    assert detached is not None and in_words(detached, commits=False) == "git, when you began: no branch, clean"
    assert in_words(GitNow("main"), commits=True) == "git, when you began: branch main"


@pytest.mark.spec("A15", "W6")
async def test_nothing_of_an_untrusted_repository_runs(tmp_path: Path) -> None:
    repo, ran = new_repo(tmp_path / "repo"), tmp_path / "ran"
    trust_repository(repo, trusted=False)
    (repo / ".gitattributes").write_text("*.md filter=evil\n")
    save(repo)
    for name in ("filter.evil.clean", "core.fsmonitor"):
        git(repo, "config", name, f"sh -c 'touch {ran}; cat'")
    (repo / "README.md").write_text("other\n")
    found = await read_now(repo)
    assert found is not None and found.changed == 1 and not ran.exists()
