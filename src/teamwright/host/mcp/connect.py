"""Opens a connection to an MCP server over any transport, and closes it without leaving anything behind."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec.structs
from msgspec import Struct

from teamwright.core.data.extensions.server import Http, Sdk, ServerConfig, ServerFault, Sse, Stdio
from teamwright.core.network_words import network_words
from teamwright.core.text import shown
from teamwright.host.mcp.callbacks import Ears
from teamwright.host.mcp.stdio_client import ServerPipes, open_program
from teamwright.host.process.environment import tool_environment

if TYPE_CHECKING:
    from teamwright.host.mcp.session import McpSession
    from teamwright.host.sandbox.box import Box


class Notes(Struct):
    """What is known about a failure besides the error itself."""

    complaint: str = ""
    status: int | None = None  # of the last HTTP request, if it failed
    host: str = ""  # from its address
    refusal: str = ""  # why signing in failed
    secrets: Any = None  # headers or environment, whose secret values must not be shown

    @property
    def also(self) -> str:
        return f"; its last words: {shown(self.clean(self.complaint))}" if self.complaint else ""

    def clean(self, words: str) -> str:
        from teamwright.core.policies.redaction import redacted, withheld  # noqa: PLC0415  # only when something has gone wrong

        return redacted(words, withheld(self.secrets))


Exchange = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]  # server name, message -> its answer


# (file that names a server, its environment) -> (environment, box to run in)
# A server's file, environment and command -> the environment and the box to run it in.
ServerPlace = Callable[
    [str, Mapping[str, str], tuple[str, ...]], "AbstractAsyncContextManager[tuple[Mapping[str, str], Box | None]]"
]


class McpContext(Struct, frozen=True, kw_only=True):
    """Where servers run, and how long we wait for them."""

    env: Mapping[str, str]
    cwd: Path
    connect_seconds: float
    call_seconds: float
    exchange: Exchange | None = None  # reaches servers inside the program that drives us
    tokens: Path | None = None  # directory for what a person has granted at servers
    sign_in: Callable[[str], Awaitable[None]] | None = None  # shows a person the address for signing in
    more: Callable[[str, str], Awaitable[None]] | None = None  # the same if a server asks for more during a session
    place: ServerPlace | None = None  # where a server program runs; None: without a sandbox


@asynccontextmanager
async def connect(config: ServerConfig, around: McpContext, ears: Ears) -> "AsyncGenerator[McpSession]":
    """Raises ServerFault: at once if it cannot be reached in time, later if the connection breaks."""
    if config.fault:
        raise ServerFault(config.fault)
    notes = Notes(secrets=msgspec.structs.asdict(config.reach))
    limit = anyio.CancelScope(deadline=anyio.current_time() + around.connect_seconds)
    lost = anyio.Event()
    with _as_faults(notes), limit:
        async with _open(config, around, lost, notes) as (read, write):
            from teamwright.host.mcp.session import open_link  # noqa: PLC0415  # loaded in a thread by now

            async with open_link(read, write, lost, ears, around.cwd) as connection:
                limit.deadline = float("inf")
                yield connection
    if limit.cancelled_caught:
        raise ServerFault(f"it did not answer within {around.connect_seconds:g} s{notes.also}")


@asynccontextmanager
async def _open(
    config: ServerConfig, around: McpContext, lost: anyio.Event, notes: Notes
) -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams that the protocol package wants."""
    match config.reach:
        case Stdio(command, args, env):
            clean = tool_environment(around.env, env)
            argv = (command, *args)
            place = nullcontext((clean, None)) if around.place is None else around.place(config.file, clean, argv)
            async with place as (own, box), open_program(argv, own, around.cwd, box=box) as wire:
                try:
                    async with _over(wire, lost) as streams:
                        yield streams
                finally:
                    notes.complaint = wire.complaint()
        case Sdk():
            from teamwright.host.mcp.relay import open_relay  # noqa: PLC0415

            if around.exchange is None:
                raise ServerFault("it lives in a program that drives this one over pipes, and none does")
            async with open_relay(config.name, around.exchange) as wire, _over(wire, lost) as streams:
                yield streams
        case Http() | Sse() as reach:
            await anyio.to_thread.run_sync(load_protocol)
            from teamwright.host.mcp.http import open_http  # noqa: PLC0415

            notes.host = urlsplit(reach.url).netloc.rpartition("@")[2]

            def note(status: int) -> None:
                notes.status = status if status >= 400 else None  # an earlier refusal may have been resolved

            async with (
                _login(config.name, reach, around, notes) as login,
                open_http(reach, around.connect_seconds, around.call_seconds, lost, note, login) as streams,
            ):
                yield streams


@asynccontextmanager
async def _login(name: str, reach: Http | Sse, around: McpContext, notes: Notes) -> AsyncGenerator[Any]:
    """None if a token is configured by hand, or nobody has signed in."""
    if around.tokens is None or any(name.lower() == "authorization" for name in reach.headers):
        yield None
        return
    from teamwright.host.mcp.oauth import DOCUMENT, known_login, new_login  # noqa: PLC0415

    if around.sign_in is None:
        show = None if around.more is None else partial(around.more, name)
        yield await known_login(around.tokens, reach.url, show)
        return

    def refused(why: str) -> None:
        notes.refusal = why

    document = around.env.get(DOCUMENT, "").strip()

    async with new_login(around.tokens, reach.url, around.sign_in, refused, document) as provider:
        yield provider


@asynccontextmanager
async def _over(wire: ServerPipes, lost: anyio.Event) -> AsyncGenerator[tuple[Any, Any]]:
    await anyio.to_thread.run_sync(load_protocol)  # while the program starts
    from teamwright.host.mcp.streams import LineReader, LineWriter, WaitingCall  # noqa: PLC0415

    waiting = WaitingCall()
    yield LineReader(wire, lost, waiting), LineWriter(wire, waiting)


def load_protocol() -> None:
    """Imports the protocol package and keeps its loggers from writing to stderr."""
    import importlib  # noqa: PLC0415
    import logging  # noqa: PLC0415

    importlib.import_module("teamwright.host.mcp.session")
    importlib.import_module("teamwright.host.mcp.http")
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())


@contextmanager
def _as_faults(notes: Notes) -> Generator[None]:
    """Converts transport errors to ours; anything else is a bug and passes unchanged."""
    try:
        yield
    except BaseExceptionGroup as group:
        if group.split(_transport_errors())[1] is not None:
            raise
        raise _fault(_first(group), notes) from None
    except _transport_errors() as error:
        raise _fault(error, notes) from None


def _transport_errors() -> tuple[type[Exception], ...]:
    ours = (ServerFault, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    loaded = sys.modules.get("teamwright.host.mcp.http")
    return (*ours, *loaded.ERRORS) if loaded else ours


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _fault(error: BaseException, notes: Notes) -> ServerFault:
    if isinstance(error, ServerFault):
        return ServerFault(f"{error}{notes.also}", error.kind) if error.kind == "lost" else error
    if notes.status in (401, 403):
        how = notes.refusal or "sign in by `teamwright mcp login`, or give it a token in its headers"
        return ServerFault(f"it wants authorisation (HTTP {notes.status}); {how}", "needs-auth")
    if notes.status:
        why = f"it answered with HTTP status {notes.status}"
    elif found := network_words(error):
        why = f"no connection to {notes.host}: {found}" if notes.host else found
    else:
        why = str(error) or type(error).__name__
    return ServerFault(shown(notes.clean(why)) + notes.also, "lost")
