"""The parser of every command: wrong use is one line that says what was meant, and the help ends with examples."""

from argparse import Action, ArgumentError, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from teamwright.core.errors import UsageError
from teamwright.core.text import closest

COMMAND_CUTOFF = 0.75  # of a single word: below it, the word is a prompt
_WIDTH = 79
_UNKNOWN = "unrecognized arguments: "

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("teamwright demo", "watch a team at work; needs no key"),
        ("teamwright", "open the app"),
        ('teamwright -p "What does this project do?"', "answer and exit"),
        ("teamwright --continue", "resume the last session here"),
        ("teamwright help sessions", "more on a command"),
    ),
    "demo": (("teamwright demo", ""), ("teamwright demo --kill", "kill it halfway and resume it")),
    "agents": (("teamwright agents", ""), ("teamwright agents --json", "for scripts")),
    "sessions": (
        ("teamwright sessions --all", "of all directories"),
        ("teamwright sessions delete 3f2a", "by the beginning of its id"),
        ("teamwright sessions delete --older-than 30", "days since the last use"),
    ),
    "teams": (
        ("teamwright teams", "members and their states"),
        ("teamwright teams delete crew", "once its session has ended"),
    ),
    "inbox": (
        ("teamwright inbox crew", "all messages of the team crew"),
        ("teamwright inbox ada@crew", "those to its member ada"),
    ),
    "tasks": (("teamwright tasks", "of the last session here"), ("teamwright tasks --team crew", "of a team")),
    "jobs": (("teamwright jobs", "of the last session here"), ("teamwright jobs 3f2a", "of another one")),
    "why": (("teamwright why", "all agents of the last session here"),),
    "attach": (
        ("teamwright attach", "to the last session here"),
        ("teamwright attach 3f2a --plain", "without the app"),
    ),
    "worktrees": (
        ("teamwright worktrees merge ada --preview", "show what a merge would do"),
        ("teamwright worktrees merge ada", "merge its branch into the one here"),
        ("teamwright worktrees clean", "remove those whose work is merged"),
    ),
    "permissions": (
        ("teamwright permissions", "list every rule with its source"),
        ("teamwright permissions remove 'Bash(make *)'", "forget a saved rule"),
    ),
    "trust": (("teamwright trust", "load what this directory configures"),),
    "untrust": (("teamwright untrust", "stop loading it"),),
    "mcp": (
        ("teamwright mcp add files -- npx -y @modelcontextprotocol/server-filesystem .", ""),
        ("teamwright mcp test", "connect to each server and list its tools"),
    ),
    "cost": (("teamwright cost", "of all sessions"), ("teamwright cost 3f2a", "of one")),
    "config": (("teamwright config", ""), ("teamwright config --json", "for scripts")),
    "plugins": (("teamwright plugins install ./my-plugin", ""), ("teamwright plugins disable my-plugin", "")),
    "doctor": (("teamwright doctor", ""), ("teamwright doctor --model opus", "check another model")),
    "help": (("teamwright help", "all commands and options"), ("teamwright help worktrees", "one command")),
}


class Parser(ArgumentParser):
    """`name` is the command's; empty for the program itself."""

    def __init__(self, name: str, description: str, *, usage: str | None = None, end: str = "") -> None:
        super().__init__(
            prog=f"teamwright {name}".rstrip(),
            usage=usage,
            description=description,
            epilog=_examples(name) + end,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._command = name

    def format_help(self) -> str:
        import textwrap  # noqa: PLC0415

        paragraphs = (self.description or "").split("\n\n")
        self.description = "\n\n".join(p if "\n" in p else textwrap.fill(p, _WIDTH) for p in paragraphs)
        return super().format_help()

    def _check_value(self, action: Action, value: Any) -> None:
        choices = [str(choice) for choice in action.choices or ()]
        if not choices or value in choices:
            return
        meant = did_you_mean(str(value), choices)
        raise ArgumentError(action, f"{value!r} is not one of {', '.join(choices)}{meant}")

    def error(self, message: str) -> NoReturn:
        if message.startswith(_UNKNOWN):
            message = self._unknown(message.removeprefix(_UNKNOWN).split())
        message = message.removeprefix("argument action: ").removeprefix("argument ")
        raise UsageError(f"{self._command}: {message}" if self._command else message)

    def _unknown(self, words: list[str]) -> str:
        known = [option for option in self._option_string_actions if option.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if word.startswith("-"):
                meant = did_you_mean(name, known)
                return f"there is no option {name}{meant or f'; `{self.prog} --help` lists them'}"
        if self._command:
            return f"unexpected: {' '.join(words)}; `{self.prog} --help` shows its use"
        return f"unexpected: {' '.join(words)}; put a prompt of several words in quotes"


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of a sentence, or nothing."""
    meant = closest(word, known, cutoff)
    return f"; did you mean {meant}?" if meant else ""


def listed_commands(commands: Mapping[str, str]) -> str:
    """Each with what it does, within the width of a narrow terminal."""
    import textwrap  # noqa: PLC0415

    return "\n".join(
        textwrap.fill(words, _WIDTH, initial_indent=f"  {name:<13}", subsequent_indent=" " * 15)
        for name, words in commands.items()
    )


def check_command(word: str, commands: Iterable[str]) -> None:
    """A single word that is nearly the name of a command was meant as one."""
    if not word.startswith("-") and word.split() == [word] and (meant := closest(word, commands, COMMAND_CUTOFF)):
        if meant == word:
            raise UsageError(f"a command comes before its options: `teamwright {word} ...`")
        raise UsageError(
            f"there is no command {word}; did you mean {meant}? `teamwright -p {word}` sends it as a prompt"
        )


def _examples(name: str) -> str:
    rows = EXAMPLES.get(name, ())
    width = max((len(line) for line, words in rows if words), default=0)
    return "examples:\n" + "\n".join(f"  {line:<{width}}  {words}".rstrip() for line, words in rows)
