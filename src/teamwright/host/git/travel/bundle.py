"""Bundles in git's own format: commits with everything they need beyond what the other side has.

They are written and read with `pack-objects` and `index-pack` instead of `git bundle`, which works with branches rather
than commits, and which in the versions that most machines have does not check objects.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.data.code import COMMIT
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.travel.repo import LONG, Repo
from teamwright.host.git.travel.trees.loose_pack import Added, pack_added

MOST_BYTES = 2 << 30  # per bundle
_MOST_LINE, _MOST_HEADER = 4096, 4 << 20
_FORMATS = {40: "sha1", 64: "sha256"}


class Header(Struct, frozen=True):
    """The header of a bundle. We ignore its ref names; only commits matter."""

    prerequisites: tuple[str, ...]
    tips: tuple[str, ...]
    length: int  # bytes before the pack


async def write_bundle(repo: Repo, refs: Mapping[str, str], without: Sequence[str], path: Path) -> int:
    """Bundles the commits in `refs` (name -> commit) without those reachable from `without`; at least one must
    remain."""
    tips = list(dict.fromkeys(refs.values()))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, _header(refs, without))
        words = ("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
        await repo.text(*words, input=_wanted(tips, without), sink=fd, limit=LONG)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def bundle_added(git_dir: Path, refs: Mapping[str, str], without: Sequence[str], added: Added) -> bytes | None:
    """Like `write_bundle` if exactly `added` remains, but without git. None: git is required."""
    pack = pack_added(git_dir, added)
    return None if pack is None else _header(refs, without) + pack


def _wanted(tips: Sequence[str], without: Sequence[str]) -> bytes:
    return "".join([*(f"{tip}\n" for tip in tips), *(f"^{commit}\n" for commit in without)]).encode()


def _header(refs: Mapping[str, str], without: Sequence[str]) -> bytes:
    kind = _FORMATS[len(next(iter(refs.values())))]
    first = "# v2 git bundle\n" if kind == "sha1" else f"# v3 git bundle\n@object-format={kind}\n"
    text = first + "".join(f"-{commit} \n" for commit in without) + _named(refs) + "\n"
    return text.encode("utf-8", "surrogateescape")


def _named(refs: Mapping[str, str]) -> str:
    return "".join(f"{commit} {name}\n" for name, commit in refs.items())


async def take_bundle(repo: Repo, path: Path, *, most: int = MOST_BYTES) -> Header:
    """Adds the bundle's objects to the repository, checked one by one and for completeness. Writes no ref."""
    header = await anyio.to_thread.run_sync(read_header, path)
    if header.prerequisites and not await repo.has(*header.prerequisites):
        raise ToolError("The bundle builds on a commit that is not here. Was the history rewritten, or is it another?")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.lseek(fd, header.length, os.SEEK_SET)
        words = ("index-pack", "--stdin", "--fix-thin", "--strict", f"--max-input-size={most}")
        ran = await repo.run(*words, source=fd, limit=LONG)
    finally:
        os.close(fd)
    if ran.status:
        raise ToolError(f"The bundle was refused: {ran.complaint}")
    if not await repo.has(*header.tips):
        raise ToolError("The bundle does not hold the commits that it names.")
    if not await is_whole(repo, header.tips, header.prerequisites):
        raise ToolError("The bundle is not whole: it lacks objects that its commits lead to.")
    return header


async def is_whole(repo: Repo, tips: Sequence[str], besides: Sequence[str]) -> bool:
    """Is everything reachable from these commits here, apart from what `besides`, known to be complete, leads to?"""
    wanted = _wanted(tips, besides)
    return (await repo.run("rev-list", "--objects", "--quiet", "--stdin", input=wanted, limit=LONG)).status == 0


def read_header(path: Path) -> Header:
    """Raises ToolError unless it is a bundle such as we make."""
    prerequisites, tips = list[str](), list[str]()
    with path.open("rb") as file:
        first = file.readline(_MOST_LINE)
        if first not in (b"# v2 git bundle\n", b"# v3 git bundle\n"):
            raise ToolError("That is no bundle of git.")
        while (line := file.readline(_MOST_LINE)) != b"\n":
            if not line.endswith(b"\n") or file.tell() > _MOST_HEADER:
                raise ToolError("The head of the bundle cannot be read.")
            _read_line(line[:-1].decode("utf-8", "replace"), prerequisites, tips)
        if not tips:
            raise ToolError("The bundle names no commit.")
        return Header(tuple(prerequisites), tuple(tips), file.tell())


def _read_line(line: str, prerequisites: list[str], tips: list[str]) -> None:
    if line in ("@object-format=sha1", "@object-format=sha256"):
        return
    wanted = line.startswith("-")
    commit = line.removeprefix("-").partition(" ")[0]
    if not COMMIT.fullmatch(commit):
        raise ToolError(f"The head of the bundle cannot be read: `{shown(line, 80)}`.")
    (prerequisites if wanted else tips).append(commit)
