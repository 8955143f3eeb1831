"""Wire format of Anthropic's Messages API, streamed."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from teamwright.core.data.message import (
    Block,
    Image,
    Message,
    Opaque,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from teamwright.core.errors import ModelError
from teamwright.core.ids import CallId
from teamwright.core.jsontext import as_object
from teamwright.core.policies.normalize import fit_id, fit_name
from teamwright.core.ports import OnDelta
from teamwright.models import faults
from teamwright.models.faults import Endpoint, host_of
from teamwright.models.http import HttpClient
from teamwright.models.retry import Reach, persist
from teamwright.models.wires.draft import DraftPart, Kind, ReplyDraft, finished, read_json, tokens
from teamwright.models.wires.pieces import Bytes, Once, Piece, Pieces, encode, is_own, row

ThinkingStyle = Literal["adaptive", "budget", "none"]
VERSION = "2023-06-01"
LONG_CONTEXT = "context-1m-2025-08-07"
DEFAULT_OUTPUT = 32_000
LEFT_OUT = "(thinking left out)"
NOTHING = "(no output)"
# effort words as token budgets for models that think by budget; the reverse for models that take words
BUDGETS: dict[str, int] = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 31_999}
LEAST_BUDGET = 1_024


class Anthropic:
    """One endpoint of the Messages API."""

    def __init__(
        self,
        http: HttpClient,
        reach: Reach,
        *,
        betas: tuple[str, ...] = (),
        thinking_display: str = "",
        thinking: ThinkingStyle = "none",
        wire: "AnthropicWire | None" = None,
    ) -> None:
        self._http, self._reach = http, reach
        self._url = f"{reach.base.rstrip('/').removesuffix('/v1')}/v1/messages"
        self._betas = betas
        self._display = {"display": thinking_display} if thinking_display else {}
        self._thinking: ThinkingStyle = thinking
        self._wire = wire or AnthropicWire()

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        name = request.model.partition("/")[2]
        betas = self._betas
        if name.endswith("[1m]"):
            name, betas = name.removesuffix("[1m]"), (*betas, LONG_CONTEXT)
        reach = self._reach
        headers = {"anthropic-version": VERSION, "Accept": "text/event-stream", **reach.headers}
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        host = host_of(self._url)
        place = Endpoint(host, name, reach.key_name, reach.base_name, key_sent=bool(reach.headers))
        body = self._wire.body(request, self._options(request, name))

        async def attempt() -> Reply:
            began = reach.patience.clock()
            answer = AnthropicStream(request.model, place, on_delta, sent=sum(map(len, body)))
            await self._http.exchange(place, self._url, headers, body, answer)
            return answer.reply(reach.patience.clock() - began)

        return await persist(attempt, reach.patience, reach.brake, on_delta)

    def _options(self, request: Request, name: str) -> dict[str, Any]:
        """Everything but the conversation, always in this order."""
        most = request.max_output or self._reach.max_output or DEFAULT_OUTPUT
        return {"model": name, "max_tokens": most, "stream": True, **self._thinking_options(request, most)}

    def _thinking_options(self, request: Request, most: int) -> dict[str, Any]:
        match self._thinking:
            case "adaptive":
                return {"thinking": {"type": "adaptive", **self._display}, **_effort(_effort_word(request.effort))}
            case "budget" if request.effort is not None:
                budget = min(max(_budget(request.effort), LEAST_BUDGET), most - 1)
                if budget < LEAST_BUDGET or not may_think(request):
                    return {}
                return {"thinking": {"type": "enabled", "budget_tokens": budget, **self._display}}
            case _:
                return _effort(request.effort)


def _effort(effort: str | int | None) -> dict[str, Any]:
    return {"output_config": {"effort": effort}} if isinstance(effort, str) else {}


def _effort_word(effort: str | int | None) -> str | None:
    """The word for a number of tokens: the first one that allows as many."""
    if not isinstance(effort, int):
        return effort
    return next((word for word, tokens in BUDGETS.items() if tokens >= effort), "max")


def _budget(effort: str | int) -> int:
    return effort if isinstance(effort, int) else BUDGETS.get(effort, LEAST_BUDGET)


def may_think(request: Request) -> bool:
    """May this request use thinking? The API rejects thinking in a turn that began without this model's thinking
    block."""
    first: Message | None = None
    for message in reversed(request.messages):
        if message.role == "assistant":
            first = message
        elif not any(isinstance(block, ToolResult) for block in message.blocks):
            break
    if first is None:
        return True
    return first.model == request.model and isinstance(next(iter(first.blocks), None), (Thinking, Opaque))


# --- the request


class AnthropicWire:
    """Caches the encoded bytes of messages. One instance serves all models of a provider."""

    def __init__(self) -> None:
        self.messages = Pieces(_piece, _opening("user"))
        self._system = Once(_system)
        self._tools = Once(_tools)

    def body(self, request: Request, options: Mapping[str, Any]) -> list[Bytes]:
        """The body in the order options, tools, system, messages: the parts that change least come first, for the
        cache.

        A marker follows the tools that all agents have, and one the instructions. The API takes four: a fork, which
        has a third one in its messages, finds its tools behind its parent's markers.
        """
        parts: list[Bytes] = [encode(options)[:-1]]
        system, tools = self._system.of(request.system), self._tools.of(request.tools)
        if tools.data:
            forked = request.shared and system.data
            parts += [b',"tools":[', *tools.marked(() if forked else range(len(tools.ends))), b"]"]
        if system.data:
            parts += [b',"system":[', *system.marked((0,)), b"]"]
        said = self.messages.row(request.messages, request.model, self._marks(request))
        return [*parts, b',"messages":[', *row(said), b"]}"]

    def _marks(self, request: Request) -> dict[int, set[int]]:
        """The blocks that carry a cache marker: the last one of the previous request, of a fork's shared part, and of
        this request.

        From a marker, the provider looks back only 20 blocks for a cached prefix. A turn can be longer than that, so
        the end of the previous request is marked again.
        """
        found: dict[int, set[int]] = {}
        for end in {len(request.messages), min(request.previous, len(request.messages))}:
            for number in range(end - 1, -1, -1):
                message = request.messages[number]
                if ends := self.messages.of(message, own=is_own(request.messages, number, request.model)).ends:
                    found.setdefault(number, set()).add(len(ends) - 1)
                    break
        if request.shared:
            results = sum(isinstance(b, ToolResult) for b in request.messages[request.shared - 1].blocks)
            found.setdefault(request.shared - 1, set()).add(results - 1)
        return found


def _system(parts: tuple[str, ...]) -> Piece:
    """The last part is about one agent: the marker stands before it."""
    blocks = [encode({"type": "text", "text": part}) for part in parts if part.strip()]
    return _marked_after(blocks, max(len(blocks) - 1, 1))


def _tools(specs: tuple[ToolSpec, ...]) -> Piece:
    """The marker stands after those that all agents have."""
    blocks = [encode({"name": s.name, "description": s.description, "input_schema": dict(s.schema)}) for s in specs]
    return _marked_after(blocks, sum(not spec.of_role for spec in specs))


def _marked_after(blocks: list[bytes], count: int) -> Piece:
    """Blocks of which the first `count` may end with a marker."""
    common = b",".join(blocks[:count])
    return Piece(b",".join(blocks), (len(common) - 1,) if common else ())


def _opening(role: str) -> bytes:
    return b',{"role":"%b","content":[' % role.encode()


def _piece(message: Message, own: bool) -> Piece:  # noqa: FBT001 - the cache's key
    data = bytearray(_opening(message.role))
    ends: list[int] = []
    blocks = [(b, _block(b, own=own)) for b in message.blocks if _is_sent(b, own=own)]
    left_out = LEFT_OUT if message.role == "assistant" else NOTHING
    for n, (block, wire) in enumerate(blocks or [(Text(left_out), encode({"type": "text", "text": left_out}))]):
        data += b"," * (n > 0) + wire
        if not isinstance(block, (Thinking, Opaque)):  # the API takes no marker on these
            ends.append(len(data) - 1)
    return Piece(bytes(data + b"]}"), tuple(ends))


def _is_sent(block: Block, *, own: bool) -> bool:
    match block:
        case Text():
            return bool(block.text.strip())
        case Thinking():
            return own and bool(block.signature)
        case Opaque():
            return own and bool(bytes(block.raw))
        case _:
            return True


def _block(block: Block, *, own: bool) -> bytes:
    match block:
        case Text():
            return encode({"type": "text", "text": block.text})
        case Image():
            return encode(_image(block))
        case ToolCall():
            name, input = block.made
            id = block.id if own else fit_id(block.id)
            return encode({"type": "tool_use", "id": id, "name": fit_name(name), "input": input})
        case ToolResult():
            return encode(_result(block, block.call_id if own else fit_id(block.call_id)))
        case Thinking():
            return encode({"type": "thinking", "thinking": block.thinking, "signature": block.signature})
        case Opaque():
            return bytes(block.raw)


def _result(block: ToolResult, id: CallId) -> dict[str, Any]:
    said = [_image(c) if isinstance(c, Image) else {"type": "text", "text": c.text} for c in block.content]
    said = [c for c in said if c.get("text") is None or c["text"].strip()]
    content = said or [{"type": "text", "text": NOTHING}]
    result = {"type": "tool_result", "tool_use_id": id, "content": content}
    return result | {"is_error": True} if block.is_error else result


def _image(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


# --- the answer


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(Struct):
    type: str = ""
    id: str = ""
    content: list[Raw] = []
    stop_reason: str | None = None
    stop_details: Any = None
    usage: _Usage | None = None


class _Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: Any = None


class _Event(Struct):
    type: str = ""
    index: int = -1
    message: _Message | None = None
    content_block: Raw = Raw()
    delta: _Delta | None = None
    usage: _Usage | None = None


class _Start(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    input: Raw = Raw()


class _Type(Struct):
    type: str = ""


_event = msgspec.json.Decoder(_Event)
_start = msgspec.json.Decoder(_Start)
_type = msgspec.json.Decoder(_Type)
_whole = msgspec.json.Decoder(_Message)
_KNOWN = {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"}
_KINDS: dict[str, Kind] = {"text": "text", "thinking": "thinking", "tool_use": "tool_use"}
_FITS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
_STOPS: dict[str, Stop] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


class AnthropicStream:
    """Parses the events of one attempt. There is no reply before `message_stop`."""

    def __init__(self, model: str, place: Endpoint, on_delta: OnDelta, *, sent: int = 0) -> None:
        self.finished = False
        self._place = place
        self._draft = ReplyDraft(model, place, on_delta, sent)
        self._begun = False
        self._stop: str | None = None
        self._details: Any = None  # of the stop
        self._starts: dict[int, _Start] = {}
        self._opaque: dict[int, dict[str, Any]] = {}  # unknown blocks that grew after their start

    @property
    def heard(self) -> int:
        return self._draft.progress + self._begun + (self._stop is not None)

    def hear(self, event: str, data: bytes) -> None:
        try:
            self._take(self._read(data), data)
        except (msgspec.DecodeError, RecursionError, ValueError, KeyError) as error:
            raise faults.garbled(self._place, f"{event}: {error}") from error

    def hear_whole(self, data: bytes) -> None:
        """Handles an unstreamed answer as the equivalent events."""
        try:
            kind = read_json(data, _type).type
            if kind == "error":
                raise self._told(data)
            whole = read_json(data, _whole)
            if kind != "message":
                raise ValueError("an answer that is not a message")
            self._take(_Event("message_start", message=whole), data)
            for index, block in enumerate(whole.content):
                self._take(_Event("content_block_start", index, content_block=block), data)
                self._take(_Event("content_block_stop", index), data)
            self._stop, self._details = whole.stop_reason, whole.stop_details
            self.finished = True
        except (msgspec.DecodeError, RecursionError, ValueError, KeyError) as error:
            raise faults.garbled(self._place, str(error)) from error

    def reply(self, seconds: float) -> Reply:
        if not self.finished:
            raise faults.cut(self._place)
        calls = any(part.kind == "tool_use" for part in self._draft.parts.values())
        stop = _STOPS.get(self._stop or "", "tool_use" if calls else "end_turn")
        why = as_object(self._details).get("explanation")
        return replace(self._draft.reply(stop, seconds, _kept), why=why if isinstance(why, str) else "")

    def _read(self, data: bytes) -> _Event:
        try:
            return read_json(data, _event)
        except msgspec.ValidationError:
            kind = read_json(data, _type).type
            if kind in _KNOWN:
                raise
            return _Event(kind)

    def _take(self, event: _Event, data: bytes) -> None:
        if event.type == "error":
            raise self._told(data)
        step = self._STEPS.get(event.type)
        if step is None:
            return  # pings and future events
        if not self._begun and event.type != "message_start":
            raise ValueError(f"{event.type} out of order")
        step(self, event)

    def _begin(self, event: _Event) -> None:
        """Starts the message. A repeated start is harmless as long as no content has arrived."""
        if self._draft.parts:
            raise ValueError("message_start inside a message")
        if not self._begun:
            message = event.message or _Message()
            self._begun = True
            self._draft.begin(message.id, _usage(Usage(), message.usage))

    def _amend(self, event: _Event) -> None:
        self._draft.usage = _usage(self._draft.usage, event.usage)
        if event.delta is not None:
            self._stop = event.delta.stop_reason or self._stop
            self._details = event.delta.stop_details or self._details

    def _finish(self, _: _Event) -> None:
        if not all(part.ended for part in self._draft.parts.values()):
            raise ValueError("message_stop inside a block")
        self.finished = True

    def _open(self, event: _Event) -> None:
        index, raw = event.index, event.content_block
        if index in self._draft.parts:
            raise ValueError(f"block {index} begins twice")
        type = read_json(bytes(raw), _type).type
        kind = _KINDS.get(type, "opaque")
        if not type:
            raise ValueError(f"block {index} has no type")
        if kind == "opaque":
            self._draft.open(index, kind)
            self._draft.add(index, bytes(raw).decode())
            return
        start = self._starts[index] = read_json(bytes(raw), _start)
        self._draft.open(index, kind, start.id, start.name)
        self._draft.add(index, start.text if kind == "text" else start.thinking if kind == "thinking" else "")
        self._draft.sign(index, start.signature)

    def _grow(self, event: _Event) -> None:
        index, delta = event.index, event.delta or _Delta()
        part = self._draft.parts[index]
        if part.ended:
            raise ValueError(f"block {index} continues after its end")
        if part.kind == "opaque":
            self._merge(index, part, delta)
        elif delta.type not in _FITS:
            return  # e.g. citations
        elif _FITS[delta.type] != part.kind:
            raise ValueError(f"{delta.type} in a block of {part.kind}")
        elif delta.type == "signature_delta":
            self._draft.sign(index, delta.signature)
        else:
            self._draft.add(index, delta.text or delta.thinking or delta.partial_json)

    def _merge(self, index: int, part: DraftPart, delta: _Delta) -> None:
        """Applies known kinds of deltas to a block of an unknown kind."""
        for name in ("text", "thinking", "signature", "partial_json"):
            if words := getattr(delta, name):
                block = self._opaque.setdefault(index, msgspec.json.decode(part.words[0]))
                block[name] = str(block.get(name) or "") + words

    def _close(self, event: _Event) -> None:
        index = event.index
        part = self._draft.parts[index]
        start = self._starts.get(index)
        if part.kind == "tool_use" and not part.words and start is not None and len(bytes(start.input)) > 2:
            self._draft.add(index, bytes(start.input).decode())  # the whole input came with the start
        if (grown := self._opaque.pop(index, None)) is not None:
            if (words := grown.pop("partial_json", None)) is not None:
                grown["input"] = msgspec.json.decode(words)
            part.words = [encode(grown).decode()]
        self._draft.close(index)

    _STEPS: ClassVar["dict[str, Callable[[AnthropicStream, _Event], None]]"] = {
        "message_start": _begin,
        "content_block_start": _open,
        "content_block_delta": _grow,
        "content_block_stop": _close,
        "message_delta": _amend,
        "message_stop": _finish,
    }

    def _told(self, data: bytes) -> ModelError:
        kind, message = faults.read_error(data)
        return faults.by_status(self._place, _STATUS.get(kind, 500), kind, message)


def _kept(part: DraftPart) -> Block | None:
    """Drops thinking without a signature, because the API refuses it when it is sent back."""
    return None if part.kind == "thinking" and not part.signature else finished(part)


def _usage(before: Usage, said: _Usage | None) -> Usage:
    """Figures are cumulative: later ones replace earlier ones."""
    if said is None:
        return before
    pairs = (
        (tokens(said.input_tokens), before.input),
        (tokens(said.output_tokens), before.output),
        (tokens(said.cache_read_input_tokens), before.cache_read),
        (tokens(said.cache_creation_input_tokens), before.cache_write),
    )
    return Usage(*(old if new is None else new for new, old in pairs))
