"""Runs a small program to its end, taking its lines as they come; it never outlives the call."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

_MOST_WORDS = 8_000  # bytes kept of its stderr
_LONGEST = 1 << 20  # bytes of a piece without the separator
_KEPT_ENV = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "PYTHONPATH", "SYSTEMROOT")


class ChildEnded(Struct, frozen=True):
    code: int
    complaint: str  # its stderr, bounded
    late: bool = False  # we killed it at its time limit
    starved: bool = False  # it failed because of its memory limit
    cut: bool = False  # we killed it because the taker had enough


async def run_child(
    argv: Sequence[str],
    take: Callable[[bytes], bool],
    *,
    seconds: float,
    separator: bytes = b"\n",
    cwd: str | None = None,
    stdin: int = DEVNULL,
    memory: int | None = None,
) -> ChildEnded:
    """Runs it; each separated piece of stdout goes to `take`, which returns whether it wants more.

    `memory`: a limit in bytes, where the system can enforce one.
    """
    process = await _start(argv, cwd, stdin)
    if memory is not None:
        _confine(process.pid, memory)
    words: list[bytes] = []
    cut = False
    try:
        with anyio.move_on_after(seconds) as limit:
            async with anyio.create_task_group() as group:
                assert process.stdout and process.stderr
                group.start_soon(_listen, process.stderr, words)
                cut = not await _pass_on(process.stdout, take, separator)
                if cut:
                    _kill(process)
            await process.wait()
    finally:
        _kill(process)
        with anyio.CancelScope(shield=True):  # it was killed, so this is quick; without it a zombie remains
            await process.aclose()
    complaint = b"".join(words).decode(errors="replace")
    code, late = process.returncode or 0, limit.cancelled_caught
    starved = memory is not None and not late and not cut and (code < 0 or "memory allocation" in complaint)
    return ChildEnded(code, complaint, late=late, cut=cut, starved=starved)


async def _start(argv: Sequence[str], cwd: str | None, stdin: int) -> Process:
    with anyio.CancelScope(shield=True):  # cancelled in the middle, the process would not be reaped
        return await anyio.open_process(
            argv, stdin=stdin, stdout=PIPE, stderr=PIPE, cwd=cwd, env=_env(os.environ), start_new_session=True
        )
    raise AssertionError("nobody cancels this scope")


def _confine(pid: int, memory: int) -> None:
    import resource  # noqa: PLC0415

    if hasattr(resource, "prlimit"):
        with suppress(OSError):  # it may have ended already
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _env(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _KEPT_ENV if name in environ}


async def _pass_on(stream: ByteReceiveStream, take: Callable[[bytes], bool], separator: bytes) -> bool:
    """Returns False if the taker had enough."""
    rest = b""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split(separator)
        for piece in whole:
            if not take(piece):
                return False
        if len(rest) > _LONGEST:
            return False
    return take(rest) if rest else True


async def _listen(stream: ByteReceiveStream, words: list[bytes]) -> None:
    room = _MOST_WORDS
    async for chunk in stream:  # keep reading past the limit, or the program would block
        words.append(chunk[:room])
        room -= len(words[-1])


def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            # Its own `kill` reaps it below Python 3.13 if it has ended, and then its watcher complains on stderr.
            os.kill(process.pid, signal.SIGKILL)
