"""Detects what a command changes in a work tree, using a separate repository of ours on the same files.

It has its own index and objects and does not read the real repository's configuration. So no filter or hook of the
directory runs, and contents are taken as they are. It is only a cache: whatever must last is copied out of it.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.host.git.config import local_settings
from teamwright.host.git.config_file import UnreadableError
from teamwright.host.git.places import repository_of
from teamwright.host.git.run import git_text

_BATCH = 16_000_000  # bytes of contents requested at once
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tcompression = 1\n"
_RAW = b"* -text -ident -filter -working-tree-encoding -eol\n"  # overrides every .gitattributes
_LINK, _GITLINK, _EXECUTABLE = "120000", "160000", "100755"


class LookLimits(Struct, frozen=True):
    """Limits. A tree that exceeds them is skipped, and so is a command that changes more."""

    first: float = 2.5  # seconds for the first look, which reads every file
    later: float = 2.0
    index: int = 6_000_000  # bytes of the real index: about 60,000 files, more than a first look can handle
    files: int = 50_000  # new or changed files per look
    total: int = 300_000_000  # their bytes in total
    file: int = 20_000_000  # bytes per file; larger ones are not kept
    changed: int = 2_000  # files changed by one command
    kept: int = 100_000_000  # bytes of their earlier contents


class TreeChange(Struct, frozen=True):
    """`before` is the id of the earlier content; empty if there was none. `link`: the content is a symbolic link's
    target."""

    path: str
    before: str
    executable: bool = False
    link: bool = False


class Look(Struct, frozen=True):
    """A tree at one moment; `unkept` are files that are too large or unreadable, with their time and size."""

    tree: str
    unkept: Mapping[str, tuple[int, int]]


class ShadowTree:
    """The shadow of work tree `top`, stored in `folder`, which is created at the first look."""

    def __init__(self, top: Path, folder: Path, *, without: Path, limits: LookLimits | None = None) -> None:
        """`without`: our own files, in case they are in the tree."""
        self.top, self._folder, self._without, self._most = top, folder, without, limits or LookLimits()
        self._lock = anyio.Lock()
        self._tree = ""  # at the last look
        self._unkept: set[str] = set()

    @property
    def seen(self) -> bool:
        """Has any look completed?"""
        return bool(self._tree)

    async def look(self) -> Look:
        """Raises ToolError if it takes too long or git fails."""
        limit = self._most.later if self._tree else self._most.first
        with anyio.move_on_after(limit):
            async with self._lock:
                return await self._look(limit)
        raise ToolError(f"looking at its files took longer than {limit:g} s")

    async def _look(self, limit: float) -> Look:
        await anyio.to_thread.run_sync(self._prepare)
        listed = await self._git("ls-files", "-z", "-o", "-m", "--exclude-standard", limit=limit)
        names = {name for name in listed.split("\0") if name and not name.endswith("/")}
        if len(names) > self._most.files:
            raise ToolError(f"it has more than {self._most.files:,} files")
        fit, unkept = await anyio.to_thread.run_sync(self._sort_out, names)
        grown, self._unkept = unkept.keys() - self._unkept, set(unkept)
        if grown:  # a file kept so far has become too large
            await self._update("--force-remove", names=grown, limit=limit)
        if fit or grown or not self._tree:
            await self._update("--add", "--remove", "--replace", names=fit, limit=limit)
            self._tree = (await self._git("write-tree", limit=limit)).strip()
        return Look(self._tree, unkept)

    async def _update(self, *how: str, names: Iterable[str], limit: float) -> None:
        paths = os.fsencode("\0".join(names))
        await self._git("update-index", *how, "-z", "--stdin", limit=limit, input=paths)

    def _prepare(self) -> None:
        (self._folder / "index.lock").unlink(missing_ok=True)  # left by an interrupted look
        if self._tree:
            return
        for name in ("objects", "refs", "info"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "HEAD").write_bytes(b"ref: refs/heads/none\n")
        (self._folder / "config").write_bytes(_CONFIG)
        (self._folder / "info" / "attributes").write_bytes(_RAW)
        common = Path(repository_of(str(self.top)))
        index = common / "index"
        if index.is_file() and index.stat().st_size > self._most.index:
            raise ToolError("it has too many files")
        (self._folder / "info" / "exclude").write_bytes(self._excluded(common))
        if _may_borrow(self.top, common):  # shares committed contents instead of storing them again
            (self._folder / "objects" / "info").mkdir(exist_ok=True)
            (self._folder / "objects" / "info" / "alternates").write_bytes(os.fsencode(common / "objects") + b"\n")

    def _excluded(self, common: Path) -> bytes:
        try:
            lines = (common / "info" / "exclude").read_bytes()
        except OSError:
            lines = b""
        own = self._without
        ours = os.fsencode(f"/{own.relative_to(self.top)}/\n") if own.is_relative_to(self.top) else b""
        return lines + b"\n" + ours

    def _sort_out(self, names: Iterable[str]) -> tuple[list[str], dict[str, tuple[int, int]]]:
        """Splits into files to read, and files that are too large or unreadable."""
        fit: list[str] = []
        unkept: dict[str, tuple[int, int]] = {}
        total = 0
        for name in sorted(names):
            path = self.top / name
            try:
                found = path.lstat()
            except OSError:
                fit.append(name)  # deleted: git removes it
                continue
            regular = stat.S_ISREG(found.st_mode)
            if regular and (found.st_size > self._most.file or not os.access(path, os.R_OK)):
                unkept[name] = (found.st_mtime_ns, found.st_size)
                continue
            fit.append(name)
            total += found.st_size if regular else 0
        if total > self._most.total:
            raise ToolError(f"its new and changed files have more than {self._most.total // 1_000_000} MB")
        return fit, unkept

    async def changes(self, before: Look, after: Look) -> list[TreeChange]:
        """The difference between two looks. Raises ToolError if it is too large."""
        if before.tree == after.tree:
            return []
        told = await self._git("diff-tree", "-r", "-z", "--no-renames", before.tree, after.tree, limit=self._most.first)
        fields = told.split("\0")
        found: list[TreeChange] = []
        for about, path in zip(fields[::2], fields[1::2], strict=False):
            mode, _, name, _, _ = about.removeprefix(":").split(" ")
            if mode != _GITLINK:
                was = "" if mode == "000000" else name
                found.append(TreeChange(path, was, executable=mode == _EXECUTABLE, link=mode == _LINK))
        if len(found) > self._most.changed:
            raise ToolError(f"it changed {len(found):,} files, more than the {self._most.changed:,} that are kept")
        return found

    async def contents(self, names: Sequence[str]) -> dict[str, bytes]:
        """Contents by id. Raises ToolError."""
        found: dict[str, bytes] = {}
        for batch in _batches(await self._sizes(names)):
            asked = "\n".join(batch).encode() + b"\n"
            data = os.fsencode(await self._git("cat-file", "--batch", limit=self._most.first, input=asked))
            for _ in batch:
                head, _, rest = data.partition(b"\n")
                name, _, size = head.decode(errors="replace").split(" ")
                found[name], data = rest[: int(size)], rest[int(size) + 1 :]
        return found

    async def _sizes(self, names: Sequence[str]) -> dict[str, int]:
        if not names:
            return {}
        asked = "\n".join(dict.fromkeys(names)).encode() + b"\n"
        told = await self._git("cat-file", "--batch-check", limit=self._most.first, input=asked)
        rows = [row.split(" ") for row in told.splitlines()]
        if any(len(row) != 3 for row in rows):
            raise ToolError("contents are missing that were there before")
        sizes = {row[0]: int(row[2]) for row in rows}
        if sum(sizes.values()) > self._most.kept:
            raise ToolError(f"what it changed had more than {self._most.kept:,} bytes")
        return sizes

    async def _git(self, *args: str, limit: float, input: bytes | None = None) -> str:
        here = {"GIT_DIR": str(self._folder), "GIT_WORK_TREE": str(self.top)}
        return await git_text(*args, cwd=self._folder, limit=limit, input=input, extra=here)


def _batches(sizes: Mapping[str, int]) -> list[list[str]]:
    found: list[list[str]] = []
    room = 0
    for name, size in sizes.items():
        if not found or size > room:
            found.append([])
            room = _BATCH
        found[-1].append(name)
        room -= size
    return found


def _may_borrow(top: Path, common: Path) -> bool:
    """Objects can only be shared if both repositories use the same hash."""
    try:
        named = [name for name, _ in local_settings(str(top))]
    except UnreadableError:
        return False
    return "extensions.objectformat" not in named and "\n" not in str(common)
