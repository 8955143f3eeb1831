"""HTTP client for all model calls. Imported only when a provider is opened, because aiohttp is heavy."""

import errno
import os
import ssl
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from teamwright.core.errors import ModelError
from teamwright.core.proxies import proxy_for
from teamwright.models import faults
from teamwright.models.faults import Endpoint, Failed
from teamwright.models.silence import ServerSilence
from teamwright.models.wires.pieces import Bytes
from teamwright.models.wires.sse import EventReader, EventTooLong


@contextmanager
def _empty_store() -> Generator[None]:
    """Hides the machine's certificates while aiohttp is imported: it would read all of them for a context that we never
    use.

    That context then trusts nobody, so using it by mistake fails closed.
    """
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _empty_store():
    import aiohttp
    from aiohttp.abc import AbstractStreamWriter

CONNECT = 30.0  # seconds for DNS, proxy, connection and TLS together
CHUNK = 120 * 1024  # bytes of a body per write
MOST_STREAMED = 512 * 1024 * 1024  # bytes of one answer on the wire; the draft bounds the reply itself
MOST_WHOLE = 32 * 1024 * 1024
MOST_ERROR = 64 * 1024
_SHORTEST = 4  # characters of a password: shorter ones also occur in ordinary words
LINGER = 0.1  # seconds a server gets to close a stream after its last event, so that the connection can be reused


class StreamListener(Protocol):
    """Consumes one answer as it arrives."""

    @property
    def finished(self) -> bool: ...

    @property
    def heard(self) -> int:
        """Grows with every event that says something, but not with events that only keep the connection open."""
        ...

    def hear(self, event: str, data: bytes) -> None: ...

    def hear_whole(self, data: bytes) -> None:
        """Takes an answer that was not streamed, as one JSON object."""
        ...


class _Body(aiohttp.Payload):
    """Writes pieces in a row under one Content-Length, without joining them all or encoding them again."""

    def __init__(self, pieces: Sequence[Bytes], silence: ServerSilence, left: Callable[[], None]) -> None:
        super().__init__(pieces, content_type="application/json")
        self._pieces, self._silence, self._left = pieces, silence, left
        self.sent = False
        self._size = sum(map(len, pieces))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self._write_all(writer)
        self.sent = True
        self._left()
        self._silence.broken()

    async def _write_all(self, writer: AbstractStreamWriter) -> None:
        if (self._size or 0) <= CHUNK:
            await self._send(writer, self._pieces)
            return
        waiting: list[Bytes] = []
        size = 0
        for piece in self._pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= CHUNK:
                await self._send(writer, waiting)
                waiting, size = [], 0
        if waiting:
            await self._send(writer, waiting)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await self.write(writer)

    async def _send(self, writer: AbstractStreamWriter, pieces: Sequence[Bytes]) -> None:
        self._silence.broken()
        await writer.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))


class HttpClient:
    """A shared session, opened at the first request; belongs to the event loop that made it."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        silence: float = 60.0,
        version: str = "",
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """`meanwhile` is called once, when the first request has left: work can be done until the server answers."""
        self._env, self._meanwhile = env, meanwhile
        self._agent = f"teamwright/{version}" if version else "teamwright"
        self._silence = silence
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def exchange(
        self, place: Endpoint, url: str, headers: Mapping[str, str], body: Sequence[Bytes], listener: StreamListener
    ) -> None:
        """Sends one request and passes the answer to `listener`. Every failure is raised as Failed."""
        silence = ServerSilence(self._silence)
        data = _Body(body, silence, self._has_left)
        try:
            with silence.scope:
                await self._exchange(place, url, headers, data, listener, silence)
            if silence.scope.cancelled_caught:
                raise faults.silent(place, self._silence)
        except ModelError as error:  # a server may echo our own key
            error.args = (_without_keys(str(error), url, headers),)
            error.lost = data.sent and error.status is None
            raise

    async def _exchange(
        self,
        place: Endpoint,
        url: str,
        headers: Mapping[str, str],
        body: "_Body",
        listener: StreamListener,
        silence: ServerSilence,
    ) -> None:
        try:
            async with self._open().post(
                url,
                data=body,
                headers=headers,
                allow_redirects=False,  # the key must not go to another host
                proxy=(proxy := _proxy(url, self._env)),
                ssl=await self._context(url, proxy),
            ) as response:
                silence.broken()
                if response.status != 200:
                    raise await _refused(place, response, self._silence)
                await _listen(place, response, listener, silence)
        except aiohttp.ClientError as error:
            raise _broken(place, error, self._silence) from error
        except EventTooLong as error:
            raise faults.too_long(place) from error
        except OSError as error:  # includes timeouts
            raise _broken(place, error, self._silence) from error

    def _has_left(self) -> None:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()

    async def fetch(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        limit: float,
        body: bytes | None = None,
        most: int = 1024 * 1024,
    ) -> bytes:
        """Fetches or posts for a small document; empty if the server has none or does not answer in time."""
        with anyio.move_on_after(limit), suppress(aiohttp.ClientError, OSError):
            proxy = _proxy(url, self._env)
            tls = await self._context(url, proxy)
            async with self._open().request(
                "GET" if body is None else "POST",
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=proxy,
                ssl=tls,
            ) as response:
                data = await _read(response, most)
                if response.status == 200 and len(data) <= most:
                    return data
        return b""

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT, sock_connect=CONNECT),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self._agent, "Accept-Encoding": "identity"},
                trust_env=False,  # it would search ~/.netrc before every request and send what it holds
            )
        return self._session

    async def _context(self, url: str, proxy: str | None) -> ssl.SSLContext | bool:
        if not url.startswith("https:") and not (proxy or "").startswith("https:"):
            return True  # unused for http; the default context would trust nobody
        if self._tls is None:
            self._tls = await anyio.to_thread.run_sync(make_tls, self._env)
        return self._tls


def _without_keys(words: str, url: str, headers: Mapping[str, str]) -> str:
    from teamwright.core.policies.redaction import redacted, secrets_of  # noqa: PLC0415  # only when something has gone wrong

    user = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    sent = [word for value in secrets_of(headers) for word in (value, value.rpartition(" ")[2])]
    parts = [part for part in (*sent, user, user.partition(":")[2]) if len(part) >= _SHORTEST]
    return redacted(words, parts)


def make_tls(env: Mapping[str, str]) -> ssl.SSLContext:
    """A context that trusts what the machine trusts, plus the file in SSL_CERT_FILE."""
    context = ssl.create_default_context()  # respects the process's own SSL_CERT_FILE
    file = env.get("SSL_CERT_FILE")
    if file and (file != os.environ.get("SSL_CERT_FILE") or not os.access(file, os.R_OK)):
        try:
            context.load_verify_locations(cafile=file)
        except OSError as error:
            text = (
                f"SSL_CERT_FILE names {file}, which cannot be used ({faults.clean(str(error))}). Correct or unset it."
            )
            raise ModelError(text, "config") from None
    return context


def _proxy(url: str, env: Mapping[str, str]) -> str | None:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    try:
        return proxy_for(parts.scheme, host, port, env)
    except ValueError as error:
        raise ModelError(str(error), "config") from None


async def _listen(
    place: Endpoint, response: aiohttp.ClientResponse, listener: StreamListener, silence: ServerSilence
) -> None:
    kind = response.content_type
    if kind == "application/json":
        return listener.hear_whole(await _read_whole(place, response))
    if kind == "text/html":
        raise faults.not_a_model(place, kind)
    reader, total = EventReader(), 0
    while chunk := await response.content.readany():
        total += len(chunk)
        if total > MOST_STREAMED:
            raise faults.too_long(place)
        heard, comments, arrived = listener.heard, reader.comments, reader.feed(chunk)
        for event, data in arrived:
            listener.hear(event, data)
            if listener.finished:
                return await _end(response)
        if listener.heard != heard:
            silence.broken()
        elif arrived or reader.growing or reader.comments > comments:
            silence.pinged()
    return None


async def _read_whole(place: Endpoint, response: aiohttp.ClientResponse) -> bytes:
    """The complete body; half a JSON object is useless."""
    data = await _read(response, MOST_WHOLE)
    if len(data) > MOST_WHOLE:
        raise faults.too_long(place)
    return data


async def _end(response: aiohttp.ClientResponse) -> None:
    """Reads to the end of the body, so that the connection can serve the next request."""
    if not response.content.at_eof():
        with anyio.move_on_after(LINGER), suppress(aiohttp.ClientError, OSError):
            while await response.content.readany():
                pass


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, up to slightly more than `most` bytes."""
    parts: list[bytes] = []
    size = 0
    while size <= most and (chunk := await response.content.readany()):
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)


async def _refused(place: Endpoint, response: aiohttp.ClientResponse, seconds: float) -> Failed:
    data = b""
    with anyio.move_on_after(seconds / 2), suppress(aiohttp.ClientError, OSError):  # the status is enough
        data = await _read(response, MOST_ERROR)
    kind, message = faults.read_error(data[:MOST_ERROR])
    if 300 <= response.status < 400:
        message = faults.clean(response.headers.get("Location", ""))
    after = faults.read_patience(response.headers, time.time())
    return faults.by_status(place, response.status, kind, message, after)


def _broken(place: Endpoint, error: aiohttp.ClientError | OSError, silence: float) -> Failed:
    """Explains a network error."""
    host, check = place.host, "Check the network, HTTPS_PROXY and the base URL."
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return faults.by_certificate(place, error.certificate_error)
        case aiohttp.ClientConnectorDNSError():
            return Failed(f"Cannot resolve {host}. {check}", "network", tries="few")
        case aiohttp.ClientProxyConnectionError():
            text = f"Cannot connect to the proxy for {host} ({_why(error)}). Check HTTPS_PROXY."
            return Failed(text, "network", tries="few")
        case aiohttp.ClientHttpProxyError():
            text = f"The proxy refuses to connect to {host} ({error.status} {faults.clean(error.message)})."
            tries = "many" if error.status >= 500 else "no"
            return Failed(f"{text} Check HTTPS_PROXY.", "network", status=error.status, tries=tries)
        case aiohttp.ClientConnectorSSLError():
            text = f"No TLS connection to {host} ({_why(error)}). Is {place.base_name} right about https?"
            return Failed(text, "network", tries="few")
        case aiohttp.ClientConnectorError() if error.os_error.errno == errno.ECONNREFUSED:
            text = f"Cannot connect to {host}: connection refused. Is the server running? {check}"
            return Failed(text, "network", tries="few")
        case aiohttp.ConnectionTimeoutError():
            text = f"No connection to {host} within {CONNECT:g} seconds. Is the server running? {check}"
            return Failed(text, "network", tries="many")
        case aiohttp.InvalidURL():
            return Failed(f"The address of {host} is not a URL. Check {place.base_name}.", "config")
        case TimeoutError():
            return faults.silent(place, silence)
        case aiohttp.ClientConnectorError():
            return Failed(f"Cannot connect to {host} ({_why(error)}). {check}", "network", tries="many")
        case aiohttp.ClientPayloadError():
            return faults.cut(place)
        case _:
            return Failed(f"The connection to {host} broke ({_why(error)}).", "network", tries="many")


def _why(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return faults.clean(text) or type(error).__name__
