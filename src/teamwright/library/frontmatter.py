"""Frontmatter of Markdown files: YAML, falling back to plain text where YAML is stricter than authors."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.core.text import shown
from teamwright.library.fields import FieldFault, Fields, scalar

MOST_CHARACTERS = 64_000  # in the frontmatter
_KEY = re.compile(r"([A-Za-z_][\w.-]{0,99})[ \t]*:(?:[ \t]+(.*))?")
# Lines for which YAML would give the same text, or nothing: they are read without YAML.
_PLAIN = re.compile(r"([A-Za-z_][\w-]{0,63}):(?: +([A-Za-z0-9_./$(<](?:(?! #).)*)?)?")
_STRUCTURE = re.compile(r"(?:[&!]\S*\s+)?[\[{\"'|>]")
# Text that merely starts like a YAML list, object or quotation: `[file] [options]`.
_GOES_ON = re.compile(r"(?:\[[^\[\]]*\]|\{[^{}]*\}|\"[^\"]*\"|'[^']*'|[|>][-+0-9]*\s)\s*[^\s#]")


class Document(Struct, frozen=True):
    """`lines` maps each field to its line in the file."""

    fields: dict[str, Any]
    body: str
    lines: dict[str, int] = {}
    warnings: tuple[str, ...] = ()  # each begins with `line N: `
    has_frontmatter: bool = False


def split(text: str, file: str) -> Document:
    """Splits frontmatter and body; `file` names the file in errors. Raises SettingsError with file and line."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        return Document({}, text)
    end = next((n for n in range(start + 1, len(lines)) if lines[n].rstrip() == "---"), None)
    if end is None:
        raise SettingsError(f"{file}, line {start + 1}: no line `---` ends the frontmatter that begins here")
    head, first = lines[start + 1 : end], start + 2
    try:
        fields = read_fields(head)
    except FieldFault as fault:
        raise SettingsError(f"{file}, line {fault.line + first}: {fault.reason}") from None
    return Document(
        fields.values,
        "\n".join(lines[end + 1 :]),
        {key: n + first for key, n in fields.lines.items()},
        tuple(f"line {n + first}: {shown(words)}" for n, words in fields.warnings),
        has_frontmatter=True,
    )


def read_fields(lines: Sequence[str]) -> Fields:
    """Reads the fields in these lines. Raises FieldFault."""
    if sum(map(len, lines)) > MOST_CHARACTERS:
        raise FieldFault(f"the frontmatter is longer than {MOST_CHARACTERS:,} characters", 0)
    if (plain := _read_plain(lines)) is not None:
        return plain
    from teamwright.library.yamltext import read_mapping  # noqa: PLC0415  # it imports yaml

    try:
        return read_mapping("\n".join(lines))
    except FieldFault:
        return _read_by_key(lines)


def _read_plain(lines: Sequence[str]) -> Fields | None:
    """Reads simple lines without YAML, whose import costs more than the rest; None if a line is not simple."""
    fields = Fields()
    for n, line in enumerate(lines):
        if line.startswith("#") or not line.strip(" "):
            continue
        found = _PLAIN.fullmatch(line)
        if found is None or not line.isprintable():
            return None
        fields.put(found[1], scalar((found[2] or "").rstrip(" ")), n)
    return fields


def _read_by_key(lines: Sequence[str]) -> Fields:
    """Reads each top-level key by itself, so that a value that YAML rejects can be taken as plain text."""
    starts = [n for n, line in enumerate(lines) if _KEY.fullmatch(line)]
    fields = Fields()
    for start, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        part = lines[start:end]
        try:
            found = _read_one(part)
        except FieldFault as fault:  # an unclosed bracket is only noticed at the end of the text
            last = max((n for n, line in enumerate(part) if line.strip()), default=0)
            raise FieldFault(fault.reason, start + min(fault.line, last)) from None
        fields.warnings += [(start + n, words) for n, words in found.warnings]
        for key, value in found.values.items():
            fields.put(key, value, start + found.lines[key])
    return fields


def _read_one(lines: Sequence[str]) -> Fields:
    """Reads one key with its lines: as YAML, then with tabs replaced by spaces, then as plain text."""
    from teamwright.library.yamltext import read_mapping  # noqa: PLC0415

    try:
        return read_mapping("\n".join(lines))
    except FieldFault:
        untabbed = [_untab(line) for line in lines]
        if untabbed != list(lines):
            return _read_one(untabbed)
        if (text := _as_text(lines)) is None:
            raise
        return text


def _untab(line: str) -> str:
    """Replaces tabs in the indentation by spaces."""
    rest = line.lstrip(" \t")
    return line[: len(line) - len(rest)].replace("\t", "  ") + rest


def _as_text(lines: Sequence[str]) -> Fields | None:
    """Reads `key: words` and the indented lines below as one text; None if a person cannot have meant that."""
    found = _KEY.fullmatch(lines[0]) if lines else None
    if found is None:
        return None
    value = (found[2] or "").strip()
    if not _is_prose(value):
        return None
    rest = [line for line in lines[1:] if not line.startswith("#")]
    if any(line.strip() and not line.startswith(" ") for line in rest):
        return None
    more = list(map(str.strip, rest))
    fields = Fields()
    fields.put(found[1], _folded([value, *more]) if any(more) else _unquoted(value), 0)
    return fields


def _is_prose(value: str) -> bool:
    return value != "" and (not _STRUCTURE.match(value) or _GOES_ON.match(value) is not None)


def _unquoted(value: str) -> str:
    return value[1:-1].strip() if value[0] in "\"'" and value[-1] == value[0] else value


def _folded(lines: Sequence[str]) -> str:
    """Folds lines as YAML does plain text: newlines become spaces, empty lines become newlines."""
    text = lines[0]
    for before, line in pairwise(lines):
        text += (" " if before else "") + line if line else "\n"
    return text.strip()
