"""Runs the hub until a signal ends it. No session ends with it."""

import logging
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from anyio import to_thread

from teamwright.store.files.paths import Home
from teamwright.surfaces.web.server.guard import Doorman
from teamwright.surfaces.web.server.keys import Links
from teamwright.surfaces.web.server.log import AccessLog
from teamwright.surfaces.web.server.serve import Server

CLOSE = 1.0  # seconds for open requests to end

Part = Callable[[], Coroutine[Any, Any, None]]


async def serve(
    home: Home,
    env: Mapping[str, str],
    links: Links,
    listening: socket.socket,
    *,
    names: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve the page and its files at once; its requests wait until the code that knows sessions is imported."""
    port = listening.getsockname()[1]
    server = Server(Doorman(port, secure=tls is not None, names=names), links, AccessLog(home.logs))
    logging.getLogger("aiohttp.server").addFilter(_is_ours)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=CLOSE, handle_signals=False)
    await runner.setup()
    await web.SockSite(runner, listening, ssl_context=tls).start()
    async with anyio.create_task_group() as group:
        try:
            for part in await to_thread.run_sync(_parts, home, env, links, server):
                group.start_soon(part)
            server.ready.set()
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                async for _ in signals:
                    break
        finally:  # requests under way are answered while what they read from is still open
            with anyio.CancelScope(shield=True), anyio.move_on_after(2 * CLOSE):
                await runner.cleanup()
        group.cancel_scope.cancel()


def _is_ours(record: logging.LogRecord) -> bool:
    """Not a request that was malformed: whoever sent it has its answer, and the terminal would fill with tracebacks."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _parts(home: Home, env: Mapping[str, str], links: Links, server: Server) -> list[Part]:
    """Handlers of the server, and what runs beside it. Imports take half a second: call it in a thread."""
    from teamwright.surfaces.web.doing.acts import Acts  # noqa: PLC0415
    from teamwright.surfaces.web.live.socket import LiveTabs  # noqa: PLC0415
    from teamwright.surfaces.web.reading.pages import Pages  # noqa: PLC0415
    from teamwright.surfaces.web.sessions.hub import Hub  # noqa: PLC0415

    hub = Hub(home, env)
    pages = Pages(hub, links)
    live = LiveTabs(hub, pages, links)
    for part in (pages, Acts(hub, links), live):
        part.add_to(server)
    return [hub.run, live.run]
