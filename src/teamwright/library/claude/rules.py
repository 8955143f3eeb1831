"""Instruction rules: `.claude/rules/*.md`, each for all files or for those matched by its `paths`."""

import os
from pathlib import Path
from typing import Any, cast

from teamwright.core.errors import SettingsError
from teamwright.core.text import shown
from teamwright.library.frontmatter import split

MOST_RULES = 200  # files per folder
MOST_ENTRIES = 5_000
MOST_PATHS = 20
_FIELDS = ("paths", "globs")


def rule_files(folder: Path) -> list[Path]:
    """All Markdown files below a folder, by name; links to directories are not followed."""
    found: list[Path] = []
    seen = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        found += [Path(place) / name for name in sorted(names) if name.endswith(".md")]
        seen += len(folders) + len(names)
        if len(found) >= MOST_RULES or seen >= MOST_ENTRIES:
            break
    return found[:MOST_RULES]


def read_rule(text: str, file: str) -> tuple[str, tuple[str, ...]]:
    """The rule's text, and the patterns of the files it applies to; none means all files."""
    try:
        document = split(text, file)
    except SettingsError:  # then it is all text
        return text, ()
    return document.body, tuple(pattern for key in _FIELDS for pattern in _patterns(document.fields.get(key)))


def _patterns(value: Any) -> list[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else str(value or "").split(",")
    return [shown(item.strip(), 200) for item in items[:MOST_PATHS] if isinstance(item, str) and item.strip()]
