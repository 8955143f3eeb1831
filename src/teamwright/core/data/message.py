"""Messages between agents and models: immutable data that every layer shares."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from teamwright.core.ids import CallId

Effort = Literal["low", "medium", "high", "xhigh", "max"]
EMPTY_INPUT = Raw(b"{}")


class Text(Struct, frozen=True, tag="text", omit_defaults=True):
    """`typed` is what the person typed, if the text was generated from it (`/review 12`); empty if the block before has
    it."""

    text: str
    typed: str | None = None

    @property
    def shown(self) -> str:
        """What screens and lists show; models read `text`."""
        return self.text if self.typed is None else self.typed


class Thinking(Struct, frozen=True, tag="thinking", omit_defaults=True):
    """Reasoning, byte for byte, with its signature; it is only sent back to the model that wrote it."""

    thinking: str
    signature: str = ""


class Image(Struct, frozen=True, tag="image"):
    media_type: str
    data: str  # base64


class ToolCall(Struct, frozen=True, tag="tool_use", omit_defaults=True):
    """`input` holds the arguments as normalised JSON bytes, stored and resent without being encoded again."""

    id: CallId
    name: str
    input: Raw = EMPTY_INPUT
    fault: str = ""  # why the arguments are unreadable; such a call is answered but never run
    via: str = ""  # the tool through which the model made the call

    @property
    def args(self) -> dict[str, Any]:
        return msgspec.json.decode(self.input)

    @property
    def made(self) -> tuple[str, Raw]:
        """Name and input as the provider sees them: those of the tool that the model knows."""
        if not self.via:
            return self.name, self.input
        name = msgspec.json.encode(self.name)
        return self.via, Raw(b'{"name":%b,"arguments":%b}' % (name, bytes(self.input)))


class ToolResult(Struct, frozen=True, tag="tool_result", omit_defaults=True):
    call_id: CallId
    content: tuple[Text | Image, ...]
    is_error: bool = False


class Opaque(Struct, frozen=True, tag="opaque"):
    """A block of an unknown type, verbatim; it is only sent back to the model that wrote it."""

    raw: Raw


Block = Text | Thinking | Image | ToolCall | ToolResult | Opaque
Content = Text | Image


class Message(Struct, frozen=True, weakref=True, omit_defaults=True):
    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]
    model: str = ""  # the model that wrote it, as `provider/name`; empty for the user's side

    @property
    def text(self) -> str:
        return "".join(b.text for b in self.blocks if isinstance(b, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolCall))


def words_of(content: Iterable[object]) -> str:
    """The texts of the content, without pictures and the like."""
    return "\n".join(block.text for block in content if isinstance(block, Text))


def typed_words(content: Iterable[object]) -> str:
    """A prompt as the person typed it."""
    return "\n".join(block.shown for block in content if isinstance(block, Text) and block.typed != "")


def user(text: str) -> Message:
    return Message("user", (Text(text),))


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A tool as the model is told of it.

    `parallel`: it has no effects and may run beside its neighbours. `stores`: its effects are rows of our own store, so
    the call must be on disk before them. `behind`: tools that it stands for. `of_role`: not every agent with all tools
    has it, so it comes after those that a provider's cache can share.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    parallel: bool = False
    stores: bool = False
    behind: tuple[str, ...] = ()
    of_role: bool = False


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them. `input` excludes what the cache served or stored."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


Stop = Literal["end_turn", "tool_use", "max_tokens", "refusal", "pause"]


class Request(Struct, frozen=True):
    """Everything that one model call sees. Equal requests are one cache entry."""

    model: str  # `provider/name`
    system: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...] = ()
    previous: int = 0  # number of messages in the previous request: a cache marker goes there
    shared: int = 0  # in a fork: number, from 1, of the message whose tool results end what siblings share
    effort: Effort | int | None = None
    max_output: int | None = None


class Reply(Struct, frozen=True):
    """A complete answer; a partial one never becomes a Reply."""

    message: Message
    stop: Stop
    usage: Usage
    id: str = ""
    seconds: float = 0.0  # spent on the attempt that succeeded
    why: str = ""  # of a refusal, in the provider's words

    @property
    def answer(self) -> str:
        """The answer to one of the runtime's own questions: words that ended by themselves, without a call."""
        return self.message.text.strip() if self.stop == "end_turn" and not self.message.calls else ""


# --- what streams in during a reply; for watchers only, never for decisions


class ReplyStarted(Struct, frozen=True, tag="reply_started"):
    id: str
    model: str
    usage: Usage = Usage()


class BlockStarted(Struct, frozen=True, tag="block_started", omit_defaults=True):
    index: int
    kind: Literal["text", "thinking", "tool_use", "opaque"]
    id: str = ""
    name: str = ""


class TextDelta(Struct, frozen=True, tag="text_delta"):
    index: int
    text: str


class ThinkingDelta(Struct, frozen=True, tag="thinking_delta"):
    index: int
    text: str


class InputDelta(Struct, frozen=True, tag="input_delta"):
    index: int
    json: str


class BlockEnded(Struct, frozen=True, tag="block_ended"):
    index: int


class ReplyEnded(Struct, frozen=True, tag="reply_ended"):
    stop: Stop
    usage: Usage


class Retrying(Struct, frozen=True, tag="retrying"):
    """The attempt failed, but a retry may succeed; discard what it streamed."""

    attempt: int
    attempts: int
    wait: float
    reason: str
    fault: str
    status: int | None = None
    lost: bool = False  # it was sent and not refused: the provider may bill it


class PromptRead(Struct, frozen=True, tag="prompt_read"):
    """How many of the request's tokens the server has read; few servers report it."""

    done: int
    total: int


Delta = (
    ReplyStarted
    | PromptRead
    | BlockStarted
    | TextDelta
    | ThinkingDelta
    | InputDelta
    | BlockEnded
    | ReplyEnded
    | Retrying
)
