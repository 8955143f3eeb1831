"""Commands that would remove a home or the root directory. They are refused in every mode."""

import re
from collections.abc import Sequence
from itertools import pairwise

from teamwright.core.patterns import UNKNOWN
from teamwright.host.words import Word

_HOMES = re.compile(r"/root|/home(/[^/]+)?|/Users(/[^/]+)?")
_ALL = re.compile(r"(?:\.?\*|\.\[!\.\]\*|\.\?\?\*|\*\.\*|\?\*)+")  # wildcards that stand for a whole directory
_SEGMENT = re.compile(r"[;&|\n()`]+")
_TOKEN = re.compile(r"[\s'\"<>\\,\[\]]+")
_NARROWS = frozenset(
    [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-iregex",
        "-newer",
        "-mtime",
        "-mmin",
        "-atime",
        "-ctime",
        "-amin",
        "-cmin",
        "-user",
        "-group",
        "-empty",
        "-size",
        "-perm",
        "-inum",
        "-samefile",
        "-links",
    ]
)
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r[a-z]*")


def ruin_of(words: Sequence[Word], cwd: str, home: str) -> str:
    """The home or root directory that this one command would remove; nothing for any other command."""
    name = words[0].text.rpartition("/")[2] if words else ""
    if name == "rm" and any(_RECURSIVE.fullmatch(w.text) for w in words[1:]):
        return next((r for w in words[1:] if w.text[:1] != "-" and (r := _ruins(w.glob or w.text, cwd, home))), "")
    if name == "find":
        return _ruin_by_find(words, cwd, home)
    return ""


def _ruin_by_find(words: Sequence[Word], cwd: str, home: str) -> str:
    texts = [w.text for w in words[1:]]
    removes = "-delete" in texts or any(
        a in ("-exec", "-execdir", "-ok") and b.rpartition("/")[2] == "rm" for a, b in pairwise(texts)
    )
    if not removes or not _NARROWS.isdisjoint(texts):
        return ""
    starts: list[str] = []
    for word in words[1:]:
        if word.text.startswith("-") and starts:
            break
        starts += [word.glob or word.text] if not word.text.startswith("-") else []
    return next((r for start in starts or ["."] if (r := _ruins(start, cwd, home))), "")


def _ruins(path: str, cwd: str, home: str) -> str:
    if not path or UNKNOWN in path:
        return ""
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{cwd}/{path}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    if parts and _ALL.fullmatch(parts[-1]):
        parts.pop()
    place = "/" + "/".join(parts)
    is_above = home == place or home.startswith(place.rstrip("/") + "/")
    return place if is_above or _HOMES.fullmatch(place) else ""


def ruin_in_text(text: str, home: str) -> str:
    """The same for text that could not be understood, by its words alone."""
    feeds = "xargs" in text
    for segment in [text] if feeds else _SEGMENT.split(text):
        tokens = [_expanded(token, home) for token in _TOKEN.split(segment)]
        at = next((n for n, t in enumerate(tokens) if t.rpartition("/")[2] == "rm"), None)
        if at is None or not any(_RECURSIVE.fullmatch(t) for t in tokens[at:]):
            continue
        named = tokens if feeds else tokens[at + 1 :]
        if found := next((r for t in named if t.startswith("/") and (r := _ruins(t, "/", home))), ""):
            return found
    return ""


def _expanded(token: str, home: str) -> str:
    for spelling in ("${HOME}", "$HOME", "~"):
        if token == spelling or token.startswith(spelling + "/"):
            return home + token[len(spelling) :]
    return token
