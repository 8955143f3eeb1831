"""Saves a tree as a commit: changed, new and deleted files, without touching HEAD, index or files."""

import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
from msgspec import Struct

from teamwright.core.text import plural, shown
from teamwright.host.git.travel.repo import LONG, Repo, together
from teamwright.host.git.travel.trees.index_file import file_clock, find_changed, is_changed, read_index
from teamwright.host.git.travel.trees.small_tree import SmallTree

T = TypeVar("T")
MOST_FILE = 64 << 20
MOST_BRANCHES = 500
_FEW = 1 << 14  # bytes of an index: checking so few files takes less time than a thread
_CHUNK = 1 << 12
_MOST_REFS = 1 << 20  # bytes of a file that lists refs
_SHOWN = 5
_LINK = "160000"


class Looked(Struct, frozen=True):
    """The tree that was written, and what it lacks."""

    tree: str
    skipped: dict[str, str] = {}  # path -> reason
    since: str = ""  # the previous tree, if the changes since then are known
    paths: tuple[str, ...] = ()  # paths that may differ from it


class TreeIndex:
    """Our own index beside the tree's. It remembers which files were read, so that a second look is cheap."""

    def __init__(self, repo: Repo, folder: Path) -> None:
        self._repo, self._path = repo, folder / "index"
        self._extra = {"GIT_INDEX_FILE": str(self._path)}
        self._heads = HeadReader(repo)
        self._head: str | None = None
        self._tree = ""  # the tree it was written as, if unchanged since
        self._looked = 0  # file clock before the last look at all files
        self._small: SmallTree | None = None  # of the index below
        self._small_of: tuple[int, int, int] | None = None  # inode, size and time of that index
        self._ahead = set[str]()  # files that were stored and are older in the index

    def seed(self) -> None:
        """Starts from git's index of the files just checked out; later the agent's own index might hide some."""
        shutil.copyfile(Path(self._repo.extra["GIT_DIR"], "index"), self._path)
        self._head, self._tree, self._looked = None, "", file_clock()

    def know(self, heads: "Heads", tree: str) -> None:
        """After `seed`: these heads and this tree are checked out, unchanged."""
        self._heads.know(heads)
        self._head, self._tree = heads.commit, tree

    def forget(self) -> None:
        """Drops what only saves time at the next look: an idle agent takes no memory for its files."""
        self._small, self._small_of = None, None

    async def write(self, only: Path | None = None) -> tuple["Heads", Looked]:
        """The position of HEAD and the branches, and the tree. `only`: nothing else has changed.

        Git takes longer to start than to answer, so independent questions are asked at once.
        """
        self._path.with_name("index.lock").unlink(missing_ok=True)  # left by a killed git; nobody else writes it
        if not self._path.exists():
            self._head, only = None, None
        heads, paths = self._heads.unchanged(), self._quick_look(only)
        if heads is None or paths is None:
            heads, paths = await together(_given(heads, self._heads.read), _given(paths, partial(self._look, only)))
        since = self._tree
        if since and paths and self._head == heads.commit:
            if (stored := await anyio.to_thread.run_sync(self._store, paths)) is not None:
                self._tree = stored
                return heads, Looked(stored, {}, since, tuple(paths))
            if self._ahead:
                paths, since = [*paths, *self._catch_up()], ""
        if self._head != heads.commit:  # HEAD has moved, so read an index of that commit
            words = ("--reset", heads.commit) if heads.commit else ("--empty",)
            await self._repo.text("read-tree", *words, extra=self._extra, limit=LONG)
            self._head, self._tree, since, paths = heads.commit, "", "", await self._ask_git()
        skipped = await self._add(paths)
        if not self._tree:
            self._tree = (await self._repo.text("write-tree", extra=self._extra, limit=LONG)).strip()
        return heads, Looked(self._tree, skipped, since, tuple(paths))

    def _quick_look(self, only: Path | None) -> list[str] | None:
        """Paths that differ from our index; None if finding out takes longer than a moment."""
        if self._head is None or (only is not None and not only.is_relative_to(self._repo.cwd)):
            return []
        if only is not None:
            return self._look_at(only)
        return self._compare() if self._path.stat().st_size <= _FEW else None

    def _look_at(self, file: Path) -> list[str] | None:
        small, path = self._known(), str(file.relative_to(self._repo.cwd))
        try:
            name, found = os.fsencode(path), os.lstat(file)
        except (OSError, ValueError):
            return None
        if small is None:
            return None
        change = is_changed(small.stamps.get(name), found, small.read.get(name, self._looked))
        return None if change is None else [path] * change

    async def _look(self, only: Path | None) -> list[str]:
        if only is not None:
            return await self._ask_git(only)
        now, many = file_clock(), self._path.stat().st_size > _FEW
        found = await anyio.to_thread.run_sync(self._compare) if many else None
        if found is None:
            found, self._looked = await self._ask_git(), now
        return found

    def _compare(self) -> list[str] | None:
        """Compares without git; None if only git can tell."""
        now, small = file_clock(), self._known()
        found = None if small is None else find_changed(small.stamps, self._repo.cwd, self._looked, small.read)
        if found is not None and small is not None:
            self._looked = now
            small.read.clear()
        return found

    def _known(self) -> SmallTree | None:
        """The tree as our index has it, or as it was stored since; None if only git can read the index."""
        try:
            facts, width = self._path.stat(), len(self._tree or self._head or "") // 2
            here = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
            if here != self._small_of:
                self._small, self._small_of = None, here
                index = read_index(self._path, width)
                self._small = None if index is None else SmallTree(index)
        except (OSError, ValueError):
            return None
        return self._small

    def _store(self, paths: list[str]) -> str | None:
        """The tree with these files as they are; None if git has to store them."""
        small = self._known()
        if small is None:
            return None
        try:
            stored = small.store(Path(self._repo.extra["GIT_DIR"]), self._repo.cwd, paths)
        except OSError:  # git will say what is wrong
            self._small_of, stored = None, None
        self._ahead |= set(paths if stored is not None else ())
        return stored

    def _catch_up(self) -> list[str]:
        """The files in which git's index is behind. Git is about to look at them, and to write the tree."""
        stored = sorted(self._ahead)
        if stored:
            self._ahead, self._small_of, self._tree = set[str](), None, ""
        return stored

    async def _ask_git(self, only: Path | None = None) -> list[str]:
        """Paths that differ from our index or are missing from it, except ignored ones. Files that were only touched
        are updated in the index, so that they are read just once."""
        stored = self._catch_up()
        where = ("--", str(only), *stored) if only else ()
        words = ("--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all", *where)
        noting = self._extra | {"GIT_OPTIONAL_LOCKS": "1"}
        ran = await self._repo.run("status", *words, extra=noting, limit=LONG)
        if not ran.status and not ran.cut:
            return [path for entry in ran.out.split("\0") if (path := _changed_path(entry))]
        words = ("-z", "--others", "--modified", "--deleted", "--exclude-standard", *where)  # HEAD may point to nothing
        told = await self._repo.text("ls-files", *words, extra=self._extra, limit=LONG)
        return [path for path in dict.fromkeys(told.split("\0")) if path]

    async def _add(self, paths: list[str]) -> dict[str, str]:
        if not paths:
            return {}
        skipped = await anyio.to_thread.run_sync(_sort_out, self._repo.cwd, paths)
        good = [path for path, why in skipped.items() if not why]
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        if good:
            self._tree = ""
            ran = await self._repo.run(*words, input=_fields(good), extra=self._extra, limit=LONG)
            if ran.status:  # one of them failed: add each by itself, so that the others are saved
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


async def _given(found: T | None, otherwise: Callable[[], Awaitable[T]]) -> T:
    return found if found is not None else await otherwise()


def _changed_path(entry: str) -> str:
    """The path in an entry of `git status`, if the file differs from the index."""
    if entry.startswith("? "):
        return entry[2:]
    return entry.split(" ", 8)[8] if entry.startswith("1 ") and entry[3] != "." else ""


def _fields(paths: list[str]) -> bytes:
    return os.fsencode("\0".join(paths))


def _sort_out(top: Path, paths: list[str]) -> dict[str, str]:
    """For each path, why it is not saved; empty if it is."""
    return {path: _fault(top, path) for path in paths}


def _fault(top: Path, path: str) -> str:
    if path.endswith("/"):
        return "a repository of its own"
    try:
        found = os.lstat(top / path)
    except OSError:  # deleted, which is saved too
        return ""
    if stat.S_ISDIR(found.st_mode):
        return "a repository of its own" if (top / path / ".git").exists() else ""
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        return "neither a file nor a link"
    return f"larger than {MOST_FILE >> 20} MB" if found.st_size > MOST_FILE else ""


def in_words(skipped: dict[str, str]) -> tuple[str, ...]:
    """One sentence per reason."""
    reasons = dict[str, list[str]]()
    for path, why in skipped.items():
        reasons.setdefault(why, []).append(shown(path, 100))
    return tuple(f"Not saved, {why}: {_few(paths)}." for why, paths in reasons.items())


def _few(paths: list[str]) -> str:
    rest = f" and {plural(len(paths) - _SHOWN, 'more')}".removesuffix("s") if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + rest


class Heads(Struct, frozen=True):
    """The position of HEAD, and all local branches."""

    head: str  # a ref, or a commit if detached
    commit: str  # empty before the first commit
    refs: dict[str, str]


class HeadReader:
    """Reports where HEAD and the branches are. Asks git only if one of the underlying files has changed."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._files: dict[str, bytes] | None = None
        self._heads: Heads | None = None

    def know(self, heads: Heads) -> None:
        """Sets the current position."""
        self._heads, self._files = heads, _ref_files(Path(self._repo.extra["GIT_DIR"]))

    def unchanged(self) -> Heads | None:
        """The known position; None if anything it depends on has changed."""
        files = _ref_files(Path(self._repo.extra["GIT_DIR"]))
        return self._heads if files is not None and files == self._files else None

    async def read(self) -> Heads:
        files = _ref_files(Path(self._repo.extra["GIT_DIR"]))
        self._heads = await read_heads(self._repo)
        self._files = files  # read before git was asked, so that a change in between is noticed next time
        return self._heads


def _ref_files(git_dir: Path) -> dict[str, bytes] | None:
    """The content of all files that HEAD and the branches depend on; None if the layout differs from a plain
    repository."""
    head, packed, below = (os.path.join(git_dir, name) for name in ("HEAD", "packed-refs", "refs/heads"))
    paths = [head, packed]
    try:
        for path in _paths_below(below):
            paths.append(path)
            if len(paths) > MOST_BRANCHES:
                return None
        found = {path: _small_file(path) for path in paths}
    except (OSError, ValueError, RecursionError):
        return None
    named = [text for text in found.values() if text.startswith(b"ref:")]
    return found if found[head] and all(text.startswith(b"ref: refs/heads/") for text in named) else None


def _paths_below(folder: str) -> Iterator[str]:
    """All entries except directories; non-files are detected when read. Raises OSError."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _paths_below(entry.path)
            else:
                yield entry.path


def _small_file(path: str) -> bytes:
    """The content of a small file; empty if it does not exist. Raises OSError or ValueError for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        data = b""
        while part := os.read(fd, _CHUNK):
            data += part
            if len(data) > _MOST_REFS:
                raise ValueError(path)
    finally:
        os.close(fd)
    return data


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
    """Does it contain submodules?"""
    told = await repo.text("ls-tree", "-r", "-z", commit, limit=LONG)
    return any(entry.startswith(_LINK) for entry in told.split("\0"))
