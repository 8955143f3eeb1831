"""Where a project begins: at the nearest marked directory, but never by somebody else's mark."""

import os
from pathlib import Path

import pytest

from teamwright.store.settings.load import project_root


def test_the_project_is_the_nearest_marked_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    deep = home / "work" / "repo" / "pkg" / "deep"
    deep.mkdir(parents=True)
    (home / ".claude").mkdir()
    (home / ".teamwright").mkdir()
    assert project_root(deep, home) == deep  # ~/.claude does not make the home directory a project
    (home / "work" / "repo" / ".git").write_text("gitdir: elsewhere")
    assert project_root(deep, home) == home / "work" / "repo"
    (home / "work" / "repo" / "pkg" / ".claude").mkdir()
    assert project_root(deep, home) == home / "work" / "repo" / "pkg"
    assert project_root(home, home) == home


def test_the_search_stops_at_home_which_counts_only_as_a_repository(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "a").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    assert project_root(home / "a", home) == home / "a"
    (home / ".git").mkdir()
    assert project_root(home / "a", home) == home
    other = tmp_path / "elsewhere" / "x"
    other.mkdir(parents=True)
    assert project_root(other, home) == tmp_path
    (tmp_path / "link").symlink_to(home / "a")
    (home / "a" / ".teamwright").mkdir()
    assert project_root(tmp_path / "link", home) == home / "a"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_mark_that_somebody_else_left_above_does_not_count(tmp_path: Path) -> None:
    inner = tmp_path / "shared" / "mine"
    inner.mkdir(parents=True)
    mark = tmp_path / "shared" / ".claude"
    mark.mkdir()
    assert project_root(inner, tmp_path / "home") == tmp_path / "shared"
    os.chown(mark, 12345, 12345)
    assert project_root(inner, tmp_path / "home") == inner
