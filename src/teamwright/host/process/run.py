"""Runs one program by argv and leaves nothing of it behind: not at its end, time limit or stop, nor when we exit.

If we are killed outright, a small watching shell sees its pipe close and kills everything with our mark. A parent-death
signal would not do, because it follows the thread that started a command, not the program.
"""

import atexit
import contextlib
import functools
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.process.capture import Capture
from teamwright.host.process.descendants import ProcessOrigin, alive, become_reaper, stop, tag

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

MARK = "TEAMWRIGHT_CALL"
SETTLE = 0.25  # seconds for output after the command itself has ended: `make > >(tee log)`
TELL_EVERY = 0.3  # seconds between two calls of `on_output`
_READ, _BIG_READ = 1 << 16, 1 << 20
_LINUX = sys.platform == "linux"


class ProcessEnd(Struct, frozen=True):
    """How the command itself ended; both None if even SIGKILL did not end it in time.

    `began`: False if its box could not be made, so nothing ran.
    """

    status: int | None
    signal: int | None
    timed_out: bool = False
    began: bool = True


class Output(Protocol):
    """Receives what a command prints."""

    def touches_disk(self, size: int) -> bool: ...
    def add(self, data: bytes) -> None: ...


class Command:
    """A program that we started and that has not been seen to end."""

    def __init__(self, popen: subprocess.Popen[bytes], output: int, origin: ProcessOrigin) -> None:
        self.popen, self.output, self.origin = popen, output, origin
        self.exited = False
        self.news = anyio.Event()


_live: dict[int, Command] = {}  # by pid; children belong to the whole process, so this does too


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    limit: float | None,
    capture: Capture,
    grace: float = 1.0,
    pass_fds: Collection[int] = (),
    on_start: Callable[[], None] | None = None,
    on_output: Callable[[], None] | None = None,
    box: "Box | None" = None,
) -> ProcessEnd:
    """Runs the program to its end, for `limit` seconds or until cancelled; afterwards nothing it started is alive.

    stdin is empty; stdout and stderr go to `capture`, in order, which is closed at the end. `on_start` is called once
    the command has all its marks: a command that runs foreign code should wait for it. `on_output` is called a few
    times a second while there is output. `box`: the program runs in the sandbox, and forbidden changes it made are
    undone before this returns (`box.ended`).
    """
    try:
        command = start_command(argv, cwd, env, pass_fds, box)
        return await see_through(command, limit, capture, grace=grace, on_start=on_start, on_output=on_output, box=box)
    finally:
        capture.close()


async def see_through(
    command: Command,
    limit: float | None,
    output: Output,
    *,
    grace: float = 1.0,
    on_start: Callable[[], None] | None = None,
    on_output: Callable[[], None] | None = None,
    box: "Box | None" = None,
) -> ProcessEnd:
    """Follows a command that was just started to the end of everything it started."""
    try:
        if on_start:
            on_start()
        with anyio.move_on_after(limit) as scope:
            await _follow(command, output, on_output, box)
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await _end(command, output, grace)
            finally:
                if box:
                    await anyio.to_thread.run_sync(box.end)
    code = command.popen.returncode
    timed_out = scope.cancelled_caught and not command.exited
    if code is None:
        return ProcessEnd(None, None, timed_out)
    return ProcessEnd(None, -code, timed_out) if code < 0 else ProcessEnd(code, None, timed_out)


def stop_all(grace: float = 1.0) -> None:
    """Ends all running commands and everything they started. Blocks; for the program's end, also in a signal
    handler."""
    commands = list(_live.values())
    stop([command.origin for command in commands], grace)
    for command in commands:
        command.popen.poll()  # reap it here, so that everybody who still waits gets its real status


def start_command(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], pass_fds: Collection[int], box: "Box | None"
) -> Command:
    """Raises ToolError; then nothing was started."""
    ours = _prepare()
    number = ours.family * _FAMILY + next(_numbers) % _FAMILY
    mark = f"{ours.run_id}.{number:x}"
    outer = os.environ.get(MARK)  # we may be a command ourselves, and must stay identifiable as such
    marks = {MARK: f"{outer}/{mark}" if outer else mark}
    output, write_end = os.pipe()
    try:
        popen = _open(argv, cwd, env, marks, write_end, tuple(pass_fds), box)
    except (OSError, ValueError) as error:
        os.close(output)
        why = getattr(error, "strerror", None) or error
        raise ToolError(f"{argv[0]} could not be started in {cwd}: {why}.") from None
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(write_end)
    os.set_blocking(output, False)
    origin = ProcessOrigin(popen.pid, number, mark.encode(), box is not None and box.namespaced)
    tag(origin)
    _live[popen.pid] = command = Command(popen, output, origin)
    return command


def _open(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    marks: Mapping[str, str],
    output: int,
    pass_fds: tuple[int, ...],
    box: "Box | None",
) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    if box:
        from teamwright.host.sandbox.launch import Launch  # noqa: PLC0415

        return box.start(Launch(tuple(argv), str(cwd), env, marks, nowhere, output, output, pass_fds))
    return subprocess.Popen(
        argv,
        stdin=nowhere,
        stdout=output,
        stderr=output,
        cwd=cwd,
        env=dict(env) | dict(marks),
        pass_fds=pass_fds,
        start_new_session=True,
    )


class _Marks(NamedTuple):
    """Marks carried by all commands of this process, and its one child that is not a command."""

    run_id: str
    family: int
    watch: int  # the watching shell's pid, or 0


@functools.cache
def _prepare() -> _Marks:
    """Once per process: makes us the reaper of our orphans, and starts the watch in case we are killed."""
    run_id, family, watch = os.urandom(8).hex(), int.from_bytes(os.urandom(4), "big") | 1 << 32, 0
    if _LINUX:
        become_reaper()
        watch = _set_watch(run_id, family)
    atexit.register(stop_all)
    return _Marks(run_id, family, watch)


_FAMILY = 1_000_000  # number of commands after which a process reuses their numbers
_numbers = itertools.count()
_WATCH = """
read -r _
for round in 1 2 3; do
  {
    grep -slF -e "$1" /proc/[0-9]*/environ
    grep -sl -e "^Max file locks  *$2[0-9]\\{6\\} " /proc/[0-9]*/limits
  } | while read -r file; do file=${file%/*}; kill -9 "${file#/proc/}"; done
done
"""


def _set_watch(run_id: str, family: int) -> int:
    """Starts a shell that reads from a pipe whose other end only we hold: it wakes up when we are gone, for any reason.

    It finds our commands by inherited marks. Some environments are unreadable (our own program hides its, `env -i`
    empties it), but limits always are readable.
    """
    nowhere = subprocess.DEVNULL
    argv, env = ["/bin/sh", "-c", _WATCH, "teamwright-watch", f"{run_id}.", str(family)], {"PATH": os.defpath}
    try:
        watch = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, cwd="/", env=env, start_new_session=True
        )
    except OSError:
        return 0  # without it, commands still end with us, except after SIGKILL
    atexit.register(_end_watch, watch, os.getpid())
    return watch.pid


def _end_watch(watch: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        watch.kill()
        watch.communicate()


# --- while it runs


async def _follow(command: Command, output: Output, on_output: Callable[[], None] | None, box: "Box | None") -> None:
    """Waits until the command has ended and its output is read; leftovers can hold the output open only briefly."""
    finished = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_read, command, output, finished)
        if on_output:
            group.start_soon(_tell, command, on_output)
        if box:
            group.start_soon(box.watch)
        await _wait(command)
        command.exited = True
        with anyio.move_on_after(SETTLE):
            await finished.wait()
        group.cancel_scope.cancel()


async def _wait(command: Command) -> None:
    """Returns when the command has ended, without reaping it, so that its pid cannot be reused yet."""
    pid = command.popen.pid
    try:
        handle = os.pidfd_open(pid) if _LINUX else -1
    except OSError:
        handle = -1  # an old kernel, or a container that forbids it
    if handle < 0:
        seat = anyio.CapacityLimiter(1)  # its own limiter: with the shared one, 40 long commands would block all others
        await anyio.to_thread.run_sync(_wait_in_thread, command, abandon_on_cancel=True, limiter=seat)
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _wait_in_thread(command: Command) -> None:
    if _LINUX:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, command.popen.pid, os.WEXITED | os.WNOWAIT)
    else:
        command.popen.wait()


async def _read(command: Command, output: Output, finished: anyio.Event) -> None:
    pipe, size = command.output, _READ
    while True:
        await anyio.wait_readable(pipe)
        try:
            data = os.read(pipe, size)
        except BlockingIOError:
            continue
        if not data:
            finished.set()
            return
        if size == _READ and output.touches_disk(len(data)):
            size = _widen(pipe)
        await _keep(output, data)
        command.news.set()


def _widen(output: int) -> int:
    """Widens the pipe for much output, to need fewer steps. Only now, because all pipes of a user share a small
    allowance."""
    if _LINUX:
        import fcntl  # noqa: PLC0415

        with contextlib.suppress(OSError):
            return fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _BIG_READ)
    return _READ


async def _keep(output: Output, data: bytes) -> None:
    if output.touches_disk(len(data)):
        await anyio.to_thread.run_sync(output.add, data)
    else:
        output.add(data)


async def _tell(command: Command, on_output: Callable[[], None]) -> None:
    """Calls `on_output`: never for silent or short commands, a few times a second for busy ones."""
    while True:
        await command.news.wait()
        await anyio.sleep(TELL_EVERY)
        command.news = anyio.Event()
        on_output()


async def _end(command: Command, output: Output, grace: float) -> None:
    try:
        if not command.exited or alive([command.origin], {*_live, _prepare().watch}):
            seat = anyio.CapacityLimiter(1)
            await anyio.to_thread.run_sync(stop, [command.origin], grace, limiter=seat)
        for _ in range(64):  # empty the pipe; bounded, because a stray process may hold and fill it
            try:
                data = os.read(command.output, _READ)
            except BlockingIOError:
                break
            if not data:
                break
            await _keep(output, data)
    finally:
        command.popen.poll()
        os.close(command.output)
        del _live[command.popen.pid]
