"""Finds the repository around a directory as git would, without running git or reading its configuration.

Also adds our own files to the repository's local exclude list, which is never committed.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from teamwright.core.errors import SettingsError
from teamwright.osfiles.reading import read_plain


def repository_of(directory: str) -> str:
    """The git directory shared by all worktrees of this repository, as a real path; empty if there is none."""
    return next((os.path.realpath(common_of(git) or git) for _, git in sure_places(directory)), "")


def top_of(directory: str) -> str:
    """The working tree that the directory belongs to; empty if there is none."""
    return next((top for top, git in places(os.path.abspath(directory)) if _is_git_directory(git)), "")


def sure_places(directory: str) -> Iterator[tuple[str, str]]:
    return (place for place in places(os.path.abspath(directory)) if _is_git_directory(place[1]))


def places(directory: str) -> Iterator[tuple[str, str]]:
    """(tree, git directory) pairs that git might use, nearest first; the last is one it certainly would."""
    here = directory
    while True:
        mark = os.path.join(here, ".git")
        if os.path.lexists(mark):
            git = git_of(mark)
            yield here, git
            if _is_git_directory(git):
                return
        if os.path.lexists(os.path.join(here, "HEAD")) and _looks_bare(here):
            yield here, here
            if _is_git_directory(here):
                return
        parent = os.path.dirname(here)
        if parent == here:
            return
        here = parent


def _looks_bare(here: str) -> bool:
    return any(os.path.lexists(os.path.join(here, name)) for name in ("objects", "commondir", "config"))


def git_of(mark: str) -> str:
    """The git directory; a `.git` file names another place."""
    told = text_of(mark)
    return os.path.join(os.path.dirname(mark), told[8:]) if told.startswith("gitdir: ") else mark


def _is_git_directory(git: str) -> bool:
    common = common_of(git) or git
    there = all(os.path.isdir(os.path.join(common, name)) for name in ("objects", "refs"))
    return there and _is_head(os.path.join(git, "HEAD"))


def _is_head(path: str) -> bool:
    try:
        if os.path.islink(path):
            return os.readlink(path).startswith("refs/")
    except OSError:
        return False
    told = text_of(path)
    return bool(re.match(r"ref:\s*refs/|[0-9a-fA-F]{40}", told))


def common_of(git: str) -> str:
    """The directory that a linked worktree shares with the main one; empty if it is not one."""
    told = text_of(os.path.join(git, "commondir"))
    return os.path.join(git, told) if told else ""


def text_of(path: str, *, follow: bool = True) -> str:
    """The content of a small file; empty if it cannot be read. `follow`: may it be a link?"""
    try:
        return os.fsdecode(read_plain(path, 8192, follow=follow) or b"").rstrip("\r\n")
    except SettingsError:
        return ""


# --- local excludes


def leave_out(common: Path, pattern: str) -> None:
    """`common` is the git directory shared by all trees. Raises OSError."""
    exclude, line = common / "info" / "exclude", os.fsencode(pattern)
    exclude.parent.mkdir(exist_ok=True)
    with exclude.open("a+b") as file:
        file.seek(0)
        known = file.read()
        if line not in known.splitlines():
            file.write(b"\n" * (known[-1:] not in (b"", b"\n")) + line + b"\n")


def leave_out_file(file: Path) -> None:
    """Excludes a file if it is in a repository. Best effort: failing to write the list loses nothing."""
    top, common = top_of(str(file.parent)), repository_of(str(file.parent))
    if top and common and file.is_relative_to(top):
        with suppress(OSError):
            leave_out(Path(common), f"/{file.relative_to(top)}")
