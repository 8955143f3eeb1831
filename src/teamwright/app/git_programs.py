"""What a repository's own git configuration would run, for the question whether its directory is trusted."""

import os
from pathlib import Path

from teamwright.host.git_config import programs

_LIMIT = 10.0  # seconds
_OURS = (b"local", b"worktree")


def git_programs(project: Path) -> tuple[str, ...]:
    """`name = value` for each setting that runs a program; its name alone where the value cannot be told. Blocks."""
    names = programs(str(project))
    if not names:
        return ()
    values = _values(project)
    lines = [(name, values.get(name.lower(), ())) for name in names]
    return tuple(line for name, found in lines for line in ([f"{name} = {value}" for value in found] or [name]))


def _values(project: Path) -> dict[str, list[str]]:
    """All values of the repository's own configuration. Listing it runs nothing."""
    import subprocess  # noqa: PLC0415  # only where there is something to tell

    argv = ["git", "-C", str(project), "config", "--list", "--show-scope", "-z"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ran = subprocess.run(argv, capture_output=True, env=env, stdin=subprocess.DEVNULL, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    fields = ran.stdout.split(b"\0")
    found: dict[str, list[str]] = {}
    for scope, pair in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = pair.decode(errors="replace").partition("\n")
        if scope in _OURS:
            found.setdefault(name.lower(), []).append(value)
    return found
