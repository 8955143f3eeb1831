"""Programs that may run what their words name, though they are not taken apart; for rules that restrict."""

import re
from collections.abc import Sequence
from itertools import pairwise

from teamwright.host.shell.programs.git import without_git_options
from teamwright.host.shell.programs.wrappers import WRAPPERS, unwrapped

# Any of their words may start the command.
_LAUNCHERS = (
    frozenset(
        """
    sudo doas su runuser pkexec busybox toybox watch parallel flock strace ltrace chroot unshare nsenter script
    ssh docker podman kubectl systemd-run taskset chrt prlimit firejail bwrap proot entr direnv uvx uv
    poetry pipenv gdb perf setarch linux64 caffeinate coproc catchsegv valgrind fakeroot dbus-run-session
    xvfb-run winpty expect unbuffer at batch trap
    setpriv capsh choom numactl cgexec cpulimit faketime gosu su-exec
    sg newgrp schroot arch-chroot lxc-attach machinectl nerdctl vagrant pdsh pssh ansible
    socat screen xterm konsole gnome-terminal gxargs sem vipe hyperfine concurrently dotenv
    ssh-agent keychain dbus-launch aws-vault chamber envdir chpst softlimit setlock run-parts start-stop-daemon
    nix-shell
    """.split()
    )
    | WRAPPERS.keys()
)
# Their words are read as those of a wrapper: without flags of its own, the next word is the command.
_LIKE = {
    **dict.fromkeys(
        """
        npx pnpx bunx ccache chronic ifne rlwrap eatmydata fakechroot dumb-init tini linux32 i386
        torsocks torify proxychains proxychains4
        """.split(),
        "nohup",
    ),
    **{f"g{name}": name for name in ("timeout", "nice", "nohup", "stdbuf", "time", "env")},
    "cross-env": "env",
}
# The command follows one of these words, or the next `--`.
_SUBCOMMANDS = {
    "npm": ("exec", "exe", "x"),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "bundle": ("exec", "exe", "ex", "e"),
    "bun": ("x",),
    "asdf": ("exec",),
    "mise": ("exec", "x"),
    "op": ("run",),
}
_LEADS_UP = re.compile(r"-.*|workspaces?|foreach|recursive|multi|m")  # each may take a value
_ONLY_BEHIND_DASHES = frozenset({"mise", "op"})
_SHELL_MODE = re.compile(r"-[a-z]*c|--sh")  # of pnpm: then all words together are code
_GIT_SUBCOMMANDS = {"bisect": "run", "submodule": "foreach"}
_NC_RUNS = re.compile(r"-[A-Za-z0-9]*[ec]|--(?:e|sh|lua)")
_TMUX_ONLY_SHOWS = re.compile(r"(?:attach|capture|has|kill|list|ls|rename|resize|select|show|switch).*")
_LOADER = re.compile(r"ld(?:-linux[\w-]*)?\.so(?:\.\d+)?")

_NAMES_PROGRAM = re.compile(
    r"--(?:pre|hostname-bin|compress-p[a-z]*|to-command|checkpoint-action|use-compress-p[a-z]*|open-files-in-pager"
    r"|upload-pack|receive-pack|exec|rsh|rsync-path|rsh-command|info-script|new-volume-script|unzip-command|extcmd"
    r"|use-askpass|script-shell)(?:=|$)"
)
_SHORT_FOR_PROGRAM = {
    "tar": re.compile(r"-?[A-Za-z]*[IF]"),
    "rsync": re.compile(r"-[A-Za-z0-9]*e"),
    "zip": re.compile(r"-TT"),
    "scp": re.compile(r"-[SoF]"),
    "sftp": re.compile(r"-[SoF]"),
    # git takes the beginnings of `--exec`, `--extcmd`, `--open-files-in-pager`, `--upload-pack` and `--receive-pack`
    "git": re.compile(r"--(?:ex?|exe|ext|extcm?|op[a-z-]*|up?|upl[a-z-]*|rece[a-z-]*)(?:=|$)"),
    "git rebase": re.compile(r"-[^-CsSX]*x"),
    "git difftool": re.compile(r"-[gdy]*x"),
    "git grep": re.compile(r"-[^-efmABC]*O"),
    "git clone": re.compile(r"-[^-bocj]*u"),
}
_HANDS_OVER = frozenset({"find", "git", "rg", "sort", "tar", "ssh", "rsync", "man", "less"})  # by a flag


def hands_over(words: Sequence[str], *, splits: bool) -> bool:
    """Could one of its flags name a program to run? `splits`: there may be more words than are known."""
    name = words[0].rpartition("/")[2]
    if splits and name in _HANDS_OVER:
        return True
    names = (name, f"git {''.join(without_git_options(words)[1:2])}") if name == "git" else (name,)
    flags = [_NAMES_PROGRAM, *(_SHORT_FOR_PROGRAM[one] for one in names if one in _SHORT_FOR_PROGRAM)]
    return any(flag.match(word) for word in words[1:] for flag in flags)


def launched(words: Sequence[str]) -> int | None:
    """The position of the command that it runs; 0 if it is not known to run any; None if that may be any word."""
    name = words[0].rpartition("/")[2]
    if name == "git":
        start = _launched_by_git(words)
    elif name in _SUBCOMMANDS:
        start = _behind_subcommand(name, words)
    elif name in _LIKE:
        start = unwrapped((_LIKE[name], *words[1:]))
    else:
        start = None if _may_launch(name, words) else 0
    return start if start is None or start < len(words) else 0


def _may_launch(name: str, words: Sequence[str]) -> bool:
    if name in ("nc", "ncat"):
        return any(map(_NC_RUNS.match, words[1:]))
    if name == "tmux":
        shows = len(words) > 1 and _TMUX_ONLY_SHOWS.fullmatch(words[1])
        return not shows or any(word.endswith(";") for word in words)  # another command follows
    return name in _LAUNCHERS or _LOADER.fullmatch(name) is not None


def _behind_subcommand(name: str, words: Sequence[str]) -> int | None:
    known, pairs = _SUBCOMMANDS[name], enumerate(pairwise(words), 1)
    named = next((n for n, pair in pairs if pair[1] in known or not any(map(_LEADS_UP.fullmatch, pair))), 0)
    at = named + 1
    if words[named] not in known or at == len(words):
        return 0
    if name in _ONLY_BEHIND_DASHES or words[at].startswith("-"):
        at = words.index("--", at) + 1 if "--" in words[at:] else 0
    return None if not at or (name == "pnpm" and any(map(_SHELL_MODE.match, words[:at]))) else at


def _launched_by_git(words: Sequence[str]) -> int | None:
    name, *rest = without_git_options(words)[1:] or [""]
    if name == "filter-branch":
        return None
    named = [n for n, word in enumerate(rest, len(words) - len(rest)) if not word.startswith("-")]
    runs = named and words[named[0]] == _GIT_SUBCOMMANDS.get(name)
    return named[1] if runs and len(named) > 1 else 0
