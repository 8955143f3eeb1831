"""Mirrors teams as plain JSON for people and other programs, written after each change and never read back."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from teamwright.core.data.team import config, iso
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.osfiles.locks import hold
from teamwright.osfiles.private import remove_file, write_file
from teamwright.store.db.disk_policy import Pace
from teamwright.store.tables.mail import MailEntry, MailTable
from teamwright.store.tables.teams import TeamTable

_SHORT = 2_048  # bytes; a longer message is not kept for the next copy, but fetched again
_WAIT = 5.0  # seconds for another process to finish its copy


class TeamMirror:
    def __init__(self, root: Path, teams: TeamTable, mail: MailTable) -> None:
        """`root` is TEAMWRIGHT_HOME."""
        self._dir = root / "teams"
        self._run = root / "run"
        self._teams = teams
        self._mail = mail
        self._turns: dict[str, anyio.Lock] = {}
        self._known: dict[AgentId, dict[tuple[int, bool], bytes]] = {}  # by reader: the pieces of the last copy
        self._pace = Pace()

    def path(self, team: str) -> Path:
        return self._dir / team

    async def write_config(self, team: str) -> None:
        async with self._alone(team):
            await self._write_config(team)

    async def write_inbox(self, team: str, *names: str) -> None:
        """Write the inboxes of these members."""
        async with self._alone(team):
            for name in names:
                await self._write_inbox(team, name)

    async def write_team(self, team: str) -> None:
        """Write all of a team; inboxes of members that are gone are removed."""
        async with self._alone(team):
            await self._write_config(team)
            names = {m.name for m in await self._teams.members(team) if m.state != "shutdown"}
            for name in sorted(names):
                await self._write_inbox(team, name)
            await anyio.to_thread.run_sync(_sweep, self.path(team) / "inboxes", {f"{name}.json" for name in names})

    async def remove(self, team: str) -> None:
        """Remove the files of a deleted team, but only those that we wrote."""
        async with self._alone(team):
            if await self._teams.team(team) is None:
                await anyio.to_thread.run_sync(_remove, self.path(team))
                await self._teams.cleared(team)

    async def rebuild(self) -> list[str]:
        """Write all teams at a start. Returns the names in the directory that belong to no team; they are left
        alone."""
        for name in await self._teams.removed():
            await self.remove(name)
        names = [team.name for team in await self._teams.teams()]
        for name in names:
            await self.write_team(name)
        found = await anyio.to_thread.run_sync(_names, self._dir)
        return sorted(found - set(names))

    @asynccontextmanager
    async def _alone(self, team: str) -> AsyncGenerator[None]:
        """Lets one writer at a time at a team's files, here and in all processes: the last one has read the latest."""
        path = self._run / f"mirror-{team}.lock"
        async with self._turns.setdefault(team, anyio.Lock()):
            lock = hold(path)
            if lock is None:
                with anyio.CancelScope(shield=True):  # if cancelled, the thread would keep the lock for ever
                    lock = await anyio.to_thread.run_sync(hold, path, _WAIT)
            if lock is None:
                raise StoreError(f"{path} has been held for more than {_WAIT:g} s: the copies are not up to date.")
            try:
                yield
            finally:
                lock.release()

    async def _write_config(self, team: str) -> None:
        found = await self._teams.team(team)
        if found is not None:
            await self._write(self.path(team) / "config.json", config(found, await self._teams.members(team)))

    async def _write_inbox(self, team: str, name: str) -> None:
        member = await self._teams.find(team, name)
        if member is not None and member.state != "shutdown":
            shown = await self._mail.shown(team, AgentId(member.agent))
            pieces = await self._pieces(member.agent, shown)
            data = b"[\n" + b",\n".join(pieces[n] for n in sorted(pieces)) + b"\n]\n" if pieces else b"[]\n"
            await self._put(self.path(team) / "inboxes" / f"{member.name}.json", data)

    async def _pieces(self, reader: AgentId, shown: Mapping[int, bool]) -> dict[int, bytes]:
        """Each message as it is in the file. What was written before is kept, so that only new messages are fetched."""
        known = self._known.get(reader, {})
        kept = {n: known[n, read] for n, read in shown.items() if (n, read) in known}
        missing = sorted(shown.keys() - kept.keys())
        fresh = {e.n: _piece(e, read=shown[e.n]) for e in await self._mail.entries(missing)} if missing else {}
        pieces = kept | fresh
        self._known[reader] = {(n, shown[n]): piece for n, piece in pieces.items() if len(piece) <= _SHORT}
        return pieces

    async def _write(self, path: Path, value: Any) -> None:
        await self._put(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")

    async def _put(self, path: Path, data: bytes) -> None:
        await self._pace.run(partial(write_file, path, data, synced=False))  # a start rewrites it, so no sync


def _piece(entry: MailEntry, *, read: bool) -> bytes:
    whole = msgspec.json.format(msgspec.json.encode([_message(entry) | {"read": read}]), indent=2)
    return whole[2:-2]  # without the brackets and their line ends


def _message(entry: MailEntry) -> dict[str, Any]:
    return {
        "from": entry.from_name,
        "text": entry.text,
        "timestamp": iso(entry.sent_at),
        "color": entry.color,
        "summary": entry.summary,
    }


def _sweep(directory: Path, keep: Iterable[str]) -> None:
    """Remove inboxes, and drafts of a killed writer, except those to keep."""
    if directory.is_dir():
        for path in [*directory.glob("*.json"), *directory.glob(".*.json.*"), *directory.parent.glob(".*.json.*")]:
            if path.name not in keep:
                remove_file(path)


def _remove(directory: Path) -> None:
    _sweep(directory / "inboxes", ())
    remove_file(directory / "config.json")
    for empty in (directory / "inboxes", directory):
        try:
            empty.rmdir()
        except OSError:  # a stranger's file is in it, or it is gone already
            continue


def _names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()
