"""Converts another program's transcript into our events: a conversation that every provider accepts."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct, field

from teamwright.core.data.content.picture import fitted
from teamwright.core.data.event import (
    Compacted,
    Durable,
    LettersTaken,
    Reminded,
    Replied,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import (
    Block,
    Content,
    Image,
    Message,
    Opaque,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
    user,
)
from teamwright.core.ids import CallId, LetterId
from teamwright.core.jsontext import as_object
from teamwright.core.text import neutral
from teamwright.library.claude.transcript import ClaudeEntry, ClaudeTranscript

MOST_TEXT = 400_000  # characters per block
NO_RESULT = "No result of this call was recorded."
_STOPS: dict[str, Stop] = {"tool_use": "tool_use", "max_tokens": "max_tokens", "refusal": "refusal"}
_COMMAND = re.compile(
    r"\s*(?:<command-message>[^<]*</command-message>\s*)?<command-name>(/?[\w:.-]{1,100})</command-name>"
)
_ARGUMENTS = re.compile(r"<command-args>([^<]{0,2000})</command-args>")
_PRINTED = ("<local-command-", "<command-", "<bash-", "<system-reminder>")  # notes around a prompt
_AWAY = "[A {kind} of the imported conversation, which is not kept.]"

Timed = tuple[int, Durable]


class Imported(Struct):
    """The result of an import. `dropped` counts omitted blocks by kind."""

    events: list[Timed] = field(default_factory=list[Timed])
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    messages: int = 0
    prompt: str = ""  # the person's first prompt
    cwd: str = ""

    def drop(self, kind: str) -> None:
        self.dropped[kind] = self.dropped.get(kind, 0) + 1


def make_events(found: ClaudeTranscript) -> Imported:
    """The conversation up to the last message, with one result per call and an end for each turn."""
    made = Imported()
    results, replies = _results(found.entries.values()), _replies(found.entries.values())
    told: set[str] = set()  # replies that are complete
    at = tokens = 0
    for entry in found.chain():
        made.cwd, at = made.cwd or entry.cwd, entry.at or at
        if entry.is_boundary:
            tokens = next(_counts(entry.compact_metadata, ("preTokens",)))
        elif entry.type == "user":
            _say(made, entry, tokens)
        elif entry.talks and (key := entry.message_id or entry.uuid) not in told:
            told.add(key)
            _reply(made, replies.get(entry.message_id) or [entry], results)
    _end_turn(made, at)
    return made


def _results(entries: Iterable[ClaudeEntry]) -> dict[str, dict[str, Any]]:
    """Results by call id. Results of parallel calls are on side branches of the conversation."""
    blocks = (block for entry in entries if entry.type == "user" and not entry.is_sidechain for block in entry.content)
    return {str(b.get("tool_use_id")): b for b in blocks if b.get("type") == "tool_result"}


def _replies(entries: Iterable[ClaudeEntry]) -> dict[str, list[ClaudeEntry]]:
    """The lines of each reply: one per block."""
    found: dict[str, list[ClaudeEntry]] = {}
    for entry in entries:
        if entry.talks and entry.message_id:
            found.setdefault(entry.message_id, []).append(entry)
    return found


# --- requests


def _say(made: Imported, entry: ClaudeEntry, tokens: int) -> None:
    """`tokens` were in use at the last compaction."""
    parts = (_content(made, block) for block in entry.content if block.get("type") != "tool_result")
    said = tuple(part for part in parts if part is not None)
    if not said:
        return
    message = Message("user", said)
    if entry.is_compact_summary:
        made.events.append((entry.at, Compacted((message,), "auto", tokens, Usage())))
        return
    command = _COMMAND.match(message.text)
    if entry.is_meta or (command is None and message.text.startswith(_PRINTED)):
        made.events.append((entry.at, Reminded(message)))
        return
    if command:
        message = _as_prompt(command[1], message.text)
    _end_turn(made, entry.at)
    made.events.append((entry.at, LettersTaken((LetterId(entry.uuid[:64]),), message)))
    made.messages += 1
    made.prompt = made.prompt or message.text


def _as_prompt(command: str, text: str) -> Message:
    """A slash command, as it was typed."""
    words = _ARGUMENTS.search(text)
    return user(f"{command} {words[1] if words else ''}".strip())


def _end_turn(made: Imported, at: int) -> None:
    if made.events and not isinstance(made.events[-1][1], TurnEnded):
        made.events.append((at, _turn_end(made)))


def _turn_end(made: Imported) -> TurnEnded:
    """How a turn ended: one without a final text was interrupted."""
    for _, event in reversed(made.events):
        if isinstance(event, Replied) and not event.message.calls:
            return TurnEnded("done", event.message.text)
        if isinstance(event, Replied | LettersTaken | ToolEnded):
            return TurnEnded("interrupted", error="interrupted")
    return TurnEnded("done")


def _content(made: Imported, block: dict[str, Any]) -> Content | None:
    match block.get("type"):
        case "text":
            return _text(block.get("text"))
        case "image":
            return _image(block.get("source"))
        case other:
            made.drop(str(other)[:40])
            return Text(_AWAY.format(kind=neutral(str(other)[:40])))


def _text(value: Any) -> Text | None:
    if not isinstance(value, str) or not value.strip():
        return None
    words = value.encode(errors="replace").decode()  # no file can hold a lone surrogate
    more = len(words) - MOST_TEXT
    half = MOST_TEXT // 2
    cut = words if more <= 0 else f"{words[:half]}\n[... {more:,} characters left out ...]\n{words[-half:]}"
    return Text(neutral(cut))


def _image(value: Any) -> Content:
    source = as_object(value)
    kind, data = source.get("media_type"), source.get("data")
    if source.get("type") != "base64" or not isinstance(kind, str) or not isinstance(data, str):
        return Text(_AWAY.format(kind="picture"))
    return fitted(Image(kind, data))


# --- replies


def _reply(made: Imported, lines: Sequence[ClaudeEntry], results: dict[str, dict[str, Any]]) -> None:
    first, last = lines[0], lines[-1]
    blocks = tuple(b for line in lines for block in line.content if (b := _block(made, block)) is not None)
    model = first.message.get("model")
    if not any(not isinstance(block, Thinking | Opaque) for block in blocks) or model == "<synthetic>":
        return
    name = f"anthropic/{model}" if isinstance(model, str) and model else ""
    message = Message("assistant", _without_doubles(blocks), name)
    stop = _STOPS.get(str(last.message.get("stop_reason")), "end_turn")
    made.events.append((first.at, Replied(message, "tool_use" if message.calls else stop, _usage(last))))
    made.messages += 1
    made.events += ((last.at, _ended(made, call, results.get(call.id))) for call in message.calls)


def _without_doubles(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Keeps each call once, however often its line was written."""
    seen: set[str] = set()
    kept: list[Block] = []
    for block in blocks:
        if isinstance(block, ToolCall):
            if block.id in seen:
                continue
            seen.add(block.id)
        kept.append(block)
    return tuple(kept)


def _block(made: Imported, block: dict[str, Any]) -> Block | None:
    match block.get("type"):
        case "text":
            return _text(block.get("text"))
        case "thinking":
            words, signature = block.get("thinking"), block.get("signature")
            if isinstance(words, str) and isinstance(signature, str) and signature:
                return Thinking(words, signature)
            made.drop("thinking without a signature")
            return None
        case "redacted_thinking":
            return Opaque(Raw(msgspec.json.encode(block)))
        case "tool_use":
            return _call(made, block)
        case other:
            made.drop(str(other)[:40])
            return None


def _call(made: Imported, block: dict[str, Any]) -> ToolCall | None:
    id, name, given = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(id, str) or not id or not isinstance(name, str) or not name or not isinstance(given, dict):
        made.drop("tool_use that cannot be read")
        return None
    return ToolCall(CallId(id), name, Raw(msgspec.json.encode(given)))


def _ended(made: Imported, call: ToolCall, result: dict[str, Any] | None) -> ToolEnded:
    if result is None:
        return ToolEnded(call.id, (Text(NO_RESULT),), is_error=True)
    said: Any = result.get("content")
    items = cast("list[Any]", said) if isinstance(said, list) else [{"type": "text", "text": said}]
    parts = (_content(made, cast("dict[str, Any]", item)) for item in items if isinstance(item, dict))
    content = tuple(part for part in parts if part is not None)
    return ToolEnded(call.id, content, is_error=result.get("is_error") is True)


def _usage(entry: ClaudeEntry) -> Usage:
    counts = as_object(entry.message.get("usage"))
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(*_counts(counts, names))


def _counts(found: dict[str, Any], names: Sequence[str]) -> Iterator[int]:
    for name in names:
        value = found.get(name)
        yield value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
