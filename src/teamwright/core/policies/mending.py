"""Repairs a request that the provider keeps rejecting, by replacing the likely cause with a line of text.

Pictures added since the last answered request are suspected first. If the complaint is about reasoning, the suspects
are reasoning and other blocks that only the model that wrote them can read. If it is about calls, the suspects are
their ids: what no model wrote is sent with ids that every provider takes.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import Mended, Replaced
from teamwright.core.data.message import Block, Image, Message, Opaque, Reply, Text, Thinking, ToolResult
from teamwright.core.policies.normalize import fit_id
from teamwright.core.text import shown

_OF_PICTURES = re.compile(r"image|picture|pixel|media.?type|multi.?modal|vision|base64", re.IGNORECASE)
_OF_THOUGHTS = re.compile(r"thinking|signature|reasoning|unknown.*block|block.*type|server_tool", re.IGNORECASE)
DECLINED = "the model declined to answer (refusal)"
_LEFT_OUT = "[What stood here was left out: the model declined to answer it, and then what followed.]"
_OF_CALLS = re.compile(r"tool.?(use|call)|function.?call|call.?id", re.IGNORECASE)
_GONE = "[An image stood here. The provider refused the request with it, so it was left out: {}]"

Change = Callable[[Message], Message]


def mend(history: History, complaint: str) -> Mended | None:
    """The replacements to try; None if nothing could be to blame."""
    if places := _suspect_pictures(history, complaint):
        return _change(history.messages, places, partial(_without_pictures, why=shown(complaint, 200)))
    kinds = ((_OF_THOUGHTS, _thoughts, _without_thoughts), (_OF_CALLS, _odd_ids, _without_writer))
    for pattern, is_suspect, change in kinds:
        if pattern.search(complaint) and (places := [n for n, m in enumerate(history.messages) if is_suspect(m)]):
            return _change(history.messages, places, change)
    return None


def _suspect_pictures(history: History, complaint: str) -> list[int]:
    """Messages with pictures that the provider has not accepted yet; all with pictures if it complains about
    pictures."""
    fresh = history.asked if history.written_by in ("", _model(history)) else 0  # a new model has accepted nothing
    places = [n for n, message in enumerate(history.messages) if _pictures(message)]
    since = [n for n in places if n >= fresh]
    return since or (places if _OF_PICTURES.search(complaint) else [])


def _model(history: History) -> str:
    return history.rendered.model if history.rendered else ""


def _change(messages: Sequence[Message], places: Sequence[int], change: Change) -> Mended:
    return Mended(tuple(Replaced(n, change(messages[n])) for n in places))


def _pictures(message: Message) -> bool:
    return any(
        isinstance(b, Image) or (isinstance(b, ToolResult) and any(isinstance(c, Image) for c in b.content))
        for b in message.blocks
    )


def _thoughts(message: Message) -> bool:
    return any(isinstance(b, Thinking | Opaque) for b in message.blocks)


def _odd_ids(message: Message) -> bool:
    return bool(message.model) and any(call.id != fit_id(call.id) for call in message.calls)


def _without_pictures(message: Message, why: str) -> Message:
    words = Text(_GONE.format(why))

    def changed(block: Block) -> Block:
        if isinstance(block, ToolResult):
            content = tuple(words if isinstance(c, Image) else c for c in block.content)
            return ToolResult(block.call_id, content, block.is_error)
        return words if isinstance(block, Image) else block

    return Message(message.role, tuple(map(changed, message.blocks)), message.model)


def _without_thoughts(message: Message) -> Message:
    blocks = tuple(b for b in message.blocks if not isinstance(b, Thinking | Opaque))
    return Message(message.role, blocks, message.model)


def _without_writer(message: Message) -> Message:
    return Message(message.role, message.blocks)


# --- what the model declined to answer


def declined(reply: Reply) -> Message:
    """The note that stands for the reply: with words that the provider stopped, it would decline all that follows."""
    words = f"{DECLINED}: {shown(reply.why, 500)}" if reply.why else DECLINED
    return Message("assistant", (Text(f"[{words}]"),), reply.message.model)


def is_declined(note: str) -> bool:
    return note.startswith(f"[{DECLINED}")


def without_declined(messages: Sequence[Message]) -> Mended | None:
    """If it declines twice in a row, what it declined first may be to blame, and is replaced as well."""
    last = max((n for n, message in enumerate(messages) if message.role == "assistant"), default=0)
    return _change(messages, [last - 1], _without_words) if last and is_declined(messages[last].text) else None


def _without_words(message: Message) -> Message:
    words = Text(_LEFT_OUT)
    blocks = (replace(b, content=(words,)) if isinstance(b, ToolResult) else words for b in message.blocks)
    return Message(message.role, tuple(blocks), message.model)
