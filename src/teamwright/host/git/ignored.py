"""Files that git ignores are work too, if they were made in the worktree: a fresh one has none.

What a tool makes again by itself is not: the caches that are known by name, and directories that say so themselves.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from teamwright.core.errors import ToolError
from teamwright.core.text import shown

MOST_BYTES, MOST_FILES = 64 << 20, 5_000  # that are kept under a hidden ref
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules", ".venv"})
_LEAVINGS = (".pyc", ".pyo", ".DS_Store")
_TAG, _SIGNATURE = "CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir


def made_here(tree: Path, ignored: Iterable[str], own: Collection[str] = ()) -> tuple[str, ...]:
    """Which of the paths that git ignores somebody made there; a whole directory ends with a slash. Blocks.

    `own` are links of ours.
    """
    return tuple(path for path in ignored if path.rstrip("/") not in own and _is_work(tree, path))


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
    """All that lies in it but caches; also links, which may be all that somebody made."""
    if _is_cache(folder):
        return
    for place, folders, names in os.walk(folder):
        here = Path(place)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [n for n in folders if n not in links and n not in _CACHES and not _is_cache(here / n)]
        yield from (here / name for name in (*names, *links) if not name.endswith(_LEAVINGS))


def in_words(ignored: Collection[str]) -> str:
    names = ", ".join(shown(path, 80) for path in list(ignored)[:5])
    rest = f" and {len(ignored) - 5} more" if len(ignored) > 5 else ""
    return f"made here and ignored by git: {names}{rest}"


def to_be_kept(tree: Path, ignored: Iterable[str]) -> list[str]:
    """Each file of them, relative to the tree. Raises ToolError where they are too much for a repository."""
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
