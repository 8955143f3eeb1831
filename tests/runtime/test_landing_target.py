"""The target branch, and the files of whoever has it checked out: moved exactly as checked, or not at all."""

from pathlib import Path

import pytest

from landing_kit import branch, commit_on, left_trees, open_yard
from teamwright.core.data.landing import LandEntry
from teamwright.host.git.run import locate
from teamwright.runtime.landing.plan import Checked
from worktree_kit import git, save

pytestmark = pytest.mark.anyio


@pytest.mark.spec("LQ5")
async def test_a_target_that_moves_meanwhile_is_tried_again_and_never_overwritten(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        git(yard.repo, "checkout", "-q", "--detach")
        moves: list[str] = []

        async def check(tree: Path, entry: LandEntry) -> Checked:
            if len(moves) < 2:
                moves.append(commit_on(yard.repo, "main", {f"other{len(moves)}.txt": "x\n"}))
            return Checked()

        yard.check, yard.target = check, "main"
        await yard.ready("a")
        await yard.run()
        assert await yard.states() == {"a": "landed"}
        assert {"a.txt", "other0.txt", "other1.txt"} <= yard.files()


@pytest.mark.spec("LQ5")
async def test_what_a_person_took_back_meanwhile_does_not_return(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        (yard.repo / "secret.txt").write_text("a mistake\n")
        save(yard.repo, "a mistake")
        branch(yard.repo, "a", {"a.txt": "a\n"}, base="main~1")

        async def check(tree: Path, entry: LandEntry) -> Checked:
            if (tree / "secret.txt").exists():
                git(yard.repo, "reset", "-q", "--hard", "HEAD~1")
            return Checked()

        yard.check = check
        await yard.queue("a")
        await yard.run()
        assert await yard.states() == {"a": "landed"} and "secret.txt" not in yard.files()


@pytest.mark.spec("LQ5")
async def test_a_target_that_never_rests_ends_the_run_in_words(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        git(yard.repo, "checkout", "-q", "--detach")
        moves: list[str] = []

        async def check(tree: Path, entry: LandEntry) -> Checked:
            moves.append(commit_on(yard.repo, "main", {f"other{len(moves)}.txt": "x\n"}))
            return Checked()

        yard.check = check
        await yard.ready("a")
        end = await yard.run()
        assert "was moved by somebody else 5 times in a row" in end.blocked and len(moves) == 5
        assert await yard.states() == {"a": "waiting"}


@pytest.mark.spec("LQ6")
@pytest.mark.parametrize("staged", [False, True])
async def test_files_of_the_person_are_not_touched_unless_clean(tmp_path: Path, staged: bool) -> None:
    async with open_yard(tmp_path) as yard:
        await yard.ready("a")
        before = yard.head()
        (yard.repo / "README.md").write_text("mine\n")
        if staged:
            git(yard.repo, "add", "README.md")
        end = await yard.run()
        assert "uncommitted changes (README.md); commit or stash them" in end.blocked
        assert yard.head() == before and (yard.repo / "README.md").read_text() == "mine\n"
        (waits,) = await yard.table.entries(str((await locate(yard.repo)).common))
        assert waits.state == "waiting" and waits.reason == end.blocked
        git(yard.repo, "checkout", "-q", "HEAD", "--", "README.md")
        await yard.run()
        assert await yard.states() == {"a": "landed"} and (yard.repo / "a.txt").exists()


@pytest.mark.spec("LQ6")
@pytest.mark.parametrize("ignored", [False, True])
async def test_files_that_git_does_not_know_are_never_overwritten(tmp_path: Path, ignored: bool) -> None:
    async with open_yard(tmp_path) as yard:
        await yard.ready("a")
        if ignored:
            (yard.repo / ".git/info/exclude").write_text("a.txt\n")
        (yard.repo / "a.txt").write_text("my own notes\n")
        before = yard.head()
        end = await yard.run()
        assert "cannot be moved" in end.blocked and yard.head() == before
        assert (yard.repo / "a.txt").read_text() == "my own notes\n" and not left_trees(yard.repo)


@pytest.mark.spec("LQ6")
async def test_edits_that_git_does_not_look_for_are_never_overwritten(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        await yard.ready("a", {"README.md": "theirs\n"})
        git(yard.repo, "update-index", "--assume-unchanged", "README.md")
        (yard.repo / "README.md").write_text("my own\n")
        end = await yard.run()
        assert "README.md in" in end.blocked and (yard.repo / "README.md").read_text() == "my own\n"
        assert await yard.states() == {"a": "waiting"}


@pytest.mark.spec("LQ6")
async def test_a_repository_without_files_of_its_own(tmp_path: Path) -> None:
    """Its HEAD names main, which is checked out nowhere; the tree of another branch stays as it is."""
    async with open_yard(tmp_path) as yard:
        branch(yard.repo, "a", {"a.txt": "a\n"})
        bare, tree = tmp_path / "bare.git", tmp_path / "mine"
        git(tmp_path, "clone", "-q", "--bare", str(yard.repo), str(bare))
        for name, value in (("user.name", "A Person"), ("user.email", "person@localhost")):
            git(bare, "config", name, value)
        git(bare, "worktree", "add", "-q", "-b", "mine", str(tree), "main")
        yard.repo = tree
        await yard.queue("a")
        await yard.run()
        assert await yard.states() == {"a": "landed"} and "a.txt" in yard.files("main")
        assert "a.txt" not in yard.files("mine") and not (tree / "a.txt").exists()


@pytest.mark.spec("LQ6")
async def test_files_stay_where_another_branch_is_checked_out(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        await yard.ready("a")
        git(yard.repo, "checkout", "-q", "-b", "mine")
        (yard.repo / "README.md").write_text("mine\n")
        await yard.run()
        assert "a.txt" in yard.files() and not (yard.repo / "a.txt").exists()
        assert git(yard.repo, "status", "--porcelain", "--untracked-files=no").strip() == "M README.md"
