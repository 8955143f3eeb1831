"""A repository of our own that sees what changes in a work tree."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.git.shadow import LookLimits, ShadowTree

pytestmark = [pytest.mark.anyio, pytest.mark.spec("RW3")]


def git(top: Path, *args: str) -> None:
    us = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *us, *args], cwd=top, check=True, timeout=30, capture_output=True)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "a").write_text("one\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "1")
    return top


def tree_of(top: Path, *, without: Path | None = None, **limits: Any) -> ShadowTree:
    folder = top.parent / "shadow"
    return ShadowTree(top, folder, without=without or top.parent / "home", limits=LookLimits(**limits))


async def test_another_branch_is_a_change_of_files(top: Path) -> None:
    git(top, "checkout", "-qb", "other")
    (top / "a").write_text("two\n")
    (top / "b").write_text("new\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "2")
    tree = tree_of(top)
    before = await tree.look()
    git(top, "checkout", "-q", "main")
    changes = await tree.changes(before, await tree.look())
    assert [change.path for change in changes] == ["a", "b"]
    was = await tree.contents([change.before for change in changes])
    assert sorted(was.values()) == [b"new\n", b"two\n"]


async def test_the_true_repository_stays_as_it_is(top: Path) -> None:
    index, objects = (top / ".git" / "index").read_bytes(), sorted((top / ".git" / "objects").rglob("*"))
    (top / "b").write_text("new\n")
    tree = tree_of(top)
    first = await tree.look()
    assert await tree.changes(first, await tree.look()) == []
    assert (top / ".git" / "index").read_bytes() == index
    assert sorted((top / ".git" / "objects").rglob("*")) == objects


async def test_our_own_files_and_other_repositories_inside_are_left_out(top: Path) -> None:
    home, inner = top / "home", top / "inner"
    home.mkdir()
    inner.mkdir()
    tree = tree_of(top, without=home)
    before = await tree.look()
    (home / "state").write_text("ours")
    git(inner, "init", "-q")
    (inner / "file").write_text("theirs")
    assert await tree.changes(before, await tree.look()) == []


async def test_a_look_that_was_cut_off_does_not_stop_the_next_one(top: Path) -> None:
    tree = tree_of(top)
    before = await tree.look()
    (top.parent / "shadow" / "index.lock").write_text("")
    (top / "a").write_text("two\n")
    assert [c.path for c in await tree.changes(before, await tree.look())] == ["a"]


async def test_large_files_and_large_trees_are_not_gone_through(top: Path) -> None:
    (top / "big").write_bytes(b"x" * 2_000)
    assert list((await tree_of(top, file=1_000).look()).unkept) == ["big"]
    few: list[tuple[dict[str, Any], str]] = [
        ({"index": 10}, "too many files"),
        ({"files": 0}, "more than 0 files"),
        ({"total": 9}, "MB"),
    ]
    for limit, words in few:
        with pytest.raises(ToolError, match=words):
            await tree_of(top, **limit).look()


async def test_a_tree_that_takes_too_long_is_given_up(top: Path) -> None:
    with pytest.raises(ToolError, match=r"took longer than 0 s|did not end within"):
        await tree_of(top, first=0.0).look()


async def test_one_command_that_changes_very_much_is_refused(top: Path) -> None:
    tree = tree_of(top, changed=2)
    before = await tree.look()
    for n in range(3):
        (top / f"n{n}").write_text("x")
    with pytest.raises(ToolError, match="changed 3 files, more than the 2"):
        await tree.changes(before, await tree.look())


async def test_names_that_are_no_text_are_true(top: Path) -> None:
    name = b'caf\xe9 \n\t"x'
    tree = tree_of(top)
    before = await tree.look()
    (top / os.fsdecode(name)).write_text("x")
    (change,) = await tree.changes(before, await tree.look())
    assert os.fsencode(change.path) == name
