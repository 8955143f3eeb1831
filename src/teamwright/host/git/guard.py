"""Protects our own git from the configuration of repositories that the person does not trust.

Filters and drivers in a repository's configuration are commands. In a trusted repository they work as configured
(git-lfs needs that); elsewhere each one is disabled by a setting with higher precedence, and files are read as they
are.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from teamwright.core.errors import ToolError
from teamwright.core.text import few, shown
from teamwright.host.git.config import local_settings, programs
from teamwright.host.git.config_file import UnreadableError, parts
from teamwright.host.git.places import repository_of

_MOST = 200  # drivers: more than any project has, and few enough for the environment
_TEXT_MERGE = "git merge-file %A %O %B"  # git's own behaviour without a driver
_ALWAYS = {
    "core.sshCommand": "false",
    "core.askPass": "true",
    "core.alternateRefsCommand": "true",
    "core.virtualFilesystem": "",
    "credential.helper": "",
    "diff.ignoreSubmodules": "dirty",  # to look into a submodule, git starts another git that ignores these settings
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "gc.recentObjectsHook": "",
}
_HOW = "If you trust it, use --trust for one run, or name it in teamwright.trustedDirectories of your own settings."
_NO_NETWORK = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}

_trusted: set[str] = set()


def trust_repository(directory: Path, *, trusted: bool) -> None:
    """Sets whether the person trusts the repository around this directory, for this process."""
    if common := repository_of(str(directory)):
        (_trusted.add if trusted else _trusted.discard)(common)


def is_trusted(directory: Path) -> bool:
    """Trust includes the repository's worktrees and submodules."""
    if not _trusted:
        return False
    common = repository_of(str(directory))
    return bool(common) and any(common == one or common.startswith(one + os.sep) for one in _trusted)


def guarding(directory: Path) -> dict[str, str]:
    """An environment that keeps git from running what this repository configures; empty if the repository is
    trusted."""
    if is_trusted(directory):
        return {}
    settings = dict(_overrides(directory))
    named = {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(settings.values())}
    return _NO_NETWORK | named | values | {"GIT_CONFIG_COUNT": str(len(settings))}


def _overrides(directory: Path) -> Iterator[tuple[str, str]]:
    try:
        found = local_settings(str(directory))
    except UnreadableError:
        raise ToolError(
            f"The git configuration of {shown(str(directory))} cannot be read, and the directory is not trusted, so "
            f"git is not run there. Fix its .git/config. {_HOW}"
        ) from None
    yield from _ALWAYS.items()
    names = [parts(name) for name, _ in found]
    filters = dict.fromkeys(sub for section, sub, _ in names if section == "filter")
    merges = dict.fromkeys(sub for section, sub, _ in names if section == "merge" and sub)
    if len(filters) + len(merges) > _MOST:
        raise ToolError(
            f"The git configuration of {shown(str(directory))} names {len(filters) + len(merges)} filters and merge "
            f"drivers, and the directory is not trusted, so git is not run there. {_HOW}"
        )
    for name in filters:
        yield from ((f"filter.{name}.{key}", "") for key in ("clean", "smudge", "process"))
        yield f"filter.{name}.required", "false"
    yield from ((f"merge.{name}.driver", _TEXT_MERGE) for name in merges)


def refuse_to_run(directory: Path, what: str) -> None:
    """For git commands that must run as the person would run them: refuses if an untrusted repository would run
    programs."""
    if is_trusted(directory):
        return
    if named := [*programs(str(directory)), *_hooks(directory)]:
        raise ToolError(
            f"{what}: the directory is not trusted, and its git configuration would run programs "
            f"({few(named, 5)}). Use git yourself. {_HOW}"
        )


def refuse_elsewhere(directory: Path) -> None:
    """A configuration may declare any directory as its working tree; for an untrusted one that is refused."""
    if not is_trusted(directory) and "core.worktree" in programs(str(directory)):
        raise ToolError(
            f"The git configuration of {shown(str(directory))} says that its files lie elsewhere (core.worktree), and "
            f"the directory is not trusted. Work here without isolation. {_HOW}"
        )


def _hooks(directory: Path) -> list[str]:
    folder = Path(repository_of(str(directory))) / "hooks"
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    return [f"hooks/{shown(p.name, 80)}" for p in names if p.suffix != ".sample" and os.access(p, os.X_OK)]
