"""Queries the search engine that a person chose: a SearXNG instance, or Brave. Results are never fetched.

The person chooses the address, so it may be on this machine. Redirects are not followed, so that a key stays with its
host.
"""

import html
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

from teamwright.core.data.extensions.search import WebFound, WebHit, WebQuery, kept
from teamwright.core.errors import ToolError
from teamwright.core.jsontext import as_object
from teamwright.core.text import shown

if TYPE_CHECKING:
    from aiohttp import ClientResponse

BRAVE = "https://api.search.brave.com/res/v1/web/search"
MOST_BYTES = 2_000_000
MOST_SECONDS = 20.0
_TAG = re.compile(r"<[^<>]{0,200}>")


class Engine(Struct, frozen=True):
    kind: Literal["searxng", "brave"]
    url: str
    key: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]


async def search_engine(
    engine: Engine, query: WebQuery, most: int, env: Mapping[str, str], *, seconds: float = MOST_SECONDS
) -> WebFound:
    """Raises ToolError, which never holds the key or a password of the address."""
    try:
        with anyio.fail_after(seconds):
            return WebFound(kept(_hits(engine, await _ask(engine, _params(engine, query, most), env)), query, most))
    except TimeoutError:
        raise _failed(engine, f"did not answer within {seconds:g} seconds") from None


def _params(engine: Engine, query: WebQuery, most: int) -> dict[str, str]:
    """Engines take domains as words of the query."""
    sites = " OR ".join(f"site:{domain}" for domain in query.allowed)
    words = [query.text, f"({sites})" if len(query.allowed) > 1 else sites, *(f"-site:{d}" for d in query.blocked)]
    text = " ".join(filter(None, words))
    return {"q": text, "format": "json"} if engine.kind == "searxng" else {"q": text, "count": str(most)}


async def _ask(engine: Engine, params: Mapping[str, str], env: Mapping[str, str]) -> bytes:
    import aiohttp  # noqa: PLC0415
    from yarl import URL  # noqa: PLC0415

    from teamwright.host.web.one_request import one_request  # noqa: PLC0415

    try:
        url = URL(engine.url)
        if engine.key:
            url = url.with_user(None)  # send just one login: the key configured for it
        if engine.kind == "searxng" and url.name != "search":
            url = url / "search"
        async with one_request("GET", url.update_query(params), _headers(engine), env) as response:
            return await _read(engine, response)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _failed(engine, f"could not be reached ({_told(error, engine)})") from None


def _headers(engine: Engine) -> dict[str, str]:
    headers = {"User-Agent": "teamwright", "Accept": "application/json", "Accept-Encoding": "identity"}
    if not engine.key:
        return headers
    if engine.kind == "brave":
        return headers | {"X-Subscription-Token": engine.key}
    return headers | {"Authorization": f"Bearer {engine.key}"}


async def _read(engine: Engine, response: "ClientResponse") -> bytes:
    if response.status != 200:
        raise _refused(engine, response.status)
    body = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > MOST_BYTES:
            raise _failed(engine, f"answered with more than {MOST_BYTES:,} bytes")
    return bytes(body)


def _refused(engine: Engine, status: int) -> ToolError:
    if 300 <= status < 400:
        return _failed(engine, f"redirects (status {status}), which is not followed; webSearch.url must be where it is")
    if status == 403 and engine.kind == "searxng":
        return _failed(engine, "answered with status 403; most often `json` is missing in its `search.formats`")
    if status in (401, 403):
        return _failed(engine, f"refuses the key (status {status})")
    if status == 429:
        return _failed(engine, "wants fewer requests (status 429); wait before you search again")
    return _failed(engine, f"answered with status {status}")


def _failed(engine: Engine, what: str) -> ToolError:
    return ToolError(f"The web search failed: {shown(engine.host, 100)} {what}.")


def _told(error: BaseException, engine: Engine) -> str:
    from teamwright.core.policies.redaction import redacted  # noqa: PLC0415  # only when something has gone wrong

    user = urlsplit(engine.url).netloc.rpartition("@")[0]
    parts = (engine.key, user, user.partition(":")[2])
    return shown(redacted(str(error) or type(error).__name__, [part for part in parts if len(part) > 3]))


def _hits(engine: Engine, data: bytes) -> list[WebHit]:
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise _failed(engine, "answered with something that is not JSON") from None
    if engine.kind == "brave":
        found = as_object(found).get("web")
    rows = as_object(found).get("results")
    text = "description" if engine.kind == "brave" else "content"
    fields = [as_object(row) for row in cast("list[Any]", rows)] if isinstance(rows, list) else []
    return [WebHit(_plain(row.get("title")), str(row.get("url") or ""), _plain(row.get(text))) for row in fields]


def _plain(value: Any) -> str:
    """Removes tags, with which engines highlight matches."""
    return html.unescape(_TAG.sub("", value[:10_000])) if isinstance(value, str) else ""
