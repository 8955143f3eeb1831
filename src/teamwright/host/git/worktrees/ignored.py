"""Finds work among ignored files: a fresh worktree has none, so whatever exists was made there.

Content that tools recreate does not count, that is, caches known by name and directories tagged as caches, except for
files that an agent wrote there with our tools. Those are noted in the worktree's private git directory.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from teamwright.core.errors import ToolError
from teamwright.core.text import few, shown
from teamwright.host.git.worktrees.record import PLACE, private_at

MOST_BYTES, MOST_FILES = 64 << 20, 5_000  # limits for keeping under a hidden ref
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules", ".venv"})
_LEAVINGS = (".pyc", ".pyo", ".DS_Store")
_TAG, _SIGNATURE = "CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir
_NOTES, _MOST_NOTES = "teamwright-written", 1 << 20


def made_here(tree: Path, ignored: Iterable[str], own: Collection[str] = ()) -> tuple[str, ...]:
    """The ignored paths that somebody made there; whole directories end with a slash. Blocks.

    `own` are links of ours.
    """
    found = [path for path in ignored if path.rstrip("/") not in own]
    work = [path for path in found if _is_work(tree, path)]
    folders = tuple(path for path in found if path.endswith("/"))
    noted = [path for path in _noted(tree) if path in found or path.startswith(folders)]
    return tuple(dict.fromkeys([*work, *(path for path in noted if os.path.lexists(tree / path))]))


def note_written(path: Path) -> None:
    """Notes a file that one of our tools is about to write, if it is in a worktree's cache: it then counts as work."""
    tree = _tree_of(path)
    if tree is None or not _is_left_out(tree, path):
        return
    with suppress(OSError):  # failing to note it must not fail the write
        if private := private_at(tree):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(private / _NOTES, flags, 0o600), "ab", buffering=0) as file:  # noqa: PTH123
                file.write(os.fsencode(path.relative_to(tree)) + b"\0")


def _tree_of(path: Path) -> Path | None:
    """Our worktree that contains the file, if any."""
    parts = path.parts
    ends = [n for n in range(2, len(parts) - 1) if parts[n - 2 : n] == PLACE]
    return Path(*parts[: ends[-1] + 1]) if ends else None


def _is_left_out(tree: Path, path: Path) -> bool:
    inside = path.relative_to(tree)
    tagged = any(_is_cache(tree / parent) for parent in inside.parents)
    return tagged or not _CACHES.isdisjoint(inside.parts) or inside.name.endswith(_LEAVINGS)


def _noted(tree: Path) -> list[str]:
    with suppress(OSError):
        if private := private_at(tree):
            with (private / _NOTES).open("rb") as file:
                told = file.read(_MOST_NOTES)
            return [os.fsdecode(path) for path in dict.fromkeys(told.split(b"\0")) if path]
    return []


def _is_work(tree: Path, path: str) -> bool:
    place = tree / path
    if not _CACHES.isdisjoint(Path(path).parts) or path.endswith(_LEAVINGS):
        return False
    if path.endswith("/") and not place.is_symlink():
        return next(_files(place), None) is not None
    return not any(_is_cache(parent) for parent in place.parents if parent != tree and parent.is_relative_to(tree))


def _is_cache(folder: Path) -> bool:
    try:
        with (folder / _TAG).open("rb") as file:
            return file.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError:
        return False


def _files(folder: Path) -> Iterator[Path]:
    """All files outside caches, and links, which may be all that somebody made."""
    if _is_cache(folder):
        return
    for place, folders, names in os.walk(folder):
        here = Path(place)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [n for n in folders if n not in links and n not in _CACHES and not _is_cache(here / n)]
        yield from (here / name for name in (*names, *links) if not name.endswith(_LEAVINGS))


def in_words(ignored: Collection[str]) -> str:
    return f"made here and ignored by git: {few([shown(path, 80) for path in ignored], 5)}"


def to_be_kept(tree: Path, ignored: Iterable[str]) -> list[str]:
    """The single files, relative to the tree. Raises ToolError if they are too many for a repository."""
    found: list[str] = []
    size = 0
    for path in ignored:
        whole = path.endswith("/") and not (tree / path).is_symlink()
        for file in _files(tree / path) if whole else (tree / path,):
            size += file.lstat().st_size
            found.append(str(file.relative_to(tree)))
            if size > MOST_BYTES or len(found) > MOST_FILES:
                raise ToolError(
                    f"{shown(str(tree))} holds files that git ignores, too many to keep them in the repository "
                    f"(among them {shown(path, 80)}). Move or delete them first."
                )
    return found
