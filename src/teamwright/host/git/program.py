"""Runs one program to its end, in a thread, and takes all that it says.

By pipes of the event loop each start costs twice as much, and git is started often.
"""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar
from msgspec import Struct

_AT_ONCE = 64  # programs; more wait until one of them has ended
_CHUNK = 1 << 16
_SETTLE = 1.0  # seconds for output that is still on its way when the program itself has ended
_LOOK = 0.1  # seconds between looks whether it has ended, where the kernel does not tell

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("programs at once")


class HowToStart(Struct, frozen=True, kw_only=True):
    """How it is started."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    input: bytes | None = None
    source: int | None = None  # a handle that it reads from, in place of `input`
    sink: int | None = None  # a handle that it writes to
    handles: Sequence[int] = ()  # that it inherits


class BoundedOutput(Struct):
    """What it said, up to a limit. It may go on past that, or it would wait for us."""

    most: int
    data: bytearray = msgspec.field(default_factory=bytearray)
    cut: bool = False

    def take(self, chunk: bytes) -> None:
        room = self.most - len(self.data)
        self.cut |= len(chunk) > room
        self.data += chunk[:room]


class Input(Struct):
    """What it is given to read."""

    data: bytes
    at: int = 0

    def write(self, fd: int) -> bool:
        """As much as it takes now. False: that was all, or it does not want any more."""
        try:
            self.at += os.write(fd, self.data[self.at : self.at + _CHUNK])
        except BrokenPipeError:
            return False
        return self.at < len(self.data)


class Program:
    """Runs once. `status` stays None if it was stopped because of the time limit."""

    def __init__(self, start: HowToStart, limit: float, *, most_out: int, most_err: int) -> None:
        self._start, self._limit = start, limit
        self.out, self.err, self.status = BoundedOutput(most_out), BoundedOutput(most_err), None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped, self._collecting = False, threading.Lock()

    async def run(self) -> None:
        """On return nothing of it runs any more, also where we are cancelled. Raises OSError or ValueError if it
        cannot be started."""
        limiter, fault = _limiter.get(None), None
        if limiter is None:
            _limiter.set(limiter := anyio.CapacityLimiter(_AT_ONCE))
        async with anyio.create_task_group() as group:
            group.start_soon(self._stop_when_cancelled)
            with anyio.CancelScope(shield=True):
                try:
                    await anyio.to_thread.run_sync(self._run, limiter=limiter)
                except (OSError, ValueError) as error:
                    fault = error
            group.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()  # we ended it: it has no outcome
        if fault is not None:
            raise fault

    async def _stop_when_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._stop()

    def _stop(self) -> None:
        """It and what it started; only while it is not collected, for then nobody else can have its number."""
        with self._collecting:
            self._stopped = True
            if self._process is not None and self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    # --- in a thread

    def _run(self) -> None:
        start = self._start
        given = DEVNULL if start.source is None else start.source
        process = subprocess.Popen(
            start.argv,
            stdin=given if start.input is None else PIPE,
            stdout=PIPE if start.sink is None else start.sink,
            stderr=PIPE,
            cwd=start.cwd,
            env=start.env,
            start_new_session=True,
            pass_fds=start.handles,
        )
        with self._collecting:
            self._process = process
        try:
            if self._stopped:  # before there was anything to stop
                return
            if self._talk(process):
                self._collect(process)
                self.status = process.returncode
        finally:
            self._stop()
            self._collect(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _collect(self, process: "subprocess.Popen[bytes]") -> None:
        """It has ended, or was killed: this is short. Without it a zombie stays."""
        with self._collecting:
            process.wait()

    def _talk(self, process: "subprocess.Popen[bytes]") -> bool:
        """Until it has ended and said everything. False: it did not end in time."""
        deadline, ended, exit = time.monotonic() + self._limit, False, _exit_of(process.pid)
        with selectors.DefaultSelector() as pipes:
            try:
                self._register(process, pipes, exit)
                while not ended or pipes.get_map():
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return ended
                    for key, _ in pipes.select(left if exit is not None else min(left, _LOOK)):
                        self._serve(key, pipes)
                    if not ended and self._has_ended(process, pipes, exit):
                        ended, deadline = True, min(deadline, time.monotonic() + _SETTLE)
            finally:
                if exit is not None:
                    os.close(exit)
        return True

    def _register(self, process: "subprocess.Popen[bytes]", pipes: selectors.BaseSelector, exit: int | None) -> None:
        assert process.stderr is not None
        pipes.register(process.stderr, selectors.EVENT_READ, self.err)
        if process.stdout is not None:
            pipes.register(process.stdout, selectors.EVENT_READ, self.out)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            pipes.register(process.stdin, selectors.EVENT_WRITE, Input(self._start.input or b""))
        if exit is not None:
            pipes.register(exit, selectors.EVENT_READ)

    def _serve(self, key: selectors.SelectorKey, pipes: selectors.BaseSelector) -> None:
        if isinstance(key.data, BoundedOutput):
            chunk = os.read(key.fd, _CHUNK)
            key.data.take(chunk)
            if not chunk:
                pipes.unregister(key.fileobj)
        elif isinstance(key.data, Input):
            if not key.data.write(key.fd):
                pipes.unregister(key.fileobj)
                assert self._process is not None and self._process.stdin is not None
                self._process.stdin.close()
        else:
            pipes.unregister(key.fileobj)  # it has ended

    def _has_ended(self, process: "subprocess.Popen[bytes]", pipes: selectors.BaseSelector, exit: int | None) -> bool:
        if exit is not None:
            return exit not in pipes.get_map()
        with self._collecting:
            return process.poll() is not None


def _exit_of(pid: int) -> int | None:
    """A handle that can be read from once the process has ended; None where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
