"""Parses a skill's text: placeholders for arguments, and commands and files to include.

Includes are only recognised in the author's text, before arguments are filled in, and never in included text. So
nothing in an argument, a file or an output can be executed or included.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from msgspec import Struct

from teamwright.library.includes import closes_fence, imports, opened_fence

MOST_SHELL = 20
MOST_FILES = 20
NUMBERED = 10  # arguments that get their own variable in commands

_PLACE = re.compile(r"(\\?)\$(?:ARGUMENTS\[(\d{1,3})\]|(ARGUMENTS)\b(?!\[\d)|(\d{1,2})(?!\w|\.\d))")
_VARIABLE = re.compile(r"\$\{(CLAUDE_[A-Z_]{1,40}|TEAMWRIGHT_[A-Z_]{1,40})\}")
_SHELL = re.compile(r"(?:(?<=\s)|^)!`([^`\n]+)`", re.MULTILINE)


class Shell(Struct, frozen=True):
    """A command whose output replaces it; arguments reach it only as variables."""

    command: str


class File(Struct, frozen=True):
    """A file that the text mentions: candidate paths, the likelier first. The mention stays in the text."""

    choices: tuple[str, ...]


class RenderedSkill(Struct, frozen=True):
    """Texts and commands in order, then the files; `variables` are for the commands."""

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
    """Fills in only the arguments; commands stay as written."""
    return _fill(body, args, split_words(args), {})


def split_words(args: str) -> list[str]:
    """Splits into words; quoted words may contain spaces. An unclosed quote is an ordinary character."""
    import shlex  # noqa: PLC0415  # needed only where a skill is called

    reader = shlex.shlex(args, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    try:
        return list(reader)
    except ValueError:
        return args.split()


def pieces(body: str) -> Iterator[str | Shell]:
    """Text and commands in order. Fenced code is text, unless the fence is marked `!`."""
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
    """Runs of lines, each with None outside fences or with the fence's info string; a `!` fence loses its fence
    lines."""
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
    elif said == "!":  # an unclosed fence is not run, because its intended end is unknown
        said = "unclosed"
    yield "".join(lines), said


def _has_place(text: str) -> bool:
    return any(not found[1] for found in _PLACE.finditer(text))


def _fill(text: str, args: str, words: Sequence[str], names: Mapping[str, str]) -> str:
    """Fills in each kind of placeholder in one pass, so values are never expanded again. A backslash keeps `$` as it
    is."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        if found[3]:
            return args
        n = int(found[2] or found[4])
        return words[n] if n < len(words) else ""

    def name(found: re.Match[str]) -> str:
        return names.get(found[1], found[0])

    # Our names first: an argument that looks like one must stay as it is.
    named = _VARIABLE.sub(name, text)
    return _PLACE.sub(value, named)


def shell_places(command: str) -> str:
    """Replaces arguments in a command by shell variables, so that their content is always data.

    Inside single quotes only `$ARGUMENTS` counts: `'{print $1}'` belongs to another program.
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
    return f'${{{name}:+"${{{name}}}"}}'  # one word or none: several could be read as options
