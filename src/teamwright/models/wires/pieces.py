"""Encodes each immutable message once; requests are assembled from the encoded pieces."""

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from teamwright.core.data.message import Message

T = TypeVar("T")
Made = TypeVar("Made")
Bytes = bytes | memoryview
Marks = Mapping[int, Collection[int]]  # index of a message -> which of its `ends`
STRETCH = 32  # messages
MARKER = b',"cache_control":{"type":"ephemeral"}'
_encoder = msgspec.json.Encoder()


class Piece(Struct, frozen=True):
    """A message as bytes that begin with a comma. `ends` are the offsets at which a block can take a cache marker."""

    data: bytes
    ends: tuple[int, ...] = ()

    def marked(self, blocks: Collection[int]) -> list[bytes]:
        """The same bytes with cache markers in these of the blocks that can carry one; nothing is encoded again."""
        out: list[bytes] = []
        start = 0
        for at in sorted(self.ends[block] for block in blocks):
            out += [self.data[start:at], MARKER]
            start = at
        return [*out, self.data[start:]]


class _Stretch(Struct, frozen=True):
    ids: tuple[int, ...]
    alive: list[weakref.ref[Message]]  # kept alive for their callbacks
    data: tuple[bytes, ...]


class Pieces:
    """Encoded messages by identity and variant. An entry is dropped with its message.

    With `joint`, the beginning of each message of a user, adjacent ones are sent as one: results of calls, and letters
    that came with them.
    """

    def __init__(self, make: Callable[[Message, bool], Piece], joint: bytes = b"") -> None:
        self._make, self._joint = make, joint
        self._made: dict[tuple[int, bool], tuple[weakref.ref[Message], Piece]] = {}
        self._stretches: dict[tuple[int, int, str], _Stretch] = {}

    def row(self, messages: tuple[Message, ...], model: str, marks: Marks | None = None) -> list[bytes]:
        """The pieces of a conversation for `model`, with cache markers at `marks`."""
        marks = marks or {}
        out: list[bytes] = []
        for start in range(0, len(messages), STRETCH):
            end = min(start + STRETCH, len(messages))
            if end - start == STRETCH and not any(start <= n < end for n in marks):
                self._add(out, self._stretch(messages, start, model), messages, start)
                continue
            for number, message in enumerate(messages[start:end], start):
                piece = self.of(message, own=is_own(messages, number, model))
                data = piece.marked(marks[number]) if number in marks else [piece.data]
                self._add(out, data, messages, number)
        return out

    def _add(self, out: list[bytes], data: Sequence[bytes], messages: Sequence[Message], number: int) -> None:
        """Adds the message at `number`, within the one before it if both are the user's."""
        if self._joint and number and messages[number - 1].role == messages[number].role == "user":
            out[-1] = out[-1].removesuffix(b"]}")
            data = [b"," + data[0].removeprefix(self._joint), *data[1:]]
        out += data

    def _stretch(self, messages: tuple[Message, ...], start: int, model: str) -> tuple[bytes, ...]:
        """Looks up many messages at once, so that a long conversation costs little more than a short one."""
        part = messages[start : start + STRETCH]
        ids = tuple(map(id, part))
        key = (ids[0], ids[-1], model)
        found = self._stretches.get(key)
        if found is None or found.ids != ids:
            made = self._stretches

            def forget(_: weakref.ref[Message]) -> None:
                made.pop(key, None)  # once a message is dead, its id may be reused

            data: list[bytes] = []
            for number, message in enumerate(part, start):
                piece = self.of(message, own=is_own(messages, number, model))
                self._add(data, [piece.data], messages, number if data else 0)
            found = made[key] = _Stretch(ids, [weakref.ref(message, forget) for message in part], tuple(data))
        return found.data

    def of(self, message: Message, *, own: bool = True) -> Piece:
        """`own`: it goes back to the model that wrote it or made the calls that it answers, so ids stay as they are and
        content that only that model can read is included."""
        key = (id(message), own)
        found = self._made.get(key)
        if found is not None and found[0]() is message:
            return found[1]
        piece = self._make(message, own)
        made = self._made  # not `self`: the callback must not keep us alive
        self._made[key] = (weakref.ref(message, lambda _: made.pop(key, None)), piece)
        return piece

    def __len__(self) -> int:
        return len(self._made)


def is_own(messages: Sequence[Message], number: int, model: str) -> bool:
    """Whether `model` wrote the message at `number`, or the calls of which it holds the results."""
    writer = messages[number - 1 if number and messages[number].role == "user" else number]
    return writer.model == model


class Once(Generic[T, Made]):
    """What is made of objects that allow no weak references (tuples), by identity; keeps the newest few."""

    def __init__(self, make: Callable[[T], Made], most: int = 64) -> None:
        self._make = make
        self._most = most
        self._made: dict[int, tuple[T, Made]] = {}  # the object itself is kept, so that its id is not reused

    def of(self, thing: T) -> Made:
        found = self._made.get(id(thing))
        if found is not None:
            return found[1]
        if len(self._made) >= self._most:
            del self._made[next(iter(self._made))]
        data = self._make(thing)
        self._made[id(thing)] = (thing, data)
        return data


def row(pieces: Sequence[bytes]) -> list[Bytes]:
    """Joins pieces that begin with a comma into the inside of a JSON array."""
    first = next(iter(pieces), b",")
    return [memoryview(first)[1:], *pieces[1:]]


def encode(value: object) -> bytes:
    """Encodes JSON. Lone surrogates, which files and names can contain, become question marks."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_mended(value))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_mended(k): _mended(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_mended(v) for v in cast("list[Any]", value)]
    return value
