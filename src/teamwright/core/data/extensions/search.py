"""A web search as data: the query and the results."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct

MOST_TITLE = 200  # characters
MOST_ADDRESS = 2_000
MOST_TEXT = 600
MOST_ANSWER = 8_000


class WebQuery(Struct, frozen=True):
    """`allowed`: only results from these domains and their subdomains; `blocked`: none from these."""

    text: str
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class WebHit(Struct, frozen=True):
    title: str
    url: str
    text: str = ""


class WebFound(Struct, frozen=True):
    """`answer` is text from a provider that searches and reads by itself; plain engines only list."""

    hits: tuple[WebHit, ...]
    answer: str = ""


def kept(hits: Iterable[WebHit], query: WebQuery, most: int) -> tuple[WebHit, ...]:
    """The first valid results, each address once, texts shortened. Filters by domain because not every engine does."""
    found: dict[str, WebHit] = {}
    for hit in hits:
        if len(found) == most:
            break
        if len(hit.url) <= MOST_ADDRESS and _fits(hit.url, query):
            found.setdefault(hit.url, WebHit(_line(hit.title, MOST_TITLE), hit.url, _line(hit.text, MOST_TEXT)))
    return tuple(found.values())


def _fits(url: str, query: WebQuery) -> bool:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in url):
        return False
    inside = not query.allowed or _is_below(host, query.allowed)
    return inside and not _is_below(host, query.blocked)


def _is_below(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _line(text: str, most: int) -> str:
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else line[: most - 1] + "…"
