"""Runs one program to its end in a thread, and collects its output.

Starting it with the event loop's pipes takes twice as long, and git is started often.
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

_AT_ONCE = 64  # programs; further ones wait for one to end
_CHUNK = 1 << 16
_SETTLE = 1.0  # seconds to wait for remaining output after the program has ended
_LOOK = 0.1  # seconds between checks for its end, if the kernel cannot notify us

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("programs at once")


class HowToStart(Struct, frozen=True, kw_only=True):
    """How to start it."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    input: bytes | None = None
    source: int | None = None  # a handle to read from, instead of `input`
    sink: int | None = None  # a handle to write to
    handles: Sequence[int] = ()  # inherited handles


class BoundedOutput(Struct):
    """The output, up to a limit. The program may write more; we keep reading so that it does not block."""

    most: int
    data: bytearray = msgspec.field(default_factory=bytearray)
    cut: bool = False

    def take(self, chunk: bytes) -> None:
        room = self.most - len(self.data)
        self.cut |= len(chunk) > room
        self.data += chunk[:room]


class Input(Struct):
    """Data for the program's stdin."""

    data: bytes
    at: int = 0

    def write(self, fd: int) -> bool:
        """Writes as much as the program takes now. False: all is written, or it reads no more."""
        try:
            self.at += os.write(fd, self.data[self.at : self.at + _CHUNK])
        except BrokenPipeError:
            return False
        return self.at < len(self.data)


class Program:
    """Runs once. `status` stays None if the time limit stopped it."""

    def __init__(self, start: HowToStart, limit: float, *, most_out: int, most_err: int) -> None:
        self._start, self._limit = start, limit
        self.out, self.err, self.status = BoundedOutput(most_out), BoundedOutput(most_err), None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped, self._collecting = False, threading.Lock()

    async def run(self) -> None:
        """On return the program is gone, even if we are cancelled. Raises OSError or ValueError if it cannot be
        started."""
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
        await anyio.lowlevel.checkpoint_if_cancelled()  # we killed it, so it has no outcome
        if fault is not None:
            raise fault

    async def _stop_when_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._stop()

    def _stop(self) -> None:
        """Kills it and its children; only before it is reaped, because until then its pid cannot be reused."""
        with self._collecting:
            self._stopped = True
            if self._process is not None and self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    # --- in the thread

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
            if self._stopped:  # stopped before it was started
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
        """Reaps it, which is quick after it has ended or was killed, and leaves no zombie."""
        with self._collecting:
            process.wait()

    def _talk(self, process: "subprocess.Popen[bytes]") -> bool:
        """Reads until it has ended and its output is complete. False: it did not end in time."""
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
    """A handle that becomes readable when the process has ended; None if the system has no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
