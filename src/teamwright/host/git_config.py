"""Which settings of a repository's own configuration make git run a program."""

import os
import re
import subprocess

_RUNS = re.compile(
    r"(?:include|includeif|alias|hook|difftool|mergetool|browser|man|guitool|protocol)\..*"
    r"|filter\..*\.(?:clean|smudge|process)|diff\.external|remote\..*\.(?:vcs|uploadpack|receivepack|proxy)"
    r"|core\.(?:hookspath|worktree)|lfs\..*"
    r"|.*(?:command|cmd|program|helper|driver|textconv|editor|pager|askpass|fsmonitor|gitproxy)",
    re.IGNORECASE | re.DOTALL,
)
_LIMIT = 10.0  # seconds


def programs(directory: str) -> tuple[str, ...]:
    """Their names, such as `filter.x.smudge`; of the local configuration alone, without what it includes."""
    if not os.path.lexists(f"{directory}/.git"):
        return ()
    argv = ["git", "-C", directory, "config", "--local", "--no-includes", "--list", "--name-only", "-z"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ran = subprocess.run(argv, capture_output=True, env=env, stdin=subprocess.DEVNULL, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    names = ran.stdout.decode(errors="replace").split("\0")
    return tuple(dict.fromkeys(name for name in names if _RUNS.fullmatch(name)))
