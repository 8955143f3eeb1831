"""Makes the clone that an agent starts with: a spare one, one written from memory, or one that git checks out."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.host.git.travel.repo import LONG, Repo, together
from teamwright.host.git.travel.repository import StartingPoint, write_repository
from teamwright.host.git.travel.rooms.base_copy import BaseCopy, read_copy, write_copy
from teamwright.host.git.travel.rooms.closed_rooms import BaseKey, take_spare
from teamwright.host.git.travel.rooms.seal import Seal, seal
from teamwright.host.git.travel.trees.saving import has_links
from teamwright.osfiles.private import make_dir
from teamwright.osfiles.trees import remove_tree

_LFS = b"filter=lfs"
_MOST_BASES = 32  # remembered


class KnownCommit(Struct, frozen=True):
    """A commit that agents start at."""

    tree: str
    notes: tuple[str, ...]  # for the model
    copy: BaseCopy | None  # its files, if they are few and small


class Fresh(Struct, frozen=True):
    base: KnownCommit
    seal: Seal | None


_bases: dict[BaseKey, KnownCommit] = {}
_reading: dict[BaseKey, anyio.Lock] = {}


def known_base(key: BaseKey) -> KnownCommit | None:
    return _bases.get(key)


def key_of(start: StartingPoint) -> BaseKey:
    return start.objects, start.base


async def make_fresh(repo: Repo, config: str, start: StartingPoint) -> Fresh:
    """At `start`, in the tree of `repo`; whatever was there is removed.

    The first agent that starts at a commit reads what the others need to know of it, and they wait for that.
    """
    key = key_of(start)
    base = _bases.get(key)
    if base is None:
        async with _reading.setdefault(key, anyio.Lock()):
            base = _bases.get(key)
            if base is None:
                await anyio.to_thread.run_sync(make_empty, repo.cwd, config, start)
                await _check_out(repo)
                base = _remember(key, await _read_base(repo, start.base))
                return Fresh(base, await anyio.to_thread.run_sync(seal, repo.cwd))
    written, sealed = await anyio.to_thread.run_sync(_write, repo.cwd, config, start, base.copy)
    if not written:
        await _check_out(repo)
        sealed = await anyio.to_thread.run_sync(seal, repo.cwd)
    return Fresh(base, sealed)


def make_empty(tree: Path, config: str, start: StartingPoint) -> None:
    """A repository without files."""
    remove_tree(tree.parent)
    make_dir(tree)
    write_repository(tree / ".git", config, start)


def _write(tree: Path, config: str, start: StartingPoint, copy: BaseCopy | None) -> tuple[bool, Seal | None]:
    """False: the repository is there, and its files are not."""
    remove_tree(tree.parent)
    make_dir(tree.parent.parent)
    if take_spare(key_of(start), tree.parent):
        write_repository(tree / ".git", config, start)
        return True, seal(tree)
    make_empty(tree, config, start)
    if copy is None:
        return False, None
    (tree / ".git" / "index").write_bytes(write_copy(copy, tree))
    return True, seal(tree)


async def _check_out(repo: Repo) -> None:
    await repo.text("reset", "--hard", "--quiet", "--no-recurse-submodules", limit=LONG)


async def _read_base(repo: Repo, commit: str) -> KnownCommit:
    """Of a commit that has just been checked out here."""
    tree, notes = await together(repo.tree(commit), find_notes(repo, commit))
    return KnownCommit(tree, notes, await anyio.to_thread.run_sync(read_copy, repo.cwd, len(tree) // 2))


def _remember(key: BaseKey, base: KnownCommit) -> KnownCommit:
    if len(_bases) >= _MOST_BASES:
        _bases.clear()
    _bases[key] = base
    _reading.pop(key, None)
    return base


async def find_notes(repo: Repo, commit: str) -> tuple[str, ...]:
    """What differs here from a clone that somebody makes by hand."""
    notes = list[str]()
    listed = await repo.text("ls-files", "-z", limit=LONG)
    files = [repo.cwd / name for name in listed.split("\0") if name.rpartition("/")[2] == ".gitattributes"]
    if await anyio.to_thread.run_sync(_uses_lfs, files):
        notes.append("Files of Git LFS are here as pointers, without their content.")
    if await has_links(repo, commit):
        notes.append("Submodules are empty directories here.")
    return tuple(notes)


def _uses_lfs(files: Sequence[Path]) -> bool:
    return any(_LFS in file.read_bytes() for file in files if file.is_file() and not file.is_symlink())
