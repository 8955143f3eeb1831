"""The HTTP server of the hub: lets requests in, routes them, and sets the headers of every answer."""

import gzip
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

import anyio
import msgspec
from aiohttp import WSCloseCode, web
from anyio import to_thread

from teamwright.core.errors import StoreError, TeamwrightError
from teamwright.surfaces.web.server import guard
from teamwright.surfaces.web.server.assets import Assets
from teamwright.surfaces.web.server.errors import NO_FILES, Refused, not_there
from teamwright.surfaces.web.server.guard import Doorman, Rate
from teamwright.surfaces.web.server.keys import Link, Links
from teamwright.surfaces.web.server.log import AccessLog
from teamwright.tools.bounds import visible

COMPRESSED = 1_400  # bytes from which on an answer is compressed
PARTING = 0.5  # seconds for pages to hear that the hub ends
START = 30.0  # seconds that a request waits for the hub to come up
WHO, STATUS = "teamwright.who", "teamwright.status"  # what the log says about a request: its link, how it ended
BYE = '{"type":"bye","reason":"the hub ends"}'
Json = dict[str, Any]
Handler = Callable[["Call"], Awaitable[Any]]


class Call:
    """One request with a valid key: its path, query and body."""

    def __init__(self, request: web.Request, link: Link, names: dict[str, str], body: Json) -> None:
        self.link, self.names, self.body = link, names, body
        self.query = request.query
        self.base = f"{request.scheme}://{request.host}"

    def text(self, name: str, default: str | None = None, most: int = 512 * 1024) -> str:
        """A text from the body; required unless there is a default."""
        value = self.body.get(name, default)
        if not isinstance(value, str) or len(value) > most:
            raise Refused(400, f"`{name}` must be a text")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A number from the query."""
        given = self.query.get(name)
        if given is None:
            return default
        if not re.fullmatch(r"\d{1,15}", given) or not least <= int(given) <= most:
            raise Refused(400, f"`{name}` must be a number from {least} to {most}")
        return int(given)


class Server:
    """`routes` are tried in order. GET only reads; POST acts, and needs a full link."""

    def __init__(self, doorman: Doorman, links: Links, log: AccessLog) -> None:
        self._doorman, self._links, self._log = doorman, links, log
        self._assets = Assets(files("teamwright.surfaces.web") / "static")
        self._requests, self._logins = Rate(guard.MOST_REQUESTS), Rate(guard.MOST_LOGINS)
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []
        self._open: dict[web.WebSocketResponse, web.Request] = {}
        self._told = ""
        self.ready = anyio.Event()  # set when all routes are there
        self.live: Callable[[web.Request, web.WebSocketResponse], Awaitable[None]] | None = None  # attends to a tab

    def add(self, method: str, path: str, handler: Handler) -> None:
        """`{name}` in a path stands for one part of it."""
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]{1,200})", path)
        self._routes.append((method, re.compile(pattern), handler))

    def application(self) -> web.Application:
        app = web.Application(client_max_size=guard.MOST_BODY, middlewares=())
        app.router.add_route("*", "/{tail:.*}", self.answer)
        app.on_shutdown.append(self._say_bye)
        return app

    async def answer(self, request: web.Request) -> web.StreamResponse:
        began, status = time.monotonic(), 500
        try:
            if words := self._doorman.refuses(request.headers):
                raise Refused(403, words)
            if request.path.startswith("/api/") and request.path != "/api/login":
                await self._until_ready()
            if request.path == "/api/live" and request.method == "GET":
                upgraded = await self._upgrade(request)
                status = request.get(STATUS, 101)
                return upgraded
            response = await self._serve(request)
            status = response.status
        except Refused as refused:
            status, response = refused.status, _json({"error": visible(refused.words)} | refused.more, refused.status)
        except web.HTTPRequestEntityTooLarge:
            status, response = 413, _json({"error": "the request is larger than 1 MiB"}, 413)
        except web.HTTPException as error:
            status, response = error.status, _json({"error": "the request was not understood"}, error.status)
        except StoreError as error:
            self._tell(error)
            status, response = 503, _json({"error": "the hub cannot read its links: its terminal says more"}, 503)
        except Exception:  # noqa: BLE001  # the edge of a surface: this answer has the headers of all others, too
            traceback.print_exc()
            response = _json({"error": "something went wrong in the hub: its terminal says what"}, status)
        finally:
            if request.method != "GET" or status in (401, 403, 429) or status >= 500:
                self._log.write(request, request.get(WHO, ""), status, time.monotonic() - began)
        self._finish(request, response)
        return response

    async def _upgrade(self, request: web.Request) -> web.WebSocketResponse:
        """A socket cannot be answered: what goes wrong closes it."""
        self._check_upgrade(request.remote or "")
        socket = web.WebSocketResponse(max_msg_size=64 * 1024, heartbeat=30, compress=False)
        self._open[socket] = request
        try:
            await socket.prepare(request)
            await self._attend(request, socket)
        finally:
            del self._open[socket]
        return socket

    async def _say_bye(self, _: web.Application) -> None:
        with anyio.move_on_after(PARTING):
            async with anyio.create_task_group() as group:
                for socket, request in list(self._open.items()):
                    group.start_soon(_leave, socket, WHO in request)

    def _check_upgrade(self, peer: str) -> None:
        """Keys come on the socket itself, so until then its peer counts."""
        if not self._requests.takes(peer):
            raise Refused(429, "too many requests: wait a minute")
        strangers = [one for one in self._open.values() if one.remote == peer and WHO not in one]
        if len(strangers) >= guard.MOST_STRANGERS:
            raise Refused(429, "too many sockets without a key: close some")

    async def _attend(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        try:
            assert self.live is not None  # ready
            await self.live(request, socket)
        except StoreError as error:
            self._tell(error)
            request[STATUS] = 503
            await socket.close(code=WSCloseCode.INTERNAL_ERROR)
        except Exception:  # noqa: BLE001  # the edge of a surface
            traceback.print_exc()
            request[STATUS] = 500
            await socket.close(code=WSCloseCode.INTERNAL_ERROR)

    def _tell(self, error: Exception) -> None:
        """On the terminal, once: a page asks again and again."""
        words = visible(str(error))
        if words != self._told:
            sys.stderr.write(f"teamwright: {words}\n")
        self._told = words

    async def _until_ready(self) -> None:
        with anyio.move_on_after(START):
            await self.ready.wait()
        if not self.ready.is_set():
            raise Refused(503, "the hub is still starting: try again")

    def _finish(self, request: web.Request, response: web.Response) -> None:
        response.headers.update(guard.COMMON)
        response.headers["Content-Security-Policy"] = self._doorman.policy(request.host)
        if "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        body = response.body
        accepts = "gzip" in request.headers.get("Accept-Encoding", "")
        if (
            accepts
            and isinstance(body, bytes)
            and len(body) > COMPRESSED
            and "Content-Encoding" not in response.headers
        ):
            response.body = gzip.compress(body, 4)
            response.headers["Content-Encoding"] = "gzip"
        if "Content-Encoding" in response.headers:
            response.headers["Vary"] = "Accept-Encoding"

    async def _serve(self, request: web.Request) -> web.Response:
        path, method = request.path, request.method
        if method not in ("GET", "POST"):
            raise Refused(405, "only GET and POST are understood")
        if not path.startswith("/api/"):
            return self._page(request)
        if path == "/api/login" and method == "POST":
            return await self._login(request)
        link = self.link_of(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if not self._requests.takes(link.id if link is not None else request.remote or ""):
            raise Refused(429, "too many requests: wait a minute")
        if link is None:
            raise Refused(401, "a key is needed: open the link that `teamwright web` prints")
        request[WHO] = link.id
        if method == "POST" and path != "/api/logout":
            _check_post(link, path)
        for wanted, pattern, handler in self._routes:
            if wanted == method and (found := pattern.fullmatch(path)):
                body = await _body(request) if method == "POST" else {}
                return await _carried_out(handler, Call(request, link, found.groupdict(), body))
        raise not_there()

    def link_of(self, key: str) -> Link | None:
        return self._links.find(key) if 20 <= len(key) <= 200 else None

    async def _login(self, request: web.Request) -> web.Response:
        if not self._logins.takes(request.remote or ""):
            raise Refused(429, "too many logins: wait a minute")
        token = (await _body(request)).get("token")
        opened = await self._exchange(token) if isinstance(token, str) and token else None
        if opened is None:
            raise Refused(401, "this link was used already or is too old: `teamwright web link` prints a new one")
        link, key = opened
        request[WHO] = link.id
        return _json({"key": key, "role": link.role, "session": link.session, "expires": link.expires})

    async def _exchange(self, token: str) -> tuple[Link, str] | None:
        """In a thread only if it must wait: a page that is left before it has the answer has lost its link."""
        if self._links.busy:
            return await to_thread.run_sync(self._links.open, token)
        return self._links.open(token)

    def _page(self, request: web.Request) -> web.Response:
        """The shell for every page's address, and its files; the same bytes for everybody."""
        if request.method != "GET":
            raise Refused(405, "nothing can be posted here")
        if request.path.startswith("/static/"):
            found = self._assets.find(request.path.removeprefix("/static/"))
            if found is None:
                raise not_there("such file")
            kept = {"Cache-Control": "public, max-age=31536000, immutable"}
            return _file(request, found, kept)
        if request.path != "/" and not re.match(r"/(s|waiting|sessions|links|settings|new)(/|$)", request.path):
            raise not_there("such page")
        return _file(request, self._assets.shell, {"Cache-Control": "no-cache"})


async def _leave(socket: web.WebSocketResponse, known: bool) -> None:  # noqa: FBT001  # from `start_soon`
    with suppress(ConnectionError, RuntimeError):  # it has gone by itself
        if known:
            await socket.send_str(BYE)
        await socket.close(code=WSCloseCode.GOING_AWAY)


def _check_post(link: Link, path: str) -> None:
    """A link acts only where it may look: one for a session neither begins others nor makes links."""
    if link.role == "read":
        raise Refused(403, "this link can only read")
    if link.session and not path.lower().startswith(f"/api/sessions/{link.session.lower()}/"):
        raise Refused(403, "this link is for one session")


def _file(request: web.Request, found: tuple[str, bytes, bytes], headers: dict[str, str]) -> web.Response:
    kind, plain, packed = found
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=packed, headers=headers | {"Content-Type": kind, "Content-Encoding": "gzip"})
    return web.Response(body=plain, headers=headers | {"Content-Type": kind})


async def _body(request: web.Request) -> Json:
    try:
        found = msgspec.json.decode(await request.read() or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body must be a JSON object")
    return found  # pyright: ignore[reportUnknownVariableType]


async def _carried_out(handler: Handler, call: Call) -> web.Response:
    """Run a handler; our errors become sentences, too."""
    try:
        return _json(await handler(call))
    except TimeoutError:
        raise Refused(409, "the session did not answer in time: is its program stopped or very busy?") from None
    except (StoreError, OSError):
        raise Refused(409, NO_FILES) from None
    except TeamwrightError as error:
        raise Refused(409, str(error)) from None


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", charset="utf-8"
    )
