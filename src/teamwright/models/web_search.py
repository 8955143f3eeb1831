"""Searches the web with a provider's own tool, in a request outside the conversation.

Conversation requests stay unchanged, because the blocks of such a tool can only be sent back to the provider that made
them.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from teamwright.core.data.extensions.search import MOST_ANSWER, WebFound, WebHit, WebQuery
from teamwright.core.data.message import Message, Reply, Request, Text, Usage
from teamwright.core.errors import ModelError
from teamwright.core.jsontext import as_list, as_object
from teamwright.core.ports import OnDelta
from teamwright.models import faults
from teamwright.models.faults import Endpoint, host_of
from teamwright.models.http import HttpClient
from teamwright.models.retry import Reach, persist
from teamwright.models.wires.anthropic import VERSION
from teamwright.models.wires.pieces import encode

MOST_SEARCHES = 3  # per request
MOST_OUTPUT = 4_096  # tokens
PROMPT = """\
Search the web for this, then say in at most 300 words what you found, each fact with its source:

{}"""
Fields = dict[str, Any]
Wire = Literal["anthropic", "openai"]


class SearchModel:
    """One search. `found` is set after `reply`, whose message holds only the text."""

    def __init__(
        self,
        http: HttpClient,
        query: WebQuery,
        *,
        wire: Wire,
        reach: Reach,
    ) -> None:
        self._http, self._query, self._reach = http, query, reach
        self._wire: Wire = wire
        root = reach.base.rstrip("/")
        self._url = f"{root.removesuffix('/v1')}/v1/messages" if wire == "anthropic" else f"{root}/responses"
        self.found = WebFound(())

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        """Raises ModelError, also if the provider's search failed."""
        name = request.model.partition("/")[2].removesuffix("[1m]")
        reach, host = self._reach, host_of(self._url)
        sent = bool(reach.headers)
        place = Endpoint(host, name, reach.key_name, reach.base_name, key_sent=sent, wire=self._wire)
        headers = {"Accept": "application/json", **reach.headers}
        if self._wire == "anthropic":
            headers["anthropic-version"] = VERSION
        body = encode(_messages(name, self._query) if self._wire == "anthropic" else _responses(name, self._query))

        async def attempt() -> Reply:
            began, listener = reach.patience.clock(), _WholeReply(place)
            await self._http.exchange(place, self._url, headers, [body], listener)
            read = _read_messages if self._wire == "anthropic" else _read_responses
            self.found, usage = read(listener.fields(), place)
            message = Message("assistant", (Text(self.found.answer),), request.model)
            return Reply(message, "end_turn", usage, seconds=reach.patience.clock() - began)

        return await persist(attempt, reach.patience, reach.brake, on_delta)


class _WholeReply:
    """Receives an answer that is not streamed."""

    finished, heard = False, 0

    def __init__(self, place: Endpoint) -> None:
        self._place, self._data = place, b""

    def hear(self, event: str, data: bytes) -> None:
        raise faults.garbled(self._place, f"{event}: events, where one object was asked for")

    def hear_whole(self, data: bytes) -> None:
        self._data = data

    def fields(self) -> Fields:
        try:
            return as_object(msgspec.json.decode(self._data))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise faults.garbled(self._place, str(error)) from error


def _domains(query: WebQuery) -> Fields:
    found = {"allowed_domains": list(query.allowed), "blocked_domains": list(query.blocked)}
    return {name: domains for name, domains in found.items() if domains}


# --- Anthropic's Messages API


def _messages(model: str, query: WebQuery) -> Fields:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": MOST_SEARCHES, **_domains(query)}
    said = {"role": "user", "content": PROMPT.format(query.text)}
    return {"model": model, "max_tokens": MOST_OUTPUT, "tools": [tool], "messages": [said]}


def _read_messages(answer: Fields, place: Endpoint) -> tuple[WebFound, Usage]:
    """Titles and addresses come from the results; page text comes only from the answer's citations."""
    blocks, words, hits, fault = list(_rows(answer.get("content"))), "", dict[str, WebHit](), ""
    for block in blocks:
        if block.get("type") == "web_search_tool_result":
            content = block.get("content")
            fault = str(as_object(content).get("error_code") or fault)
            for row in _rows(content):
                _add(hits, row)
        elif block.get("type") == "text":
            words += str(block.get("text") or "")
            for cited in _rows(block.get("citations")):
                _add(hits, cited, str(cited.get("cited_text") or ""))
    if fault and not hits:
        raise _no_search(place, fault)
    said = as_object(answer.get("usage"))
    usage = Usage(
        _count(said, "input_tokens"),
        _count(said, "output_tokens"),
        _count(said, "cache_read_input_tokens"),
        _count(said, "cache_creation_input_tokens"),
    )
    return WebFound(tuple(hits.values()), _cut(words)), usage


# --- OpenAI's Responses API: chat completions have the tool for a few models only, and without domains


def _responses(model: str, query: WebQuery) -> Fields:
    domains = _domains(query)
    tool: Fields = {"type": "web_search", **({"filters": domains} if domains else {})}
    return {
        "model": model,
        "input": PROMPT.format(query.text),
        "tools": [tool],
        "include": ["web_search_call.action.sources"],
        "max_output_tokens": MOST_OUTPUT,
        "store": False,
    }


def _read_responses(answer: Fields, place: Endpoint) -> tuple[WebFound, Usage]:
    words, cited, listed, fault = "", dict[str, WebHit](), dict[str, WebHit](), ""
    for item in _rows(answer.get("output")):
        if item.get("type") == "web_search_call":
            fault = "failed" if item.get("status") == "failed" else fault
            for row in _rows(as_object(item.get("action")).get("sources")):
                _add(listed, row)
        for part in _rows(item.get("content")):
            words += str(part.get("text") or "")
            for row in _rows(part.get("annotations")):
                _add(cited, row)
    hits = listed | cited  # a source that is never cited has no title
    if fault and not hits:
        raise _no_search(place, fault)
    said = as_object(answer.get("usage"))
    cached = _count(as_object(said.get("input_tokens_details")), "cached_tokens")
    usage = Usage(max(_count(said, "input_tokens") - cached, 0), _count(said, "output_tokens"), cached)
    return WebFound(tuple((cited | hits).values()), _cut(words)), usage


def _no_search(place: Endpoint, why: str) -> ModelError:
    return ModelError(f"{place.host} could not search ({faults.clean(why)}).", "server")


def _add(hits: dict[str, WebHit], row: Fields, text: str = "") -> None:
    url = row.get("url")
    if not isinstance(url, str) or not url:
        return
    before = hits.get(url, WebHit("", url))
    title = before.title or str(row.get("title") or "")
    hits[url] = WebHit(title, url, " … ".join(filter(None, (before.text, text))))


def _cut(words: str) -> str:
    return words if len(words) <= MOST_ANSWER else words[:MOST_ANSWER] + "…"


def _count(said: Fields, name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _rows(value: Any) -> Iterator[Fields]:
    return map(as_object, as_list(value))
