"""Panes of a real tmux: started by argv, found again, closed without harm to others; each test has its own servers."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from pane_kit import AWKWARD, lives, probe, told, until

from teamwright.core.errors import ToolError
from teamwright.core.policies.placement import Detected
from teamwright.host.panes.base import Pane, look
from teamwright.host.panes.launch_file import discard, wrap
from teamwright.host.panes.tmux import Tmux

PROGRAM = shutil.which("tmux") or ""
pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="tmux is not installed"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="these tests look into /proc"),
]
TITLE: dict[str, Any] = {"title": "ada", "color": "orange"}


class Stage:
    """A temporary directory for sockets, a project, and the servers `own` and `user`."""

    def __init__(self, sockets: Path, root: Path) -> None:
        self.root, self.cwd = root, root / "project"
        self.cwd.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(root), "TMUX_TMPDIR": str(sockets), "LANG": "C.UTF-8"}
        self.opened: list[Pane] = []

    def panes(self, *, split: bool = True, **env: str) -> Tmux:
        return Tmux(PROGRAM, env=self.env | env, room=self.root / "room", name="own", split=split, grace=0.5)

    async def open(self, panes: Tmux, *words: str, how: str = "stay", **more: Any) -> tuple[Pane, dict[str, Any]]:
        where = self.root / f"told{len(self.opened)}"
        argv = probe(where, *words, how=how)
        pane = await panes.open(argv, **{"cwd": self.cwd, "env": {}} | TITLE | more)
        self.opened.append(pane)
        return pane, await told(where)

    def tmux(self, server: str, *words: str, check: bool = True) -> str:
        argv = [PROGRAM, "-u", "-L", server, "-f", "/dev/null", *words]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False, timeout=20)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def user(self, *, width: int = 160, height: int = 50) -> dict[str, str]:
        """A person's session with one pane, the lead's; returns what the lead's environment says about it."""
        size = ("-x", str(width), "-y", str(height))
        form = "#{socket_path},#{pid},0 #{pane_id}"
        made = self.tmux("user", "new-session", "-d", "-P", "-F", form, *size, "--", "sleep", "1000")
        where, pane = made.split(" ")
        return {"TMUX": where, "TMUX_PANE": pane}

    def ids(self, server: str, *more: str) -> list[str]:
        return self.tmux(server, "list-panes", "-a", *more, "-F", "#{pane_id}", check=False).split()

    def about(self, server: str, pane: Pane | str, what: str) -> str:
        id = pane if isinstance(pane, str) else pane.id
        return self.tmux(server, "display-message", "-p", "-t", id, what)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.chdir(tmp_path)  # where a server would run what it must not
    with tempfile.TemporaryDirectory(prefix="tw", dir="/tmp") as sockets:  # socket paths must be short
        stage = Stage(Path(sockets), tmp_path)
        yield stage
        for server in ("own", "user"):
            stage.tmux(server, "kill-server", check=False)
        for pane in stage.opened:
            if lives(pane.pid):
                os.kill(pane.pid, signal.SIGKILL)


# --- starting


@pytest.mark.spec("E2", "E8")
async def test_nothing_in_the_arguments_is_interpreted(stage: Stage) -> None:
    stage.cwd = stage.root / "#(touch pwned) $(touch pwned);"
    stage.cwd.mkdir()
    env = {"STRANGE": "a b;$(touch pwned) #(touch pwned)\nc", "EMPTY": ""}
    pane, given = await stage.open(stage.panes(), *AWKWARD, env=env, title="#(touch pwned)$(touch pwned);")
    assert given["argv"] == AWKWARD
    assert given["cwd"] == str(stage.cwd)
    assert {name: given["env"][name] for name in env} == env
    assert given["pid"] == pane.pid == given["group"]
    assert list(stage.root.rglob("pwned")) == []


@pytest.mark.spec("E2", "E8")
async def test_secrets_stand_in_no_arguments_and_no_file_that_stays(stage: Stage) -> None:
    pane, given = await stage.open(stage.panes(SOME_API_KEY="not passed"), env={"ANTHROPIC_API_KEY": "sk-hidden"})
    assert given["env"]["ANTHROPIC_API_KEY"] == "sk-hidden" and "SOME_API_KEY" not in given["env"]
    lines = [path.read_bytes() for pid in (pane.pid, pane.server) for path in [Path(f"/proc/{pid}/cmdline")]]
    assert not any(b"sk-hidden" in line for line in lines)
    assert list((stage.root / "room").iterdir()) == []
    assert "sk-hidden" not in stage.tmux("own", "show-environment", "-g")
    assert b"sk-hidden" not in Path(f"/proc/{pane.server}/environ").read_bytes()


@pytest.mark.spec("E8")
def test_what_waits_for_a_pane_is_private(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir(0o755)
    parcel = wrap(room, ["sh"], cwd=tmp_path, env={"PATH": "/bin:/usr/bin", "KEY": "sk-hidden"})
    file = parcel.directory / "parcel"
    assert [path.stat().st_mode & 0o777 for path in (room, parcel.directory, file)] == [0o700, 0o700, 0o600]
    assert b"sk-hidden" in file.read_bytes() and "sk-hidden" not in " ".join(parcel.command)
    os.utime(parcel.directory, (0, 0))
    second = wrap(room, ["sh"], cwd=tmp_path, env={"PATH": "/bin:/usr/bin"})
    assert list(room.iterdir()) == [second.directory]  # the first was left by a killed process
    discard(second)
    assert list(room.iterdir()) == []


@pytest.mark.spec("E2")
async def test_outside_tmux_they_share_a_session_of_their_own(stage: Stage) -> None:
    panes = stage.panes()
    opened = [(await stage.open(panes))[0] for _ in range(3)]
    assert stage.ids("own") == [pane.id for pane in opened]
    assert {stage.about("own", pane, "#{session_name} #{window_id}") for pane in opened} == {"teamwright @0"}
    assert [await panes.is_open(pane) for pane in opened] == [True, True, True]
    server = opened[0].server
    for pane in opened:
        assert await panes.close(pane)
    await until(lambda: not lives(server))
    again, _ = await stage.open(panes)  # a new server, whose ids start from the beginning
    assert again.id == opened[0].id and again.server != server
    assert not await panes.is_open(opened[0]) and not await panes.close(opened[0])
    assert await panes.is_open(again)


@pytest.mark.spec("E5")
async def test_without_splitting_each_has_a_window(stage: Stage) -> None:
    panes = stage.panes(split=False)
    opened = [(await stage.open(panes, title=name))[0] for name in ("ada", "bob;", "#(touch pwned)")]
    assert len({stage.about("own", pane, "#{window_id}") for pane in opened}) == 3
    names = stage.tmux("own", "list-windows", "-a", "-F", "#{window_name}").splitlines()
    assert names == ["ada", "bob;", "＃(touch pwned)"]
    inside = stage.panes(split=False, **stage.user())
    pane, _ = await stage.open(inside)
    assert stage.about("user", pane, "#{window_panes} #{window_name}") == "1 ada"
    assert stage.tmux("user", "display-message", "-p", "#{window_index}") == "0"  # the person's focus does not move


@pytest.mark.spec("E2", "E8")
async def test_inside_tmux_the_window_is_split_and_other_panes_keep_their_size(stage: Stage) -> None:
    env = stage.user()
    size = "#{pane_width}x#{pane_height} #{pane_id}"
    theirs = stage.tmux("user", "split-window", "-v", "-P", "-F", "#{pane_id}", "--", "sleep", "1000")
    before = stage.about("user", theirs, size)
    panes = stage.panes(**env)
    opened = [(await stage.open(panes))[0] for _ in range(3)]
    window = stage.about("user", env["TMUX_PANE"], "#{window_id}")
    assert {stage.about("user", pane, "#{window_id}") for pane in opened} == {window}
    assert stage.about("user", theirs, size) == before and stage.about("user", theirs, "#{pane_active}") == "1"
    heights = [int(stage.about("user", pane, "#{pane_height}")) for pane in opened]
    assert max(heights) - min(heights) <= 2
    for pane in opened:
        assert await panes.close(pane)
    await until(lambda: len(stage.ids("user")) == 2)
    assert set(stage.ids("user")) == {env["TMUX_PANE"], theirs} and stage.about("user", theirs, size) == before


@pytest.mark.spec("E2")
async def test_a_full_window_is_followed_by_another(stage: Stage) -> None:
    panes = stage.panes(**stage.user(width=20, height=4))
    opened = [(await stage.open(panes))[0] for _ in range(4)]
    assert len({stage.about("user", pane, "#{window_id}") for pane in opened}) > 1


@pytest.mark.spec("E2")
async def test_panes_opened_at_once_do_not_meet(stage: Stage) -> None:
    first, second = stage.panes(), stage.panes()  # two processes of a team share no lock
    async with anyio.create_task_group() as group:
        for number in range(6):
            where = stage.root / f"at-once{number}"

            async def go(panes: Tmux, where: Path) -> None:
                pane = await panes.open(probe(where), cwd=stage.cwd, env={}, **TITLE)
                stage.opened.append(pane)

            group.start_soon(go, first if number % 2 else second, where)
    assert sorted(stage.ids("own")) == sorted(pane.id for pane in stage.opened)
    pids = [(await told(stage.root / f"at-once{number}"))["pid"] for number in range(6)]
    assert sorted(pids) == sorted(pane.pid for pane in stage.opened)


@pytest.mark.spec("A12", "E2")
@pytest.mark.parametrize(
    ("title", "seen"),
    [
        ("ada", "ada"),
        ("#{pane_id}#(touch pwned)", "＃{pane_id}＃(touch pwned)"),
        ("a\x1b]0;x\x07\nb", "a\\u001b]0;x\\u0007\\u000ab"),
        ("semi;", "semi;"),
        ("semi\\;", "semi\\;"),
        ("-d", "-d"),
        ("%H \u202e ü", "%H \\u202e ü"),
        ("  ", "teammate"),
        ("x" * 300, "x" * 59 + "…"),
    ],
)
async def test_titles_are_words_and_nothing_else(stage: Stage, title: str, seen: str) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes, title=title)
    assert stage.about("own", pane, "#{pane_title}") == seen
    assert not (stage.root / "pwned").exists()


# --- dying and closing


@pytest.mark.spec("E7")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_its_death_is_noticed(stage: Stage, number: signal.Signals) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(panes.watch, pane)
            os.kill(pane.pid, number)
    assert not await panes.is_open(pane) and not await panes.close(pane)


@pytest.mark.spec("E7")
async def test_a_pane_that_a_person_closes_is_noticed(stage: Stage) -> None:
    panes = stage.panes(**stage.user())
    pane, _ = await stage.open(panes)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(panes.watch, pane)
            stage.tmux("user", "kill-pane", "-t", pane.id)
    assert not await panes.is_open(pane)


@pytest.mark.spec("E7")
async def test_a_server_that_is_killed_is_noticed_and_said(stage: Stage) -> None:
    panes = stage.panes(**stage.user())
    pane, _ = await stage.open(panes)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(panes.watch, pane)
            os.kill(pane.server, signal.SIGKILL)
    assert not await panes.is_open(pane) and not await panes.close(pane)
    with pytest.raises(ToolError, match=r"tmux server at .*user did not open a pane.*in-process"):
        await panes.open(["sleep", "1000"], cwd=stage.cwd, env={}, **TITLE)
    assert list((stage.root / "room").iterdir()) == []


@pytest.mark.spec("E8")
@pytest.mark.parametrize("kept", ["on", "off"])
async def test_no_dead_pane_stays(stage: Stage, kept: str) -> None:
    env = stage.user()
    stage.tmux("user", "set-option", "-g", "remain-on-exit", kept)
    panes = stage.panes(**env)
    left, _ = await stage.open(panes, how="leave")
    closed, _ = await stage.open(panes)
    assert await panes.close(closed)
    with anyio.fail_after(10):
        await panes.watch(left)
    await until(lambda: stage.ids("user") == [env["TMUX_PANE"]])


@pytest.mark.spec("E8")
async def test_a_dead_pane_that_is_kept_all_the_same_is_taken_away(stage: Stage) -> None:
    env = stage.user()
    panes = stage.panes(**env)
    pane, _ = await stage.open(panes)
    stage.tmux("user", "set-option", "-p", "-t", pane.id, "remain-on-exit", "on")
    os.kill(pane.pid, signal.SIGKILL)
    await until(lambda: stage.about("user", pane, "#{pane_dead}") == "1")
    assert not await panes.is_open(pane) and await panes.close(pane)
    assert stage.ids("user") == [env["TMUX_PANE"]]


@pytest.mark.spec("E8")
async def test_one_that_does_not_want_to_go_is_killed(stage: Stage) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes, how="deaf")
    with anyio.fail_after(15):
        assert await panes.close(pane)
    assert not lives(pane.pid) and stage.ids("own") == []


@pytest.mark.spec("E8")
async def test_one_that_outlives_its_server_can_still_be_ended(stage: Stage) -> None:
    panes = stage.panes()
    pane, _ = await stage.open(panes, how="deaf")
    os.kill(pane.server, signal.SIGKILL)
    await until(lambda: not lives(pane.server))
    assert lives(pane.pid) and not await panes.is_open(pane)
    assert await panes.close(pane) and not lives(pane.pid)


@pytest.mark.spec("E8")
async def test_only_our_own_is_closed(stage: Stage) -> None:
    env = stage.user()
    panes = stage.panes(**env)
    pane, _ = await stage.open(panes)
    lead = int(stage.about("user", env["TMUX_PANE"], "#{pane_pid}"))
    others = [
        msgspec.structs.replace(pane, id=env["TMUX_PANE"], pid=lead),  # a pid that another process has by now
        msgspec.structs.replace(pane, id=env["TMUX_PANE"], started="1@old"),
        msgspec.structs.replace(pane, started="1@old", server_started="1@old"),  # another server with the same numbers
        msgspec.structs.replace(pane, started="1@old", mark="0" * 16),
        msgspec.structs.replace(pane, started="1@old", socket="/nowhere/socket"),
    ]
    for other in others:
        assert not await panes.is_open(other) and not await panes.close(other)
    assert stage.ids("user") == [env["TMUX_PANE"], pane.id] and lives(lead) and lives(pane.pid)
    stage.tmux("user", "respawn-pane", "-k", "-t", pane.id, "--", "sleep", "1000")  # a person uses it now
    await until(lambda: not lives(pane.pid))
    assert not await panes.close(pane) and pane.id in stage.ids("user")


@pytest.mark.spec("E8", "T6")
async def test_a_later_process_knows_it_again(stage: Stage) -> None:
    pane, _ = await stage.open(stage.panes())
    stored = msgspec.json.decode(msgspec.json.encode(pane), type=Pane)
    later = stage.panes()
    assert stored == pane and await later.is_open(stored)
    assert await later.close(stored) and not lives(pane.pid) and stage.ids("own") == []


# --- trouble


@pytest.mark.spec("E5")
async def test_what_cannot_be_started_is_said_and_leaves_nothing(stage: Stage) -> None:
    panes = stage.panes(**stage.user())
    before = stage.ids("user")
    for argv, cwd, words in (
        (["no-such-program", "x"], stage.cwd, "no program 'no-such-program'"),
        (["sh"], stage.root / "missing", "is not a directory"),
        (["sh", "a\0b"], stage.cwd, "NUL"),
        ([], stage.cwd, "no program"),
    ):
        with pytest.raises(ToolError, match=words):
            await panes.open(argv, cwd=cwd, env={}, **TITLE)
    assert stage.ids("user") == before


@pytest.mark.spec("E5")
async def test_a_program_that_is_too_old_or_broken_is_named(stage: Stage) -> None:
    fake = stage.root / "tmux"
    for text, words in (("echo tmux 2.9a", "tmux 2.9a is too old"), ("exit 3", "exit status 3")):
        fake.write_text(f"#!/bin/sh\n{text}\n")
        fake.chmod(0o700)
        panes = Tmux(str(fake), env=stage.env, room=stage.root / "room", name="own")
        with pytest.raises(ToolError, match=words):
            await panes.open(["sh"], cwd=stage.cwd, env={}, **TITLE)
    missing = Tmux(str(stage.root / "gone"), env=stage.env, room=stage.root / "room", name="own")
    with pytest.raises(ToolError, match="could not be started"):
        await missing.open(["sh"], cwd=stage.cwd, env={}, **TITLE)


@pytest.mark.spec("E8")
@pytest.mark.parametrize("panes_seen", [1, 2])
async def test_an_opening_that_is_cancelled_leaves_no_pane(stage: Stage, panes_seen: int) -> None:
    env = stage.user()
    panes = stage.panes(**env)

    async def go() -> None:
        pane = await panes.open(probe(stage.root / "cancelled"), cwd=stage.cwd, env={}, **TITLE)
        with anyio.CancelScope(shield=True):  # it was faster than us; then it simply stays open
            assert await panes.close(pane)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await until(lambda: len(stage.ids("user")) == panes_seen)
            group.cancel_scope.cancel()
    await until(lambda: stage.ids("user") == [env["TMUX_PANE"]])
    assert not (stage.root / "room").exists() or list((stage.root / "room").iterdir()) == []


@pytest.mark.spec("E5")
def test_what_is_here_is_read_from_the_environment(tmp_path: Path) -> None:
    for name in ("tmux", "it2"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    seen = look({"PATH": str(tmp_path), "TMUX": "/tmp/x,1,0", "TERM_PROGRAM": "iTerm.app"})
    assert seen == Detected(inside_tmux=True, in_iterm=True, tmux=str(tmp_path / "tmux"), it2=str(tmp_path / "it2"))
    assert look({"PATH": "/nowhere", "TMUX": ""}) == Detected()
