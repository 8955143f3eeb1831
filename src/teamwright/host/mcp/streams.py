"""Streams for the protocol package: our own pipes, or its streams watched for their end."""

from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.shared.message import SessionMessage

from teamwright.core.text import shown
from teamwright.host.mcp.shrink import UnreadableMessage, id_in, looks_meant, shrink
from teamwright.host.mcp.stdio_client import ServerPipes

_LONG = 1 << 20  # bytes; messages this long are parsed in a thread


class _Closing:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        return


class WaitingCall:
    """Requests without an answer yet, oldest first."""

    def __init__(self) -> None:
        self._ids: dict[int | str, None] = {}

    def sent(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._ids[message.id] = None
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.pop((message.params or {}).get("requestId", ""), None)

    def heard(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._ids.pop(message.id, None)

    def fail(self, why: str, id: int | str | None = None) -> SessionMessage | None:
        """An error answer to that request, or to the oldest one; None if nobody waits."""
        if id not in self._ids:
            id = next(iter(self._ids), None)
        if id is None:
            return None
        self._ids.pop(id, None)
        error = types.ErrorData(code=types.PARSE_ERROR, message=f"it sent a message that cannot be read: {shown(why)}")
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))


class LineReader(_Closing):
    """Parses messages from lines. Skips other lines, because programs print things they should not.

    An unreadable message becomes an error for the waiting caller, since no other answer will come.
    """

    def __init__(self, wire: ServerPipes, lost: anyio.Event, waiting: WaitingCall | None = None) -> None:
        self._wire, self._lost, self._waiting = wire, lost, waiting or WaitingCall()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                line = await self._wire.lines.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._lost.set()
                raise
            try:
                small = await to_thread.run_sync(shrink, line) if len(line) > _LONG else shrink(line)
                message = types.jsonrpc_message_adapter.validate_json(small, by_name=False)
            except ValueError as error:
                failed = self._waiting.fail(_why(error), id_in(line)) if looks_meant(line) else None
                if failed is not None:
                    return failed
                continue
            self._waiting.heard(message)
            return SessionMessage(message)

    async def aclose(self) -> None:
        self._wire.lines.close()


def _why(error: ValueError) -> str:
    return str(error) if isinstance(error, UnreadableMessage) else "it does not fit the protocol"


class LineWriter(_Closing):
    def __init__(self, wire: ServerPipes, waiting: WaitingCall | None = None) -> None:
        self._wire, self._waiting = wire, waiting or WaitingCall()

    async def send(self, item: SessionMessage, /) -> None:
        self._waiting.sent(item.message)
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._wire.send(text.encode())


class WatchedReader(_Closing):
    """The package's own stream; `lost` is set when it ends. An error answers the caller that has waited longest."""

    def __init__(self, stream: Any, lost: anyio.Event, waiting: WaitingCall) -> None:
        self._stream, self._lost, self._waiting = stream, lost, waiting

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._looked_at(await self._stream.__anext__())
        except StopAsyncIteration:
            self._lost.set()
            raise

    async def receive(self) -> SessionMessage | Exception:
        return self._looked_at(await self._stream.receive())

    def _looked_at(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, ValueError):
            return self._waiting.fail(_why(item)) or item
        if isinstance(item, SessionMessage):
            self._waiting.heard(item.message)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()


class WatchedWriter(_Closing):
    """The package's own stream; records the requests that wait for an answer."""

    def __init__(self, stream: Any, waiting: WaitingCall) -> None:
        self._stream, self._waiting = stream, waiting

    async def send(self, item: SessionMessage, /) -> None:
        self._waiting.sent(item.message)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()
