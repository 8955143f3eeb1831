"""Stores earlier prompts and the unsent one on disk."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct, field

from teamwright.core.errors import StoreError
from teamwright.osfiles.private import write_file
from teamwright.store.files.paths import Home, slug

MOST_PROMPTS = 300
MOST_PROJECTS = 100  # projects whose prompts are searched
LONGEST = 50_000  # characters of a stored prompt


class SavedDraft(Struct):
    prompts: list[str] = field(default_factory=list[str])  # the oldest first
    draft: str = ""
    pastes: dict[str, str] = field(default_factory=dict[str, str])  # texts behind the draft's chips
    cwd: str = ""


class EarlierPrompt(Struct, frozen=True):
    text: str
    cwd: str = ""  # empty: here


class Drafts:
    """One small file per working directory. If it cannot be read or written, only this memory is lost."""

    def __init__(self, home: Home, cwd: Path) -> None:
        self._path = home.root / "input" / f"{slug(cwd)}.json"
        self.kept = self._read()
        self.kept.cwd = str(cwd)
        self._written = msgspec.json.encode(self.kept)

    def _read(self) -> SavedDraft:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SavedDraft)
        except (OSError, ValueError):
            return SavedDraft()

    def remember(self, prompt: str) -> None:
        prompts = self.kept.prompts
        if prompt.strip() and len(prompt) <= LONGEST and prompts[-1:] != [prompt]:
            prompts.append(prompt)
            del prompts[:-MOST_PROMPTS]

    def save(self) -> str:
        """Blocks. Returns words if it failed."""
        data = msgspec.json.encode(self.kept)
        if data == self._written:
            return ""
        try:
            write_file(self._path, data)
        except StoreError as error:
            return str(error)
        self._written = data
        return ""


def read_earlier(home: Home) -> list[EarlierPrompt]:
    """Prompts of all directories, each once: the most recently used directory first, and its newest prompts first.
    Blocks."""
    found: dict[str, EarlierPrompt] = {}
    for path in _newest(home.root / "input"):
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=SavedDraft)
        except (OSError, ValueError):
            continue
        for text in reversed(kept.prompts):
            found.setdefault(text, EarlierPrompt(text, kept.cwd))
    return list(found.values())


def _newest(folder: Path) -> list[Path]:
    try:
        files = [(entry.stat().st_mtime, Path(entry.path)) for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return []
    return [path for _, path in sorted(files, reverse=True) if path.suffix == ".json"][:MOST_PROJECTS]
