"""Runs a server program and its pipes: bounded JSON messages, no process left behind."""

import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct

from teamwright.core.data.extensions.server import ServerFault
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.process.capture import Capture
from teamwright.host.process.gated import run_gated

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

LONGEST = 16 << 20  # bytes in one line
CLOSE_SECONDS = 1.5  # seconds to end by itself after its input is closed
_CHUNK = 1 << 16
# The program gets our pipes by path, because plain redirections only take numbers up to 9.
_GATE = 'read -r _ </dev/fd/"$1" || exit; '
_EXEC = 'in=$2 out=$3; shift 3; exec "$@" </dev/fd/"$in" >/dev/fd/"$out"'


class Framing(Struct, frozen=True):
    """How messages are delimited in a stream. `cut` takes new bytes and the rest of earlier ones, which it updates; it
    raises ValueError for bytes that cannot be a message."""

    cut: Callable[[bytes, bytearray], list[bytes]]
    wrap: Callable[[bytes], bytes]


def cut_lines(data: bytes, rest: bytearray) -> list[bytes]:
    *whole, last = data.split(b"\n")
    lines: list[bytes] = []
    for piece in whole:
        lines.append(bytes(rest + piece).strip())
        rest.clear()
    rest += last
    return [line for line in lines if line]


LINES = Framing(cut_lines, lambda line: line + b"\n")


class ServerPipes(Struct):
    """Whole messages in both directions. `lines` ends when the other side is gone."""

    lines: MemoryObjectReceiveStream[bytes]
    send: Callable[[bytes], Awaitable[None]]
    complaint: Callable[[], str]  # why it is unusable, or its last words on stderr


@asynccontextmanager
async def open_program(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, framing: Framing = LINES, box: "Box | None" = None
) -> AsyncGenerator[ServerPipes]:
    """Starts the program, sandboxed if there is a `box`. At the end closes its input, waits a moment, then kills it."""
    path = _look_for(argv[0], env, cwd)
    if box is not None and (why := _hides(box, path)):
        raise ServerFault(why)
    program = _Program(argv, env, cwd, framing, box)
    send_lines, lines = anyio.create_memory_object_stream[bytes](0)
    async with anyio.create_task_group() as group:
        group.start_soon(program.live)
        group.start_soon(program.listen, send_lines)
        try:
            yield ServerPipes(lines, program.send, program.complaint)
        finally:
            lines.close()
            with anyio.CancelScope(shield=True):
                await program.close()


def _look_for(command: str, env: Mapping[str, str], cwd: Path) -> Path:
    if "\0" in command or not command:
        raise ServerFault("its command is empty or holds a NUL character")
    found = cwd / command if "/" in command else shutil.which(command, path=env.get("PATH"))
    if not found or not (path := Path(found)).exists():
        where = "" if "/" in command else " on PATH"
        raise ServerFault(f"there is no program `{shown(command)}`{where}; install it or correct the command")
    return path


def _hides(box: "Box", path: Path) -> str:
    """That the box hides this, and what to do; empty if it does not."""
    from teamwright.core.sandbox.policy import access_of  # noqa: PLC0415

    if not path.exists() or access_of(box.policy, str(path.resolve())) != "none":
        return ""
    return f"the sandbox hides {shown(str(path))}: name it in `sandbox.filesystem.allowRead` of your settings"


class _Program:
    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, framing: Framing, box: "Box | None"
    ) -> None:
        self._argv, self._env, self._cwd, self._framing, self._box = argv, env, cwd, framing, box
        self.stderr = Capture(head=0, tail=8_000)
        self._theirs_in, self._to = os.pipe()
        self._from, self._theirs_out = os.pipe()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._scope = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._ended = anyio.Event()
        self._heard = anyio.Event()
        self._writing = anyio.Lock()
        self._fault = ""

    def complaint(self) -> str:
        said = self._fault or self.stderr.last_line()
        named = (Path(arg) for arg in self._argv[1:] if arg.startswith("/"))
        why = next(filter(None, (_hides(self._box, path) for path in named)), "") if self._box else ""
        return f"{why} ({said or 'it said nothing'})" if why else said

    async def live(self) -> None:
        """Runs the program until it ends or is stopped."""
        fds = (self._theirs_in, self._theirs_out)

        def words(gate: int) -> list[str]:
            box = self._box
            script = f"{box.prelude}{_GATE}{box.restoring(self._env, bash=False)}{_EXEC}" if box else _GATE + _EXEC
            return ["/bin/sh", "-c", script, "sh", *map(str, (gate, *fds)), *self._argv]

        try:
            with self._scope:
                await run_gated(
                    words,
                    cwd=self._cwd,
                    env=self._env,
                    limit=None,
                    capture=self.stderr,
                    pass_fds=fds,
                    on_start=None if self._box else self._let_go,  # with a box it may be restarted and need them again
                    box=self._box,
                )
        except ToolError as error:
            self._fault = str(error)
        finally:
            self._let_go()
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):  # output from before its end still counts
                await self._heard.wait()
            self._reading.cancel()
            self._ended.set()

    def _let_go(self) -> None:
        """Closes our copies of its pipe ends; while we hold them, its end cannot be noticed."""
        for name in ("_theirs_in", "_theirs_out"):
            handle: int = getattr(self, name)
            if handle >= 0:
                os.close(handle)
                setattr(self, name, -1)

    async def listen(self, lines: MemoryObjectSendStream[bytes]) -> None:
        """Passes whole lines on. Keeps reading when nobody wants them, because a full pipe would keep it from
        ending."""
        rest = bytearray()
        try:
            with self._reading:
                while True:
                    await anyio.wait_readable(self._from)
                    try:
                        data = os.read(self._from, _CHUNK)
                    except BlockingIOError:
                        continue
                    if not data:
                        return
                    self._let_go()
                    await self._pass_on(data, rest, lines)
        finally:
            lines.close()
            self._heard.set()

    async def _pass_on(self, data: bytes, rest: bytearray, lines: MemoryObjectSendStream[bytes]) -> None:
        fault = ""
        try:
            for message in self._framing.cut(data, rest):
                await lines.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        except ValueError as error:
            fault = str(error)
        if len(rest) > LONGEST:
            fault = f"it sent a line of more than {LONGEST >> 20} MiB"
        if fault:
            rest.clear()
            self._fault = fault
            lines.close()

    async def send(self, line: bytes) -> None:
        """Raises BrokenResourceError if the program is gone. A partly written line cannot be undone, so cancelling
        there ends it."""
        async with self._writing:
            view = memoryview(self._framing.wrap(line))
            whole = len(view)
            try:
                while view:
                    view = view[await self._write(view) :]
            finally:
                if 0 < len(view) < whole:
                    self._fault = self._fault or "it stopped reading in the middle of a request"
                    self._scope.cancel()

    async def _write(self, view: memoryview) -> int:
        if self._to < 0:
            raise anyio.BrokenResourceError
        try:
            return os.write(self._to, view[:_CHUNK])
        except BlockingIOError:
            try:
                await anyio.wait_writable(self._to)
            except anyio.ClosedResourceError:
                raise anyio.BrokenResourceError from None
            return 0
        except OSError:
            raise anyio.BrokenResourceError from None

    async def close(self) -> None:
        to, self._to = self._to, -1
        anyio.notify_closing(to)
        os.close(to)
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._ended.wait()
        self._scope.cancel()
        await self._ended.wait()  # bounded by `run`: terminate, then kill
        await self._heard.wait()
        os.close(self._from)
