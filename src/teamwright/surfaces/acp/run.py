"""The program behind `teamwright acp`: answers at once, and opens things only when they are asked for."""

import gc
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from teamwright.surfaces.acp.protocol import shapes
from teamwright.surfaces.acp.protocol.greeting import greeting
from teamwright.surfaces.acp.protocol.wire import REQUEST, RequestResult, RpcError, Wire
from teamwright.surfaces.signals import STATUS, heed_signals
from teamwright.surfaces.stdin import read_chunks
from teamwright.surfaces.stdout import Out

if TYPE_CHECKING:
    from teamwright.app import Options
    from teamwright.surfaces.acp.connection import EditorSessions
    from teamwright.surfaces.acp.threads.hosting import KeepDoor

LAST_SECONDS = 1.0  # for the editor to read the last lines


class Front:
    """Answers `initialize` by itself; everything else is imported once that was sent."""

    def __init__(self, wire: Wire, group: TaskGroup, ready: "Callable[[], tuple[Options, KeepDoor]]") -> None:
        self._wire, self._group, self._ready = wire, group, ready
        self._client: shapes.Client | None = None
        self.connection: EditorSessions | None = None

    async def serve(self, method: str, params: Raw) -> RequestResult:
        if method == "initialize":
            said: shapes.Hello = shapes.read(params, shapes.Hello)
            self._client = shapes.client_of(said.clientCapabilities)
            return RequestResult(greeting(), self._prepare)
        if self._client is None:
            raise RpcError(REQUEST, f"{method} comes before initialize")
        return await self._connection(self._client).answer(method, params)

    def _prepare(self) -> None:
        self._group.start_soon(self._get_ready)

    async def _get_ready(self) -> None:
        await self._wire.drain()
        if self._client is not None:
            self._connection(self._client)

    def _connection(self, client: shapes.Client) -> "EditorSessions":
        if self.connection is None:
            from teamwright.surfaces.acp.connection import EditorSessions  # noqa: PLC0415  # with all of the application

            options, keep_door = self._ready()
            self.connection = EditorSessions(self._wire, self._group, client, options, keep_door)
            gc.freeze()
            gc.enable()
        return self.connection


async def run_editor(ready: "Callable[[], tuple[Options, KeepDoor]]") -> int:
    """Runs until the editor closes our input; returns the exit status."""
    out = _take_stdout()
    caught: list[signal.Signals] = []
    async with anyio.create_task_group() as group:
        wire = Wire(out, group)
        front = Front(wire, group, ready)
        with anyio.CancelScope() as work:
            group.start_soon(wire.write)
            group.start_soon(heed_signals, work, caught)
            group.start_soon(_heed_leaving, wire, work)
            await wire.read(read_chunks(), front.serve)
            await _finish(wire)
        with anyio.CancelScope(shield=True):
            if front.connection is not None:
                await front.connection.close()
            with anyio.move_on_after(LAST_SECONDS):
                await wire.drain()
        group.cancel_scope.cancel()
    return STATUS[caught[0]] if caught else 0


async def _finish(wire: Wire) -> None:
    """Finish quick answers to what came before the end of the input."""
    with suppress(TimeoutError), anyio.fail_after(LAST_SECONDS):
        await wire.quiet()


def _take_stdout() -> Out:
    """Reserve the protocol's pipe: everything else that is printed goes to the log."""
    own = os.dup(1)
    os.dup2(2, 1)
    return Out(own)


async def _heed_leaving(wire: Wire, work: anyio.CancelScope) -> None:
    await wire.gone.wait()
    work.cancel()
