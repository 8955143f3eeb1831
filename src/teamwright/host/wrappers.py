"""Commands that run other commands: where the inner one begins, and which of them carry code as text."""

from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.patterns import UNKNOWN


class Wrapper(Struct, frozen=True):
    """Flags without and with a value (`valued` also as the next word), and how many words come before the command."""

    flags: str = ""
    valued: str = ""
    long: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()
    words: int = 0
    assigns: bool = False  # NAME=value may come before the command
    feeds: bool = False  # further words come from its input


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
    "exec": Wrapper("cl", "a"),
    "xargs": Wrapper(
        "0rtxp", "InPLdEs",
        ("--null", "--no-run-if-empty", "--verbose", "--exit", "--interactive"),
        ("--max-args", "--max-procs", "--max-lines", "--delimiter", "--eof", "--max-chars", "--replace"),
        feeds=True,
    ),
}  # fmt: skip

# Known to run what follows, in ways that are not taken apart: rules that restrict look at all that follows.
LAUNCHERS = frozenset({
    "sudo", "doas", "su", "runuser", "pkexec", "busybox", "toybox", "watch", "parallel", "flock", "strace", "ltrace",
    "chroot", "unshare", "nsenter", "script", "ssh", "docker", "podman", "kubectl", "systemd-run", "taskset", "chrt",
    "prlimit", "firejail", "bwrap", "proot", "entr", "direnv", "npx", "uvx", "uv", "poetry", "pipenv", "gdb", "perf",
    "setarch", "linux64", "caffeinate", "coproc", "catchsegv", "valgrind", "fakeroot", "dbus-run-session", "xvfb-run",
    "winpty", "expect", "unbuffer", "at", "batch", "trap", *WRAPPERS,
})  # fmt: skip

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "rbash"})
_SHELL_FLAGS = frozenset("celuxvfnmbhilkpEtaBCHPT")
_PLAIN_SHELL_FLAGS = frozenset("ceuxvl")


def unwrapped(words: Sequence[str]) -> int | None:
    """Where the command inside begins; 0 if this is no wrapper; None if its flags are not understood."""
    wrapper = WRAPPERS.get(words[0].rpartition("/")[2]) if words else None
    if wrapper is None:
        return 0
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        step = _flag(wrapper, words[at], words[0])
        if words[at] == "--":
            at += 1
            break
        if step == 0:
            return None
        at += step
    if wrapper.assigns:
        while at < len(words) and (is_assignment(words[at]) or words[at] == "-"):
            at += 1
    at += wrapper.words
    if any(UNKNOWN in word for word in words[:at] if not is_assignment(word)):
        return None  # an unknown word here may be another flag
    return at


def _flag(wrapper: Wrapper, word: str, name: str) -> int:
    """How many words the flag takes; 0 if it is not known."""
    if word == "--":
        return 1
    if word.startswith("--"):
        flag, equals, _ = word.partition("=")
        if flag in wrapper.long_valued:
            return 1 if equals else 2
        return 1 if flag in wrapper.long and not equals else 0
    if name.endswith("nice") and word[1:].isdigit():
        return 1
    for n, letter in enumerate(word[1:], 2):
        if letter in wrapper.valued:
            return 1 if len(word) > n else 2
        if letter not in wrapper.flags:
            return 0
    return 1


def is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def carried_code(words: Sequence[str]) -> tuple[str | None, bool]:
    """Code that is carried as text: (the code, None if there is none; whether the rest is understood)."""
    name = words[0].rpartition("/")[2]
    if name == "eval":
        return " ".join(words[1:]), True
    if name == "trap":
        return (words[1] if len(words) > 2 else None), True
    if name not in SHELLS:
        return None, True
    plain = True
    for n, word in enumerate(words[1:], 1):
        if not word.startswith(("-", "+")) or word in ("-", "--"):
            return None, True
        if not set(word[1:]) <= _SHELL_FLAGS or word.startswith("+"):
            return None, False
        plain = plain and set(word[1:]) <= _PLAIN_SHELL_FLAGS
        if "c" in word[1:]:
            return (words[n + 1] if n + 1 < len(words) else None), plain
    return None, True


def find_commands(words: Sequence[str]) -> list[tuple[str, ...]]:
    """What a `find` would run for each match."""
    found: list[tuple[str, ...]] = []
    at = 1
    while at < len(words):
        if words[at] in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at + 1, len(words)) if words[n] in (";", "+")), len(words))
            found.append(tuple(UNKNOWN if "{}" in word else word for word in words[at + 1 : end]))
            at = end
        at += 1
    return found
