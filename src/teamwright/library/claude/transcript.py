"""Lines of another program's transcript: one JSON object each, linked into a tree by `parentUuid`.

The files are untrusted: line and file sizes are limited, and following links visits no line twice.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
from msgspec import Struct, field

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import as_list

MOST_FILE = 256 << 20  # bytes
MOST_LINE = 32 << 20
MOST_LINES = 1_000_000
TITLES = ("custom-title", "summary", "ai-title")  # line types that name a session, by precedence
TALK = ("user", "assistant")
QUIET = frozenset(  # that program's own notes, not part of the conversation
    {
        "system",
        "file-history-snapshot",
        "queue-operation",
        "progress",
        "attachment",
        "last-prompt",
        "permission-mode",
        "mode",
        "agent-name",
        "tag",
        "pr-link",
    }
)


class ClaudeEntry(Struct, frozen=True, rename="camel"):
    """The fields of a line that we use."""

    type: str = ""
    subtype: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    timestamp: str = ""
    cwd: str = ""
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    message: dict[str, Any] = {}
    summary: str = ""
    custom_title: str = ""
    ai_title: str = ""
    compact_metadata: dict[str, Any] = {}

    @property
    def talks(self) -> bool:
        return self.type in TALK and not self.is_sidechain and not self.is_api_error_message

    @property
    def is_boundary(self) -> bool:
        return self.type == "system" and self.subtype == "compact_boundary" and not self.is_sidechain

    @property
    def message_id(self) -> str:
        """Shared by all lines of one reply."""
        found = self.message.get("id")
        return found if self.type == "assistant" and isinstance(found, str) else ""

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks; plain text is one block."""
        found: Any = self.message.get("content")
        if isinstance(found, str):
            return [{"type": "text", "text": found}] if found else []
        items = as_list(found)
        return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]

    @property
    def at(self) -> int:
        """Milliseconds since 1970; 0 if unknown."""
        try:
            moment = datetime.fromisoformat(self.timestamp)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return 0


_KINDS: dict[Any, type] = {str: str, str | None: str, bool: bool, dict[str, Any]: dict}
_FIELDS: list[tuple[str, str, type]] = [
    (f.name, f.encode_name, _KINDS[f.type]) for f in msgspec.structs.fields(ClaudeEntry)
]


class ClaudeTranscript(Struct):
    """A transcript as read. `unknown` counts unrecognised lines by reason."""

    path: Path
    entries: dict[str, ClaudeEntry] = field(default_factory=dict[str, ClaudeEntry])  # by uuid, in file order
    titles: dict[str, str] = field(default_factory=dict[str, str])  # kind -> the latest title
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    asides: int = 0  # lines of agents that worked beside the conversation

    @property
    def title(self) -> str:
        return next((self.titles[kind] for kind in TITLES if self.titles.get(kind)), "")

    def chain(self) -> list[ClaudeEntry]:
        """The conversation in order, found by following links back from the last message, across compactions."""
        found: list[ClaudeEntry] = []
        seen: set[str] = set()
        last = next((entry for entry in reversed(self.entries.values()) if entry.talks), None)
        while last is not None and last.uuid not in seen:
            seen.add(last.uuid)
            found.append(last)
            above = last.parent_uuid or (last.logical_parent_uuid if last.is_boundary else None)
            last = self.entries.get(above or "")
        return found[::-1]


def read_transcript(path: Path) -> ClaudeTranscript:
    """Raises SettingsError if the file cannot be read at all."""
    found = ClaudeTranscript(path)
    for data in _lines(path):
        try:
            value: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        if isinstance(value, dict):
            _take(found, _entry(cast("dict[str, Any]", value)))
        else:
            _count(found, "unreadable")
    return found


def _entry(fields: dict[str, Any]) -> ClaudeEntry:
    """Fields of the wrong type count as missing."""
    pairs = ((name, fields.get(key), kind) for name, key, kind in _FIELDS)
    known: dict[str, Any] = {name: value for name, value, kind in pairs if isinstance(value, kind)}
    return ClaudeEntry(**known)


def _take(found: ClaudeTranscript, entry: ClaudeEntry) -> None:
    if entry.type in TITLES:
        found.titles[entry.type] = " ".join((entry.custom_title or entry.ai_title or entry.summary).split())[:200]
    elif entry.is_sidechain:
        found.asides += 1
    else:
        if entry.uuid:  # of any type: other lines may link to it
            found.entries[entry.uuid] = entry
        if entry.type not in TALK and entry.type not in QUIET:
            _count(found, entry.type[:40] or "without a type")


def _count(found: ClaudeTranscript, what: str) -> None:
    key = what if what in found.unknown or len(found.unknown) < 20 else "other"
    found.unknown[key] = found.unknown.get(key, 0) + 1


def _pass_over_line(file: BinaryIO) -> None:
    data = file.readline(MOST_LINE)
    while data and not data.endswith(b"\n"):
        data = file.readline(MOST_LINE)


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the lines; one that is too long becomes an empty object."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not path.is_file() or os.fstat(file.fileno()).st_size > MOST_FILE:
                raise SettingsError(f"{path}: not a regular file of at most {MOST_FILE:,} bytes")
            for _ in range(MOST_LINES):
                data = file.readline(MOST_LINE)
                if not data:
                    return
                if not data.endswith(b"\n") and len(data) == MOST_LINE:
                    _pass_over_line(file)
                    yield b"{}"
                elif data.strip():
                    yield data
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
