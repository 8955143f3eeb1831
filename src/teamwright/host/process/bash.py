"""Runs one script in a fresh bash that waits until it is marked as ours, and reports its final directory.

The script is passed in an open file instead of argv, which is limited to 128 KiB, visible in `ps`, and makes `pkill -f
server` find its own shell. At the end the shell writes its directory behind the script: from a trap, which `exit` runs
too, and again after the script, which may have replaced the trap. The gate keeps the shell from starting anything
before it is marked, and from starting at all if we die at that moment.
"""

import contextlib
import fcntl
import functools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from teamwright.core.errors import ToolError
from teamwright.host.process.capture import Capture
from teamwright.host.process.gated import run_gated
from teamwright.host.process.run import ProcessEnd

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

_REPORT_SIZE = 1 << 16
_TELL = "{{ {builtin}pwd -P || :; {builtin}printf '\\0'; }} {into} 2>/dev/null"
_RUN = 'trap "{tell}" EXIT; eval "$REPLY"; {{ set -- $?; set +x; {tell}; }} 2>/dev/null; exit $1'


def encode_script(command: str) -> bytes:
    """The command line as bytes for the shell. Raises ToolError if it cannot be a command line."""
    if not command.strip():
        raise ToolError("The command is empty. Say what to run.")
    if "\0" in command:
        raise ToolError("The command contains a NUL byte, which no shell can run. Leave it out, or write it as \\0.")
    try:
        return command.encode()
    except UnicodeEncodeError:
        raise ToolError("The command contains half a surrogate pair. Send it as proper Unicode text.") from None


async def run_script(
    script: bytes,
    *,
    cwd: Path,
    env: Mapping[str, str],
    limit: float | None,
    capture: Capture,
    on_output: Callable[[], None] | None = None,
    box: "Box | None" = None,
) -> tuple[ProcessEnd, str | None]:
    """Like `run`, plus the directory in which the shell ended: empty if it had none, None if it did not report one."""
    letterbox = _letterbox(script)

    def words(gate: int) -> list[str]:
        later = box.restoring(env, bash=_has_bash(env["PATH"])) if box else ""
        return _shell(env["PATH"], letterbox, gate, box.prelude if box else "", later)

    try:
        ended = await run_gated(
            words,
            cwd=cwd,
            env=env,
            limit=limit,
            capture=capture,
            pass_fds=(letterbox,),
            on_output=on_output,
            box=box,
        )
        return ended, _report(letterbox, len(script))
    finally:
        os.close(letterbox)


def describe_end(ended: ProcessEnd, limit: float | None) -> tuple[str, int | None]:
    """How it ended in words (empty on success), and its exit code as a shell would report it."""
    if ended.timed_out:
        return f"Timed out after {limit or 0:g} s; it and everything it started was stopped", None
    if ended.signal:
        name = str(ended.signal)
        with contextlib.suppress(ValueError):
            name = signal.Signals(ended.signal).name
        return f"Ended by signal {name}", 128 + ended.signal
    if ended.status is None:
        return "The command did not end, even when it was killed; it may still hold files or devices", None
    return (f"Exit code {ended.status}" if ended.status else ""), ended.status


def _shell(path: str, fd: int, gate: int, prelude: str, later: str) -> list[str]:
    """`prelude` runs before the gate, `later` after it."""
    if _has_bash(path):
        tell = _TELL.format(builtin="builtin ", into=f">&{fd}")
        begin = f"{prelude}read -r <&{gate} || exit; exec {gate}<&-; {later}IFS= read -r -d '' <&{fd}; "
        return ["bash", "--noprofile", "--norc", "-c", begin + _RUN.format(tell=tell), "bash"]
    tell = _TELL.format(builtin="", into=f">>/dev/fd/{fd}")  # sh may only accept single-digit descriptors
    begin = f"{prelude}read -r REPLY </dev/fd/{gate} || exit; {later}REPLY=$(cat /dev/fd/{fd}); "
    return ["sh", "-c", begin + _RUN.format(tell=tell), "sh"]


@functools.lru_cache(8)
def _has_bash(path: str) -> bool:
    import shutil  # noqa: PLC0415

    return shutil.which("bash", path=path) is not None


def _letterbox(script: bytes) -> int:
    """An open file without a name: nothing to guess or clean up, and on Linux no disk that can be full."""
    with _nameless() as file:
        # A high number: a script that says `exec 6>log` must not get our words into its file.
        fd = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 150)
    rest = memoryview(script)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _nameless() -> IO[bytes]:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("teamwright"), "w+b", buffering=0)
    import tempfile  # noqa: PLC0415

    return tempfile.TemporaryFile(buffering=0)


def _report(fd: int, start: int) -> str | None:
    """The directory in which the shell ended; empty if it had none, None if the shell was killed or replaced itself."""
    size = os.fstat(fd).st_size
    told = os.pread(fd, _REPORT_SIZE, max(start, size - _REPORT_SIZE)).split(b"\0")
    return os.fsdecode(told[-2].removesuffix(b"\n")) if len(told) > 1 else None
