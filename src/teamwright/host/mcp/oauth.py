"""Signs in to MCP servers by authorisation code with PKCE; the answer arrives at a loopback port."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from hmac import compare_digest
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from anyio.abc import Listener, SocketAttribute, SocketStream
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from teamwright.core.text import shown
from teamwright.host.mcp.oauth_legacy import legacy_issuer
from teamwright.host.mcp.oauth_places import check_place, check_proof
from teamwright.host.mcp.oauth_store import Grant, TokenFile

Show = Callable[[str], Awaitable[None]]  # shows the address at which a person agrees
PATH = "/callback"
DOCUMENT = "MCP_OAUTH_CLIENT_METADATA_URL"
PATIENCE = 300.0  # seconds for a person to agree
EARLY = 30.0  # seconds before expiry at which a token counts as expired
_LONGEST = 16 << 10  # bytes of a request's head
_SECONDS = 10.0  # for one request to arrive
_PAGE = "<!doctype html><meta charset=utf-8><title>teamwright</title><p>{}"


async def known_login(folder: Path, url: str, show: Show | None = None) -> OAuthClientProvider | None:
    """Signs in with what was granted before, and renews the token automatically. None if nobody has signed in.

    `show`: if a server asks for more than was granted, a person can grant that too, and the call continues.
    """
    tokens = TokenFile(folder, url)
    grant = await tokens.load()
    if grant is None or grant.tokens is None:
        return None
    again = _Again(show, url, _port(grant))
    provider = _Login(url, _client(again.address), tokens, again.ask, again.result)
    context = provider.context  # so that tokens can be renewed without asking the server first
    context.token_expiry_time = _until(grant)
    try:
        if grant.server is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(grant.server)
        if grant.resource is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(grant.resource)
    except ValidationError:
        return None
    return provider


def _port(grant: Grant) -> int:
    """The port used when access was granted: servers expect the same redirect address again."""
    try:
        client = OAuthClientInformationFull.model_validate(grant.client)
    except ValidationError:
        return 0
    return (client.redirect_uris[0].port if client.redirect_uris else None) or 0


class _Login(OAuthClientProvider):
    refused: Callable[[str], None] | None = None  # told why the sign-in failed

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._catch_up()
        try:
            async with aclosing(super().async_auth_flow(request)) as flow:
                with suppress(StopAsyncIteration):
                    sent = await anext(flow)
                    while True:
                        if sent is not request:
                            check_place(self.context.server_url, str(sent.url))
                        answer = yield sent
                        named = await legacy_issuer(self.context, answer)
                        sent = await flow.asend(answer if named is None else named[0])
                        if named is not None and self.context.oauth_metadata is not None:
                            self.context.oauth_metadata.issuer = named[1].issuer
        except OAuthFlowError as error:  # the caller only learns that there was no response
            if self.refused is not None:
                self.refused(shown(str(error)))
            raise

    async def _perform_authorization(self) -> httpx2.Request:
        check_proof(self.context.oauth_metadata)
        return await super()._perform_authorization()

    async def _catch_up(self) -> None:
        """Reloads an expired token, which another process may have renewed."""
        context = self.context
        async with context.lock:
            if context.is_token_valid() or not isinstance(context.storage, TokenFile):
                return
            grant = await context.storage.load()
            if grant is not None and grant.tokens is not None:
                context.current_tokens = OAuthToken.model_validate(grant.tokens)
                context.token_expiry_time = _until(grant)


def _until(grant: Grant) -> float | None:
    return None if grant.expires_at is None else grant.expires_at - EARLY


@asynccontextmanager
async def new_login(
    folder: Path, url: str, show: Show, refused: Callable[[str], None], document: str = ""
) -> AsyncGenerator[OAuthClientProvider]:
    """Signs in anew. `show` tells the person where to go; the browser returns to us. Grants are saved at the end.

    `document` is the address of a client id metadata document, for servers that accept one instead of a registration.
    """
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port: int = listener.extra(SocketAttribute.local_port)  # noqa: S610
    back = _Callback()
    tokens = TokenFile(folder, url, signing_in=True)

    async def told(address: str) -> None:
        check_place(url, address)
        back.expect(address)
        await show(address)

    own = f"http://127.0.0.1:{port}{PATH}"
    try:
        provider = _Login(url, _client(own), tokens, told, back.result, client_metadata_url=document or None)
    except ValueError as error:
        raise OAuthFlowError(f"{DOCUMENT}: {shown(str(error))}") from None
    provider.refused = refused
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, back.serve)
        try:
            yield provider
        finally:
            group.cancel_scope.cancel()
    if provider.context.current_tokens is not None:
        await tokens.set_places(provider.context.oauth_metadata, provider.context.protected_resource_metadata)


def _client(redirect: str) -> OAuthClientMetadata:
    """A public client: this program cannot keep a secret."""
    return OAuthClientMetadata(
        client_name="Teamwright",
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method="none",  # noqa: S106
    )


class _Again:
    """A sign-in during a session: listens only from the question until its answer."""

    def __init__(self, show: Show | None, server: str, port: int) -> None:
        self._show, self._server, self._port = show, server, port
        self._back: _Callback | None = None
        self._listener: Listener[SocketStream] | None = None
        self.address = f"http://127.0.0.1:{port}{PATH}" if port else f"http://127.0.0.1{PATH}"

    async def ask(self, address: str) -> None:
        if self._show is None or not self._port:
            raise OAuthFlowError("what was agreed has run out, or is not enough: sign in by `teamwright mcp login`")
        check_place(self._server, address)
        back = _Callback()
        back.expect(address)
        try:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)
        except OSError:
            raise OAuthFlowError(f"port {self._port}, where the answer is to come, is in use: try it again") from None
        self._listener, self._back = listener, back
        try:
            await self._show(address)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await listener.aclose()
            raise

    async def result(self) -> AuthorizationCodeResult:
        listener, back = self._listener, self._back
        assert listener is not None and back is not None
        found: AuthorizationCodeResult | None = None
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, back.serve)
            try:
                with anyio.move_on_after(PATIENCE):
                    found = await back.result()
            finally:
                group.cancel_scope.cancel()
        if found is None:
            raise OAuthFlowError(f"nobody agreed within {PATIENCE:g} s")
        return found


class _Callback:
    """A web server for one answer, the one that carries the state of our question. Other requests are rejected."""

    def __init__(self) -> None:
        self.state: str | None = None  # no answer can be ours before the person was sent to the server
        self._came = anyio.Event()
        self._found: dict[str, str] = {}

    def expect(self, address: str) -> None:
        """Sets the state that the answer must carry, from the address the person is sent to."""
        self.state = parse_qs(urlsplit(address).query).get("state", [None])[0]

    async def result(self) -> AuthorizationCodeResult:
        await self._came.wait()
        if "error" in self._found:
            why = self._found.get("error_description") or self._found["error"]
            raise OAuthFlowError(f"the server did not agree: {shown(why)}")
        return AuthorizationCodeResult(
            code=self._found["code"], state=self._found.get("state"), iss=self._found.get("iss")
        )

    async def serve(self, stream: SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_SECONDS):
                status, words = self._take(await _head(stream))
                page = _PAGE.format(words).encode()
                head = (
                    f"HTTP/1.1 {status}",
                    "content-type: text/html",
                    f"content-length: {len(page)}",
                    "cache-control: no-store",
                    "referrer-policy: no-referrer",
                    "connection: close",
                )
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # its answer has arrived already
                    await stream.send("\r\n".join((*head, "", "")).encode() + page)

    def _take(self, head: bytes) -> tuple[str, str]:
        given = _query(head)
        if given is None:
            return "404 Not Found", "There is nothing here."
        found = {key: values[0] for key, values in given.items()}
        if "code" not in found and "error" not in found:
            return "400 Bad Request", "This is not an answer of an authorisation server."
        asked, said = (self.state or "").encode(), given.get("state", [])
        if not asked or len(said) != 1 or not compare_digest(said[0].encode(errors="replace"), asked):
            return "403 Forbidden", "This answers no question that was asked here. The login still waits."
        if any(len(values) > 1 for values in given.values()):
            return "400 Bad Request", "This says something twice, so it is not an answer of an authorisation server."
        if not self._came.is_set():
            self._found = found
            self._came.set()
        return "200 OK", "You can close this window: the terminal says how it went."


def _query(head: bytes) -> dict[str, list[str]] | None:
    """The query the browser returned with; None if it asks for another page."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or words[0] != "GET":
        return None
    try:
        target = urlsplit(words[1])
    except ValueError:
        return None
    if target.path != PATH:
        return None
    try:
        return parse_qs(target.query, max_num_fields=20)
    except ValueError:
        return {}


async def _head(stream: SocketStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _LONGEST:
        try:
            head += await stream.receive(_LONGEST)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            break
    return head
