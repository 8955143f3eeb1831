"""Patterns in rules: words of a command, and gitignore-style paths."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

UNKNOWN = "\0"  # in a word: text that is only known when the command runs
WILD = "\1"  # in a pattern: an unquoted `*`
Fit = Literal["no", "maybe", "yes"]

_GLOB = re.compile(r"[*?\[\\]")
_QUOTES = re.compile(r"\\\n|['\"\\]")


# --- commands


class CommandPattern(Struct, frozen=True):
    """Words that may contain wildcards; `tail`: any further words may follow."""

    words: tuple[str, ...]
    tail: bool

    @property
    def whole(self) -> bool:
        return self.tail and all(word == WILD for word in self.words)

    @property
    def is_exact(self) -> bool:
        return not self.tail and not any(WILD in word for word in self.words)


@lru_cache(maxsize=1024)
def command_pattern(text: str) -> CommandPattern:
    """`git log:*` and `git log *` have words and a tail; `git log` is exact; any other `*` matches arbitrary text."""
    text = text.strip()
    tail = False
    if text.endswith(":*"):
        text, tail = text[:-2], True
    words = _split(text)
    if words and words[-1].endswith(WILD):
        tail = True
        if words[-1] == WILD:
            words.pop()
    return CommandPattern(tuple(words), tail)


def _split(text: str) -> list[str]:
    """Splits into words without quotes; wildcards count only outside quotes."""
    words, current, quote = list[str](), None, ""
    for c in text:
        if quote:
            current, quote = (current or "", "") if c == quote else ((current or "") + c, quote)
        elif c in "'\"":
            current, quote = current or "", c
        elif c.isspace():
            if current is not None:
                words.append(current)
            current = None
        else:
            current = (current or "") + (WILD if c == "*" else c)
    return words if current is None else [*words, current]


def spelt(words: Sequence[str]) -> str:
    """The pattern for exactly these words, none of which contains a quote or a `*`."""
    return " ".join(word if word and not any(c.isspace() for c in word) else f"'{word}'" for word in words)


@lru_cache(maxsize=2048)
def _word_regex(word: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in word.split(WILD)), re.DOTALL)


def _fits_word(pattern: str, word: str) -> bool:
    if WILD not in pattern:
        return pattern == word
    return _word_regex(pattern).fullmatch(word) is not None


def command_fits(pattern: CommandPattern, words: Sequence[str]) -> Fit:
    """`maybe`: whether it fits depends on words that are unknown until the command runs."""
    states, maybe = {0}, False
    for word in words:
        maybe = maybe or any(_may_fit_later(pattern, at, word) for at in states)
        states = {after for at in states for after in _following(pattern, at, word)}
    return "yes" if len(pattern.words) in states else "maybe" if maybe else "no"


def _following(pattern: CommandPattern, at: int, word: str) -> tuple[int, ...]:
    """How many words of the pattern may be consumed after this word, if `at` were before it."""
    if at == len(pattern.words):
        return (at,) if pattern.tail else ()
    wanted = pattern.words[at]
    if wanted == WILD:
        return (at, at + 1)
    return (at + 1,) if _fits_certainly(wanted, word) else ()


def _may_fit_later(pattern: CommandPattern, at: int, word: str) -> bool:
    """Could the unknown part of this word still make it fit?"""
    if UNKNOWN not in word or at == len(pattern.words):
        return False
    wanted = pattern.words[at]
    return wanted != WILD and not _fits_certainly(wanted, word) and _could_become(word, wanted)


def _fits_certainly(wanted: str, word: str) -> bool:
    return _fits_word(wanted, word) and (UNKNOWN not in word or WILD in wanted)


def _could_become(word: str, wanted: str) -> bool:
    known, literal = word.split(UNKNOWN, 1)[0], wanted.split(WILD, 1)[0]
    return literal.startswith(known) or known.startswith(literal)


def deny_fits(pattern: CommandPattern, words: Sequence[str]) -> Fit:
    """`command_fits` for restricting rules: a program matches by any path, and wildcards span words."""
    fit = command_fits(pattern, words)
    if fit == "yes" or not words or not pattern.words:
        return fit
    name = words[0].rpartition("/")[2]
    if name != words[0] and "/" not in pattern.words[0]:
        other = command_fits(pattern, (name, *words[1:]))
        fit = other if other != "no" else fit
    return "yes" if fit == "yes" or _fits_across_words(pattern, " ".join(words)) else fit


def _fits_across_words(pattern: CommandPattern, text: str) -> bool:
    """Does it fit if wildcards inside words may also match blanks?"""
    if not any(WILD in word for word in pattern.words):
        return False
    whole = " ".join(pattern.words)
    ends = ("", f" {WILD}") if pattern.tail else ("",)
    return any(_word_regex(whole + end).fullmatch(text) for end in ends)


def mentioned(pattern: CommandPattern, text: str) -> bool:
    """Do all literal words of the pattern occur in this text, in order? For text that could not be parsed."""
    literals = [_standing_alone(word) for word in pattern.words if WILD not in word]
    return any(_in_order(literals, spelling) for spelling in (text, _QUOTES.sub("", text)))


@lru_cache(maxsize=1024)
def _standing_alone(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(word)}(?![\w.])")


def _in_order(wanted: Sequence[re.Pattern[str]], text: str) -> bool:
    at = 0
    for word in wanted:
        found = word.search(text, at)
        if found is None:
            return False
        at = found.end()
    return True


# --- paths

_WORKTREE = re.compile(r"/\.teamwright/worktrees/[^/]+(?=/|\Z)")
_ABOVE_WORKTREES = re.compile(r"/\.teamwright(?:/worktrees)?\Z")


def copied_from(path: str) -> str:
    """The path in the main tree of which a path in one of our worktrees is a copy; any other path as it is."""
    return _WORKTREE.sub("", path) or "/" if "/.teamwright/worktrees/" in path else path


def copied_to(path: str, tree: str) -> str:
    """Where the worktree that holds `tree` has its copy of a path of the main tree; the path itself if none does."""
    found = _WORKTREE.search(tree)
    main = tree[: found.start()] if found else ""
    return f"{tree[: found.end()]}{path[len(main) :]}" if found and path.startswith(f"{main}/") else path


class PathPattern(Struct, frozen=True):
    """`start` is the path of the literal beginning; `parts` are the plain components below the base.

    `literal`: the only wildcard, if any, is the one for everything below `start`. `name`: the last component.
    """

    narrow: re.Pattern[str]
    wide: re.Pattern[str]
    start: str
    parts: tuple[str, ...]
    literal: bool
    name: str

    def covers(self, path: str, *, wide: bool) -> bool:
        """`wide`: also what a worktree has in the place of a covered file."""
        if not wide:
            return self.narrow.fullmatch(path) is not None
        return any(self.wide.fullmatch(name) is not None for name in {path, copied_from(path)})

    def may_be(self, name: str) -> bool:
        """Could a file of this name, parts of which are UNKNOWN, be covered by its own name?"""
        ours, theirs = _GLOB.split(self.name), name.split(UNKNOWN)
        heads, tails = (ours[0], theirs[0]), (ours[-1], theirs[-1])
        return max(heads, key=len).startswith(min(heads, key=len)) and max(tails, key=len).endswith(min(tails, key=len))

    def may_cover_below(self, directory: str) -> bool:
        """Could the pattern cover something below this directory, if it is read widely?"""
        names = {directory, copied_from(directory), _ABOVE_WORKTREES.sub("", directory)}
        return any(self._may_cover_below(name) for name in names)

    def _may_cover_below(self, directory: str) -> bool:
        inside = self.start == directory or self.start.startswith(directory.rstrip("/") + "/")
        return inside or directory.startswith(self.start.rstrip("/") + "/")


def path_problem(pattern: str) -> str:
    """Why this is not a valid path pattern; empty if it is."""
    if pattern.startswith("!"):
        return "a path pattern cannot be negated with `!`; write an allow rule and a deny rule instead"
    parts = pattern.split("/")
    if ".." in parts and any(_GLOB.search(part) for part in parts[: len(parts) - parts[::-1].index("..")]):
        return "`..` cannot follow a wildcard"
    try:
        path_pattern(pattern, "/base", "/home")
    except re.error as error:
        return f"the pattern cannot be read ({error})"
    return ""


@lru_cache(maxsize=1024)
def path_pattern(pattern: str, base: str, home: str) -> PathPattern:
    """`//x` is absolute, `~/x` in the home directory, `/x`, `./x` and `a/b` start at the base, `x` matches at any
    depth."""
    origin, rest = _split_origin(pattern, base, home)
    parts: list[tuple[str, bool]] = []  # (component, whether it is literal)
    for part, real in [*((p, True) for p in origin.split("/")), *((p, False) for p in rest.split("/"))]:
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append((part, real or not _GLOB.search(part)))
    below = bool(parts) and parts[-1] == ("**", False)
    return _compile(parts[:-1] if below else parts, below=below, origin=origin)


def _split_origin(pattern: str, base: str, home: str) -> tuple[str, str]:
    """Where the pattern starts, and the rest of it."""
    if pattern.startswith("//"):
        return "/", pattern[2:]
    if pattern == "~" or pattern.startswith("~/"):
        return home, pattern[2:]
    name = pattern.rstrip("/")
    return base, pattern if "/" in name or name in (".", "..", "**") else f"**/{pattern}"


def _compile(parts: Sequence[tuple[str, bool]], *, below: bool, origin: str) -> PathPattern:
    text, start, literal = "", "", True
    for part, plain in parts:
        if part == "**" and not plain:
            text += "(?:/[^/]+)*"
        else:
            text += "/" + (re.escape(part) if plain else _glob_regex(part))
        literal = literal and plain
        start += "/" + part if literal else ""
    tail = "(?:/.*)?"
    covers = below or not parts or parts[-1][1]  # a plain name also covers everything below it
    return PathPattern(
        re.compile(text + (tail if covers else ""), re.DOTALL),
        re.compile(text + tail, re.DOTALL),
        start or "/",
        _names_below(parts, origin),
        literal,
        parts[-1][0] if parts else "",
    )


def _names_below(parts: Sequence[tuple[str, bool]], origin: str) -> tuple[str, ...]:
    """The plain names, without those that lead to `origin`."""
    named = tuple(part for part, plain in parts if plain)
    return named[len([part for part in origin.split("/") if part]) :]


def _glob_regex(part: str) -> str:
    """The regex of one component; `*` and `?` do not cross `/`."""
    out, n = "", 0
    while n < len(part):
        c = part[n]
        end = part.find("]", n + 2) if c == "[" else -1
        if c == "*":
            out += "[^/]*"
        elif c == "?":
            out += "[^/]"
        elif c == "\\" and n + 1 < len(part):
            n += 1
            out += re.escape(part[n])
        elif end > 0:
            inner = part[n + 1 : end]
            negated = inner[:1] in ("!", "^")
            chars = (inner[1:] if negated else inner).replace("\\", "\\\\").replace("[", "\\[")
            out += f"[{'^/' if negated else ''}{chars}]"
            n = end
        else:
            out += re.escape(c)
        n += 1
    return out
