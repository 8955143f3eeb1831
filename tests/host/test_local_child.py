"""Children without a terminal: they die with us, and take all their own children with them."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from pane_kit import AWKWARD, lives, probe, told, until

from teamwright.core.errors import ToolError
from teamwright.host.panes.base import Pane
from teamwright.host.process.local_child import LocalChildren

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="these tests look into /proc")
WORDS: dict[str, Any] = {"env": {}, "title": "ada", "color": "red"}
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SOME_API_KEY": "not passed"}

# Starts two children, one of which leaves its session; all of them ignore signals.
FAMILY = """
trap '' TERM HUP
sh -c 'trap "" TERM HUP; echo $$ >> pids; exec sleep 1000' &
setsid sh -c 'trap "" TERM HUP; echo $$ >> pids; exec sleep 1000' &
echo $$ >> pids
wait
sleep 1000
"""
# Records that its standard input has ended, where a teammate would finish its work.
FAITHFUL = """
import os, sys
open("ready", "w").close()
assert sys.stdin.buffer.read() == b""
open("done.draft", "w").write(str(os.getppid()))
os.rename("done.draft", "done")
"""
LEAD = """
import anyio, os, sys
from pathlib import Path
from teamwright.host.process.local_child import LocalChildren
async def main():
    here = Path(sys.argv[1])
    children = LocalChildren(env={"PATH": os.environ["PATH"]}, logs=here / "logs")
    argv = [sys.executable, "-I", "-S", "-c", sys.argv[2]]
    pane = await children.open(argv, cwd=here, env={}, title="ada", color="")
    # other children of ours must not hold its life-line open
    await anyio.open_process(["sh", "-c", "echo $$ > other; exec sleep 1000"], cwd=here, stdin=-3, stdout=-3, stderr=-3)
    print(pane.pid, flush=True)
    await anyio.sleep(1000)
anyio.run(main)
"""


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[LocalChildren]:
    yield LocalChildren(env=ENV, logs=tmp_path / "logs", grace=0.5)


@pytest.mark.spec("E3", "E8")
async def test_it_is_started_by_argv_with_what_it_was_given(children: LocalChildren, tmp_path: Path) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-hidden", "STRANGE": "a\nb"}
    pane = await children.open(probe(tmp_path / "told", *AWKWARD), cwd=tmp_path, **WORDS | {"env": env})
    given = await told(tmp_path / "told")
    assert (given["argv"], given["cwd"], given["pid"]) == (AWKWARD, str(tmp_path), pane.pid)
    assert given["group"] == pane.pid != os.getpgid(0)
    assert {name: given["env"][name] for name in env} == env and "SOME_API_KEY" not in given["env"]
    assert await children.is_open(pane)
    assert await children.close(pane) and not lives(pane.pid)
    assert not await children.is_open(pane) and not await children.close(pane)


@pytest.mark.spec("E3")
async def test_what_it_says_is_in_a_private_log(children: LocalChildren, tmp_path: Path) -> None:
    code = "import sys; print('to out', flush=True); print('to err', file=sys.stderr)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    pane = await children.open(argv, cwd=tmp_path, **WORDS | {"title": "../../ada\n"})
    with anyio.fail_after(20):
        await children.watch(pane)
    log = Path(pane.log)
    assert log.read_text() == "to out\nto err\n" and log.parent == tmp_path / "logs"
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.spec("E3", "E8")
async def test_it_sees_its_lead_die_and_ends_in_order(tmp_path: Path) -> None:
    lead = subprocess.Popen([sys.executable, "-c", LEAD, tmp_path, FAITHFUL], stdout=subprocess.PIPE, text=True)
    try:
        assert lead.stdout
        pid = int(lead.stdout.readline())
        await until((tmp_path / "ready").exists)
        other = int(await until(lambda: (tmp_path / "other").exists() and (tmp_path / "other").read_text().strip()))
        assert lives(pid) and not (tmp_path / "done").exists()
    finally:
        lead.kill()
        lead.communicate()
    await until((tmp_path / "done").exists)
    await until(lambda: not lives(pid))
    os.kill(other, signal.SIGKILL)


@pytest.mark.spec("E7")
async def test_its_death_is_noticed_and_nothing_stays(children: LocalChildren, tmp_path: Path) -> None:
    pane = await children.open(["sh", "-c", FAMILY], cwd=tmp_path, **WORDS)
    pids = await until(lambda: (found := _pids(tmp_path)) and len(found) == 3 and found)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(children.watch, pane)
            group.start_soon(children.watch, pane)
            os.kill(pane.pid, signal.SIGKILL)
    assert not any(lives(pid) for pid in pids) and not Path(f"/proc/{pane.pid}").exists()


@pytest.mark.spec("E8")
async def test_closing_ends_all_that_it_started(children: LocalChildren, tmp_path: Path) -> None:
    pane = await children.open(["sh", "-c", FAMILY], cwd=tmp_path, **WORDS)
    pids = await until(lambda: (found := _pids(tmp_path)) and len(found) == 3 and found)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(children.watch, pane)
            assert await children.close(pane)
    assert not any(lives(pid) for pid in pids) and not Path(f"/proc/{pane.pid}").exists()


@pytest.mark.spec("E8")
async def test_who_has_no_time_to_wait_for_its_end_leaves_nothing_either(tmp_path: Path) -> None:
    patient = LocalChildren(env=ENV, logs=tmp_path / "logs", grace=60)
    pane = await patient.open(["sh", "-c", "trap '' TERM; echo $$ > pids; sleep 60"], cwd=tmp_path, **WORDS)
    (pid,) = await until(lambda: _pids(tmp_path))
    with anyio.move_on_after(0.01):
        await patient.close(pane)
    assert not lives(pid) and not Path(f"/proc/{pane.pid}").exists()


@pytest.mark.spec("E8")
async def test_another_process_with_its_pid_is_left_alone(children: LocalChildren, tmp_path: Path) -> None:
    pane = await children.open(probe(tmp_path / "told"), cwd=tmp_path, **WORDS)
    await told(tmp_path / "told")
    other = msgspec.structs.replace(pane, started="1@old")
    later = LocalChildren(env=ENV, logs=tmp_path / "logs", grace=0.5)
    assert not await later.is_open(other) and not await later.close(other) and lives(pane.pid)
    with anyio.fail_after(5):
        await later.watch(other)  # that one died long ago
    stored = msgspec.json.decode(msgspec.json.encode(pane), type=Pane)
    assert await later.is_open(stored) and await later.close(stored)
    await children.watch(pane)


@pytest.mark.spec("E7")
async def test_one_that_ends_at_once_is_noticed_too(children: LocalChildren, tmp_path: Path) -> None:
    for _ in range(5):
        pane = await children.open(["true"], cwd=tmp_path, **WORDS)
        with anyio.fail_after(10):
            await children.watch(pane)
        assert not await children.is_open(pane) and not Path(f"/proc/{pane.pid}").exists()


@pytest.mark.spec("E5")
async def test_what_cannot_be_started_is_said(children: LocalChildren, tmp_path: Path) -> None:
    for argv, cwd, words in (
        (["no-such-program"], tmp_path, "no-such-program could not be started"),
        (["sh"], tmp_path / "missing", "could not be started in"),
        (["sh", "a\0b"], tmp_path, "null byte"),
    ):
        with pytest.raises(ToolError, match=words):
            await children.open(argv, cwd=cwd, **WORDS)
    assert list((tmp_path / "logs").iterdir()) == []


def _pids(directory: Path) -> list[int]:
    file = directory / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []
