"""Teammates as child processes without a terminal; their standard input closes when we end."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from teamwright.core.errors import ToolError
from teamwright.host.panes.base import GRACE, Pane
from teamwright.host.process.descendants import ProcessOrigin, become_reaper, stop, tag
from teamwright.host.process.environment import tool_environment
from teamwright.host.process.identity import end, gone, is_same, send, start_of
from teamwright.host.process.run import MARK

_REST = 1.0  # seconds for leftovers of an ended child


class _Child:
    """A child that we started and have not reaped."""

    def __init__(self, popen: subprocess.Popen[bytes], origin: ProcessOrigin) -> None:
        self.popen, self.origin = popen, origin
        self.lock = anyio.Lock()


class LocalChildren:
    """`env` is the lead's; `logs` is a private directory with one output file per child."""

    def __init__(self, *, env: Mapping[str, str], logs: Path, grace: float = GRACE) -> None:
        self._env, self._logs, self._grace = env, logs, grace
        self._children: dict[int, _Child] = {}

    async def open(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], title: str, color: str) -> Pane:
        become_reaper()  # so that its leftovers come to us and can be ended
        log, output = self._new_log(title)
        try:
            child = _start(argv, cwd, tool_environment(self._env, env), output)
        except (OSError, ValueError) as error:
            log.unlink(missing_ok=True)
            why = getattr(error, "strerror", None) or error
            raise ToolError(f"{argv[0]} could not be started in {cwd}: {why}. No teammate was started.") from None
        finally:
            os.close(output)
        pid = child.popen.pid
        self._children[pid] = child
        with anyio.CancelScope(shield=True):
            # Not reaped yet, so the pid is its own. If it has already ended, it has no start time and is not open.
            return Pane("local", str(pid), pid, await start_of(pid), log=str(log))
        raise AssertionError("nobody cancels this scope")

    async def is_open(self, pane: Pane) -> bool:
        return await is_same(pane.pid, pane.started)

    async def watch(self, pane: Pane) -> None:
        await gone(pane.pid, pane.started)
        await self._collect(pane)

    async def close(self, pane: Pane) -> bool:
        if pane.pid not in self._children:  # another process's child
            return await end(pane.pid, pane.started, self._grace)
        lived = await is_same(pane.pid, pane.started)
        await send(pane.pid, pane.started, signal.SIGTERM)  # it alone, to end its own commands in order
        try:
            with anyio.move_on_after(self._grace):
                await gone(pane.pid, pane.started)
        finally:  # even when cancelled: then without a grace period
            await self._collect(pane)
        return lived and not await is_same(pane.pid, pane.started)

    def _new_log(self, title: str) -> tuple[Path, int]:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", title)[:40] or "teammate"
        path = self._logs / f"{name}-{os.urandom(6).hex()}.log"
        try:
            self._logs.mkdir(0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            return path, os.open(path, flags, 0o600)
        except OSError as error:
            raise ToolError(f"Cannot write {path}: {error.strerror}. No teammate was started.") from error

    async def _collect(self, pane: Pane) -> None:
        """Ends the child and everything it started, then releases its pid."""
        child = self._children.get(pane.pid)
        if child is None:
            return
        with anyio.CancelScope(shield=True):
            async with child.lock:
                if self._children.get(pane.pid) is not child:
                    return
                seat = anyio.CapacityLimiter(1)
                await anyio.to_thread.run_sync(stop, [child.origin], _REST, limiter=seat)
                popen = child.popen
                with contextlib.suppress(OSError):
                    if popen.stdin:
                        popen.stdin.close()
                if popen.poll() is not None:
                    del self._children[pane.pid]


def _start(argv: Sequence[str], cwd: Path, env: Mapping[str, str], output: int) -> _Child:
    number = int.from_bytes(os.urandom(6), "big") | 1 << 47
    mark = f"local.{number:x}"  # unlike the mark of commands, which are killed with us; a teammate may end in order
    outer = os.environ.get(MARK)  # we may be a command ourselves, and must stay identifiable as such
    theirs = dict(env) | {MARK: f"{outer}/{mark}" if outer else mark}
    popen = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=cwd,
        env=theirs,
        start_new_session=True,
        bufsize=0,
    )
    origin = ProcessOrigin(popen.pid, number, mark.encode())
    tag(origin)
    return _Child(popen, origin)
