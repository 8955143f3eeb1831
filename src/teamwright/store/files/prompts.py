"""Rendered system prompts and tools, stored once by their content, so that a resumed agent sends the same bytes."""

import hashlib
import re
from pathlib import Path

import msgspec

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import StoreError
from teamwright.osfiles.private import fault, write_file

_HASH = re.compile(r"[0-9a-f]{32}")


class _Rendering(msgspec.Struct, frozen=True):
    system: tuple[str, ...]
    tools: tuple[ToolSpec, ...]


def put(dir: Path, system: tuple[str, ...], tools: tuple[ToolSpec, ...], *, synced: bool = True) -> str:
    """Store a prompt and return its hash; if synced, durable on return. Writes nothing if it is already there."""
    data = msgspec.json.encode(_Rendering(system, tools))
    hash = _hash(data)
    if not (dir / hash).is_file():
        write_file(dir / hash, data, synced=synced)
    return hash


def get(dir: Path, hash: str) -> tuple[tuple[str, ...], tuple[ToolSpec, ...]]:
    """What `put` stored under this hash; refuses bytes that do not match the hash."""
    path = dir / hash
    if not _HASH.fullmatch(hash):
        raise StoreError(f"{hash!r} is not the name of a stored prompt: the transcript that names it is damaged.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise fault("read", path, error) from error
    if _hash(data) != hash:
        raise StoreError(
            f"{path} is damaged: its content is not what its name says. Remove it and start the agent again."
        )
    try:
        found = msgspec.json.decode(data, type=_Rendering)
    except msgspec.DecodeError as error:
        raise StoreError(f"{path} has a shape that this program does not know ({error}). Update teamwright.") from None
    return found.system, found.tools


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
