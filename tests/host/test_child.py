"""A child program is bounded in time and output and never outlives its call."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from teamwright.host.process.child import run_child

FOREVER = "import os, sys\nprint(os.getpid(), flush=True)\nwhile True: print('x' * 1000, flush=True)"
SILENT = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)"


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.anyio
async def test_it_is_ended_when_the_taker_has_enough() -> None:
    got: list[bytes] = []
    ended = await run_child(
        [sys.executable, "-c", FOREVER], lambda piece: got.append(piece) or len(got) < 5, seconds=20
    )
    assert (len(got), ended.cut, ended.late) == (5, True, False)
    assert is_gone(int(got[0]))


@pytest.mark.anyio
async def test_it_is_ended_at_its_time_limit() -> None:
    got: list[bytes] = []
    ended = await run_child([sys.executable, "-c", SILENT], lambda piece: got.append(piece) or True, seconds=1)
    assert (ended.late, ended.cut) == (True, False)
    assert is_gone(int(got[0]))


@pytest.mark.anyio
async def test_it_is_ended_when_the_call_is_cancelled() -> None:
    got: list[bytes] = []
    started = anyio.Event()

    def take(piece: bytes) -> bool:
        got.append(piece)
        started.set()
        return True

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: run_child([sys.executable, "-c", SILENT], take, seconds=60))
            await started.wait()
            group.cancel_scope.cancel()
    assert is_gone(int(got[0]))


@pytest.mark.anyio
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs a watcher that reaps in the loop")
async def test_one_that_ends_just_before_it_is_killed_is_reaped_once(caplog: pytest.LogCaptureFixture) -> None:
    def take(piece: bytes) -> bool:
        os.kill(int(piece), signal.SIGKILL)
        os.waitid(os.P_PID, int(piece), os.WEXITED | os.WNOWAIT)  # it has ended, and the loop does not know
        return False

    if sys.version_info < (3, 12):  # later versions choose it by themselves
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)
    try:
        ended = await run_child([sys.executable, "-c", SILENT], take, seconds=20)
    finally:
        if sys.version_info < (3, 12):
            asyncio.set_child_watcher(None)
    assert (ended.code, ended.cut, caplog.text) == (-signal.SIGKILL, True, "")


@pytest.mark.anyio
@pytest.mark.spec("A10")
async def test_it_gets_no_secrets_and_its_complaint_is_bounded() -> None:
    os.environ["SOME_API_KEY"] = "secret"
    try:
        code = "import os, sys\nprint('SOME_API_KEY' in os.environ)\nsys.stderr.write('e' * 1_000_000)\nsys.exit(3)"
        got: list[bytes] = []
        ended = await run_child([sys.executable, "-c", code], lambda piece: got.append(piece) or True, seconds=20)
    finally:
        del os.environ["SOME_API_KEY"]
    assert (got, ended.code, len(ended.complaint)) == ([b"False"], 3, 8000)
