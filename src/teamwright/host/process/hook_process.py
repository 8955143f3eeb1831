"""Runs a hook's command in a shell: input on stdin, stdout and stderr separate and bounded, nothing left behind."""

import contextlib
import os
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.process.capture import Capture, plain
from teamwright.host.process.gated import run_gated

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

MOST_ANSWER = 1 << 20  # bytes kept of stdout
MOST_COMPLAINT = 1 << 16
_READ = 1 << 16


class HookEnd(Struct, frozen=True):
    """`status` as a shell reports it; None if there was no answer, and `fault` says why."""

    status: int | None
    out: str = ""
    err: str = ""  # without colours
    fault: str = ""


async def run_hook(
    command: str, data: bytes, *, cwd: Path, env: Mapping[str, str], limit: float, box: "Box | None" = None
) -> HookEnd:
    """Runs to its end or its limit; then nothing it started is alive. `box`: runs in the sandbox."""
    out, err = Capture(head=MOST_ANSWER, tail=1), Capture(head=MOST_COMPLAINT, tail=1)
    ended, fault = None, ""
    with _handles(data) as (letter, ear, mouth):

        def words(gate: int) -> list[str]:
            later = box.restoring(env, bash=_has_bash(env["PATH"])) if box else ""
            return _argv(f"{later}{command}", env["PATH"], (letter, gate, mouth), box.prelude if box else "")

        async with anyio.create_task_group() as group:
            group.start_soon(_listen, ear, err)
            try:
                ended = await run_gated(
                    words, cwd=cwd, env=env, limit=limit, capture=out, pass_fds=(letter, mouth), box=box
                )
            except ToolError as error:
                fault = str(error)
            group.cancel_scope.cancel()
        _take_rest(ear, err)
    if ended is None:
        return HookEnd(None, fault=fault)
    if not ended.began:
        return HookEnd(None, fault=f"its sandbox could not be made: {out.last_line()}")
    if ended.timed_out or (ended.status is None and ended.signal is None):
        return HookEnd(None, fault=f"did not end within {limit:g} s")
    return HookEnd(128 + ended.signal if ended.signal else ended.status, out.text(), err.text(plain))


def _argv(command: str, path: str, handles: tuple[int, int, int], prelude: str) -> list[str]:
    """The command as written, after a line that waits for the marks and puts the handles in place.

    `prelude` runs before the gate: if it fails, the command has not begun.
    """
    letter, gate, mouth = handles
    if _has_bash(path):
        begin = f"read -r <&{gate} || exit; exec {gate}<&- <&{letter} {letter}<&- 2>&{mouth} {mouth}>&-; unset REPLY"
        return ["bash", "--noprofile", "--norc", "-c", f"{prelude}{begin}\n{command}"]
    # This sh may only accept single-digit descriptors.
    begin = f"read -r _ </dev/fd/{gate} || exit; exec </dev/fd/{letter} 2>/dev/fd/{mouth}"
    return ["sh", "-c", f"{prelude}{begin}\n{command}"]


@lru_cache(8)
def _has_bash(path: str) -> bool:
    return shutil.which("bash", path=path) is not None


@contextmanager
def _handles(data: bytes) -> Generator[tuple[int, int, int]]:
    """The input, both ends of a pipe for stderr. All are closed in the end."""
    with contextlib.ExitStack() as stack:

        def keep(fd: int) -> int:
            stack.callback(os.close, fd)
            return fd

        letter = keep(_letter(data))
        ear, mouth = map(keep, os.pipe())
        os.set_blocking(ear, False)
        yield letter, ear, mouth


def _letter(data: bytes) -> int:
    """An open file without a name: unlike a pipe it takes any size, without waiting for the hook to read it."""
    with _nameless() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _nameless() -> IO[bytes]:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("teamwright-hook"), "w+b")
    import tempfile  # noqa: PLC0415

    return tempfile.TemporaryFile()


async def _listen(ear: int, err: Capture) -> None:
    """Reads until cancelled; our own end keeps the pipe open."""
    while True:
        await anyio.wait_readable(ear)
        with contextlib.suppress(BlockingIOError):
            err.add(os.read(ear, _READ))


def _take_rest(ear: int, err: Capture) -> None:
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):  # bounded, because a stray process may hold the pipe and keep filling it
            err.add(os.read(ear, _READ))
