"""Normalises what a model wrote before it is stored: unique safe ids, nothing empty, valid arguments."""

import re
from collections.abc import Container, Iterable
from typing import Any, cast

import msgspec
from msgspec import Raw

from teamwright.core.data.message import Block, Message, Text, Thinking, ToolCall
from teamwright.core.ids import CallId

DEEPEST = 100  # levels of nested arguments
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def arguments(text: str | bytes) -> tuple[Raw, str]:
    """Normalises the JSON of a call's arguments: (bytes to keep, fault). Empty text means no arguments."""
    if not text.strip():
        return Raw(b"{}"), ""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return Raw(b"{}"), f"the arguments are not valid JSON ({error})"
    if not isinstance(value, dict):
        return Raw(b"{}"), "the arguments must be a JSON object"
    if is_deep(cast("dict[str, Any]", value), DEEPEST):
        return Raw(b"{}"), f"the arguments are nested more than {DEEPEST} levels deep"
    return Raw(msgspec.json.encode(value)), ""


def is_deep(value: Any, most: int) -> bool:
    """Is it nested deeper than `most`? Such a value could be read now, but not from a transcript, which nests it
    further."""
    if most == 0:
        return isinstance(value, dict | list)
    children: Iterable[Any] = ()
    if isinstance(value, dict):
        children = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        children = cast("list[Any]", value)
    return any(is_deep(child, most - 1) for child in children)


def admit(message: Message, used: Container[str]) -> Message | None:
    """The reply to keep, or None if it says nothing. `used` are the conversation's call ids so far."""
    mine: set[str] = set()
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, Text) and not block.text.strip():
            continue
        if isinstance(block, ToolCall):
            call = _with_unique_id(block, used, mine)
            mine.add(call.id)
            blocks.append(call)
        else:
            blocks.append(block)
    if all(isinstance(b, Thinking) for b in blocks):
        return None
    return message if tuple(blocks) == message.blocks else Message(message.role, tuple(blocks), message.model)


def _with_unique_id(call: ToolCall, used: Container[str], mine: set[str]) -> ToolCall:
    base = _UNSAFE.sub("_", call.id)[:200] or "call"
    unique, n = base, 1
    while unique in used or unique in mine:
        n += 1
        unique = f"{base}_{n}"
    return call if unique == call.id else msgspec.structs.replace(call, id=CallId(unique))
