"""Panes of iTerm2, with a stand-in for its tool: it records its calls, and runs lines as a shell would."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pane_kit import AWKWARD, lives, probe, told, until

from teamwright.core.errors import ToolError
from teamwright.host.panes.base import Pane
from teamwright.host.panes.iterm import Iterm

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="these tests look into /proc")
WORDS: dict[str, Any] = {"title": "ada", "color": "red"}

IT2 = """#!{python} -IS
import json, os, subprocess, sys
here, argv = {here!r}, sys.argv[1:]
with open(here + "/asked", "a") as file:
    file.write(json.dumps(argv) + "\\n")
def option(name):
    return argv[argv.index(name) + 1] if name in argv else ""
def shell(line, session):
    nowhere = subprocess.DEVNULL
    env = {{"PATH": os.environ["PATH"], "ITERM_SESSION_ID": "w0t0p9:" + session, "TERM": "xterm-256color"}}
    popen = subprocess.Popen(["sh", "-c", line], cwd="/", env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere,
                             start_new_session=True)
    open(here + "/pid-" + session, "w").write(str(popen.pid))
trouble = open(here + "/trouble").read().split() if os.path.exists(here + "/trouble") else []
if " ".join(argv[:2]).replace(" ", "-") in trouble or option("-s") in trouble:
    sys.exit("Error: not connected\\x1b[31m")
match argv[:2]:
    case ["session", "split"]:
        count = len(open(here + "/asked").readlines())
        print("Created new pane: NEW-%d" % count)
    case ["session", "run"]:
        shell(argv[-1], option("-s"))
    case ["window", "new"]:
        shell("exec " + option("--command"), "WIN-1")
        print("Created new window: pty-1")
    case ["session", "get-var"]:
        print(open(here + "/pid-" + option("-s")).read())
"""


class Stage:
    def __init__(self, root: Path) -> None:
        self.root, self.cwd, self.count = root, root / "project", 0
        self.cwd.mkdir()
        (root / "bin").mkdir()
        self.program = root / "bin" / "it2"
        self.program.write_text(IT2.format(python=sys.executable, here=str(root)))
        self.program.chmod(0o700)
        self.env = {"PATH": os.environ["PATH"], "ITERM_SESSION_ID": "w0t1p0:LEAD-1", "TERM_PROGRAM": "iTerm.app"}
        self.opened: list[Pane] = []

    def panes(self, *, split: bool = True) -> Iterm:
        return Iterm(str(self.program), env=self.env, room=self.root / "a room's", split=split, grace=0.5)

    async def open(self, panes: Iterm, *words: str, **more: Any) -> tuple[Pane, dict[str, Any]]:
        self.count += 1
        where = self.root / f"told{self.count}"
        pane = await panes.open(probe(where, *words), **{"cwd": self.cwd, "env": {}} | WORDS | more)
        self.opened.append(pane)
        return pane, await told(where)

    @property
    def asked(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.root / "asked").read_text().splitlines()]

    def trouble(self, *what: str) -> None:
        (self.root / "trouble").write_text(" ".join(what))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    for pane in stage.opened:
        if lives(pane.pid):
            os.kill(pane.pid, signal.SIGKILL)


@pytest.mark.spec("E2", "E8")
async def test_a_pane_is_split_and_gets_nothing_from_outside(stage: Stage) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-hidden"}
    pane, given = await stage.open(stage.panes(), *AWKWARD, env=env)
    assert (given["argv"], given["cwd"], given["pid"]) == (AWKWARD, str(stage.cwd), pane.pid)
    assert given["env"]["ANTHROPIC_API_KEY"] == "sk-hidden" and given["env"]["TERM"] == "xterm-256color"
    split, run, name = stage.asked
    assert split == ["session", "split", "-v", "-s", "LEAD-1"]
    assert run[:4] == ["session", "run", "-s", pane.id] and run[4].startswith("exec ") and len(run[4]) < 500
    assert "sk-hidden" not in str(stage.asked) and "touch" not in str(stage.asked)
    assert name == ["session", "set-name", "-s", pane.id, "--", "ada"]
    assert list((stage.root / "a room's").iterdir()) == [] and not (stage.cwd / "pwned").exists()


@pytest.mark.spec("E2")
async def test_the_next_one_goes_below_the_last_or_beside_the_lead(stage: Stage) -> None:
    panes = stage.panes()
    first, _ = await stage.open(panes)
    second, _ = await stage.open(panes)
    stage.trouble(second.id)  # a person has closed it
    third, _ = await stage.open(panes)
    splits = [words for words in stage.asked if words[1] == "split"]
    assert splits == [
        ["session", "split", "-v", "-s", "LEAD-1"],
        ["session", "split", "-s", first.id],
        ["session", "split", "-s", second.id],
        ["session", "split", "-v", "-s", "LEAD-1"],
    ]
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.spec("E5")
async def test_without_splitting_each_has_a_window(stage: Stage) -> None:
    pane, given = await stage.open(stage.panes(split=False), "a b")
    assert pane.id == "WIN-1" and given["argv"] == ["a b"]
    assert stage.asked[0][:3] == ["window", "new", "--command"]


@pytest.mark.spec("E7", "E8")
async def test_its_death_is_noticed_and_its_pane_taken_away(stage: Stage) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes)
    assert await panes.is_open(pane)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(panes.watch, pane)
            os.kill(pane.pid, signal.SIGKILL)
    await until(lambda: not lives(pane.pid))
    assert not await panes.is_open(pane) and await panes.close(pane)
    assert stage.asked[-1] == ["session", "close", "-f", "-s", pane.id]


@pytest.mark.spec("E8")
async def test_closing_ends_ours_and_nothing_else(stage: Stage) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes)
    assert await panes.close(pane) and not lives(pane.pid)
    assert stage.asked[-1] == ["session", "close", "-f", "-s", pane.id]
    (stage.root / f"pid-{pane.id}").write_text("1")  # a person has restarted the session
    assert not await panes.close(pane)
    assert stage.asked[-1][:2] == ["session", "get-var"]


@pytest.mark.spec("A12")
async def test_a_title_is_one_line_of_words(stage: Stage) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes, title="--help\x1b]0;x\x07\n")
    assert stage.asked[-1] == ["session", "set-name", "-s", pane.id, "--", "--help\\u001b]0;x\\u0007\\u000a"]


@pytest.mark.spec("E5")
@pytest.mark.parametrize("what", ["session-split", "session-run"])
async def test_an_application_that_does_not_answer_is_said(stage: Stage, what: str) -> None:
    stage.trouble(what)
    with pytest.raises(ToolError, match=r"it2 did not open a pane: Error: not connected\\u001b.*in-process"):
        await stage.open(stage.panes())
    assert list((stage.root / "a room's").iterdir()) == []
    if what == "session-run":
        assert stage.asked[-1][:2] == ["session", "close"]
