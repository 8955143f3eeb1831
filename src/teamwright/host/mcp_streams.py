"""What the protocol package reads from and writes to: our own pipes, or its streams with an eye on their end."""

from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from teamwright.host.mcp_pipes import Wire


class _Closing:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        return


class LineReader(_Closing):
    """Messages from lines. What is not one is passed over: programs print things that they should not."""

    def __init__(self, wire: Wire, lost: anyio.Event) -> None:
        self._wire, self._lost = wire, lost
        self.junk = 0

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
                return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                self.junk += 1

    async def aclose(self) -> None:
        self._wire.lines.close()


class LineWriter(_Closing):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._wire.send(text.encode())


class WatchedReader(_Closing):
    """The package's own stream; `lost` is set when it ends."""

    def __init__(self, stream: Any, lost: anyio.Event) -> None:
        self._stream, self._lost = stream, lost

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._lost.set()
            raise

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()
