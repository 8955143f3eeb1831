"""One language server over pipes: the part of JSON-RPC that diagnostics need. Its messages are bounded and checked."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import anyio
import msgspec

from teamwright import __version__
from teamwright.core.data.extensions.diagnostic import Diagnostic
from teamwright.core.data.extensions.server import ServerFault
from teamwright.core.jsontext import as_object
from teamwright.host.mcp.stdio_client import LONGEST, Framing, ServerPipes, open_program

if TYPE_CHECKING:
    from teamwright.host.sandbox.box import Box

START_SECONDS = 30.0
END_SECONDS = 1.0
MOST_KEPT = 500  # diagnostics per file
MOST_MESSAGE = 2_000
_MOST_HEAD = 8_192
_NO_METHOD = -32601
Fields = dict[str, Any]
Published = Callable[[str, int | None, list[Diagnostic]], None]  # path, version, all diagnostics that now apply to it


def cut_messages(data: bytes, rest: bytearray) -> list[bytes]:
    """Whole messages, each preceded by a header with its length. Raises ValueError for an invalid header."""
    rest += data
    found: list[bytes] = []
    while (end := rest.find(b"\r\n\r\n", 0, _MOST_HEAD)) >= 0:
        size = _size(bytes(rest[:end]))
        if len(rest) < end + 4 + size:
            break
        found.append(bytes(rest[end + 4 : end + 4 + size]))
        del rest[: end + 4 + size]
    if end < 0 and len(rest) > _MOST_HEAD:
        raise ValueError("it sent something that is no message")
    return found


def _size(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and int(value) <= LONGEST:
            return int(value)
    raise ValueError("it sent a message without a sensible length")


def wrap_message(message: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)


_FRAMING = Framing(cut_messages, wrap_message)


@asynccontextmanager
async def open_language_server(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    root: Path,
    options: Fields,
    published: Published,
    box: "Box | None" = None,
) -> AsyncGenerator["LanguageLink"]:
    """Starts it in `cwd` and initialises it. Raises ServerFault if it cannot be started or does not answer in time."""
    async with open_program(argv, env, cwd, _FRAMING, box) as pipes:
        link = LanguageLink(pipes, root, options, published, visible=box is None)
        async with anyio.create_task_group() as group:
            group.start_soon(link.listen)
            try:
                await link.begin()
                yield link
            finally:
                with anyio.CancelScope(shield=True):
                    await link.end()
                group.cancel_scope.cancel()


class LanguageLink:
    """`visible`: it can see our process. A sandboxed server cannot, and would conclude that we are gone."""

    def __init__(
        self, pipes: ServerPipes, root: Path, options: Fields, published: Published, *, visible: bool = True
    ) -> None:
        self._pipes, self._root, self._options, self._published = pipes, root, options, published
        self._visible = visible
        self._waiting: dict[int, tuple[anyio.Event, list[Fields]]] = {}
        self._last = 0
        self.gone = anyio.Event()

    async def begin(self) -> None:
        sync = {"dynamicRegistration": False, "didSave": True}
        can = {
            "textDocument": {"synchronization": sync, "publishDiagnostics": {"versionSupport": True}},
            "workspace": {"configuration": True, "workspaceFolders": True},
        }
        hello = {
            "processId": os.getpid() if self._visible else None,  # so that it ends when we are gone
            "clientInfo": {"name": "teamwright", "version": __version__},
            "rootUri": self._root.as_uri(),
            "rootPath": str(self._root),
            "workspaceFolders": self._folders(),
            "capabilities": can,
            "initializationOptions": self._options,
        }
        answer = await self._request("initialize", hello, START_SECONDS)
        if "result" not in answer:
            raise ServerFault("it refuses to start: " + str(as_object(answer.get("error")).get("message"))[:300])
        await self.notify("initialized", {})
        await self.notify("workspace/didChangeConfiguration", {"settings": self._options})

    async def end(self) -> None:
        with suppress(ServerFault):
            await self._request("shutdown", None, END_SECONDS)
        with suppress(ServerFault):
            await self.notify("exit", None)

    async def notify(self, method: str, params: Any) -> None:
        await self._send({"method": method, "params": params})

    async def _request(self, method: str, params: Any, seconds: float) -> Fields:
        self._last += 1
        id, came, answer = self._last, anyio.Event(), list[Fields]()
        self._waiting[id] = came, answer
        try:
            with anyio.fail_after(seconds):
                await self._send({"id": id, "method": method, "params": params})
                await came.wait()
        except TimeoutError:
            raise ServerFault(f"it did not answer `{method}` within {seconds:g} s") from None
        finally:
            del self._waiting[id]
        if not answer:
            raise ServerFault(f"it ended: {self._pipes.complaint() or 'without a word'}")
        return answer[0]

    async def _send(self, message: Fields) -> None:
        if message.get("params", 1) is None:
            message = {key: value for key, value in message.items() if key != "params"}
        try:
            await self._pipes.send(msgspec.json.encode({"jsonrpc": "2.0", **message}))
        except anyio.BrokenResourceError:
            raise ServerFault(f"it is gone: {self._pipes.complaint() or 'without a word'}") from None

    async def listen(self) -> None:
        try:
            async for data in self._pipes.lines:
                try:
                    message = as_object(msgspec.json.decode(data))
                except (msgspec.DecodeError, RecursionError, ValueError):
                    continue
                with suppress(ServerFault):  # it is gone; waiting callers are told below
                    await self._hear(message)
        finally:
            self.gone.set()
            for came, _ in self._waiting.values():
                came.set()

    async def _hear(self, message: Fields) -> None:
        id, method, params = message.get("id"), message.get("method"), message.get("params")
        if method is None and isinstance(id, int) and id in self._waiting:
            came, answer = self._waiting[id]
            answer.append(message)
            came.set()
        elif method == "textDocument/publishDiagnostics":
            self._publish(as_object(params))
        elif method is not None and id is not None:
            await self._send({"id": id, **self._answer(str(method), as_object(params))})

    def _answer(self, method: str, params: Fields) -> Fields:
        match method:
            case "workspace/configuration":
                items = params.get("items")
                asked = cast("list[Any]", items)[:1_000] if isinstance(items, list) else []
                return {"result": [self._option(str(as_object(item).get("section") or "")) for item in asked]}
            case "workspace/workspaceFolders":
                return {"result": self._folders()}
            case "client/registerCapability" | "client/unregisterCapability" | "window/workDoneProgress/create":
                return {"result": None}
            case _:
                return {"error": {"code": _NO_METHOD, "message": f"no {method[:100]} here"}}

    def _option(self, section: str) -> Any:
        found: Any = self._options
        for part in filter(None, section.split(".")):
            found = as_object(found).get(part)
        return found

    def _folders(self) -> list[Fields]:
        return [{"uri": self._root.as_uri(), "name": self._root.name}]

    def _publish(self, params: Fields) -> None:
        uri, version, found = params.get("uri"), params.get("version"), params.get("diagnostics")
        if not isinstance(uri, str) or not isinstance(found, list):
            return
        rows = cast("list[Any]", found)[:MOST_KEPT]
        kept = [one for row in rows if (one := _diagnostic(as_object(row)))]
        try:
            path = unquote(urlsplit(uri).path)
        except ValueError:
            return
        self._published(path, version if isinstance(version, int) else None, kept)


def _diagnostic(row: Fields) -> Diagnostic | None:
    """None for hints; without a severity it counts as an error."""
    grave = row.get("severity", 1)
    line = as_object(as_object(row.get("range")).get("start")).get("line", 0)
    if grave not in (1, 2) or not isinstance(line, int):
        return None
    code = row.get("code")
    message = str(row.get("message") or "")[:MOST_MESSAGE]
    return Diagnostic(
        line + 1, "error" if grave == 1 else "warning", message, str(code)[:100] if isinstance(code, str | int) else ""
    )
