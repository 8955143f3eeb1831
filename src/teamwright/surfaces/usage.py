"""The parser of every command: an error is one line that says what was probably meant, and the help ends with
examples."""

import re
from argparse import Action, ArgumentError, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

from teamwright.core.errors import UsageError
from teamwright.core.text import closest, shown

OPTION_CUTOFF = 0.7  # similarity of an option to a known one, without the dashes: below it, none was meant
COMMAND_CUTOFF = 0.75  # similarity of a single word to a command: below it, the word is a prompt
_WIDTH = 79
_UNKNOWN = "unrecognized arguments: "
# While a parser is built it formats each option once; asking for the terminal's width would import `shutil`.
_UNSHOWN = partial(RawDescriptionHelpFormatter, width=_WIDTH)

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
        ("teamwright sessions delete 3f2a --engine @lead.url", "a session in an engine"),
    ),
    "import": (
        ("teamwright import claude --list", "sessions of this directory"),
        ("teamwright import claude 3f2a", "import one, by its id"),
        ("teamwright import claude --all --project ~/shop", "import all of a directory"),
    ),
    "teams": (
        ("teamwright teams", "members and their states"),
        ("teamwright teams delete crew", "once its session has ended"),
    ),
    "inbox": (
        ("teamwright inbox crew", "all messages of the team crew"),
        ("teamwright inbox ada@crew", "messages to its member ada"),
    ),
    "tasks": (("teamwright tasks", "of the last session here"), ("teamwright tasks --team crew", "of a team")),
    "jobs": (("teamwright jobs", "of the last session here"), ("teamwright jobs 3f2a", "of another one")),
    "why": (("teamwright why", "all agents of the last session here"),),
    "acp": (
        ("teamwright acp", "what an editor starts; see docs/editors.md"),
        ("teamwright acp --model opus", "with the options of a run"),
    ),
    "attach": (
        ("teamwright attach", "to the last session here"),
        ("teamwright attach 3f2a --plain", "without the app"),
        ("teamwright attach nats://build-1:4222/main/a3f2c1", "an agent on another machine"),
    ),
    "web": (
        ("teamwright web", "print a link and open it"),
        ("teamwright web link", "another link, for a phone"),
        ("teamwright web link --read-only --session 3f2a", "to show somebody one session"),
    ),
    "engine": (
        ("teamwright engine init ~/engine", "make an engine"),
        ("teamwright engine run ~/engine", "start it, in the foreground"),
        ("teamwright engine status --engine @lead.url", "who is there"),
    ),
    "worker": (
        ("teamwright worker --join @worker.url", "run others' agents here"),
        ("teamwright worker --join @worker.url --label gpu=yes", "with a label"),
    ),
    "workers": (("teamwright workers --engine @lead.url", "who runs what"),),
    "worktrees": (
        ("teamwright worktrees merge ada --preview", "show what a merge would do"),
        ("teamwright worktrees merge ada", "merge its branch into the one here"),
        ("teamwright worktrees clean", "remove those whose work is merged"),
    ),
    "land": (
        ("teamwright land", "land everything that waits, in order"),
        ("teamwright land ada --check 'make test'", "queue ada's branch, and land it"),
        ("teamwright land --list", "the queue, and why something waits"),
        ("teamwright land --watch", "land whatever becomes ready"),
    ),
    "permissions": (
        ("teamwright permissions", "list every rule with its source"),
        ("teamwright permissions remove 'Bash(make *)'", "remove a saved rule"),
    ),
    "trust": (("teamwright trust", "load what this directory configures"),),
    "untrust": (("teamwright untrust", "stop loading it"),),
    "mcp": (
        ("teamwright mcp add files -- npx -y @modelcontextprotocol/server-filesystem .", ""),
        ("teamwright mcp test", "connect to each server and list its tools"),
        ("teamwright mcp serve --http", "let MCP clients lead teams here, at an address"),
    ),
    "cost": (("teamwright cost", "of all sessions"), ("teamwright cost 3f2a", "of one")),
    "config": (("teamwright config", ""), ("teamwright config --json", "for scripts")),
    "plugins": (("teamwright plugins install ./my-plugin", ""), ("teamwright plugins disable my-plugin", "")),
    "doctor": (("teamwright doctor", ""), ("teamwright doctor --model opus", "check another model")),
    "otel": (
        ("teamwright otel export 3f2a", "a past session"),
        ("teamwright otel export 3f2a --since 2026-01-31", "only what ended since"),
    ),
    "completion": (
        ("teamwright completion bash", "print it, for `eval` in ~/.bashrc"),
        ("teamwright completion zsh > _teamwright", "a file on zsh's fpath"),
    ),
    "help": (("teamwright help", "all commands and options"), ("teamwright help worktrees", "one command")),
}


_KEYS = "set ANTHROPIC_API_KEY or OPENAI_API_KEY; `teamwright doctor` checks it"
_UPDATE = "use what installed it, such as `pip install -U teamwright` or `uv tool upgrade teamwright`"
ELSEWHERE: Mapping[str, str] = {  # commands of other programs, and what to do here
    "update": _UPDATE,
    "upgrade": _UPDATE,
    "install": f"it is installed; to update it, {_UPDATE}",
    "login": _KEYS,
    "auth": _KEYS,
    "setup-token": _KEYS,
    "logout": "unset the key's variable, such as ANTHROPIC_API_KEY",
    "resume": "`teamwright --resume ID` resumes a session, `teamwright --continue` the last one here",
    "continue": "`teamwright --continue` resumes the last session here",
}
_DESCRIBING: ContextVar[bool] = ContextVar("describing", default=False)


class _Described(Exception):  # control flow: returns the complete parser instead of its help
    def __init__(self, parser: "Parser") -> None:
        self.parser = parser


class Parser(ArgumentParser):
    """`name` is the command's name, empty for the program itself."""

    def __init__(
        self,
        name: str,
        description: str,
        commands: Mapping[str, str] | None = None,
        *,
        usage: str | None = None,
        end: str = "",
    ) -> None:
        """`commands` are listed below the description; `end` follows the examples."""
        prog = f"teamwright {name}".rstrip()
        super().__init__(prog, usage, description, formatter_class=_UNSHOWN, allow_abbrev=False)
        self.register("type", int, _integer)
        self._command, self._commands, self._end = name, commands or {}, end

    def format_help(self) -> str:
        import textwrap  # noqa: PLC0415

        self.formatter_class = RawDescriptionHelpFormatter
        paragraphs = (self.description or "").split("\n\n")
        if self._commands:
            paragraphs.append(f"commands (`teamwright help COMMAND` shows more):\n{_listed(self._commands)}")
            self._commands = {}
        self.description = "\n\n".join(p if "\n" in p else textwrap.fill(p, _WIDTH) for p in paragraphs)
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        self.epilog = _examples(self._command) + self._end
        if _DESCRIBING.get():
            raise _Described(self)
        super().print_help(file)

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
        known = [option[2:] for option in self._option_string_actions if option.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if word.startswith("-"):
                meant = closest(name.lstrip("-"), known, OPTION_CUTOFF)
                hint = f"did you mean --{meant}?" if meant else f"`{self.prog} --help` lists them"
                return f"there is no option {name}; {hint}"
        if self._command:
            return f"unexpected: {' '.join(words)}; `{self.prog} --help` shows its use"
        return f"unexpected: {' '.join(words)}; put a prompt of several words in quotes"


def _integer(text: str) -> int:
    """In place of `int`, whose error repeats thousands of digits."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ArgumentTypeError(f"{shown(text, 80)!r} is not a whole number of at most 18 digits")
    return int(text)


def described(show_help: Callable[[], object]) -> Parser:
    """The parser whose help the function would print."""
    describing = _DESCRIBING.set(True)
    try:
        show_help()
    except _Described as found:
        return found.parser
    finally:
        _DESCRIBING.reset(describing)
    raise AssertionError("no help was shown")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests a known word; empty if none is near."""
    meant = closest(word, known)
    return f"; did you mean {meant}?" if meant else ""


def _listed(commands: Mapping[str, str]) -> str:
    """Each command with what it does, within the width of a narrow terminal."""
    import textwrap  # noqa: PLC0415

    return "\n".join(
        textwrap.fill(words, _WIDTH, initial_indent=f"  {name:<13}", subsequent_indent=" " * 15)
        for name, words in commands.items()
    )


def check_command(word: str, commands: Iterable[str]) -> None:
    """Raise UsageError for a single word that is nearly the name of a command, or is one of other programs: it was
    meant as one."""
    if word in ELSEWHERE:
        raise UsageError(f"there is no command {word}: {ELSEWHERE[word]}. `teamwright -p {word}` sends it as a prompt")
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
