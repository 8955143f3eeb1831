"""Commands that are taken apart: where the command inside a wrapper starts, and which of them carry code as text."""

import re
from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.permissions.patterns import UNKNOWN


class Wrapper(Struct, frozen=True):
    """Flags without and with a value (`valued` also as the next word), and the number of words before the command.

    Flags that take a value only as `--flag=value` are not listed: otherwise the command would be taken for the value.
    """

    flags: str = ""
    valued: str = ""
    long: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()
    words: int = 0
    assigns: bool = False  # NAME=value may precede the command
    feeds: bool = False  # takes further words from its input


WRAPPERS = {
    "env": Wrapper("i0v", "u", ("--ignore-environment", "--null", "--debug"), ("--unset",), assigns=True),
    "timeout": Wrapper("fvp", "ks", ("--preserve-status", "--foreground", "--verbose"), ("--kill-after", "--signal"),
        1),
    "nice": Wrapper("", "n", (), ("--adjustment",)),
    "nohup": Wrapper(),
    "setsid": Wrapper("cfw", "", ("--ctty", "--fork", "--wait")),
    "stdbuf": Wrapper("", "ioe", (), ("--input", "--output", "--error")),
    "ionice": Wrapper("t", "cn", ("--ignore",), ("--class", "--classdata")),
    "time": Wrapper("p"),
    "command": Wrapper("p"),
    "builtin": Wrapper(),
    "exec": Wrapper("l", "a"),
    "xargs": Wrapper(
        "0rtxp", "InPLdEs",
        ("--null", "--no-run-if-empty", "--verbose", "--exit", "--interactive"),
        ("--max-args", "--max-procs", "--delimiter", "--max-chars"),
        feeds=True,
    ),
}  # fmt: skip

_SYSTEM = frozenset({"/bin", "/usr/bin", "/usr/local/bin"})
MOST_WRAPPERS = 16

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "rbash"})
_SHELL_FLAGS = frozenset("celuxvfnmbhilkpEtaBCHPT")
_PLAIN_SHELL_FLAGS = frozenset("ceuxvl")
_SAME_IN_EVERY_SHELL = re.compile(r"[A-Za-z0-9_./:,@%+ -]+")


def program_name(word: str) -> str:
    """The name of a system program; empty for other paths, which may be anybody's file."""
    folder, _, name = word.rpartition("/")
    return name if folder in _SYSTEM or "/" not in word else ""


def unwrapped(words: Sequence[str]) -> int | None:
    """The position of the inner command; 0 if this is no wrapper; None if its flags are not understood."""
    wrapper = WRAPPERS.get(program_name(words[0])) if words else None
    if wrapper is None:
        return 0
    at = _flags_end(wrapper, words)
    if at is None:
        return None
    while wrapper.assigns and at < len(words) and (is_assignment(words[at]) or words[at] == "-"):
        at += 1
    at += wrapper.words
    if any(UNKNOWN in word for word in words[:at] if not is_assignment(word)):
        return None  # an unknown word here may be another flag
    return at


def _flags_end(wrapper: Wrapper, words: Sequence[str]) -> int | None:
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return at + 1
        step = _flag(wrapper, words[at], words[0])
        if step == 0:
            return None
        at += step
    return at


def _flag(wrapper: Wrapper, word: str, name: str) -> int:
    """The number of words the flag takes; 0 if it is unknown."""
    if word.startswith("--"):
        return _long_flag(wrapper, word)
    if name.endswith("nice") and word[1:].isdigit():
        return 1
    for n, letter in enumerate(word[1:], 2):
        if letter in wrapper.valued:
            return 1 if len(word) > n else 2
        if letter not in wrapper.flags:
            return 0
    return 1


def _long_flag(wrapper: Wrapper, word: str) -> int:
    flag, equals, _ = word.partition("=")
    if flag in wrapper.long_valued:
        return 1 if equals else 2
    return 1 if flag in wrapper.long and not equals else 0


def takes_away(words: Sequence[str]) -> bool:
    """Does `env` with these words unset anything? Without a PATH, bash also searches the current directory for
    programs."""
    return any(re.match(r"-$|-[a-z0]*[iu]|--(?:ignore|unset)", word) for word in words)


def is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def carried_code(words: Sequence[str]) -> tuple[str | None, bool]:
    """Code carried as text: (the code or None, whether it is everything that runs, and read by bash)."""
    match words[0]:
        case "eval":
            return " ".join(words[2:] if "--" in words[1:2] else words[1:]), True
        case "trap":
            return (words[1] if len(words) > 2 else None), True
        case program if program.rpartition("/")[2] in SHELLS and list(words[1:]) != ["--version"]:
            return _code_of_shell(words)
        case _:
            return None, True


def _code_of_shell(words: Sequence[str]) -> tuple[str | None, bool]:
    """The code of `sh -c CODE`, in the form of `carried_code`."""
    at = _shell_flags_end(words)
    flags = set("".join(word.removeprefix("-") for word in words[1:at]))  # letters after a `+` are left out
    if not flags <= _SHELL_FLAGS:
        return None, False
    at += at < len(words) and words[at] in ("-", "--")
    if at == len(words) or "c" not in flags:
        return None, True
    plain = program_name(words[0]) in SHELLS and flags <= _PLAIN_SHELL_FLAGS
    # other shells read quotes and expansions differently from bash
    alike = words[0].rpartition("/")[2] == "bash" or _SAME_IN_EVERY_SHELL.fullmatch(words[at]) is not None
    return words[at], plain and alike


def _shell_flags_end(words: Sequence[str]) -> int:
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] not in ("-", "--"):
        at += 1
    return at


def find_spans(words: Sequence[str]) -> list[tuple[int, int]] | None:
    """The commands that a `find` runs, as positions (the `-exec`, its end); None if uncertain."""
    spans: list[tuple[int, int]] = []
    at = 1
    while at < len(words):
        if words[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = _run_end(words, at + 1)
            if end is None or (words[end] == "+" and words[at] in ("-ok", "-okdir")):
                return None
            spans.append((at, end))
            at = end
        at += 1
    return spans


def _run_end(words: Sequence[str], start: int) -> int | None:
    """The end of the command that find runs: a semicolon, or a plus sign after a pair of braces."""
    for end in range(start, len(words)):
        word, before = words[end], words[end - 1]
        if word == ";" or (word == "+" and before == "{}"):
            return end
        if UNKNOWN in word or (word == "+" and "{}" in before):
            return None
    return None
