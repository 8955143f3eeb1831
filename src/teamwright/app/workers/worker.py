"""Opens a worker: its own settings and keys, its place in the engine, and what all agents that it runs share."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio import Semaphore
from msgspec import Struct

from teamwright.app.engine import read_own
from teamwright.app.models import Models, open_worker_models
from teamwright.app.options import Options
from teamwright.app.workers.hosting import open_hosted
from teamwright.app.workspace import Workspace, open_workspace
from teamwright.core.errors import ModelError, UsageError
from teamwright.core.ids import SessionId
from teamwright.host.git.travel.rooms.closed_rooms import claim_rooms, delete_closed
from teamwright.host.process.rlimits import allow_many_files
from teamwright.osfiles.locks import Lock
from teamwright.runtime.workers.hosted import Hosted
from teamwright.runtime.workers.office import Office, OfficeDeps
from teamwright.store.engine.opening import read_lease
from teamwright.store.engine.port import UnopenedSpaceError
from teamwright.store.engine.space import Joining, Space, open_space
from teamwright.store.engine.wire.address import Address
from teamwright.store.files.logs import LogFile
from teamwright.store.tables.processes import Process, ProcessTable
from teamwright.store.tables.remotes import OfferSlots, Remote

_UNOPENED = 1.0  # seconds between two looks whether a lead has opened the space
_OWN = ("anthropic", "openai")


class Wanted(Struct, frozen=True, kw_only=True):
    """Options of a worker."""

    join: str
    name: str
    slots: int = 8
    labels: Mapping[str, str] = {}
    allow_bypass: bool = False
    once: bool = False


class Ground(Struct, frozen=True, kw_only=True):
    """What all agents of this worker share."""

    name: str
    home: Path
    env: Mapping[str, str]
    space: Space
    process: Process
    models: Models
    slots: Semaphore
    news: Callable[[], anyio.Event]
    fetch_from: tuple[str, ...] = ()  # addresses of repositories that this machine may fetch from


class OpenWorker(Struct, frozen=True, kw_only=True):
    """A worker that has joined. It may be given agents once its office has offered its slots."""

    office: Office
    space: Space
    models: Models
    drain_seconds: float
    rooms: Lock

    async def close(self) -> None:
        """Others take over what it had, at once."""
        try:
            await self.space.close()
        finally:
            await self.office.sweep()
            self.rooms.release()
            await self.models.routed.aclose()


async def open_worker(wanted: Wanted, cwd: Path, env: Mapping[str, str], say: Callable[[str], None]) -> OpenWorker:
    allow_many_files()
    workspace = open_workspace(Options(cwd=cwd, env=env, setting_sources=("user",)))
    rooms = await anyio.to_thread.run_sync(claim_rooms, workspace.home.root / "remote")
    try:
        return await _join(wanted, workspace, env, say, rooms)
    except BaseException:
        rooms.release()
        raise


async def _join(
    wanted: Wanted, workspace: Workspace, env: Mapping[str, str], say: Callable[[str], None], rooms: Lock
) -> OpenWorker:
    own, home = workspace.own.engine, workspace.home.root
    models = open_worker_models(workspace)
    how = Joining(role="worker", lease=read_lease(env), patience=own.patience_seconds)
    space = await _opened(read_own(wanted.join, env, workspace), home, how, say)
    try:
        log = LogFile(home / "logs" / "teamwright.log", SessionId(f"worker {wanted.name}"), lambda text: text)
        process = await ProcessTable(space.database, space.home.run).register(SessionId(""))

        async def opened(remote: Remote) -> Hosted:
            return await open_hosted(ground, remote)

        deps = OfficeDeps(
            database=space.database,
            process=process.id,
            offer=_offer(wanted, models),
            open=opened,
            say=say,
            log=log.write,
            sweep=partial(delete_closed, home / "remote"),
            once=wanted.once,
        )
        office = Office(deps)
        space.replica.on_touched = office.heed
        ground = Ground(
            name=wanted.name,
            home=home,
            env=env,
            space=space,
            process=process,
            models=models,
            slots=Semaphore(wanted.slots, fast_acquire=True),
            news=office.news,
            fetch_from=own.fetch_from,
        )
    except BaseException:
        await space.close()
        raise
    return OpenWorker(office=office, space=space, models=models, drain_seconds=own.drain_seconds, rooms=rooms)


async def _opened(address: Address, home: Path, how: Joining, say: Callable[[str], None]) -> Space:
    """A worker that starts before any lead waits for one, until it is told to end."""
    told = ""
    while True:
        try:
            return await open_space(address, home, how)
        except UnopenedSpaceError as error:
            if str(error) != told:
                told = str(error)
                say(f"{told} The worker joins as soon as one does.")
        await anyio.sleep(_UNOPENED)


def _offer(wanted: Wanted, models: Models) -> OfferSlots:
    labels = tuple(sorted(wanted.labels.items()))
    return OfferSlots(wanted.name, wanted.slots, labels, _providers(models), wanted.allow_bypass)


def _providers(models: Models) -> tuple[str, ...]:
    """Providers that this machine has a key for, or that need none."""
    found = ["script"]
    for name in (*_OWN, *models.named):
        try:
            models.routed.providers.check(name)
        except ModelError:
            continue
        found.append(name)
    return tuple(found)


def read_label(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark or not key.strip() or not value.strip():
        raise UsageError(f"--label {text!r}: write KEY=VALUE")
    return key.strip(), value.strip()
