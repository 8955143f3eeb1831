"""JSON-RPC 2.0 over two pipes, one object per line, with requests and notifications in both directions."""

import re
import sys
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import UNSET, Raw, Struct, UnsetType

from teamwright.surfaces.stdout import Sink

PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_MODEL, NO_SESSION, CANCELLED = -32000, -32002, -32800
LONGEST = 64 * 1024 * 1024  # bytes of one line
MOST_WAITING = 8 * 1024 * 1024  # bytes for a slow client; beyond that, words are joined and wait
PATIENCE = 60.0  # seconds that a client may leave a line unread
_BATCH = 65_536  # bytes written at once
CANCEL = "$/cancel_request"
NOT_READ = "its answer cannot be read"
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

RequestId = str | int | None


class RpcError(Exception):
    """An error as an answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class RequestResult(Struct):
    """The result of a request; `after` is called once it was sent."""

    result: object
    after: Callable[[], None] | None = None


Serve = Callable[[str, Raw], Awaitable[RequestResult]]


class _Heard(Struct):
    id: RequestId | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: Raw = Raw(b"null")


class _CancelBody(Struct):
    requestId: RequestId


class _Waiting:
    """A request of ours without an answer yet."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.heard: _Heard | None = None

    def take(self, heard: _Heard) -> None:
        if self.heard is None:  # the first answer counts
            self.heard = heard
            self.answered.set()


_PART = re.compile(rb'"(method|result|error)"')
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')
_UNREAD = _Heard(error=Raw(b"{}"))
_lines = msgspec.json.Decoder(_Heard)
_encode = msgspec.json.Encoder().encode


class Wire:
    """`gone` is set when the client has left, or no longer reads."""

    def __init__(self, out: Sink, group: TaskGroup) -> None:
        self._out, self._group = out, group
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._bell, self._drained = anyio.Event(), anyio.Event()
        self._ids = count(1)
        self._asked: dict[RequestId, _Waiting] = {}
        self._serving: dict[RequestId, anyio.CancelScope] = {}
        self._answered_one = anyio.Event()
        self.gone = anyio.Event()

    # --- output

    @property
    def congested(self) -> bool:
        """The client reads too slowly: whatever can be joined should wait."""
        return self._size > MOST_WAITING

    def send(self, message: dict[str, Any]) -> None:
        data = _encode({"jsonrpc": "2.0"} | message) + b"\n"
        if not self._size:
            self._drained = anyio.Event()
        self._lines.append(data)
        self._size += len(data)
        self._bell.set()

    def notify(self, method: str, params: object) -> None:
        self.send({"method": method, "params": params})

    async def ask(self, method: str, params: object) -> Any:
        """Raises RpcError if the client answers with one, or leaves. Cancelling withdraws the request."""
        id, waiting = next(self._ids), _Waiting()
        self._asked[id] = waiting
        self.send({"id": id, "method": method, "params": params})
        try:
            await waiting.answered.wait()
        except anyio.get_cancelled_exc_class():
            self.notify(CANCEL, {"requestId": id})
            raise
        finally:
            del self._asked[id]
        heard = waiting.heard
        if heard is None:
            raise RpcError(CANCELLED, "the editor has gone")
        try:
            error = msgspec.json.decode(heard.error)
            result = None if heard.result is UNSET else msgspec.json.decode(heard.result)
        except UNREADABLE as fault:
            raise RpcError(INTERNAL, f"{NOT_READ}: {fault}") from None
        if error is not None:
            raise _told(error)
        return result

    async def write(self) -> None:
        """Runs until the client has left."""
        try:
            while True:
                while self._lines:
                    await self._write_some()
                self._bell = anyio.Event()
                await self._bell.wait()
        except (BrokenPipeError, TimeoutError):
            self.gone.set()
            self._drained.set()

    async def _write_some(self) -> None:
        batch: list[bytes] = []
        size = 0
        while self._lines and size < _BATCH:
            batch.append(self._lines.popleft())
            size += len(batch[-1])
        with anyio.fail_after(PATIENCE):
            await self._out.write(b"".join(batch))
        self._size -= size
        if not self._size:
            self._drained.set()

    async def drain(self) -> None:
        """Wait until everything is written."""
        while self._size and not self.gone.is_set():
            await self._drained.wait()

    async def quiet(self) -> None:
        """Wait until no request to us is unanswered."""
        while self._serving:
            await self._answered_one.wait()

    # --- input

    async def read(self, chunks: AsyncIterator[bytes], serve: Serve) -> None:
        """Runs until the client closes its end."""
        async for line in self._split(chunks):
            self._hear(line, serve)
        for waiting in self._asked.values():
            waiting.answered.set()

    async def _split(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Lines without their ends. A line that is too long gets an error as its answer, and is skipped."""
        waiting: list[bytes] = []
        size, skipping = 0, False
        async for chunk in chunks:
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                line = b"".join([*waiting, part]).strip()
                if line and not skipping:
                    yield line
                waiting, size, skipping = [], 0, False
            size += len(rest)
            if size > LONGEST and not skipping:
                self._fail(None, REQUEST, f"a line is longer than {LONGEST // 1024 // 1024} MiB and was left out")
                self._end_named(b"".join([*waiting, rest]))
                skipping = True
            waiting = [] if skipping else [*waiting, rest]
        if last := b"".join(waiting).strip():
            yield last

    def _hear(self, line: bytes, serve: Serve) -> None:
        try:
            heard = _lines.decode(line)
        except msgspec.ValidationError as error:
            self._fail(None, REQUEST, f"no request of JSON-RPC: {error}")
            self._end_named(line)
            return
        except UNREADABLE as error:
            self._fail(None, PARSE, f"not JSON: {error}")
            self._end_named(line)
            return
        if heard.method is UNSET:
            self._answered(heard)
        elif heard.method == CANCEL:
            self._cancel(heard.params)
        elif heard.id is UNSET:
            self._group.start_soon(self._notified, heard.method, heard.params, serve)
        else:
            self._group.start_soon(self._serve, heard.id, heard.method, heard.params, serve)

    def _answered(self, heard: _Heard) -> None:
        if heard.id is not UNSET and heard.id in self._asked:
            self._asked[heard.id].take(heard)
        elif heard.id is UNSET or (heard.result is UNSET and bytes(heard.error) == b"null"):
            self._fail(None, REQUEST, "neither a request nor an answer")

    def _end_named(self, line: bytes) -> None:
        """What cannot be read may be an answer: requests of ours that it names wait for no other."""
        if (part := _PART.search(line)) is not None and part[1] == b"method":
            return  # a request to us, which has an id of its own
        for id in {int(digits) for digits in _ID.findall(line)} & self._asked.keys():
            self._asked[id].take(_UNREAD)

    def _cancel(self, params: Raw) -> None:
        try:
            scope = self._serving.get(msgspec.json.decode(params, type=_CancelBody).requestId)
        except UNREADABLE:
            return  # a notification has no answer
        if scope is not None:
            scope.cancel()

    async def _notified(self, method: str, params: Raw, serve: Serve) -> None:
        """Unknown notifications are ignored, and errors cannot be reported."""
        try:
            await serve(method, params)
        except RpcError as error:
            if error.code != METHOD:
                sys.stderr.write(f"teamwright: {method}: {error}\n")
        except Exception:  # noqa: BLE001  # the edge of a surface: the connection must outlive one message
            traceback.print_exc()

    async def _serve(self, id: RequestId, method: str, params: Raw, serve: Serve) -> None:
        with anyio.CancelScope() as scope:
            self._serving[id] = scope
            try:
                answer = await serve(method, params)
            except RpcError as error:
                self._fail(id, error.code, str(error), error.data)
            except Exception as error:  # noqa: BLE001  # as above: the client learns of it, the log has all of it
                traceback.print_exc()
                self._fail(id, INTERNAL, f"{type(error).__name__}: {error}")
            else:
                self.send({"id": id, "result": answer.result})
                if answer.after is not None:
                    answer.after()
            finally:
                if self._serving.get(id) is scope:  # a client may use an id twice
                    del self._serving[id]
                self._answered_one.set()
                self._answered_one = anyio.Event()
        if scope.cancelled_caught:
            self._fail(id, CANCELLED, "cancelled")

    def _fail(self, id: RequestId, code: int, message: str, data: object = None) -> None:
        body: dict[str, Any] = {"code": code, "message": message}
        self.send({"id": id, "error": body | ({"data": data} if data is not None else {})})


def _told(error: object) -> RpcError:
    """An error of the client, as far as it can be read."""
    body = cast("dict[str, object]", error) if isinstance(error, dict) else {"message": error}
    code, message = body.get("code"), body.get("message")
    words = message if isinstance(message, str) and message else NOT_READ
    return RpcError(code if isinstance(code, int) else INTERNAL, words)
