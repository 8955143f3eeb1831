"""Finds project files that a command line names, because a hook starts more than its own line.

A line alone does not tell what a program will open. So every word that names a file counts, relative to the project and
to every directory that the line names. What those files import or open is not followed.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.core.errors import SettingsError
from teamwright.osfiles.reading import read_plain

MOST_LOOKS = 20_000  # names looked up on disk
MOST_FILES = 500
MOST_FOLDERS = 20  # directories named in lines, where names are looked up too
MOST_MATCHES = 100  # per wildcard
_DEEPEST = 3  # levels of nested quotes
_LONGEST_NAME = 4_096
_MOST_TEXT = 100_000  # characters per line: a longer one is not a command
_PARTS = re.compile(r"[\s'\"`;|&<>()=,@{}\[\]$!:#%^~\\]+")
_MODULE = re.compile(r"-m\s*([A-Za-z_][\w.]*)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
# Files that a line only writes are not run by it; a log, for instance, would differ at every start.
_WRITTEN = re.compile(
    r"""(?:>>?\|?|\btee\b(?:\s+-\w+)*|--[\w-]*(?:log|pid|cache|output)[\w-]*)[\s=]*("[^"]*"|'[^']*'|[^\s;|&<>()'"]+)"""
)
_DATABASE = b"SQLite format 3\0"
_ENTRIES = ("__main__.py", "__init__.py", "index.js", "index.mjs", "index.cjs", "index.ts", "package.json")
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile")
_IMPLIED = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun", "bunx"), ("package.json",)),
    **dict.fromkeys(("uv", "poetry", "hatch", "pdm"), ("pyproject.toml",)),
    **dict.fromkeys(("docker", "docker-compose", "podman"), _COMPOSE),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "pre-commit": (".pre-commit-config.yaml",),
    "lefthook": ("lefthook.yml",),
    "deno": ("deno.json",),
    "direnv": (".envrc",),
    "mise": ("mise.toml", ".mise.toml"),
}


class NamedFiles(Struct, frozen=True):
    """Paths below the project; `whole` is False if there were too many to look at."""

    files: tuple[str, ...] = ()
    whole: bool = True


class _TooMany(Exception):
    """The search limit was reached; never leaves this file."""


def named_files(lines: Iterable[str], project: Path, folders: Sequence[Path] = ()) -> NamedFiles:
    """Files named in the lines, relative to the project, to `folders`, or to directories that they name."""
    search = _ScriptSearch(os.path.realpath(project), [str(folder) for folder in folders])
    try:
        for line in lines:
            search.read(line[:_MOST_TEXT])
    except _TooMany:
        return NamedFiles(tuple(sorted(search.files)[:MOST_FILES]), whole=False)
    return NamedFiles(tuple(sorted(search.files)))


class _ScriptSearch:
    def __init__(self, project: str, folders: Sequence[str]) -> None:
        self._project = project
        self._given = list(dict.fromkeys([project, *folders]))
        self._looks = 0
        self.files: set[str] = set()

    def read(self, line: str) -> None:
        line = _WRITTEN.sub(" ", line)
        words = list(dict.fromkeys(_words(line)))
        bases = list(self._given)
        for word in words:  # directories: `cd tools && ./x.sh`, `make -C tools`, `PATH=tools:$PATH`
            for found in self._below(word, bases[: len(self._given)]):
                if _is_folder(found) and found not in bases and len(bases) < MOST_FOLDERS:
                    bases.append(found)
        for word in words:
            self._take(word, bases)
        for module in (*_MODULE.findall(line), *(word for word in words if _DOTTED.fullmatch(word))):
            path = module.replace(".", "/")
            for name in (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"):
                self._keep_named(name, bases)

    def _take(self, word: str, bases: Sequence[str]) -> None:
        if any(c in word for c in "*?["):
            self._take_matches(word, bases)
        self._keep_named(word, bases)
        for name in _IMPLIED.get(word.rpartition("/")[2], ()):
            self._keep_named(name, bases)
        for folder in self._below(word, bases):
            if _is_folder(folder):
                for name in _ENTRIES:
                    self._keep(f"{folder}/{name}")

    def _take_matches(self, word: str, bases: Sequence[str]) -> None:
        from glob import iglob  # noqa: PLC0415  # seldom needed

        pattern = word.lstrip("/") if not word.startswith(self._project) else os.path.relpath(word, self._project)
        for base in bases:
            for match in islice(iglob(pattern, root_dir=base), MOST_MATCHES):  # noqa: PTH207
                self._keep(os.path.normpath(f"{base}/{match}"))

    def _keep_named(self, word: str, bases: Sequence[str]) -> None:
        """Looks it up from every base; unknown leading components of a path (`$ROOT/x`) are dropped one by one."""
        for path in self._below(word, bases):
            self._keep(path)

    def _below(self, word: str, bases: Sequence[str]) -> Iterator[str]:
        parts = [part for part in word.split("/") if part not in ("", ".")]
        for base in bases:
            for n in range(max(1, min(len(parts), 20))):
                path = os.path.normpath("/".join([base, *parts[n:]]))
                if self._exists(path):
                    yield path
                    break

    def _exists(self, path: str) -> bool:
        self._looks += 1
        if self._looks > MOST_LOOKS:
            raise _TooMany
        return "\0" not in path and (path + "/").startswith(self._project + "/") and os.path.lexists(path)

    def _keep(self, path: str) -> None:
        if os.path.lexists(path) and not _is_folder(path) and not _is_database(path):
            self.files.add(os.path.relpath(path, self._project))
            if len(self.files) > MOST_FILES:
                raise _TooMany


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # in a hot path, as text


def _is_database(path: str) -> bool:
    """Is it a database? A server's data also differs at every start."""
    try:
        return (read_plain(path, len(_DATABASE)) or b"") == _DATABASE
    except SettingsError:
        return False


_SEVERAL = re.compile(r"[\s'\"]")  # in a word that a shell would split again


def _words(line: str, depth: int = 0) -> Iterator[str]:
    """The words as a shell would split them, approximately, and split at every character that could separate two
    names."""
    if not depth and len(line) < _LONGEST_NAME:
        yield line
    for text in _unfolded(line):
        yield from (part for part in _PARTS.split(text) if part.strip("."))
        for word in _shell_words(text):
            yield word
            if depth < _DEEPEST and word != text and _SEVERAL.search(word):
                yield from _words(word, depth + 1)


def _shell_words(text: str) -> list[str]:
    import shlex  # noqa: PLC0415  # needed only where a project has hooks or servers

    try:
        return shlex.split(text)
    except ValueError:
        return []


def _unfolded(line: str) -> list[str]:
    """Expands `{a,b}.sh` into its names; only once, which suffices in practice."""
    found = _BRACES.search(line)
    if found is None:
        return [line]
    choices = found[1].split(",")[:MOST_MATCHES]
    return [line, *(line[: found.start()] + choice + line[found.end() :] for choice in choices)]
