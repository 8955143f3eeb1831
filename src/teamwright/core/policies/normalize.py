"""Normalises what a model wrote before it is stored: unique ids, nothing empty, valid arguments; and fits ids and names
to what every provider takes."""

import re
from base64 import b32encode
from collections.abc import Container, Iterable
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Raw

from teamwright.core.data.message import Block, Message, Text, Thinking, ToolCall
from teamwright.core.ids import CallId

DEEPEST = 100  # levels of nested arguments
LONGEST_ID = 100_000  # characters: some gateways put a whole signature into an id
_PLAIN_ID = re.compile(rf"[!#-\[\]-~]{{1,{LONGEST_ID}}}")  # looks the same inside JSON
_FIT_ID = re.compile(r"[A-Za-z0-9]{9}")  # one provider takes nothing else, and all others take it
_UNFIT_NAME = re.compile(r"[^A-Za-z0-9_-]")


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
    """Keeps the id as it came: some gateways want it back byte for byte."""
    unique, n = call.id if _PLAIN_ID.fullmatch(call.id) else fit_id(call.id), 1
    while unique in used or unique in mine:
        n += 1
        unique = fit_id(f"{call.id} {n}")
    return call if unique == call.id else msgspec.structs.replace(call, id=unique)


def fit_id(id: CallId | str) -> CallId:
    """An id that every provider takes, always the same one for the same id."""
    made = id if _FIT_ID.fullmatch(id) else b32encode(sha256(id.encode("utf-8", "replace")).digest())[:9].decode()
    return CallId(made)


def fit_name(name: str) -> str:
    """A tool's name that every provider takes; it stays as it is if it was one that we offer."""
    return _UNFIT_NAME.sub("_", name)[:64] or "unnamed"
