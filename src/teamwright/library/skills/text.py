"""What a skill's text asks for: where its arguments go, which commands and files it includes. Pure; runs nothing.

Includes are looked for in the text as its author wrote it, before any argument is put in, and never in what is
included. So nothing in an argument, a file or an output can be executed or included.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from teamwright.library.includes import imports

MOST_SHELL = 20
MOST_FILES = 20
NUMBERED = 10  # arguments that have a variable of their own in commands

_PLACE = re.compile(r"(\\?)\$(?:ARGUMENTS\[(\d{1,3})\]|(ARGUMENTS)\b(?!\[\d)|(\d{1,2})(?!\w|\.\d))")
_VARIABLE = re.compile(r"\$\{(CLAUDE_[A-Z_]{1,40}|TEAMWRIGHT_[A-Z_]{1,40})\}")
_SHELL = re.compile(r"(?:(?<=\s)|^)!`([^`\n]+)`", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


class Shell(Struct, frozen=True):
    """A command whose output takes this place; arguments reach it as variables only."""

    command: str


class File(Struct, frozen=True):
    """A file that the text mentions: readings of its path, the likelier first. It stays in the text as well."""

    choices: tuple[str, ...]


class RenderedSkill(Struct, frozen=True):
    """Words and commands in order, then the files; `variables` are for the commands."""

    parts: tuple[str | Shell, ...]
    files: tuple[File, ...]
    variables: dict[str, str]


def render(body: str, args: str, names: Mapping[str, str] | None = None) -> RenderedSkill:
    """`args` is everything after the name; `names` are values of `${CLAUDE_...}` in the text."""
    args = args.strip()
    words, names = split_words(args), names or {}
    cut = list(pieces(body))
    parts: list[str | Shell] = []
    shells = 0
    for piece in cut:
        if isinstance(piece, Shell):
            shells += 1
            parts.append(Shell(shell_places(piece.command)) if shells <= MOST_SHELL else _too_many(piece))
        else:
            parts.append(_fill(piece, args, words, names))
    if args and not any(_has_place(piece.command if isinstance(piece, Shell) else piece) for piece in cut):
        parts.append(f"\n\nARGUMENTS: {args}")
    prose = "\n".join(piece for piece in cut if isinstance(piece, str))
    found = [File(choices) for choices in imports(prose) if not any(_has_place(c) for c in choices)]
    variables = {"ARGUMENTS": args, "ARGUMENTS_COUNT": str(len(words))}
    variables |= {f"ARGUMENTS_{n}": words[n] if n < len(words) else "" for n in range(NUMBERED)}
    return RenderedSkill(tuple(parts), tuple(found[:MOST_FILES]), variables | dict(names))


def fill_words(body: str, args: str, names: Mapping[str, str] | None = None) -> str:
    """Only the arguments are put in; commands stay as they are written."""
    return _fill(body, args, split_words(args), names or {})


def split_words(args: str) -> list[str]:
    """Words; one in quotes may have spaces in it. A quote that nothing closes is a letter like any other."""
    import shlex  # noqa: PLC0415  # needed only where a skill is called

    reader = shlex.shlex(args, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    try:
        return list(reader)
    except ValueError:
        return args.split()


def pieces(body: str) -> Iterator[str | Shell]:
    """Text and commands in turn. Fenced code is text, unless its fence says `!`."""
    for text, fence in _fenced(body):
        if fence == "!" and text.strip():
            yield Shell(text.strip("\n"))
            yield "\n"
        elif fence is not None:
            yield text
        else:
            at = 0
            for found in _SHELL.finditer(text):
                if not found[1].strip():
                    continue
                yield text[at : found.start()]
                yield Shell(found[1])
                at = found.end()
            yield text[at:]


def _fenced(body: str) -> Iterator[tuple[str, str | None]]:
    """Runs of lines: with None outside of fences, else with what the fence says; only a `!` fence loses its marks."""
    lines: list[str] = []
    fence, said = "", ""
    for line in body.splitlines(keepends=True):
        mark = _FENCE.match(line.rstrip("\n"))
        if fence:
            closes = bool(mark and mark[1].startswith(fence) and not mark[2].strip())
            if not closes or said != "!":
                lines.append(line)
            if closes:
                yield "".join(lines), said
                lines, fence = [], ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            yield "".join(lines), None
            fence, said = mark[1], mark[2].strip()
            lines = [] if said == "!" else [line]
        else:
            lines.append(line)
    # A fence that never closes is no command: nobody can tell where it was meant to end.
    yield "".join(lines), (said if said != "!" else "unclosed") if fence else None


def _too_many(piece: Shell) -> str:
    return f"[not run: more than {MOST_SHELL} commands in one skill: {piece.command}]"


def _has_place(text: str) -> bool:
    return any(not found[1] for found in _PLACE.finditer(text))


def _fill(text: str, args: str, words: Sequence[str], names: Mapping[str, str]) -> str:
    """One pass each: what an argument holds is not looked at again. A backslash before `$` keeps it as it is."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        if found[3]:
            return args
        n = int(found[2] or found[4])
        return words[n] if n < len(words) else ""

    # Names first: they are ours, and an argument that looks like one must stay what it is.
    named = _VARIABLE.sub(lambda found: names.get(found[1], found[0]), text)
    return _PLACE.sub(value, named)


def shell_places(command: str) -> str:
    """Arguments in a command become variables of the shell, so that they are data in it whatever they hold.

    In single quotes only `$ARGUMENTS` counts: `'{print $1}'` belongs to another program.
    """
    out: list[str] = []
    quote, at = "", 0
    while at < len(command):
        c = command[at]
        found = _PLACE.match(command, at) if c == "$" else None
        if c == "\\" and quote != "'":
            out.append(command[at : at + 2])
            at += 2
            continue
        if found and not (quote == "'" and found[4]):
            out.append(_variable(found, quote))
            at = found.end()
            continue
        if c in "'\"" and quote in ("", c):
            quote = "" if quote else c
        out.append(c)
        at += 1
    return "".join(out)


def _variable(found: re.Match[str], quote: str) -> str:
    n = found[2] or found[4]
    name = "ARGUMENTS" if n is None else f"ARGUMENTS_{int(n)}" if int(n) < NUMBERED else "ARGUMENTS_NONE"
    if quote == '"':
        return f"${{{name}}}"
    if quote:
        return f"'\"${{{name}}}\"'"
    return f'${{{name}:+"${{{name}}}"}}'  # one word, or none: several could be options of the program
