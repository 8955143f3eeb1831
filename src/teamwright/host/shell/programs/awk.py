"""Tells whether an awk program only computes and prints."""

import re
from collections.abc import Sequence

from msgspec import Struct, field

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.programs.flags import Use

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\n\r]+|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*")
    |(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<open>&&|\|\||[=!<>]=|[-+*%^]=|[-+*%^!~<>?:,;({\[$=])
    |(?P<close>[)}\]])
    |(?P<slash>/)""",
    re.VERBOSE,
)
# In some versions a slash inside brackets ends the expression, in others it does not; so none is allowed.
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n]*\])*/")
_NEVER = frozenset({"system", "getline", "close", "fflush", "ARGV", "ARGC", "ARGIND", "PROCINFO", "FUNCTAB", "SYMTAB"})
_PRINTS = frozenset({"print", "printf"})
_BEFORE_OPERAND = frozenset(
    """
    print printf return in else do while if for exit delete case BEGIN END
    """.split()
)
_CONTROLS = frozenset({"if", "while", "for", "switch"})
_ASSIGNS = re.compile(r"[A-Za-z_]\w*=")


def awk_use(words: Sequence[str]) -> Use | None:
    """Accepts only `-F`, `-v` and `--`: programs from files, libraries and in-place editing are not examined."""
    at = _options_end(words)
    if at is None or at >= len(words) or not is_plain_program(words[at]):
        return None
    operands = words[at + 1 :]
    files = [word for word in operands if not _ASSIGNS.match(word)]
    if any(map(_sets_its_own, operands)) or any(f[:1] in (UNKNOWN, "-") for f in files):
        return None
    return Use(tuple(files))


def _options_end(words: Sequence[str]) -> int | None:
    """The position of the program; None after an unknown option, or one that sets a variable awk takes orders from."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "--":
            return at + 1
        if word[:2] not in ("-F", "-v"):
            return None
        glued = len(word) > 2
        value = word[2:] if glued else "".join(words[at + 1 : at + 2])
        if word[1] == "v" and (not _ASSIGNS.match(value) or _sets_its_own(value)):
            return None
        at += 1 if glued else 2
    return at


def _sets_its_own(word: str) -> bool:
    return word.partition("=")[0] in _NEVER


class _Before(Struct):
    """What precedes a token; it determines the meaning of a slash, a `>` and a `)`."""

    last: str = ""
    operand: bool = False
    prints: bool = False
    opened: list[bool] = field(default_factory=list[bool])  # for each open parenthesis: does it hold a condition?

    def forbids(self, token: str) -> bool:
        return token in _NEVER or (self.prints and token == ">")

    def take(self, kind: str | None, token: str) -> None:
        if token == "(":
            self.opened.append(self.last in _CONTROLS)
        ends_condition = token == ")" and bool(self.opened) and self.opened.pop()
        if kind == "slash":
            self.operand = not self.operand
        else:
            self.operand = _ends_operand(kind, token) and not ends_condition
        self.prints = token in _PRINTS or (self.prints and token not in (";", "}"))
        self.last = token


def _ends_operand(kind: str | None, token: str) -> bool:
    if kind == "name":
        return token not in _BEFORE_OPERAND
    return kind in ("string", "number", "close") and token != "}"


def is_plain_program(text: str) -> bool:
    """Every token is known, nothing is piped, and printing goes to stdout only."""
    if UNKNOWN in text or not text.isascii():
        return False
    at, before = 0, _Before()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return False
        kind, token, at = found.lastgroup, found[0], found.end()
        if kind == "blank":
            continue
        if before.forbids(token):
            return False
        if kind == "slash":
            behind = _behind_slash(text, at, operand=before.operand, last=before.last)
            if behind is None:
                return False
            at = behind
        before.take(kind, token)
    return True


def _behind_slash(text: str, at: int, *, operand: bool, last: str) -> int | None:
    """A slash after an operand is a division, else it starts a regular expression. None where awk versions may
    disagree."""
    if operand:
        return None if "/" in text[at:] else at
    regex = None if last in ("+", "-") else _REGEX.match(text, at - 1)
    return regex.end() if regex else None
