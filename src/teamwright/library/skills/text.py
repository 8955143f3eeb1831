"""Parses a skill's text: the places of its arguments and the commands and files it includes.

Includes are looked for in the text as its author wrote it, before any argument is put in, and never in what is
included. So nothing in an argument, a file or an output can be executed or included.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct

from teamwright.library.includes import closes_fence, imports, opened_fence

MOST_SHELL = 20
MOST_FILES = 20
NUMBERED = 10  # arguments that have a variable of their own in commands

_PLACE = re.compile(r"(\\?)\$(?:ARGUMENTS\[(\d{1,3})\]|(ARGUMENTS)\b(?!\[\d)|(\d{1,2})(?!\w|\.\d))")
_VARIABLE = re.compile(r"\$\{(CLAUDE_[A-Z_]{1,40}|TEAMWRIGHT_[A-Z_]{1,40})\}")
_SHELL = re.compile(r"(?:(?<=\s)|^)!`([^`\n]+)`", re.MULTILINE)


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
    shells = count(1)
    parts = [
        _run(piece, next(shells)) if isinstance(piece, Shell) else _fill(piece, args, words, names) for piece in cut
    ]
    if args and not any(_has_place(piece.command if isinstance(piece, Shell) else piece) for piece in cut):
        parts.append(f"\n\nARGUMENTS: {args}")
    return RenderedSkill(tuple(parts), _files(cut), _variables(args, words) | dict(names))


def _run(piece: Shell, number: int) -> Shell | str:
    if number > MOST_SHELL:
        return f"[not run: more than {MOST_SHELL} commands in one skill: {piece.command}]"
    return Shell(shell_places(piece.command))


def _files(cut: Sequence[str | Shell]) -> tuple[File, ...]:
    prose = "\n".join(piece for piece in cut if isinstance(piece, str))
    found = [File(choices) for choices in imports(prose) if not any(map(_has_place, choices))]
    return tuple(found[:MOST_FILES])


def _variables(args: str, words: Sequence[str]) -> dict[str, str]:
    variables = {"ARGUMENTS": args, "ARGUMENTS_COUNT": str(len(words))}
    return variables | {f"ARGUMENTS_{n}": words[n] if n < len(words) else "" for n in range(NUMBERED)}


def fill_words(body: str, args: str) -> str:
    """Only the arguments are put in; commands stay as they are written."""
    return _fill(body, args, split_words(args), {})


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
    fence: str = ""
    said: str | None = None
    for line in body.splitlines(keepends=True):
        bare = line.rstrip("\n")
        if fence:
            closes = closes_fence(bare, fence)
            if not closes or said != "!":
                lines.append(line)
            if closes:
                yield "".join(lines), said
                lines, fence = [], ""
        elif opened := opened_fence(bare):
            yield "".join(lines), None
            fence, said = opened[1], opened[2].strip()
            lines = [] if said == "!" else [line]
        else:
            lines.append(line)
    if not fence:
        said = None
    elif said == "!":  # a fence that never closes is no command: nobody can tell where it was meant to end
        said = "unclosed"
    yield "".join(lines), said


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

    def name(found: re.Match[str]) -> str:
        return names.get(found[1], found[0])

    # Names first: they are ours, and an argument that looks like one must stay what it is.
    named = _VARIABLE.sub(name, text)
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
        quote = _quote_after(c, quote)
        out.append(c)
        at += 1
    return "".join(out)


def _quote_after(c: str, quote: str) -> str:
    if c not in "'\"" or quote not in ("", c):
        return quote
    return "" if quote else c


def _variable(found: re.Match[str], quote: str) -> str:
    n = found[2] or found[4]
    name = "ARGUMENTS" if n is None else f"ARGUMENTS_{int(n)}" if int(n) < NUMBERED else "ARGUMENTS_NONE"
    if quote == '"':
        return f"${{{name}}}"
    if quote:
        return f"'\"${{{name}}}\"'"
    return f'${{{name}:+"${{{name}}}"}}'  # one word, or none: several could be options of the program
