"""A worker's cache of a repository: bare, shared by all agents that it runs there, never cleaned up by git itself."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from teamwright.core.data.code import BranchBack, Parcel, Upstream
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.travel.bundle import take_bundle
from teamwright.host.git.travel.objects import Objects, draft, get_code
from teamwright.host.git.travel.repo import LONG, Repo, check_commits, init, ours
from teamwright.host.git.travel.source import fetch_from
from teamwright.osfiles.locks import hold
from teamwright.osfiles.private import make_dir

_TIPS = "refs/teamwright/tips"  # commits that are complete here, with their history
_PROJECT_DIGITS = 64
_SETTINGS = {
    "transfer.fsckObjects": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.logAllRefUpdates": "false",
}


class Cache(Struct, frozen=True):
    folder: Path  # of all caches
    project: str
    upstream: Upstream | None = None  # where commits are fetched from, if not from the engine
    allowed: tuple[str, ...] = ()  # addresses that this machine's person allows fetching from

    @property
    def path(self) -> Path:
        return self.folder / f"{self.project}.git"

    @property
    def repo(self) -> Repo:
        return ours(self.path)

    async def fetch(self, base: str, parcels: Sequence[Parcel], objects: Objects) -> None:
        """Makes this commit available here, with its history."""
        check_commits(base)
        self._check_project()
        if self._has(base):
            return
        async with self._alone():
            await self._make(base)
            if self.upstream is not None and not self._has(base):
                await fetch_from(self.repo, self.upstream, base, self.allowed)
                await self.repo.text("update-ref", f"{_TIPS}/{base}", base)
            for parcel in self._missing(base, parcels):
                await self._take(parcel.object, [parcel.tip], objects)

    async def fetch_back(self, back: BranchBack, parcels: Sequence[Parcel], objects: Objects) -> None:
        """Fetches the work of another agent that started from the same history."""
        tips = [*back.refs.values()]
        check_commits(*tips)
        await self.fetch(back.base, parcels, objects)
        async with self._alone():
            if back.object and not all(self._has(tip) for tip in tips):
                await self._take(back.object, tips, objects)

    def _missing(self, base: str, parcels: Sequence[Parcel]) -> list[Parcel]:
        """The missing parcels, in the order in which they build on each other."""
        known, order = {parcel.tip: parcel for parcel in parcels}, dict[str, Parcel]()
        open_, seen = [base], set[str]()
        while open_:
            tip = open_.pop()
            if tip in seen or self._has(tip):
                continue
            seen.add(tip)
            if tip not in known:
                raise ToolError(f"The engine has no code for the commit {shown(tip, 64)}, where the agent is to start.")
            order[tip] = known[tip]
            check_commits(*known[tip].prerequisites)
            open_ += known[tip].prerequisites
        return _sorted(order)

    def _has(self, tip: str) -> bool:
        """Is this commit complete here? Its ref is written last. Nobody packs refs here, so it is always a file."""
        try:
            return (self.path / _TIPS / tip).read_text("ascii").strip() == tip
        except (OSError, ValueError):
            return False

    async def _take(self, name: str, tips: Sequence[str], objects: Objects) -> None:
        async with draft(self.folder / "tmp") as path:
            await get_code(objects, name, path)
            header = await take_bundle(self.repo, path)
        if not {*tips} <= {*header.tips}:
            raise ToolError(f"{name} in the engine does not hold the commits that are said of it.")
        lines = "".join(f"update {_TIPS}/{tip} {tip}\n" for tip in dict.fromkeys(tips))
        await self.repo.text("update-ref", "--stdin", input=lines.encode())

    def _check_project(self) -> None:
        if len(self.project) != _PROJECT_DIGITS or not self.project.isalnum():
            raise ToolError(f"`{shown(self.project, 80)}` is not the name of a repository's cache.")

    async def _make(self, base: str) -> None:
        if not (self.path / "HEAD").exists():
            await anyio.to_thread.run_sync(make_dir, self.path)
            await init(self.repo, base, "--bare")
            for name, value in _SETTINGS.items():
                await self.repo.text("config", name, value)

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        lock = await anyio.to_thread.run_sync(hold, self.folder / f"{self.project}.lock", LONG)
        if lock is None:
            raise ToolError(f"Another process holds {shown(str(self.path))} for too long.")
        try:
            yield
        finally:
            lock.release()


def _sorted(parcels: Mapping[str, Parcel]) -> list[Parcel]:
    """Sorts parcels after those they build on; refuses cycles."""
    done, rest = list[Parcel](), dict(parcels)
    while rest:
        ready = [tip for tip, parcel in rest.items() if not any(before in rest for before in parcel.prerequisites)]
        if not ready:
            raise ToolError("What the engine says of its code builds on itself.")
        done += [rest.pop(tip) for tip in ready]
    return done
