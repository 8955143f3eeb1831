"""Draft of a reply while it streams in: growing blocks that become a Reply only when it is whole."""

import json
from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from teamwright.core.data.message import (
    Block,
    BlockEnded,
    BlockStarted,
    InputDelta,
    Message,
    Opaque,
    Reply,
    ReplyEnded,
    ReplyStarted,
    Stop,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    Usage,
)
from teamwright.core.ids import CallId
from teamwright.core.policies.normalize import arguments
from teamwright.core.ports import OnDelta
from teamwright.models import faults
from teamwright.models.faults import Endpoint

T = TypeVar("T")
Kind = Literal["text", "thinking", "tool_use", "opaque"]
MOST = 32 * 1024 * 1024  # characters in one reply
MOST_BLOCKS = 10_000
MOST_TOKENS = 1 << 40
BYTES = 4  # bytes per token, if the server does not count


class DraftPart(Struct):
    """An unfinished block."""

    kind: Kind
    id: str = ""
    name: str = ""
    words: list[str] = []
    signature: str = ""
    ended: bool = False


class ReplyDraft:
    def __init__(self, model: str, place: Endpoint, on_delta: OnDelta, sent: int) -> None:
        """`sent` is the size of the request in bytes."""
        self.parts: dict[int, DraftPart] = {}
        self.id = ""
        self.usage = Usage()
        self._model = model
        self._place = place
        self._tell = on_delta
        self.size = 0
        self._sent = sent

    def begin(self, id: str, usage: Usage) -> None:
        self.id, self.usage = id, usage
        self._tell(ReplyStarted(id, self._model, usage))

    @property
    def progress(self) -> int:
        return self.size + len(self.parts)

    def open(self, index: int, kind: Kind, id: str = "", name: str = "") -> DraftPart:
        if len(self.parts) >= MOST_BLOCKS:
            raise faults.too_long(self._place)
        part = self.parts[index] = DraftPart(kind, id, name)
        self._tell(BlockStarted(index, kind, id, name))
        return part

    def add(self, index: int, words: str) -> None:
        """Appends to a block: text, thinking, or JSON of a call's arguments."""
        if not words:
            return
        part = self.parts[index]
        self._weigh(len(words))
        part.words.append(words)
        match part.kind:
            case "text":
                self._tell(TextDelta(index, words))
            case "thinking":
                self._tell(ThinkingDelta(index, words))
            case "tool_use":
                self._tell(InputDelta(index, words))
            case "opaque":
                pass

    def sign(self, index: int, signature: str) -> None:
        self._weigh(len(signature))
        self.parts[index].signature += signature

    def close(self, index: int) -> None:
        part = self.parts[index]
        if not part.ended:
            part.ended = True
            self._tell(BlockEnded(index))

    def reply(self, stop: Stop, seconds: float, finish: Callable[[DraftPart], Block | None]) -> Reply:
        """The complete answer. `finish` turns a part into a block, or drops it."""
        if not self.usage.total:  # else limits would never be reached, and a full window would go unnoticed
            self.usage = Usage(self._sent // BYTES, self.size // BYTES)
        blocks = tuple(block for part in self.parts.values() if (block := finish(part)) is not None)
        self._tell(ReplyEnded(stop, self.usage))
        return Reply(Message("assistant", blocks, self._model), stop, self.usage, self.id, seconds)

    def _weigh(self, size: int) -> None:
        self.size += size
        if self.size > MOST:
            raise faults.too_long(self._place)


def tokens(said: int | None) -> int | None:
    """A server's figure; None if it says none, or one that cannot be."""
    return said if said is not None and 0 <= said <= MOST_TOKENS else None


def finished(part: DraftPart) -> Block:
    """Turns a part into a block."""
    words = "".join(part.words)
    match part.kind:
        case "text":
            return Text(words)
        case "thinking":
            return Thinking(words, part.signature)
        case "tool_use":
            input, fault = arguments(words)
            return ToolCall(CallId(part.id), part.name, input, fault)
        case "opaque":
            return Opaque(Raw(words.encode()))


def read_json(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decodes one event. Raises msgspec.DecodeError or ValueError if it is not valid JSON.

    Some servers split a character in two (half a surrogate pair each) or send broken UTF-8; that costs the character,
    not the reply.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = json.loads(data.decode("utf-8", "replace"))
        return decoder.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
