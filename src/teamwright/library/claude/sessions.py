"""Finds another program's sessions below `~/.claude/projects`, or below CLAUDE_CONFIG_DIR."""

import os
import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from teamwright.core.data.claude_lines import folder_of

MOST_SESSIONS = 20_000
_HEAD, _TAIL = 256 * 1024, 64 * 1024  # bytes read per file for a list
_SESSION = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONGEST = 200  # characters in a title


class ClaudeSession(Struct, frozen=True):
    """A session in a list, from the head and tail of its file."""

    id: str
    path: Path
    modified: int  # milliseconds since 1970
    size: int
    cwd: str = ""
    title: str = ""


def find_sessions(projects: Path, folder: Path | None = None) -> list[ClaudeSession]:
    """All sessions, or those of one directory; most recently written first."""
    wanted = None if folder is None else {folder_of(str(folder)), folder_of(os.path.realpath(folder))}
    dirs = [entry for entry in _entries(projects) if entry.is_dir(follow_symlinks=False)]
    files = (
        file
        for place in dirs
        if wanted is None or place.name in wanted
        for file in _entries(Path(place.path))
        if file.name.endswith(".jsonl") and _SESSION.fullmatch(file.name[:-6]) and file.is_file(follow_symlinks=False)
    )
    found = [_look(Path(file.path)) for file, _ in zip(files, range(MOST_SESSIONS), strict=False)]
    return sorted(found, key=attrgetter("modified"), reverse=True)


def find_session(projects: Path, id: str) -> ClaudeSession | None:
    """One session, from any directory."""
    for place in _entries(projects):
        path = Path(place.path, f"{id}.jsonl")
        if place.is_dir(follow_symlinks=False) and path.is_file() and not path.is_symlink():
            return _look(path)
    return None


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _look(path: Path) -> ClaudeSession:
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            head = file.read(_HEAD)
            file.seek(max(len(head), stat.st_size - _TAIL))
            tail = file.read(_TAIL)
    except OSError:
        return ClaudeSession(path.stem, path, 0, 0)
    first, last = list(_objects(head.split(b"\n"))), list(_objects(tail.split(b"\n")))
    cwd = next((one["cwd"] for one in first if isinstance(one.get("cwd"), str)), "")
    title = _title([*first, *last]) or _prompt(first)
    return ClaudeSession(path.stem, path, stat.st_mtime_ns // 1_000_000, stat.st_size, cwd, title)


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects among these lines; skips truncated lines and other values."""
    for line in lines:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)


def _title(lines: list[dict[str, Any]]) -> str:
    for key in ("customTitle", "summary", "aiTitle"):
        said = [one[key] for one in lines if isinstance(one.get(key), str) and one[key].strip()]
        if said:
            return _short(said[-1])
    return ""


def _first_text(content: Any) -> str:
    parts = cast("list[Any]", content) if isinstance(content, list) else [{"text": content}]
    texts = [cast("dict[str, Any]", part).get("text") for part in parts if isinstance(part, dict)]
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _prompt(lines: list[dict[str, Any]]) -> str:
    """The first thing that a person said."""
    for one in lines:
        message = one.get("message")
        if one.get("type") != "user" or one.get("isMeta") or one.get("isSidechain") or not isinstance(message, dict):
            continue
        words = _first_text(cast("dict[str, Any]", message).get("content"))
        if words and not words.lstrip().startswith("<"):
            return _short(words)
    return ""


def _short(text: str) -> str:
    return " ".join(text[: 4 * _LONGEST].split())[:_LONGEST]
