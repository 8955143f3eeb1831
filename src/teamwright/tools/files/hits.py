"""Reads ripgrep's output line by line, filtered by file and bounded."""

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from teamwright.tools.bounds import visible

_MOST = 30_000  # characters
_MOST_PATHS = 50_000
_NUMBERED = re.compile(rb"(\d+)([:-])")
_BINARY = re.compile(
    rb': (?:WARNING: stopped searching )?binary file (?:matches|after match) \(found "[^"]*" byte around offset \d+\)$'
)

Shape = Literal["content", "files_with_matches", "count"]


class Hits:
    """Collects what is to be shown; says when it has enough."""

    def __init__(
        self,
        shape: Shape,
        *,
        limit: int | None,
        numbers: bool,
        wanted: Callable[[str], bool],
        name: Callable[[str], str],
        only: str = "",
    ) -> None:
        self.shape: Shape = shape
        self.limit = limit or None
        self.numbers = numbers
        self.wanted = wanted
        self.name = name  # how a path is shown
        self.only = only  # the single file that is searched
        self.lines: list[str] = []
        self.paths: list[str] = []
        self.matches = 0
        self.left_out = 0
        self._size = 0
        self._held = b""  # first lines of a path that contains newlines
        self._path: bytes | None = None
        self._path_wanted = False
        self._path_name = ""

    def take_path(self, piece: bytes) -> bool:
        path = os.fsdecode(piece).removeprefix("./")
        if self.wanted(path):
            self.paths.append(path)
        return len(self.paths) < _MOST_PATHS

    def show_paths(self, order: Sequence[str]) -> None:
        for path in order[: self.limit]:
            if self._size > _MOST:
                break
            self._show(self.name(path))
        self.left_out = len(order) - len(self.lines)

    def take(self, line: bytes) -> bool:
        """One line of output: `path NUL rest`, where a path may itself contain newlines."""
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
            return self._add("--") if self.lines and self.lines[-1] != "--" else True
        if found := _BINARY.search(line):
            self._held = b""
            self._enter(line[: found.start()])
            return self._add(f"{self._path_name}: binary file matches") if self._path_wanted else True
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

    def _take_text(self, rest: bytes) -> bool:
        found = _NUMBERED.match(rest)
        if not found:
            return True
        mark = found[2].decode()
        self.matches += mark == ":"
        text = visible(rest[found.end() :].decode(errors="replace").removesuffix("\r"))
        number = found[1].decode() + mark if self.numbers else ""
        name = "" if self.only else self._path_name + mark
        return self._add(f"{name}{number}{text}")

    def _add(self, line: str) -> bool:
        """False: this line is already too much."""
        if self._size > _MOST or (self.limit is not None and len(self.lines) >= self.limit):
            self.left_out += 1
            return False
        self._show(line)
        return True

    def _show(self, line: str) -> None:
        self.lines.append(line)
        self._size += len(line) + 1

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {"mode": self.shape, "numFiles": len(self.paths)}
        found["filenames"] = [self.name(path) for path in self.paths[:100]]
        if self.shape != "files_with_matches":
            found["numMatches"] = self.matches
        return found
