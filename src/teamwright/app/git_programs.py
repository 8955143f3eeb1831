"""What a repository's own git configuration would run, for the question whether its directory is trusted."""

from pathlib import Path

from teamwright.host.git.config import local_settings, programs
from teamwright.host.git.config_file import UnreadableError


def git_programs(project: Path) -> tuple[str, ...]:
    """`name = value` for each setting that runs a program; its name alone where the value cannot be told."""
    names = programs(str(project))
    if not names:
        return ()
    values: dict[str, list[str]] = {}
    try:
        for name, value in local_settings(str(project)):
            values.setdefault(name, []).append(value or "")
    except UnreadableError:
        values.clear()  # the names say so
    lines = [(name, values.get(name, ())) for name in names]
    return tuple(line for name, found in lines for line in ([f"{name} = {value}" for value in found] or [name]))
