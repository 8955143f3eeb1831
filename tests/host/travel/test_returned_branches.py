"""A branch that came from another machine is listed, merged and removed like any worktree's."""

from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.worktrees.listing import view
from teamwright.host.git.worktrees.merge import merge, preview_merge
from teamwright.host.git.worktrees.worktree import find, find_one, make, remove
from travel_kit import Machines
from worktree_kit import branches, git, kept_refs, new_repo, save


@pytest.fixture
async def machines(tmp_path: Path) -> Machines:
    """One agent has worked elsewhere, and its branch has come back here."""
    found = Machines(tmp_path, new_repo(tmp_path / "repo"))
    room = await found.start()
    (room.path / "README.md").write_text("from far\n")
    await found.land(await room.back())
    return found


@pytest.mark.spec("Z12")
async def test_it_is_listed_and_merged(machines: Machines):
    (found,) = await find(machines.repo)
    assert (found.worktree.name, found.use, found.state.files, found.state.ahead) == ("far", "changed", 1, 1)
    assert found.worktree.owner == "a-far" and found.worktree.session == "s1" and not found.note
    seen = await view(found, machines.repo)
    assert seen.commits[0].endswith("left uncommitted by far") and seen.lines[0].path == "README.md"
    assert (await preview_merge(found, machines.repo)).passes
    await merge(found, machines.repo)
    assert (machines.repo / "README.md").read_text() == "from far\n"
    (after,) = await find(machines.repo)
    assert after.use == "merged"


@pytest.mark.spec("Z12")
async def test_a_conflict_is_told_without_a_directory_that_is_not_there(machines: Machines):
    (machines.repo / "README.md").write_text("mine\n")
    save(machines.repo)
    found = await find_one(machines.repo, "far")
    assert found is not None
    with pytest.raises(ToolError, match=r"both changed README.md.*in a worktree of that branch"):
        await merge(found, machines.repo)


@pytest.mark.spec("Z12")
async def test_it_is_removed_and_kept_under_a_hidden_ref(machines: Machines):
    found = await find_one(machines.repo, "far")
    assert found is not None
    ref = await remove(found.worktree)
    assert branches(machines.repo) == ["main"] and kept_refs(machines.repo) == [ref]
    assert await find(machines.repo) == []


@pytest.mark.spec("Z12")
async def test_a_worktree_of_the_same_name_does_not_take_it_over(machines: Machines):
    tree = await make(machines.repo, "far", owner="a2", apart=True)
    assert tree.name == "far-2"
    git(machines.repo, "branch", "-D", "worktree-far")
    assert {entry.worktree.name for entry in await find(machines.repo)} == {"far-2"}
