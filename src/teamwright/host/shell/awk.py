"""Programs of awk: do they only compute and print?"""

import re
from collections.abc import Sequence

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.flags import Use

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
# In some versions a slash inside of brackets ends the expression, in others not: there is none.
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n]*\])*/")
_NEVER = frozenset({"system", "getline", "close", "fflush", "ARGV", "ARGC", "ARGIND", "PROCINFO", "FUNCTAB", "SYMTAB"})
_PRINTS = frozenset({"print", "printf"})
_BEFORE_OPERAND = frozenset({
    "print", "printf", "return", "in", "else", "do", "while", "if", "for", "exit", "delete", "case", "BEGIN", "END",
})  # fmt: skip
_CONTROLS = frozenset({"if", "while", "for", "switch"})
_ASSIGNS = re.compile(r"[A-Za-z_]\w*=")


def awk_use(words: Sequence[str]) -> Use | None:
    """`-F`, `-v` and `--` alone: programs from files, libraries and editing in place are not looked into."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word in ("-F", "-v"):
            at += 1
            value = words[at] if at < len(words) else ""
        elif word[:2] in ("-F", "-v") and len(word) > 2:
            value = word[2:]
        else:
            return None
        if word[1] == "v" and (not _ASSIGNS.match(value) or value.partition("=")[0] in _NEVER):
            return None
        at += 1
    if at >= len(words) or not is_plain_program(words[at]):
        return None
    if any(word.partition("=")[0] in _NEVER for word in words[at + 1 :]):
        return None
    files = [word for word in words[at + 1 :] if not _ASSIGNS.match(word)]
    return None if any(f[:1] in (UNKNOWN, "-") for f in files) else Use(tuple(f for f in files if f != "-"))


def is_plain_program(text: str) -> bool:
    """Every token is known, nothing is piped, and what is printed goes to the output."""
    if UNKNOWN in text or not text.isascii():
        return False
    at, last, operand, prints, opened = 0, "", False, False, list[bool]()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return False
        kind, token, at = found.lastgroup, found[0], found.end()
        if kind == "blank":
            continue
        if token in _NEVER or (prints and token == ">"):
            return False
        if token == "(":
            opened.append(last in _CONTROLS)
        ends_condition = token == ")" and bool(opened) and opened.pop()
        if kind == "slash":
            behind = _behind_slash(text, at, operand=operand, last=last)
            if behind is None:
                return False
            at, operand = behind, not operand
        else:
            operand = kind in ("string", "number", "close") or (kind == "name" and token not in _BEFORE_OPERAND)
            operand = operand and token != "}" and not ends_condition
        prints, last = token in _PRINTS or (prints and token not in (";", "}")), token
    return True


def _behind_slash(text: str, at: int, *, operand: bool, last: str) -> int | None:
    """A division, if an operand came before; else a regular expression. None where some awk may see the other."""
    if operand:
        return None if "/" in text[at:] else at
    regex = None if last in ("+", "-") else _REGEX.match(text, at - 1)
    return regex.end() if regex else None
