"""Shell completion: a script for bash, zsh or fish, made from the parsers of all commands."""

import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

SHELLS = ("bash", "zsh", "fish")
_TAKES_PATH = re.compile(r"FILE|DIR|PATH")


class OptionSpec(Struct, frozen=True):
    """`value` is the help's name for the value that it takes; empty for a switch."""

    names: tuple[str, ...]
    words: str
    value: str = ""
    choices: tuple[str, ...] = ()

    @property
    def takes_path(self) -> bool:
        return bool(_TAKES_PATH.search(self.value))


class CommandSpec(Struct, frozen=True):
    """`name` is empty for the program itself. `choices` are words that it takes without a dash."""

    name: str
    words: str
    options: tuple[OptionSpec, ...]
    choices: tuple[str, ...] = ()


def read_command(name: str, words: str, parser: ArgumentParser) -> CommandSpec:
    actions = [action for action in parser._actions if action.help != SUPPRESS]
    plain = [str(choice) for action in actions if not action.option_strings for choice in action.choices or ()]
    return CommandSpec(name, words, tuple(_option(one) for one in actions if one.option_strings), tuple(plain))


def _option(action: Action) -> OptionSpec:
    switch = action.nargs == 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    choices = () if switch else tuple(str(choice) for choice in action.choices or ())
    return OptionSpec(tuple(action.option_strings), action.help or "", "" if switch else metavar, choices)


def completion_script(shell: str, commands: Sequence[CommandSpec]) -> str:
    """`commands` begin with the program itself."""
    make: Mapping[str, Callable[[Sequence[CommandSpec]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return "\n".join(make[shell](commands)) + "\n"


# --- bash


def _bash(commands: Sequence[CommandSpec]) -> Iterator[str]:
    yield "# Completion of teamwright for bash."
    yield "_teamwright() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command='' words=''"
    yield "    (( COMP_CWORD > 1 )) && command=${COMP_WORDS[1]}"
    yield "    COMPREPLY=()"
    yield '    case "$command" in'
    for command in commands[1:]:
        yield f"        {command.name})"
        yield from _bash_values(command.options, " " * 12)
        yield f"            words={_quoted(_all_words(command))} ;;"
    top = commands[0]
    yield "        *)"
    yield from _bash_values(top.options, " " * 12)
    yield f"            words={_quoted(' '.join(_names(top)))}"
    named = " ".join(command.name for command in commands[1:])
    yield f'            [[ -z "$command" ]] && words+={_quoted(" " + named)} ;;'
    yield "    esac"
    yield '    [[ -n "$words" ]] && COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield '    [[ ${#COMPREPLY[@]} -eq 0 && "$current" != -* ]] && compopt -o default 2>/dev/null'
    yield "    return 0"
    yield "}"
    yield "complete -F _teamwright teamwright"


def _bash_values(options: Sequence[OptionSpec], indent: str) -> Iterator[str]:
    valued = [option for option in options if option.value]
    if not valued:
        return
    yield f'{indent}case "$before" in'
    for option in valued:
        names = "|".join(option.names)
        if option.choices:
            yield f"{indent}    {names}) words={_quoted(' '.join(option.choices))} ;;"
        elif option.takes_path:
            yield f"{indent}    {names}) compopt -o default 2>/dev/null; return 0 ;;"
        else:
            yield f"{indent}    {names}) return 0 ;;"
    yield f"{indent}esac"
    yield f'{indent}[[ -n "$words" ]] && {{ COMPREPLY=($(compgen -W "$words" -- "$current")); return 0; }}'


def _names(command: CommandSpec) -> list[str]:
    return [name for option in command.options for name in option.names]


def _all_words(command: CommandSpec) -> str:
    return " ".join((*command.choices, *_names(command)))


def _quoted(text: str) -> str:
    """The text as one word in any of the three shells."""
    return "'" + text.replace("'", "'\\''") + "'"


# --- zsh


def _zsh(commands: Sequence[CommandSpec]) -> Iterator[str]:
    yield "#compdef teamwright"
    yield "_teamwright() {"
    yield "    local -a commands=("
    for command in commands[1:]:
        yield f"        {_quoted(f'{command.name}:{_plain(command.words)}')}"
    yield "    )"
    yield "    (( CURRENT == 2 )) && [[ $words[2] != -* ]] && _describe -t commands command commands"
    yield "    case $words[2] in"
    for command in commands[1:]:
        yield f"        {command.name})"
        yield "            shift words; (( CURRENT-- ))"
        yield from _zsh_arguments(command)
    yield "        *)"
    yield from _zsh_arguments(commands[0])
    yield "    esac"
    yield "}"
    yield "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then"
    yield '    _teamwright "$@"'
    yield "else"
    yield "    compdef _teamwright teamwright"
    yield "fi"


def _zsh_arguments(command: CommandSpec) -> Iterator[str]:
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    specs += [f"1:{command.name}:({' '.join(command.choices)})"] if command.choices else []
    yield "            _arguments -s \\"
    yield from (f"                {_quoted(spec)} \\" for spec in specs)
    yield "                '*:file:_files' ;;"


def _zsh_option(option: OptionSpec) -> Iterator[str]:
    words = _plain(option.words).replace("[", "\\[").replace("]", "\\]")
    for name in option.names:
        value = ""
        if option.choices:
            value = f":{_plain(option.value)}:({' '.join(option.choices)})"
        elif option.value:
            value = f":{_plain(option.value)}:{'_files' if option.takes_path else ''}"
        yield f"*{name}[{words}]{value}"


def _plain(text: str) -> str:
    """The text without characters that zsh takes for separators."""
    return text.replace("`", "").replace(":", ";").replace("\\", "")


# --- fish


def _fish(commands: Sequence[CommandSpec]) -> Iterator[str]:
    yield "# Completion of teamwright for fish."
    names = " ".join(command.name for command in commands[1:])
    none = f"not __fish_seen_subcommand_from {names}"
    for command in commands[1:]:
        what = f"-a {command.name} -d {_fish_quoted(command.words)}"
        yield f"complete -c teamwright -n '__fish_is_first_token' {what}"
    for option in commands[0].options:
        yield f"complete -c teamwright -n {_fish_quoted(none)} {_fish_option(option)}"
    for command in commands[1:]:
        seen = f"__fish_seen_subcommand_from {command.name}"
        if command.choices:
            yield f"complete -c teamwright -n {_fish_quoted(seen)} -a {_fish_quoted(' '.join(command.choices))}"
        for option in command.options:
            yield f"complete -c teamwright -n {_fish_quoted(seen)} {_fish_option(option)}"


def _fish_option(option: OptionSpec) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.choices:
        parts.append(f"-x -a {_fish_quoted(' '.join(option.choices))}")
    elif option.value:
        parts.append("-r" if option.takes_path else "-x")
    return " ".join([*parts, f"-d {_fish_quoted(option.words)}"])


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
