"""Parses ripgrep's output line by line, filters by file, bounds it, and counts the rest."""

import os
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct

from teamwright.core.text import plural
from teamwright.tools.bounds import visible

LINES = 250  # lines or files, unless the model asks for another number
MOST_COUNTED = 100_000  # lines counted beyond those shown
_MOST = 30_000  # characters
_MOST_PATHS = 50_000
_NUMBERED = re.compile(rb"(\d+)([:-])")
_BINARY = re.compile(
    rb': (?:WARNING: stopped searching )?binary file (?:matches|after match) \(found "[^"]*" byte around offset \d+\)$'
)

Shape = Literal["content", "files_with_matches", "count"]


class Hit(Struct, frozen=True):
    """A line of a file. `mark` follows the path if both share a line; `gap`: lines before it are left out."""

    path: str
    mark: str
    text: str
    gap: bool = False


class Hits:
    """Collects what to show, and reports when it has enough."""

    def __init__(
        self,
        shape: Shape,
        *,
        limit: int | None,
        offset: int = 0,
        numbers: bool,
        wanted: Callable[[str], bool],
        name: Callable[[str], str],
        only: str = "",
    ) -> None:
        self.shape: Shape = shape
        self.limit = LINES if limit is None else limit or None
        self.offset = offset
        self.numbers = numbers
        self.wanted = wanted
        self.name = name  # how to display a path
        self.only = only  # the only file searched
        self.hits: list[Hit] = []
        self.paths: list[str] = []
        self.shown: dict[str, None] = {}  # the files with lines that are shown
        self.matches = 0
        self.left_out = self.left_files = 0  # lines not shown, and the files they are in
        self._last_left = ""
        self._passed = 0  # lines or files skipped before the offset
        self._size = 0
        self._gap = False
        self._held = b""  # first lines of a path that contains newlines
        self._path: bytes | None = None
        self._path_wanted = False
        self._path_name = self._file = ""

    def take_path(self, piece: bytes) -> bool:
        path = os.fsdecode(piece).removeprefix("./")
        if self.wanted(path):
            self.paths.append(path)
        return len(self.paths) < _MOST_PATHS

    def show_paths(self, order: Sequence[str]) -> None:
        self._passed = min(self.offset, len(order))
        for n, path in enumerate(order[self._passed :], self._passed):
            if self._is_full:
                self.left_out = len(order) - n
                break
            self._add(self.name(path))

    def take(self, line: bytes) -> bool:
        """Takes one line of output: `path NUL rest`, where the path itself may contain newlines."""
        line = self._held + line
        path, null, rest = line.partition(b"\0")
        if not null:
            return self._take_odd(line)
        self._held = b""
        self._enter(path)
        if not self._path_wanted:
            return True
        match self.shape:
            case "files_with_matches":
                return self._add(self._path_name)
            case "count":
                self.matches += int(rest)
                return self._add(f"{self._path_name}:{int(rest)}")
            case "content":
                return self._take_text(rest)

    def _take_odd(self, line: bytes) -> bool:
        if line == b"--":
            self._gap = True
            return True
        if found := _BINARY.search(line):
            self._held = b""
            self._enter(line[: found.start()])
            return self._add("binary file matches", ": ") if self._path_wanted else True
        self._held = line + b"\n" if len(line) < 8192 else b""
        return True

    def _enter(self, path: bytes) -> None:
        if path == self._path:
            return
        self._path = path
        name = self.only or os.fsdecode(path).removeprefix("./")
        self._path_wanted = self.wanted(name)
        if self._path_wanted:
            self._path_name = self.name(name)
            self.paths.append(name)
            self._file = name

    def _take_text(self, rest: bytes) -> bool:
        found = _NUMBERED.match(rest)
        if not found:
            return True
        mark = found[2].decode()
        self.matches += mark == ":"
        if self._is_full:  # it is only counted
            return self._add("")
        text = visible(rest[found.end() :].decode(errors="replace").removesuffix("\r"))
        number = found[1].decode() + mark if self.numbers else ""
        return self._add(f"{number}{text}", mark)

    @property
    def _is_full(self) -> bool:
        return self._size > _MOST or (self.limit is not None and len(self.hits) >= self.limit)

    def _add(self, text: str, mark: str = "") -> bool:
        """False once this line and too many others had to be left out."""
        gap, self._gap = self._gap, False
        if self._passed < self.offset:
            self._passed += 1
        elif self._is_full:
            self.left_out += 1
            self.left_files += self._path_name != self._last_left
            self._last_left = self._path_name
        else:
            self.hits.append(Hit(self._path_name, mark, text, gap))
            self.shown[self._file] = None
            self._size += len(text) + 1
        return self.left_out < MOST_COUNTED

    def lines(self) -> list[str]:
        """The lines to show. A file with several lines gets its path once, above them."""
        if self.shape != "content":
            return [hit.text for hit in self.hits]
        parts = [_part(path, list(hits), alone=bool(self.only)) for path, hits in groupby(self.hits, lambda h: h.path)]
        shown: list[str] = []
        for n, part in enumerate(parts):
            shown += ["", *part] if n and (len(part) > 1 or len(parts[n - 1]) > 1) else part
        return shown

    def rest(self) -> str:
        """How much is not shown, and how to see it."""
        if not self.left_out:
            past = self._passed and not self.hits
            return f"[There are only {self._passed:,} lines or files: use a smaller offset.]" if past else ""
        over = "over " if self.left_out >= MOST_COUNTED else ""
        files = f" in {plural(self.left_files, 'file')}" if self.shape == "content" and not self.only else ""
        what = plural(self.left_out, "more line" if self.shape == "content" else "more file")
        return f"[{over}{what}{files}; see them with offset={self.offset + len(self.hits)}, or narrow the search]"

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {"mode": self.shape, "numFiles": len(self.paths)}
        found["filenames"] = [self.name(path) for path in self.paths[:100]]
        if self.shape != "files_with_matches":
            found["numMatches"] = self.matches
        return found


def _part(path: str, hits: Sequence[Hit], *, alone: bool) -> list[str]:
    """The lines of one file; `alone`: it is the only one."""
    if len(hits) == 1 and not alone:
        return [f"{path}{hits[0].mark}{hits[0].text}"]
    lines = [] if alone else [path]
    for n, hit in enumerate(hits):
        lines += ["--", hit.text] if n and hit.gap else [hit.text]
    return lines
