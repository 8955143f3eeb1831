"""Commands end, and so does everything that they started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from teamwright.core.errors import ToolError
from teamwright.host.process import descendants, rows
from teamwright.host.process.capture import Capture
from teamwright.host.process.run import ProcessEnd, run, stop_all

ENV = {"PATH": os.environ["PATH"]}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="orphans can only be found on Linux")

# A process that will not end by itself: it ignores every signal that can be ignored, and first reports its pid and
# name.
STUBBORN = "trap '' TERM HUP INT; echo $$ $0 >> pids; exec sleep 1000"
DAEMON = """
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 300)
os.execve("/bin/sh", ["sh", "-c", os.environ["STUBBORN"], "daemon"], {"PATH": os.environ["PATH"]})
"""
ESCAPES = {
    "background": 'sh -c "$STUBBORN" background &',
    "nohup": 'nohup sh -c "$STUBBORN" nohup >/dev/null 2>&1 & disown',
    "session": 'setsid sh -c "$STUBBORN" session &',
    "orphan": 'setsid -f sh -c "$STUBBORN" orphan',
    "double-fork": '( ( sh -c "$STUBBORN" double-fork & ) & )',
    "no-environment": 'env -i PATH="$PATH" setsid -f sh -c "$STUBBORN" no-environment >/dev/null 2>&1',
    "daemon": f'{sys.executable} -S -c "$DAEMON"',
    "group": 'set -m; sh -c "$STUBBORN" group & disown',
}
ALL = "\n".join(ESCAPES.values()) + "\n"


def open_gate(opener: int) -> None:
    os.write(opener, b"\n")


async def bash(script: str, cwd: Path, *, limit: float | None = 20, capture: Capture | None = None) -> ProcessEnd:
    gate, opener = os.pipe()
    try:
        return await run(
            ["bash", "-c", f"read -r <&{gate}; exec {gate}<&-; {script}"],
            cwd=cwd,
            env=ENV | {"STUBBORN": STUBBORN, "DAEMON": DAEMON},
            limit=limit,
            capture=capture or Capture(),
            grace=0.1,
            pass_fds=(gate,),
            on_start=lambda: open_gate(opener),
        )
    finally:
        os.close(gate)
        os.close(opener)


def running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def remains() -> set[int]:
    """Dead children that nobody has collected; orphans of other tests may be among them."""
    everyone = descendants._everyone() if sys.platform == "linux" else []
    return {row.pid for row in everyone if row.parent == os.getpid() and row.dead}


def handles_open() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


def told(cwd: Path) -> dict[str, int]:
    """Pids reported so far."""
    file = cwd / "pids"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return {name: int(pid) for pid, name in map(str.split, lines)}


def until_told(count: int = 1) -> str:
    return f"\nuntil [ -e pids ] && [ $(wc -l < pids) -ge {count} ]; do sleep 0.01; done\n"


async def until_gone(pid: int) -> None:
    with anyio.fail_after(10):
        while running(pid):
            await anyio.sleep(0.005)


async def all_told(cwd: Path, count: int = 1) -> list[int]:
    with anyio.fail_after(20):
        while len(told(cwd)) < count:
            await anyio.sleep(0.005)
    return list(told(cwd).values())


def left_of(cwd: Path) -> list[str]:
    """Names of the processes that are still there, zombies included."""
    return [name for name, pid in told(cwd).items() if Path(f"/proc/{pid}").exists()]


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
async def test_nothing_is_left_when_the_command_ends(tmp_path: Path) -> None:
    assert await bash(ALL + until_told(len(ESCAPES)) + "exit 5", tmp_path) == ProcessEnd(5, None)
    assert told(tmp_path).keys() == ESCAPES.keys()
    assert left_of(tmp_path) == []


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
async def test_nothing_is_left_at_the_time_limit(tmp_path: Path) -> None:
    script = f"trap '' TERM; echo $$ shell >> pids; {ALL}\nwhile :; do sleep 1000; done"
    assert await bash(script, tmp_path, limit=2) == ProcessEnd(None, signal.SIGKILL, timed_out=True)
    assert told(tmp_path).keys() == ESCAPES.keys() | {"shell"}
    assert left_of(tmp_path) == []


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
async def test_nothing_is_left_after_a_cancellation(tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(bash, ALL + "sleep 1000", tmp_path)
        await all_told(tmp_path, len(ESCAPES))
        group.cancel_scope.cancel()
    assert left_of(tmp_path) == []


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
@pytest.mark.parametrize("how", ["session", "no-environment"])
async def test_one_who_hides_at_once_is_found_too(how: str, tmp_path: Path) -> None:
    """Without any delay: the mark must be there before the first child."""
    before = remains()
    for _ in range(5):
        await bash(ESCAPES[how], tmp_path)
        for pid in told(tmp_path).values():
            assert not running(pid)
        (tmp_path / "pids").unlink(missing_ok=True)
    assert remains() <= before


@pytest.mark.anyio
async def test_a_gentle_stop_is_tried_first(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    capture = Capture()
    ended = await bash(script, tmp_path, limit=0.3, capture=capture)
    assert ended == ProcessEnd(0, None, timed_out=True)
    assert capture.text().startswith("ready\n")
    assert capture.text().endswith("bye\n")


@pytest.mark.anyio
async def test_what_is_left_in_the_background_does_not_hold_the_call(tmp_path: Path) -> None:
    started = time.monotonic()
    capture = Capture()
    assert await bash("sleep 1000 & echo done", tmp_path, capture=capture) == ProcessEnd(0, None)
    assert capture.text() == "done\n"
    assert time.monotonic() - started < 5


@pytest.mark.anyio
async def test_a_pipe_that_the_shell_does_not_wait_for_may_finish(tmp_path: Path) -> None:
    await bash("seq 1 50000 > >(tail -n 1 > last)", tmp_path)
    assert (tmp_path / "last").read_text() == "50000\n"


@pytest.mark.anyio
@pytest.mark.spec("A3")
async def test_standard_input_is_empty_and_the_session_is_its_own(tmp_path: Path) -> None:
    capture = Capture()
    await bash("cat; ps -o sid= -p $$ | tr -d ' '; echo $$", tmp_path, capture=capture)
    session, pid = capture.text().split()
    assert session == pid


@pytest.mark.anyio
async def test_both_streams_come_in_order(tmp_path: Path) -> None:
    capture = Capture()
    await bash("for i in 1 2 3; do echo out $i; echo err $i >&2; done", tmp_path, capture=capture)
    assert capture.text() == "".join(f"out {i}\nerr {i}\n" for i in (1, 2, 3))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "ended"),
    [("exit 0", ProcessEnd(0, None)), ("exit 200", ProcessEnd(200, None)), ("kill -9 $$", ProcessEnd(None, 9))],
)
async def test_status(script: str, ended: ProcessEnd, tmp_path: Path) -> None:
    assert await bash(script, tmp_path) == ended


@pytest.mark.anyio
@pytest.mark.parametrize("argv", [["no-such-program-here"], ["bash", "-c", "a\0b"]])
async def test_a_program_that_cannot_start_is_an_error_in_words(argv: list[str], tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await run(argv, cwd=tmp_path, env=ENV, limit=5, capture=Capture())
    with pytest.raises(ToolError, match="gone"):
        await run(["true"], cwd=tmp_path / "gone", env=ENV, limit=5, capture=Capture())


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("E8")
async def test_other_peoples_children_are_left_alone(tmp_path: Path) -> None:
    theirs = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={})
    dead = subprocess.Popen(["sh", "-c", "exit 7"])
    try:
        await bash(ESCAPES["orphan"] + until_told(), tmp_path)
        assert theirs.poll() is None
        assert dead.wait(5) == 7, "its status was not taken by us"
    finally:
        theirs.kill()
        theirs.wait()


@LINUX
@pytest.mark.anyio
async def test_one_commands_end_does_not_touch_another(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    async with anyio.create_task_group() as group:
        group.start_soon(bash, ESCAPES["no-environment"] + "\nsleep 1000", first)
        (orphan,) = await all_told(first)
        await bash(ESCAPES["no-environment"] + until_told(), second)
        assert running(orphan)
        assert left_of(second) == []
        group.cancel_scope.cancel()
    assert not running(orphan)


@pytest.mark.anyio
async def test_no_handle_and_no_zombie_is_left(tmp_path: Path) -> None:
    await bash("true", tmp_path)  # what is made once, is made
    handles, before = handles_open(), remains()
    for script in ("echo hi", "sleep 1000 &", "( (exit 1) & ) & setsid -f true", "yes | head -c 300000"):
        await bash(script, tmp_path, capture=Capture(tmp_path / f"{len(script)}.txt"))
    assert handles_open() == handles
    if sys.platform == "linux":
        assert remains() <= before


@pytest.mark.anyio
async def test_a_loud_command_is_told_of_and_a_short_one_is_not(tmp_path: Path) -> None:
    calls: list[int] = []
    capture = Capture()

    async def go(script: str) -> None:
        argv = ["bash", "-c", script]
        await run(argv, cwd=tmp_path, env=ENV, limit=10, capture=capture, on_output=lambda: calls.append(capture.total))

    await go("echo hi")
    assert calls == []
    capture = Capture()
    await go("timeout 1 yes; true")
    assert 1 <= len(calls) <= 4


PROGRAM = """
import sys, anyio
from pathlib import Path
from teamwright.host.process.capture import Capture
from teamwright.host.process.run import run
async def main():
    script = sys.argv[1]
    env = {"PATH": sys.argv[2], "STUBBORN": sys.argv[3]}
    async with anyio.create_task_group() as group:
        async def go():
            await run(["bash", "-c", script], cwd=Path.cwd(), env=env, limit=None, capture=Capture(), grace=0.1)
        group.start_soon(go)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        sys.exit(0)
anyio.run(main)
"""


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
@pytest.mark.parametrize("end", ["stdin", signal.SIGKILL, signal.SIGTERM])
async def test_nothing_is_left_when_the_program_ends_or_is_killed(end: str | int, tmp_path: Path) -> None:
    script = 'setsid sh -c "$STUBBORN" one & echo $$ two >> pids; sh -c "$STUBBORN" three'
    argv = [sys.executable, "-c", PROGRAM, script, ENV["PATH"], STUBBORN]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE, text=True) as program:
        pids = await all_told(tmp_path, 3)
        if isinstance(end, int):
            program.send_signal(end)
        else:
            program.communicate("\n", timeout=10)
        program.wait(10)
    for pid in pids:
        await until_gone(pid)


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
async def test_one_whose_environment_cannot_be_read_goes_with_a_killed_program_too(tmp_path: Path) -> None:
    tagged = "until grep -q 'Max file locks  *[0-9]' /proc/$$/limits; do :; done; "
    script = tagged + 'setsid env -i sh -c "$STUBBORN" one & env -i sh -c "$STUBBORN" two'
    argv = [sys.executable, "-c", PROGRAM, script, ENV["PATH"], STUBBORN]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE, text=True) as program:
        pids = await all_told(tmp_path, 2)
        program.kill()
        program.wait(10)
    for pid in pids:
        await until_gone(pid)


ABANDONED = """
import asyncio, os, sys
from pathlib import Path
from teamwright.host.process.capture import Capture
from teamwright.host.process.run import run, stop_all
env = {"PATH": sys.argv[2], "STUBBORN": sys.argv[3]}
loop = asyncio.new_event_loop()
going = run(["bash", "-c", sys.argv[1]], cwd=Path.cwd(), env=env, limit=None, capture=Capture(), grace=0.1)
task = loop.create_task(going)
loop.run_until_complete(asyncio.to_thread(sys.stdin.readline))
"""


@LINUX
@pytest.mark.anyio
@pytest.mark.spec("A3")
@pytest.mark.parametrize("last", ["stop_all(0.1); os._exit(3)", "sys.exit(3)"])
async def test_nothing_is_left_when_nobody_waits_any_more(last: str, tmp_path: Path) -> None:
    """The event loop is blocked while a command runs, and the program ends like that."""
    argv = [sys.executable, "-W", "ignore", "-c", ABANDONED + last]
    argv += ['sh -c "$STUBBORN" one & sh -c "$STUBBORN" two', ENV["PATH"], STUBBORN]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        pids = await all_told(tmp_path, 2)
        program.communicate("\n", timeout=10)
    assert program.returncode == 3
    assert not any(running(pid) for pid in pids)


@pytest.mark.spec("E8")
def test_a_process_that_only_has_the_pid_is_not_signalled() -> None:
    with subprocess.Popen(["sleep", "1000"]) as theirs:
        row = rows.read_row(theirs.pid)
        assert row
        assert rows.send(row._replace(start="another time"), signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            theirs.wait(0.1)
        assert rows.send(row, signal.SIGKILL)
        assert theirs.wait(10) == -signal.SIGKILL


def test_stop_all_with_nothing_running() -> None:
    stop_all()


def test_ps_and_proc_tell_the_same() -> None:
    """Without /proc, `ps` is all there is."""
    me = os.getpid()
    row = rows.process_table(me)[me]
    assert (row.pid, row.parent, row.dead) == (me, os.getppid(), False)
    assert me in rows.process_table()
