"""The Bash tool: one command line in a fresh shell that starts where the one before it ended."""

import contextlib
import fcntl
import functools
import os
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.errors import ToolError
from teamwright.core.event import ToolProgressed
from teamwright.core.message import Text
from teamwright.core.ports import Desk, Outcome, ToolContext
from teamwright.host.capture import HEAD, Capture, plain
from teamwright.host.environment import tool_environment
from teamwright.host.process import Ended, run
from teamwright.tools.bounds import bounded, visible
from teamwright.tools.define import read_args, spec

DEFAULT_MS = 120_000
MOST_MS = 600_000
_REPORT_SIZE = 1 << 16

DESCRIPTION = f"""Runs a command line in a fresh bash and returns what it printed (stdout and stderr together) and its exit code.

- The working directory is kept between calls; variables, functions and shell options are not.
- Standard input is empty and there is no terminal: use flags that make programs ask nothing.
- When the call ends, everything that the command started is stopped, background processes too.
- Long output is shortened in the middle; the whole is then in a file that the result names.
- `timeout` is in milliseconds: {DEFAULT_MS} unless given, {MOST_MS} at most.
- Prefer Read, Edit, Write, Glob and Grep over cat, sed, find and grep. Quote paths that contain spaces."""  # noqa: E501


class BashArgs(Struct, frozen=True):
    command: Annotated[str, Meta(description="The command line or script to run")]
    description: Annotated[str, Meta(description="What it does, in five to ten words, for the person")] = ""
    timeout: Annotated[int | None, Meta(description="Milliseconds after which it is stopped")] = None


class BashTool:
    """The shell's environment is chosen from `env`, ours if not given; `passed` names secrets to let through."""

    def __init__(self, env: Mapping[str, str] | None = None, passed: Collection[str] = ()) -> None:
        self._env, self._passed = env, passed
        self.spec = spec("Bash", DESCRIPTION, BashArgs)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        asked = read_args(BashArgs, args)
        script = _script(asked.command)
        desk, before = ctx.desk, ctx.desk.cwd
        notes = _stand(desk)
        env = tool_environment(os.environ if self._env is None else self._env, desk.env, self._passed)
        limit = min(max(asked.timeout or DEFAULT_MS, 1), MOST_MS) / 1000
        capture = Capture(desk.spill / f"bash-{os.urandom(6).hex()}.txt" if desk.spill else None)

        def tell() -> None:
            ctx.emit(ToolProgressed(ctx.call_id, visible(capture.last_line())))

        letterbox, (gate, opener) = _letterbox(script), os.pipe()
        try:
            ended = await run(
                _shell(env["PATH"], letterbox, gate),
                cwd=desk.cwd,
                env=env,
                limit=limit,
                capture=capture,
                pass_fds=(letterbox, gate),
                on_start=lambda: _open_gate(opener),
                on_output=tell,
            )
            notes += _move(desk, _report(letterbox, len(script)))
        finally:
            for fd in (letterbox, gate, opener):
                os.close(fd)
        text, code = _words(capture, ended, limit, notes, desk)
        data: dict[str, Any] = {"exitCode": code, "interrupted": ended.timed_out}
        if capture.path:
            data["outputFile"] = str(capture.path)
        moved = "" if desk.cwd == before else str(desk.cwd)
        return Outcome((Text(text),), data, is_error=code != 0, cwd=moved)


def _script(command: str) -> bytes:
    if not command.strip():
        raise ToolError("The command is empty. Say what to run.")
    if "\0" in command:
        raise ToolError("The command contains a NUL byte, which no shell can run. Leave it out, or write it as \\0.")
    try:
        return command.encode()
    except UnicodeEncodeError:
        raise ToolError("The command contains half a surrogate pair. Send it as proper Unicode text.") from None


def _stand(desk: Desk) -> list[str]:
    """Begin in a directory that exists."""
    if desk.cwd.is_dir():
        return []
    gone, desk.cwd = desk.cwd, desk.roots[0]
    if not desk.cwd.is_dir():
        raise ToolError(f"Nothing was run: the project's directory {desk.cwd} does not exist any more.")
    return [f"The working directory {gone} was gone; the command ran in {desk.cwd}."]


# --- the shell, and how it tells where it ended
#
# The script goes in by an open file and not by argv: that has a limit of 128 KiB, shows in `ps`, and makes
# `pkill -f server` find its own shell. At its end the shell writes its directory behind the script: from a trap,
# which `exit` runs too, and once more after the script, which may have set a trap of its own. The gate keeps it from
# starting anything before it is marked as ours, and from starting at all if we die right now.

_TELL = "{{ {builtin}pwd -P || :; {builtin}printf '\\0'; }} {into} 2>/dev/null"
_RUN = 'trap "{tell}" EXIT; eval "$REPLY"; {{ set -- $?; set +x; {tell}; }} 2>/dev/null; exit $1'


def _shell(path: str, fd: int, gate: int) -> list[str]:
    if _has_bash(path):
        tell = _TELL.format(builtin="builtin ", into=f">&{fd}")
        begin = f"read -r <&{gate} || exit; exec {gate}<&-; IFS= read -r -d '' <&{fd}; "
        return ["bash", "--noprofile", "--norc", "-c", begin + _RUN.format(tell=tell), "bash"]
    tell = _TELL.format(builtin="", into=f">>/dev/fd/{fd}")  # sh may know only the numbers up to 9
    begin = f"read -r REPLY </dev/fd/{gate} || exit; REPLY=$(cat /dev/fd/{fd}); "
    return ["sh", "-c", begin + _RUN.format(tell=tell), "sh"]


def _open_gate(opener: int) -> None:
    os.write(opener, b"\n")


@functools.lru_cache(8)
def _has_bash(path: str) -> bool:
    import shutil  # noqa: PLC0415

    return shutil.which("bash", path=path) is not None


def _letterbox(script: bytes) -> int:
    """An open file that has no name: nothing to guess, nothing to clean up, and on Linux no disk that can be full."""
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
    """The directory in which the shell ended, empty if it had none; None if it was killed or replaced itself."""
    size = os.fstat(fd).st_size
    told = os.pread(fd, _REPORT_SIZE, max(start, size - _REPORT_SIZE)).split(b"\0")
    return os.fsdecode(told[-2].removesuffix(b"\n")) if len(told) > 1 else None


def _move(desk: Desk, reported: str | None) -> list[str]:
    """Follow the shell, but not out of the working directories."""
    if reported is None:
        return []
    place = Path(reported)
    if not reported or not place.is_dir():
        why = "the directory in which the command ended is gone"
    elif not any(place.is_relative_to(root) for root in desk.roots):
        why = f"{place} is outside the working directories"
    elif any("\ud800" <= letter <= "\udfff" for letter in reported):
        why = f"the name of {place} is not UTF-8"
    else:
        desk.cwd = place
        return []
    desk.cwd = desk.roots[0]
    return [f"The working directory is {desk.cwd} again: {why}."]


# --- the result


def _words(capture: Capture, ended: Ended, limit: float, notes: list[str], desk: Desk) -> tuple[str, int | None]:
    text = _shown(capture, desk).rstrip("\n") or "(no output)"
    words, code = _ending(ended, limit)
    return "\n".join([text, *map(visible, notes), *([words] if words else [])]), code


def _shown(capture: Capture, desk: Desk) -> str:
    if not capture.shortened:
        return bounded(visible(plain(capture.text())), spill=desk.spill, name="bash")
    # Escapes make binary output longer: bound each side, so that the line between them stays.
    return capture.text(lambda part: bounded(visible(plain(part)), most=HEAD))


def _ending(ended: Ended, limit: float) -> tuple[str, int | None]:
    if ended.timed_out:
        return f"Timed out after {limit:g} s; it and everything it started was stopped", None
    if ended.signal:
        name = str(ended.signal)
        with contextlib.suppress(ValueError):
            name = signal.Signals(ended.signal).name
        return f"Ended by signal {name}", 128 + ended.signal
    if ended.status is None:
        return "The command did not end, even when it was killed; it may still hold files or devices", None
    return (f"Exit code {ended.status}" if ended.status else ""), ended.status
