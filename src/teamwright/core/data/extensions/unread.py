"""Configuration that people have and we do not use: one line at start, the full list in `teamwright doctor`."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from teamwright.core.text import few, plural, shown

UnreadKind = Literal["agent file", "skill", "command", "setting", "hook event", "hook type", "plugin"]
_WITH_FIELDS = frozenset({"agent file", "skill", "command"})  # files in which single fields are unused
_MOST_NAMED = 4  # names of one kind in that line
_MOST_GROUPS = 8


class Unread(Struct, frozen=True):
    """One unused thing in one file. `why` says what to do instead, if anything."""

    kind: UnreadKind
    name: str
    file: str
    line: int = 0
    why: str = ""

    @property
    def text(self) -> str:
        where = f"{shown(self.file, 500)}{f', line {self.line}' if self.line else ''}"
        what = f"field `{shown(self.name, 80)}`" if self.kind in _WITH_FIELDS else f"{self.kind} {_named(self.name)}"
        return f"{where}: {what} is not used{f': {self.why}' if self.why else ''}"


def in_one_line(unread: Sequence[Unread]) -> str:
    """One line for a person who starts the program; empty if everything is used."""
    groups = [*_fields(unread), *_names(unread)]
    if not groups:
        return ""
    more = len(groups) - _MOST_GROUPS
    told = [*groups[:_MOST_GROUPS], *([f"{more} more"] if more > 0 else [])]
    return f"not used here: {'; '.join(told)}. `teamwright doctor` lists them."


def _fields(unread: Iterable[Unread]) -> list[str]:
    files: dict[tuple[str, str], set[str]] = {}
    for one in unread:
        if one.kind in _WITH_FIELDS:
            files.setdefault((one.kind, one.name), set()).add(one.file)
    return [f"field {_named(name)} in {plural(len(found), kind)}" for (kind, name), found in files.items()]


def _names(unread: Iterable[Unread]) -> list[str]:
    names: dict[str, dict[str, None]] = {}
    for one in unread:
        if one.kind not in _WITH_FIELDS:
            names.setdefault(one.kind, {})[one.name] = None
    return [
        f"{kind if len(found) == 1 else f'{kind}s'} {few([_named(name) for name in found], _MOST_NAMED)}"
        for kind, found in names.items()
    ]


def _named(name: str) -> str:
    return f"`{shown(name, 60)}`"
