"""Explains exit status 1 where it is an answer rather than a failure: a search without matches, files that differ."""

import re
from collections.abc import Sequence

_TOKEN = re.compile(
    r"""(?P<join>&&|\|\||\|&?|;|\n)(?![|&;])|(?P<redirection>\d*[<>]{1,2}[&|]?)|(?P<space>(?:[ \t\r]|\\\n)+)"""
    r"""|(?P<word>(?:'[^']*'|"(?:\\.|[^"\\`])*"|\\.|[^\s;|&()<>'"\\`])+)""",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(r"\w+=")
_COMPLAINT = re.compile(r"^(?:ba)?sh: ", re.MULTILINE)  # an error from the shell itself
_MATCHES, _SAME, _TRUE = "no matches", "they differ", "false"
_ANSWERS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "pgrep", "git grep"), _MATCHES),
    **dict.fromkeys(("diff", "cmp", "git diff"), _SAME),
    **dict.fromkeys(("test", "[", "[["), _TRUE),
}
_BEFORE = frozenset({"cd", "echo", "printf", *_ANSWERS})  # allowed before `&&`: they fail loudly, or are answers too


def meaning(command: str, output: str) -> str:
    """The meaning of exit code 1 in words; empty if it is a failure or cannot be told for sure."""
    if "pipefail" in command or _COMPLAINT.search(output):
        return ""
    *earlier, (join, last) = _steps(command)
    found = _ANSWERS.get(last, "")
    for before, name in reversed(earlier):
        if join == "&&":  # the line may have ended at the program before
            found = found if name in _BEFORE and not (found == _MATCHES and output.strip()) else ""
        elif not join.startswith("|") or join == "||":
            break
        join = before
    return found


def _steps(command: str) -> list[tuple[str, str]]:
    """The programs of a plain command line, each with the operator before it; for other lines nothing is known."""
    steps: list[tuple[str, list[str]]] = [("", [])]
    command, at, is_target = command.strip().rstrip("; \t\n"), 0, False
    while at < len(command):
        token = _TOKEN.match(command, at)
        if token is None or token[0].startswith(("#", "<<")):
            return [("", "")]
        at = token.end()
        match token.lastgroup:
            case "join":
                steps.append((token[0], []))
            case "word" if not is_target:
                steps[-1][1].append(token[0])
            case _:
                pass
        is_target = token.lastgroup == "redirection" or (is_target and token.lastgroup == "space")
    return [(join, _program(words)) for join, words in steps]


def _program(words: Sequence[str]) -> str:
    """The program's name; for git with its subcommand."""
    rest = list(words)
    while rest and _ASSIGNMENT.match(rest[0]):
        del rest[0]
    if not rest or rest[0] != "git":
        return rest[0] if rest else ""
    del rest[0]
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in ("-C", "-c") else 1]
    return f"git {rest[0]}" if rest else "git"
