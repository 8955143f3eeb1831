"""Saves a tree as a commit: changed, new and deleted files, without touching HEAD, index or files."""

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.text import plural, shown
from teamwright.host.git.travel.repo import LONG, Repo, together

MOST_FILE = 64 << 20
MOST_BRANCHES = 500
_SHOWN = 5
_LINK = "160000"


class Looked(Struct, frozen=True):
    """The tree that was written, and what it lacks."""

    tree: str
    skipped: dict[str, str] = {}  # path: why


class TreeIndex:
    """An index of our own beside the tree's: it remembers which files were looked at, so that a second look is
    cheap."""

    def __init__(self, repo: Repo, folder: Path) -> None:
        self._repo, self._path = repo, folder / "index"
        self._extra = {"GIT_INDEX_FILE": str(self._path)}
        self._head: str | None = None
        self._tree = ""  # what it was written as, while nothing was changed in it since

    async def seed(self, index: Path, head: str | None) -> None:
        """With what git knows of files that it has just written; an agent's own index might hide some. `head`: the
        tree is as this commit is."""
        await anyio.to_thread.run_sync(shutil.copyfile, index, self._path)
        self._head, self._tree = head, ""

    async def write(self, only: Path | None = None) -> tuple["Heads", Looked]:
        """Where HEAD and the branches are, and the tree. `only`: nothing else has changed.

        Programs of git take longer to start than to do this, so what can be asked at once is.
        """
        if not self._path.exists():
            self._head, only = None, None
        heads, paths = await together(read_heads(self._repo), self._look(only))
        if self._head != heads.commit:  # it stands on another commit: an index of that one
            words = ("--reset", heads.commit) if heads.commit else ("--empty",)
            await self._repo.text("read-tree", *words, extra=self._extra, limit=LONG)
            self._head, self._tree, paths = heads.commit, "", await self._changed()
        skipped = await self._add(paths)
        if not self._tree:
            self._tree = (await self._repo.text("write-tree", extra=self._extra, limit=LONG)).strip()
        return heads, Looked(self._tree, skipped)

    async def _look(self, only: Path | None) -> list[str]:
        if self._head is None:
            return []
        return await (self._changed() if only is None else self._changed_at(only))

    async def _changed(self) -> list[str]:
        """Paths that differ from our index, and those that it does not have; ignored ones are not among them."""
        told = await together(
            self._repo.text(
                "diff-files", "-z", "--name-only", "--ignore-submodules=all", extra=self._extra, limit=LONG
            ),
            self._repo.text("ls-files", "-z", "--others", "--exclude-standard", extra=self._extra, limit=LONG),
        )
        return [path for path in "".join(told).split("\0") if path]

    async def _changed_at(self, path: Path) -> list[str]:
        """The same for one file."""
        if not path.is_relative_to(self._repo.cwd):
            return []
        words = ("ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard", "--", str(path))
        told = await self._repo.text(*words, extra=self._extra)
        return [path for path in dict.fromkeys(told.split("\0")) if path]

    async def _add(self, paths: Iterable[str]) -> dict[str, str]:
        skipped = await anyio.to_thread.run_sync(_sort_out, self._repo.cwd, list(paths))
        good = [path for path, why in skipped.items() if not why]
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        if good:
            self._tree = ""
            ran = await self._repo.run(*words, input=_fields(good), extra=self._extra, limit=LONG)
            if ran.status:  # one of them: then each by itself, so that all others are saved
                skipped |= await self._add_each(good, words)
        return {path: why for path, why in skipped.items() if why}

    async def _add_each(self, paths: list[str], words: tuple[str, ...]) -> dict[str, str]:
        if len(paths) == 1:
            ran = await self._repo.run(*words, input=_fields(paths), extra=self._extra, limit=LONG)
            return {paths[0]: f"cannot be read ({ran.complaint})"} if ran.status else {}
        half, faults = len(paths) // 2, dict[str, str]()
        for part in (paths[:half], paths[half:]):
            ran = await self._repo.run(*words, input=_fields(part), extra=self._extra, limit=LONG)
            faults |= await self._add_each(part, words) if ran.status else {}
        return faults


def _fields(paths: list[str]) -> bytes:
    return os.fsencode("\0".join(paths))


def _sort_out(top: Path, paths: list[str]) -> dict[str, str]:
    """Path: empty, or why it is not saved."""
    return {path: _fault(top, path) for path in paths}


def _fault(top: Path, path: str) -> str:
    if path.endswith("/"):
        return "a repository of its own"
    try:
        found = os.lstat(top / path)
    except OSError:  # deleted: that is saved too
        return ""
    if stat.S_ISDIR(found.st_mode):
        return "a repository of its own" if (top / path / ".git").exists() else ""
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        return "neither a file nor a link"
    return f"larger than {MOST_FILE >> 20} MB" if found.st_size > MOST_FILE else ""


def in_words(skipped: dict[str, str]) -> tuple[str, ...]:
    """One sentence for each reason."""
    reasons = dict[str, list[str]]()
    for path, why in skipped.items():
        reasons.setdefault(why, []).append(shown(path, 100))
    return tuple(f"Not saved, {why}: {_few(paths)}." for why, paths in reasons.items())


def _few(paths: list[str]) -> str:
    rest = f" and {plural(len(paths) - _SHOWN, 'more')}".removesuffix("s") if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + rest


class Heads(Struct, frozen=True):
    """Where HEAD is, and every local branch."""

    head: str  # a ref, or a commit where it is detached
    commit: str  # empty before a first one
    refs: dict[str, str]


async def read_heads(repo: Repo) -> Heads:
    told = await repo.text("for-each-ref", "--format=%(HEAD)|%(objecttype)|%(objectname)|%(refname)", "refs/heads/")
    rows = [line.split("|", 3) for line in told.splitlines()]
    commits = [(name, commit) for _, kind, commit, name in rows if kind == "commit"]
    refs = dict(commits[:MOST_BRANCHES])
    for mark, _, commit, name in rows:
        if mark == "*":
            return Heads(name, commit, refs)
    ran, commit = await repo.run("symbolic-ref", "--quiet", "HEAD"), await repo.commit("HEAD")
    return Heads(ran.out.strip() if ran.status == 0 else commit, commit, refs)


async def has_links(repo: Repo, commit: str) -> bool:
    """Has it submodules?"""
    told = await repo.text("ls-tree", "-r", "-z", commit, limit=LONG)
    return any(entry.startswith(_LINK) for entry in told.split("\0"))
