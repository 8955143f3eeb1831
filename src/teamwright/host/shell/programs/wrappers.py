"""Commands that run other commands: where the inner command starts, and which of them carry code as text."""

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

# Known to run what follows, but not taken apart: restricting rules check everything that follows.
LAUNCHERS = (
    frozenset(
        """
    sudo doas su runuser pkexec busybox toybox watch parallel flock strace ltrace chroot unshare nsenter script
    ssh docker podman kubectl systemd-run taskset chrt prlimit firejail bwrap proot entr direnv npx uvx uv
    poetry pipenv gdb perf setarch linux64 caffeinate coproc catchsegv valgrind fakeroot dbus-run-session
    xvfb-run winpty expect unbuffer at batch trap
    setpriv capsh linux32 i386 choom numactl cgexec cpulimit eatmydata faketime fakechroot dumb-init tini gosu su-exec
    sg newgrp schroot arch-chroot lxc-attach machinectl nerdctl vagrant pdsh pssh ansible
    torsocks torify proxychains proxychains4 socat nc ncat rlwrap tmux screen xterm konsole gnome-terminal
    gtimeout gnice gnohup gstdbuf gtime genv gxargs ccache sem chronic ifne vipe hyperfine concurrently cross-env dotenv
    ssh-agent keychain dbus-launch aws-vault chamber envdir chpst softlimit setlock run-parts start-stop-daemon
    crontab nix-shell
    """.split()
    )
    | WRAPPERS.keys()
)

_SUBCOMMANDS = frozenset(
    [
        *((name, "exec") for name in ("npm", "pnpm", "yarn", "bundle", "mise", "asdf", "op")),
        ("pnpm", "dlx"),
        ("yarn", "dlx"),
        ("npm", "x"),
        ("op", "run"),
        ("git", "bisect"),
        ("git", "submodule"),
        ("git", "filter-branch"),
    ]
)
_LOADER = re.compile(r"ld(?:-linux[\w-]*)?\.so(?:\.\d+)?")

_NAMES_PROGRAM = re.compile(
    r"--(?:pre|hostname-bin|compress-p[a-z]*|to-command|checkpoint-action|use-compress-p[a-z]*|open-files-in-pager"
    r"|upload-pack|receive-pack|exec|rsh|rsync-path|rsh-command|info-script|new-volume-script|unzip-command|extcmd"
    r"|use-askpass)(?:=|$)"
)
_SHORT_FOR_PROGRAM = {
    "tar": re.compile(r"-?[A-Za-z]*[IF]"),
    "rsync": re.compile(r"-[A-Za-z0-9]*e"),
    "git": re.compile(r"-[xO]"),
    "zip": re.compile(r"-TT"),
    "scp": re.compile(r"-[SoF]"),
    "sftp": re.compile(r"-[SoF]"),
}
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


_HANDS_OVER = frozenset({"find", "git", "rg", "sort", "tar", "ssh", "rsync", "man", "less"})  # by a flag


def hands_over(words: Sequence[str], *, splits: bool) -> bool:
    """Could one of its flags name a program to run? `splits`: there may be more words than are known."""
    if splits and words[0].rpartition("/")[2] in _HANDS_OVER:
        return True
    short = _SHORT_FOR_PROGRAM.get(words[0].rpartition("/")[2])
    return any(_NAMES_PROGRAM.match(word) or (short and short.match(word)) for word in words[1:])


def launches(words: Sequence[str]) -> bool:
    """Is it known to run what follows in its words, though it is not taken apart?"""
    name = words[0].rpartition("/")[2]
    return name in LAUNCHERS or (name, *words[1:2]) in _SUBCOMMANDS or _LOADER.fullmatch(name) is not None


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
