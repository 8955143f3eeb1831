"""Wire format of OpenAI's chat completions, streamed, in the variants of llama.cpp, vLLM, Ollama and others."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.message import (
    Block,
    Image,
    Message,
    Opaque,
    PromptRead,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    words_of,
)
from teamwright.core.errors import ModelError
from teamwright.core.policies.normalize import fit_id, fit_name
from teamwright.core.ports import OnDelta
from teamwright.models import faults
from teamwright.models.faults import Endpoint, host_of
from teamwright.models.http import HttpClient
from teamwright.models.local_server import LocalServer, ask_server
from teamwright.models.retry import Reach, persist
from teamwright.models.wires.draft import ReplyDraft, finished, read_json, tokens
from teamwright.models.wires.pieces import Bytes, Once, Piece, Pieces, encode, row

BASE = "https://api.openai.com/v1"
LEFT_OUT = "(thinking left out)"
NOTHING = "(no output)"
SHOWN_BELOW = "(images follow)"
WINDOW_LIMIT = 2.0  # seconds to ask a server for its window
_EFFORTS = {"xhigh": "high", "max": "high"}


class OpenAI:
    """One endpoint of the chat completions API."""

    def __init__(
        self,
        http: HttpClient,
        reach: Reach,
        *,
        wire: "OpenAIWire | None" = None,
    ) -> None:
        self._http, self._reach = http, reach
        self._base = reach.base.rstrip("/")
        self._host = host_of(self._base)
        self._wire = wire or OpenAIWire()
        self._server: LocalServer | None = None  # as last reported

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        name = request.model.partition("/")[2].removesuffix("[1m]")
        reach = self._reach
        sent = bool(reach.headers)
        place = Endpoint(self._host, name, reach.key_name, reach.base_name, key_sent=sent, wire="openai")
        headers = {"Accept": "text/event-stream", **reach.headers}
        body = self._wire.body(request, self._options(request, name))

        async def attempt() -> Reply:
            began = reach.patience.clock()
            answer = OpenAIStream(request.model, place, on_delta, sent=sum(map(len, body)))
            await self._http.exchange(place, f"{self._base}/chat/completions", headers, body, answer)
            return answer.reply(reach.patience.clock() - began)

        reply = await persist(attempt, reach.patience, reach.brake, on_delta)
        if self._server is not None and self._server.idle:
            self._server = None  # the model is loaded now, so ask again
        return reply

    async def server(self, name: str, limit: float = WINDOW_LIMIT) -> LocalServer | None:
        """The server's description of itself, asked once, and again after a reply if it was not ready. None for
        OpenAI's own service."""
        if self._base == BASE:
            return None
        if self._server is None:

            async def fetch(url: str, body: bytes | None) -> bytes:
                return await self._http.fetch(url, self._reach.headers, limit=2 * limit, body=body)

            self._server = await ask_server(fetch, self._base, name, limit)
        return self._server

    def _options(self, request: Request, name: str) -> dict[str, Any]:
        """Everything but the conversation, always in this order."""
        options: dict[str, Any] = {"model": name, "stream": True, "stream_options": {"include_usage": True}}
        if most := request.max_output or self._reach.max_output:
            options["max_completion_tokens" if self._base == BASE else "max_tokens"] = most
        if isinstance(request.effort, str):
            options["reasoning_effort"] = _EFFORTS.get(request.effort, request.effort)
        if self._server is not None and self._server.name == "llama.cpp":
            options["return_progress"] = True  # other servers may reject unknown options
        return options


# --- the request


class OpenAIWire:
    """Caches the encoded bytes of messages. One instance serves all models of a provider."""

    def __init__(self) -> None:
        self.messages = Pieces(_piece)
        self._system = Once(_system)
        self._tools = Once(_tools)

    def body(self, request: Request, options: Mapping[str, Any]) -> list[Bytes]:
        parts: list[Bytes] = [encode(options)[:-1]]
        if tools := self._tools.of(request.tools):
            parts += [b',"tools":[', tools, b"]"]
        said = self.messages.row(request.messages, request.model)
        if system := self._system.of(request.system):
            said.insert(0, system)
        return [*parts, b',"messages":[', *row(said), b"]}"]


def _system(parts: tuple[str, ...]) -> bytes:
    text = "\n\n".join(part for part in parts if part.strip())
    return b"," + encode({"role": "system", "content": text}) if text else b""


def _tools(specs: tuple[ToolSpec, ...]) -> bytes:
    functions = ({"name": s.name, "description": s.description, "parameters": dict(s.schema)} for s in specs)
    return b",".join(encode({"type": "function", "function": function}) for function in functions)


def _piece(message: Message, own: bool) -> Piece:  # noqa: FBT001 - the cache's key
    said = _assistant(message, own=own) if message.role == "assistant" else _user(message, own=own)
    return Piece(b"".join(b"," + encode(part) for part in said))


def _assistant(message: Message, *, own: bool) -> list[dict[str, Any]]:
    calls = [
        {
            "id": call.id if own else fit_id(call.id),
            "type": "function",
            "function": {"name": fit_name(name), "arguments": bytes(input).decode()},
        }
        for call in message.calls
        for name, input in [call.made]
    ]
    said: dict[str, Any] = {"role": "assistant", "content": message.text if message.text.strip() else None}
    if calls:
        said["tool_calls"] = calls
    elif said["content"] is None:
        said["content"] = LEFT_OUT
    return [said]


def _user(message: Message, *, own: bool) -> list[dict[str, Any]]:
    """Each tool result becomes its own message, first in order; their images must go into a user message."""
    results = [_result(block, own=own) for block in message.blocks if isinstance(block, ToolResult)]
    said = [content for block in message.blocks for content in _said(block)]
    if results and not said:
        return results
    return [*results, {"role": "user", "content": _content(said)}]


def _result(block: ToolResult, *, own: bool) -> dict[str, Any]:
    text = words_of(block.content)
    if not text.strip():
        text = SHOWN_BELOW if any(isinstance(c, Image) for c in block.content) else NOTHING
    id = block.call_id if own else fit_id(block.call_id)
    return {"role": "tool", "tool_call_id": id, "content": text}


def _said(block: Block) -> Sequence[Text | Image]:
    """The part of a block that goes into the user message."""
    match block:
        case ToolResult():
            return [c for c in block.content if isinstance(c, Image)]
        case Image():
            return [block]
        case Text():
            return [block] if block.text.strip() else []
        case ToolCall() | Thinking() | Opaque():
            return []  # never on the user's side


def _content(said: Sequence[Text | Image]) -> str | list[dict[str, Any]]:
    texts = [c.text for c in said if isinstance(c, Text)]
    if len(texts) < len(said):
        return [_part(c) for c in said]
    return "\n\n".join(texts) or NOTHING


def _part(content: Text | Image) -> dict[str, Any]:
    if isinstance(content, Text):
        return {"type": "text", "text": content.text}
    return {"type": "image_url", "image_url": {"url": f"data:{content.media_type};base64,{content.data}"}}


# --- the answer; fields that servers fill in differently are typed loosely


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _OpenAIDelta(Struct):
    content: Any = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int = 0
    delta: _OpenAIDelta | None = None
    message: _OpenAIDelta | None = None  # if the answer was not streamed
    finish_reason: str | None = None


class _Cached(Struct):
    cached_tokens: int | None = None


class _OpenAIUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None


class _Progress(Struct):
    processed: int = 0
    total: int = 0


class _Chunk(Struct):
    type: str | None = None
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: _OpenAIUsage | None = None
    prompt_progress: _Progress | None = None
    error: Any = None


_chunk = msgspec.json.Decoder(_Chunk)
_STOPS: dict[str, Stop] = {
    "length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "content_filter": "refusal",
}
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}


class OpenAIStream:
    """Parses the chunks of one attempt. Without a finish reason there is no reply."""

    def __init__(self, model: str, place: Endpoint, on_delta: OnDelta, *, sent: int = 0) -> None:
        self.finished = False
        self._place = place
        self._tell = on_delta
        self._draft = ReplyDraft(model, place, on_delta, sent)
        self._begun = False
        self._read = 0  # prompt tokens
        self._stop = ""
        self._refused = False
        self._open = -1  # index of the growing block
        self._calls: dict[int, int] = {}  # the server's number of a call -> our block

    @property
    def heard(self) -> int:
        return self._draft.progress + self._begun + self._read + bool(self._stop)

    def hear(self, event: str, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.finished = True
            return
        try:
            chunk = read_json(data, _chunk)
            if chunk.error is not None or chunk.type == "error" or event == "error":
                raise self._told(data)
            self._take(chunk)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise faults.garbled(self._place, f"{event}: {error}") from error

    def hear_whole(self, data: bytes) -> None:
        self.hear("message", data)
        self.finished = True

    def reply(self, seconds: float) -> Reply:
        if not self._stop:
            raise faults.cut(self._place)
        self._close()
        for index in self._calls.values():
            self._draft.close(index)
        calls = any(part.kind == "tool_use" for part in self._draft.parts.values())
        stop: Stop = "refusal" if self._refused else "tool_use" if calls else "end_turn"
        reply = self._draft.reply(_STOPS.get(self._stop, stop), seconds, finished)
        return replace(reply, why=reply.message.text) if self._refused else reply

    def _take(self, chunk: _Chunk) -> None:
        if not self._begun:
            self._begun = True
            self._draft.begin(chunk.id or "", Usage())
        if (read := chunk.prompt_progress) is not None and self._read < read.processed <= read.total:
            self._read = read.processed
            self._tell(PromptRead(read.processed, read.total))
        if chunk.usage is not None:
            self._draft.usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index == 0:  # we asked for a single answer
                self._choose(choice)
        if self._stop == "error":
            raise ValueError("the server gave up in the middle of its answer")

    def _choose(self, choice: _Choice) -> None:
        self._grow(choice.delta or choice.message or _OpenAIDelta())
        self._stop = choice.finish_reason or self._stop

    def _grow(self, delta: _OpenAIDelta) -> None:
        self._say("thinking", _text(delta.reasoning_content) or _text(delta.reasoning))
        self._say("text", _text(delta.content))
        if delta.refusal:
            self._refused = True
            self._say("text", delta.refusal)
        for call in delta.tool_calls or ():
            self._call(call)

    def _say(self, kind: Literal["text", "thinking"], words: str) -> None:
        if not words:
            return
        part = self._draft.parts.get(self._open)
        if part is None or part.kind != kind:
            self._close()
            self._open = len(self._draft.parts)
            self._draft.open(self._open, kind)
        self._draft.add(self._open, words)

    def _call(self, call: _Call) -> None:
        function = call.function or _Function()
        block = self._block_of(call, function)
        part = self._draft.parts[block]
        part.name = part.name or function.name or ""
        words = function.arguments
        if words is not None:
            self._draft.add(block, words if isinstance(words, str) else encode(words).decode())

    def _block_of(self, call: _Call, function: _Function) -> int:
        """The block for a piece of a call, by the call's index. Servers that send no index continue the last call."""
        number = call.index if call.index is not None else max(self._calls, default=0)
        block = self._calls.get(number)
        if block is not None and self._is_another(block, call, function):
            block, number = None, max(self._calls) + 1 if call.index is None else number
        if block is None:
            self._close()
            block = self._open = len(self._draft.parts)
            self._calls[number] = block
            self._draft.open(block, "tool_use", call.id or f"call_{os.urandom(6).hex()}", function.name or "")
        return block

    def _is_another(self, block: int, call: _Call, function: _Function) -> bool:
        """Is this piece a new call? Some servers number every call 0 or not at all, so a new id or name tells them
        apart."""
        part = self._draft.parts[block]
        if call.id and call.id != part.id:
            return bool(function.name)
        return bool(function.name) and not call.id and call.index is None

    def _close(self) -> None:
        if self._open in self._draft.parts:
            self._draft.close(self._open)

    def _told(self, data: bytes) -> ModelError:
        kind, message = faults.read_error(data)
        status = next((_STATUS[word] for word in kind.split() if word in _STATUS), None)
        if status is None:
            status = next((int(word) for word in kind.split() if word.isdecimal() and 400 <= int(word) < 600), 500)
        return faults.by_status(self._place, status, kind, message)


def _text(value: Any) -> str:
    """Text as a string, or as a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = (cast("dict[str, Any]", p) for p in cast("list[Any]", value) if isinstance(p, dict))
    return "".join(str(part.get("text") or "") for part in parts)


def _usage(said: _OpenAIUsage) -> Usage:
    """`input` excludes what the cache served."""
    details = said.prompt_tokens_details
    cached = tokens(details.cached_tokens if details else None) or 0
    return Usage(max(0, (tokens(said.prompt_tokens) or 0) - cached), tokens(said.completion_tokens) or 0, cached)
