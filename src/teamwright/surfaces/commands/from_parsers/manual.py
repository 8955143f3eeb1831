"""Manual pages, made from the parsers of all commands: `teamwright(1)` and one page for each command."""

import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator, Mapping

NAME = "teamwright"
_BACKQUOTED = re.compile(r"`([^`]+)`")


def manual_pages(parsers: Mapping[str, ArgumentParser], commands: Mapping[str, str], version: str) -> dict[str, str]:
    """Texts by file name. The first of `parsers` is the program's own, under an empty name."""
    pages: dict[str, str] = {}
    for name, parser in parsers.items():
        title = f"{NAME}-{name}" if name else NAME
        words = commands[name] if name else "teams of coding agents in your terminal, on any model"
        lines = [*_head(title, words, version), *_synopsis(name, parser)]
        lines += [] if name else _summary(commands)
        lines += [*_options(parser), *_examples(parser)]
        lines += [".SH SEE ALSO", f".BR {NAME} (1)"] if name else []
        pages[f"{title}.1"] = "\n".join(lines) + "\n"
    return pages


def _head(title: str, words: str, version: str) -> Iterator[str]:
    yield f'.TH "{title.upper()}" "1" "" "Teamwright {version}" "User commands"'
    yield ".SH NAME"
    yield f"{_escaped(title)} \\- {_escaped(words)}"


def _synopsis(name: str, parser: ArgumentParser) -> Iterator[str]:
    yield ".SH SYNOPSIS"
    if not name:
        for form in ("[OPTIONS] [PROMPT]", "\\-p [OPTIONS] PROMPT", "COMMAND ..."):
            yield f".B {NAME}\n{form}\n.br"
        return
    yield f".B {NAME} {name}"
    yield "[OPTIONS] " + " ".join(_positional(action) for action in _shown(parser) if not action.option_strings)


def _positional(action: Action) -> str:
    word = "|".join(map(str, action.choices)) if action.choices else _value(action)
    word = _escaped(f"{word} ..." if action.nargs in ("*", "+") and not word.endswith("...]") else word)
    return f"[{word}]" if action.nargs in ("?", "*") else word


def _summary(commands: Mapping[str, str]) -> Iterator[str]:
    yield ".SH COMMANDS"
    for name, words in commands.items():
        yield f".TP\n.BR {NAME}\\-{_escaped(name)} (1)\n{_escaped(words)}"


def _options(parser: ArgumentParser) -> Iterator[str]:
    yield ".SH OPTIONS"
    for action in _shown(parser):
        if action.option_strings:
            names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in action.option_strings)
            value = "" if action.nargs == 0 else f" \\fI{_escaped(_value(action))}\\fR"
            yield f".TP\n{names}{value}\n{_escaped(action.help or '')}"


def _value(action: Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _shown(parser: ArgumentParser) -> Iterator[Action]:
    return (action for action in parser._actions if action.help != SUPPRESS)


def _examples(parser: ArgumentParser) -> Iterator[str]:
    """The examples at the end of the help, as printed there."""
    found = (parser.epilog or "").removeprefix("examples:\n").rstrip()
    if found:
        yield ".SH EXAMPLES"
        yield ".nf"
        yield from map(_escaped, found.split("\n"))
        yield ".fi"


def _escaped(text: str) -> str:
    """Backquotes become bold; nothing is taken for a request of the formatter."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = _BACKQUOTED.sub(r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text
