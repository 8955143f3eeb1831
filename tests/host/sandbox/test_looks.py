"""What was found on the machine is cached between commands; the next command must still see every change."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.core.sandbox.policy import Terrain
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.sandbox.ground.looks import FRESH
from teamwright.host.sandbox.ground.terrain import Ground, read_terrain


def furnish(base: Path) -> Ground:
    for name in ("p/src/deep", "p/other", "h/.ssh", "h/.config/git", "h/.claude/skills", "t", "h/.teamwright/cache"):
        (base / name).mkdir(parents=True)
    (base / "h/.npmrc").write_text("registry=here\n")
    subprocess.run(["git", "init", "-q", str(base / "p")], check=True, stdin=subprocess.DEVNULL)
    home, project = str(base / "h"), str(base / "p")
    state = f"{home}/.teamwright"
    return Ground((project,), project, home, state, str(base / "t"), f"{state}/cache", masked=False)


def anew(ground: Ground) -> Terrain:
    """A fresh scan, through a spelling of the same path for which nothing is cached."""
    project = f"{ground.project}/."
    return read_terrain(replace(ground, project=project, roots=(project,)), SandboxRules())


def settle(base: Path) -> None:
    newest = max(path.lstat().st_ctime_ns for path in base.rglob("*"))
    while time.time_ns() - newest <= FRESH:
        os.sched_yield()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def plant_behind_its_time(base: Path) -> None:
    """Put a repository into a directory and restore the directory's modification time."""
    before = (base / "p/src").stat()
    (base / "p/src/.git").mkdir()
    os.utime(base / "p/src", ns=(before.st_atime_ns, before.st_mtime_ns))


def swap(base: Path) -> None:
    (base / "p/.git").rename(base / "p/moved")
    (base / "p/.git").symlink_to("moved")


def lead_away(base: Path) -> None:
    (base / "t").rename(base / "u")
    (base / "t").symlink_to("u")


def include(base: Path) -> None:
    append(base / "p/.git/config", "[include]\n\tpath = ../extra\n")
    (base / "p/extra").write_text("[core]\n\thooksPath = tools\n")


CHANGES: list[Callable[[Path], object]] = [
    lambda base: (base / "p/.claude").mkdir(),
    lambda base: (base / "p/.mcp.json").symlink_to("src"),
    lambda base: (base / "p/src/deep/.git").mkdir(),
    lambda base: (base / "p/other/.git").write_text("gitdir: ../.git\n"),
    plant_behind_its_time,
    swap,
    include,
    lambda base: append(base / "p/.git/config", "[core]\n\thooksPath = tools\n"),
    lambda base: (base / "p/.git/commondir").write_text("."),
    lambda base: (base / "p/.git/hooks").rename(base / "p/.git/before"),
    lambda base: (base / "h/.gitconfig").write_text(f"[core]\n\thooksPath = {base}/p/tools\n"),
    lambda base: (base / "h/.aws").mkdir(),
    lambda base: (base / "h/.config/gh").mkdir(),
    lambda base: (base / "h/.config/git/credentials").write_text("x"),
    lambda base: (base / "h/.npmrc").write_text("//here/:_authToken=x\n"),
    lambda base: (base / "h/.claude/agents").mkdir(),
    lambda base: (base / "h/.ssh").rename(base / "h/.other"),
    lead_away,
]


@pytest.mark.spec("V25")
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_kept_is_looked_at_again_when_it_changes(tmp_path: Path, change: Callable[[Path], object]) -> None:
    base = tmp_path.resolve()
    ground = furnish(base)
    settle(base)
    first = read_terrain(ground, SandboxRules())
    assert read_terrain(ground, SandboxRules()) is first, "it was kept"
    change(base)
    assert read_terrain(ground, SandboxRules()) == anew(ground)
    assert read_terrain(ground, SandboxRules()) != first


@pytest.mark.spec("V25")
def test_a_second_change_at_the_same_time_is_seen(tmp_path: Path) -> None:
    ground = furnish(tmp_path.resolve())
    for number in range(20):
        Path(ground.project, f"sub{number}/.git").mkdir(parents=True)
        assert read_terrain(ground, SandboxRules()) == anew(ground)


@pytest.mark.spec("V25")
def test_what_leads_elsewhere_is_never_kept(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    ground = furnish(base)
    include(base)
    settle(base)
    read_terrain(ground, SandboxRules())
    (base / "p/extra").write_text("[core]\n\thooksPath = src\n")
    assert read_terrain(ground, SandboxRules()) == anew(ground)
    assert str(base / "p/src") in {name.path for one in anew(ground).repositories for name in one.names}
