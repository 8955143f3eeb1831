"""Reduces a server's message to the parts we read, before it is parsed.

Parsed in full, 16 MiB of tiny parts take minutes and gigabytes.
"""

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from teamwright.core.policies.normalize import is_deep

MOST_PARTS = 1_000  # per answer
SMALL = 64 * 1024  # bytes; smaller messages are left as they are
MOST_OTHER = 4 << 20  # bytes of anything but content
DEEPEST = 150  # levels
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")')


class UnreadableMessage(ValueError):
    """Why the message cannot be used."""


class _ServerMessage(Struct, omit_defaults=True):
    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Resource(Struct, omit_defaults=True):
    uri: str = ""
    mimeType: str | None = None
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET


class _Part(Struct, omit_defaults=True):
    """A part of any kind; its other fields are not used."""

    type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    mimeType: str | None = None
    uri: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    title: str | None = None
    description: str | None = None
    blob: str | UnsetType = UNSET
    resource: _Resource | UnsetType = UNSET


class _PromptMessage(Struct, omit_defaults=True):
    role: str
    content: _Part


_message = msgspec.json.Decoder(_ServerMessage)
_object = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])
_part = msgspec.json.Decoder(_Part)
_said = msgspec.json.Decoder(_PromptMessage)
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {"content": _part, "contents": _part, "messages": _said}
_encode = msgspec.json.Encoder().encode


def shrink(data: bytes) -> bytes:
    """The same message with at most MOST_PARTS parts. Raises UnreadableMessage if it is invalid or too large."""
    try:
        if len(data) <= SMALL:
            if is_deep(msgspec.json.decode(data), DEEPEST):
                raise UnreadableMessage(f"it is nested more than {DEEPEST} levels deep")
            return data
        message = _message.decode(data)
        if not isinstance(message.result, UnsetType):
            message.result = Raw(_encode(_result(bytes(message.result))))
        _require_small(message.error)
        if message.id is UNSET:  # a notification; a request may fill a whole line
            _require_small(message.params)
        return _encode(message)
    except RecursionError:
        raise UnreadableMessage("it is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableMessage(f"it is no JSON as the protocol has it ({error})") from None


def _result(data: bytes) -> dict[str, Any]:
    """Cuts lists, and reduces their parts to what is read."""
    kept: dict[str, Any] = {}
    for name, value in _object.decode(data).items():
        if name in _DECODERS and bytes(value).startswith(b"["):
            parts = _list.decode(bytes(value))
            kept[name] = [_DECODERS[name].decode(bytes(part)) for part in parts[:MOST_PARTS]]
            if len(parts) > MOST_PARTS:
                kept[name] += _counted(name, len(parts) - MOST_PARTS)
        elif name == "structuredContent" and len(bytes(value)) > MOST_OTHER // 4:
            kept[name] = {"left_out": f"[{len(bytes(value)):,} bytes of data are more than can be taken]"}
        else:
            _require_small(value)
            kept[name] = value
    return kept


def _counted(name: str, more: int) -> list[dict[str, Any]]:
    words = f"[{more:,} more parts of this answer are left out: at most {MOST_PARTS:,} are taken]"
    if name == "content":
        return [{"type": "text", "text": words}]
    if name == "contents":
        return [{"uri": "", "text": words}]
    return [{"role": "user", "content": {"type": "text", "text": words}}]


def _require_small(value: Raw | UnsetType) -> None:
    if not isinstance(value, UnsetType) and len(bytes(value)) > MOST_OTHER:
        raise UnreadableMessage(f"it holds more than {MOST_OTHER >> 20} MiB that is not content")


def looks_meant(data: bytes) -> bool:
    """Was this meant as a message? Programs also print other things to stdout."""
    return data[:1] in b"{[" and (b'"jsonrpc"' in data[:4096] or b'"jsonrpc"' in data[-4096:] or len(data) > SMALL)


def id_in(data: bytes) -> int | str | None:
    """The id that an unreadable message seems to have."""
    found = _ID.search(data[:4096]) or _ID.search(data[-4096:])
    return msgspec.json.decode(found[1]) if found else None
