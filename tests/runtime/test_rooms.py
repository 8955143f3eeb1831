"""Rooms: worktrees made by a hook, notes of stays, and what is released at the end."""

from pathlib import Path

import pytest

from teamwright.core.errors import StoreError, ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Desk
from teamwright.host.git.worktrees.worktree import find
from teamwright.runtime.worktrees import Worktrees
from worktree_kit import known, new_repo, nothing_left

pytestmark = pytest.mark.anyio
ME, OTHER = AgentId("a1"), AgentId("a2")


class Hook:
    """A hook for other version control: there is no git."""

    def __init__(self, printed: Path | None) -> None:
        self.printed, self.asked, self.removed = printed, list[tuple[str, Path]](), list[Path]()

    async def make(self, name: str, cwd: Path) -> Path | None:
        self.asked.append((name, cwd))
        return self.printed

    async def remove(self, path: Path) -> bool:
        self.removed.append(path)
        return True


@pytest.fixture
def made(tmp_path: Path) -> Path:
    made = tmp_path / "made by a hook"
    made.mkdir()
    return made


def desk_at(path: Path) -> Desk:
    return Desk(path, (path,), near=True)


@pytest.mark.spec("W7")
async def test_what_a_hook_made_is_used_without_git_and_kept(tmp_path: Path, made: Path):
    hook = Hook(made)
    rooms = Worktrees(make_by_hook=hook.make)
    tree = await rooms.open(tmp_path, ME)
    assert (tree.path, tree.kind, hook.asked) == (made, "hook", [(ME, tmp_path)])
    kept = await rooms.close(tree)
    assert kept and kept.path == made and made.is_dir()
    assert "made by a hook" in kept.words and "branch" not in kept.words


@pytest.mark.spec("W7")
async def test_an_agent_enters_and_leaves_what_a_hook_made(tmp_path: Path, made: Path):
    hook, desk = Hook(made), desk_at(tmp_path)
    rooms = Worktrees(notes=tmp_path / "notes", make_by_hook=hook.make, removed_by_hook=hook.remove)
    await rooms.enter(ME, desk, "fix/it")
    assert desk.cwd == desk.roots[0] == made and hook.asked == [("fix+it", tmp_path)]
    with pytest.raises(ToolError, match="nobody here can tell"):
        await rooms.leave(ME, desk, discard=False)
    assert desk.cwd == made and not hook.removed
    left = await rooms.leave(ME, desk, discard=True)
    assert left.kept is None and hook.removed == [made] and desk.cwd == desk.roots[0] == tmp_path


@pytest.mark.spec("W7")
async def test_without_a_hook_that_removes_it_can_only_be_kept(tmp_path: Path, made: Path):
    desk, rooms = desk_at(tmp_path), Worktrees(make_by_hook=Hook(made).make)
    await rooms.enter(ME, desk, "x")
    with pytest.raises(ToolError, match="there is none to remove it"):
        await rooms.leave(ME, desk, discard=True)
    left = await rooms.leave(ME, desk, discard=None)
    assert left.kept and left.kept.path == made and desk.cwd == tmp_path


@pytest.mark.spec("W7")
@pytest.mark.parametrize("printed", ["made by a hook", "/nowhere/at/all", "/etc/hostname"])
async def test_a_hook_that_prints_no_directory_is_a_clear_error(tmp_path: Path, printed: str):
    desk, rooms = desk_at(tmp_path), Worktrees(make_by_hook=Hook(Path(printed)).make)
    with pytest.raises(ToolError, match="WorktreeCreate hook printed"):
        await rooms.enter(ME, desk, "x")
    assert desk.cwd == tmp_path


@pytest.mark.spec("W7")
async def test_a_bad_name_never_reaches_a_hook_and_a_silent_one_leaves_it_to_git(tmp_path: Path):
    repo, hook = new_repo(tmp_path / "repo"), Hook(None)
    rooms = Worktrees(make_by_hook=hook.make)
    with pytest.raises(ToolError, match="cannot name a worktree"):
        await rooms.open(repo, ME, "../up")
    assert hook.asked == []
    tree = await rooms.open(repo, ME, "x")
    assert tree.kind == "git" and known(repo) == ["x"]


@pytest.mark.spec("W2")
async def test_a_plus_is_not_for_names_and_a_slash_is_found_again(tmp_path: Path):
    repo, notes = new_repo(tmp_path / "repo"), tmp_path / "notes"
    rooms, desk = Worktrees(notes=notes), desk_at(repo)
    with pytest.raises(ToolError, match="cannot name a worktree"):
        await rooms.enter(ME, desk, "fix+login")
    assert known(repo) == [] and (await rooms.enter(ME, desk, "fix/login")).tree.name == "fix+login"
    await rooms.let_all_go()
    again = Worktrees(notes=notes)
    assert not await again.resume(ME, desk, desk.cwd) and desk.cwd.name == "fix+login"


@pytest.mark.spec("W8")
async def test_stays_are_found_again_and_let_go(tmp_path: Path):
    repo, notes = new_repo(tmp_path / "re po \udcff"), tmp_path / "notes"  # not UTF-8
    first, desk = Worktrees(session="s1", notes=notes), desk_at(repo)
    tree = (await first.enter(ME, desk, "x")).tree
    await first.let_all_go()
    assert [f.use for f in await find(repo)] == ["clean"]
    assert (notes / "a1.json").stat().st_mode & 0o777 == 0o600
    second, desk = Worktrees(session="s1", notes=notes), desk_at(repo)
    assert await second.resume(ME, desk, tree.path) == "" and desk.roots[0] == tree.path
    assert [f.use for f in await find(repo)] == ["in_use"]
    assert (await second.leave(ME, desk, discard=False)).kept is None
    assert nothing_left(repo) and desk.cwd == repo and not list(notes.iterdir())


async def test_a_note_that_cannot_be_read_counts_for_nothing(tmp_path: Path):
    (tmp_path / "a1.json").write_text("{")
    desk = desk_at(tmp_path)
    assert await Worktrees(notes=tmp_path).resume(ME, desk, tmp_path) == "" and desk.cwd == tmp_path


async def test_without_a_place_for_the_note_nobody_moves(tmp_path: Path):
    repo = new_repo(tmp_path / "repo")
    (tmp_path / "file").write_text("")
    desk, rooms = desk_at(repo), Worktrees(notes=tmp_path / "file" / "notes")
    with pytest.raises(StoreError):
        await rooms.enter(ME, desk, "x")
    assert desk.cwd == repo and nothing_left(repo)
