"""Travelling code in tests: an engine's objects as files, and two machines with real repositories."""

import os
import shlex
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from teamwright.core.data.code import Author, BranchBack, Journey, Landed, Parcel, SavedTree
from teamwright.host.git.travel.arrival import Sender, land
from teamwright.host.git.travel.departure import depart
from teamwright.host.git.travel.rooms.room import Origin, Room, Site, open_room
from teamwright.host.git.travel.trees.index_file import file_clock


@contextmanager
def without_git(place: Path) -> Generator[None]:
    """Fail if any git is started meanwhile: the one that is found writes down its arguments, and does nothing."""
    place.mkdir()
    log, fake = place / "started", place / "git"
    fake.write_text(f'#!/bin/sh\necho "$*" >>{shlex.quote(str(log))}\nexit 97\n')
    fake.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{place}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before
    assert not log.exists(), log.read_text()


_opened: list[str] | None = None


def _note_opened(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None and isinstance(args[0], str | bytes):
        _opened.append(Path(os.fsdecode(args[0])).name)


@cache
def _hook() -> None:
    sys.addaudithook(_note_opened)


@contextmanager
def opened_files() -> Generator[list[str]]:
    """The names of the files that this process opens meanwhile."""
    global _opened  # noqa: PLW0603  # a hook of the interpreter cannot be removed
    _hook()
    _opened = names = list[str]()
    try:
        yield names
    finally:
        _opened = None


def settled(path: Path) -> None:
    """Wait until the kernel's file clock has moved past this file's time."""
    while file_clock() <= path.stat().st_mtime_ns:
        pass


class Files:
    """Objects of an engine, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.puts = folder, list[str]()

    async def put(self, name: str, path: Path) -> None:
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        self.puts.append(name)

    async def put_bytes(self, name: str, data: bytes) -> None:
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        self.puts.append(name)

    async def get(self, name: str, path: Path) -> bool:
        place = self.folder / name
        if place.exists():
            shutil.copyfile(place, path)
        return place.exists()

    async def has(self, name: str) -> bool:
        return (self.folder / name).exists()


class Machines:
    """A lead with a repository, and workers with homes."""

    def __init__(self, top: Path, repo: Path) -> None:
        self.top, self.repo, self.objects = top, repo, Files(top / "objects")
        self.parcels = list[Parcel]()
        self.author = Author("Ada", "ada@localhost")

    async def known(self, project: str) -> list[Parcel]:
        return [parcel for parcel in self.parcels if parcel.project == project]

    async def depart(self, cwd: Path | None = None, *, code_mb: int = 512, fetch: str = "") -> Journey:
        scratch = self.top / "scratch"
        journey = await depart(
            cwd or self.repo, self.known, self.objects, code_mb=code_mb, scratch=scratch, fetch=fetch
        )
        self.parcels += journey.parcels
        return journey

    async def room(
        self,
        journey: Journey,
        worker: str = "w1",
        name: str = "far",
        saved: list[SavedTree] | None = None,
        allowed: tuple[str, ...] = (),
    ) -> Room:
        site = Site(self.top / worker, self.known, self.objects, allowed)
        origin = Origin(f"a-{name}", name, journey.project, journey.base, self.author, journey.upstream)
        return await open_room(site, origin, saved or [])

    async def start(self, name: str = "far", worker: str = "w1") -> Room:
        return await self.room(await self.depart(), worker, name)

    async def land(
        self, back: BranchBack | None, name: str = "far", repo: Path | None = None, agent: str = ""
    ) -> Landed:
        assert back is not None
        sender = Sender(name, agent or f"a-{name}", "s1")
        return await land(repo or self.repo, sender, back, self.objects, scratch=self.top / "scratch")
