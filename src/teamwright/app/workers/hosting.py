"""Services of one agent on a worker: like a session's, but its rules, its mode and its person are elsewhere."""

import hashlib
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from teamwright.app.agents.main_agent import build_desk
from teamwright.app.agents.making import make_agents
from teamwright.app.agents.registry import AgentRegistry
from teamwright.app.extensions.service import Configured
from teamwright.app.extensions.skillset import Skillset
from teamwright.app.options import Options
from teamwright.app.services import Services, lazy
from teamwright.app.setup import Setup, Store
from teamwright.app.workspace import Workspace, open_workspace
from teamwright.core.data.charter import Charter, decode_charter, read_rules
from teamwright.core.data.code import Author, SavedTree, TreeSaved
from teamwright.core.data.event import AgentStarted, Reminded, Resumed
from teamwright.core.data.team import Member
from teamwright.core.errors import StoreError, UsageError
from teamwright.core.ids import SessionId
from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.rules import Rules, parse_rules
from teamwright.core.policies.budget import Limits
from teamwright.host.git.travel.rooms.room import Origin, Room, Site, open_room
from teamwright.models.prices import cost
from teamwright.osfiles.locks import hold
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.runtime.agents.limits.shared import share_limits
from teamwright.runtime.permissions.rulebook import Rulebook
from teamwright.runtime.teams.deps import Base
from teamwright.runtime.teams.rooms import Hosting
from teamwright.runtime.workers.consulting import Consulting, LeadPoints, Place
from teamwright.runtime.workers.hosted import Hosted, HostedParts
from teamwright.runtime.workers.making import JobMaker, moved_words
from teamwright.runtime.workers.rooms import SavingKeeper, SharedRoom
from teamwright.store.db.statements import fetch_all
from teamwright.store.engine.space import files_in
from teamwright.store.files import transcripts
from teamwright.store.files.paths import SessionFiles
from teamwright.store.tables.bundles import BundleTable
from teamwright.store.tables.remotes import Remote, RemoteTable
from teamwright.store.tables.state import StateStore

if TYPE_CHECKING:
    from teamwright.app.sandbox import SandboxSetup
    from teamwright.app.workers.worker import Ground

_FIRST = 2  # lines that every transcript begins with


class HostedServices(Services):
    def __init__(
        self, setup: Setup, store: Store, charter: Charter, ground: "Ground", room: Room, *, team: str
    ) -> None:
        super().__init__(setup, store, charter.since)
        self._charter, self._ground, self._room, self._team = charter, ground, room, team
        self._table = RemoteTable(ground.space.database)
        place = Place(str(room.path), str(self.workspace.user.resolve()), ground.name)
        asks = Consulting(self, self._table, charter, ground.news, place)
        self.answer, self.asked = asks.put, charter.asked
        self.points = LeadPoints(self, self.workspace.cwd, asks=asks)

    @property
    def places(self) -> None:
        """It adds no teammates."""

    @property
    def remotes(self) -> None:
        """Its own agents run in the same process."""

    @property
    def mode(self) -> Mode:
        return self._charter.mode

    @property
    def copies(self) -> None:
        """Nobody looks for copies here."""

    @property
    def hosting(self) -> Hosting:
        def roster(team: str) -> list[Member]:
            return self.teams.roster.members(team)

        agent = self._charter.agent
        return Hosting(
            agent, self._ground.process, SharedRoom(agent, self._ground.name, self._room, self._table, roster)
        )

    def find_cwd(self, named: str) -> Path | None:
        """Where it was on another worker, mapped into the clone that is here."""
        mark = f"/{self._charter.agent}/{self._room.path.name}"
        before, found, below = named.partition(mark)
        path = self._room.path / below.lstrip("/") if before and found else self.workspace.cwd
        return path if path.is_dir() and path.resolve().is_relative_to(self._room.path.resolve()) else None

    @lazy
    def agents(self) -> AgentFactory:
        factory = make_agents(self)
        factory.slots = self._ground.slots
        publish = self.hosting.room.publish if self._team else None
        factory.keeper = SavingKeeper(self._room, self.registry.catalog, self._saved, factory.keeper, publish)
        return factory

    def _saved(self, event: TreeSaved) -> None:
        self.supervisor.main.emit(event)

    @lazy
    def _base(self) -> Base:
        limits = self.options.limits
        return Base(build_desk(self), AgentMeter(limits, cost, time.monotonic, time.monotonic()))

    def teammate_base(self) -> Base:
        return self._base

    async def share_limits(self) -> None:
        await share_limits(self._base.meter, self.store.state, self.store.session, self.since)

    async def close(self) -> None:
        """Leaves engine and models open: all agents of this worker share them."""
        if (fence := self.__dict__.get("sandbox")) is not None:
            fence.close()
        self.store.lock.release()


# --- opening one


class _Past(Struct, frozen=True):
    """What other workers left of an agent."""

    saved: tuple[SavedTree, ...] = ()
    cwd: str = ""  # where it began
    progress: int = 0


async def open_hosted(ground: "Ground", remote: Remote) -> Hosted:
    """Open its charter, its transcript, its files and its services. An error says what is missing."""
    space, agent = ground.space, remote.agent
    charter = await _read_charter(ground, remote)
    files = await _find_files(ground, charter.session)
    lock = hold(space.home.run / f"teammate-{agent}.lock", 5.0)
    if lock is None:
        raise StoreError(f"Agent {agent} is run by another process of this machine.")
    try:
        some = await space.transcripts.fetch(agent, files.agent(agent), files.prompts)
        past = await anyio.to_thread.run_sync(_read_past, files.agent(agent)) if some else _Past()
        origin = Origin(
            agent, charter.name, charter.project, charter.base, Author(charter.author, charter.email), charter.upstream
        )
        site = Site(ground.home, BundleTable(space.database).of, space.objects, ground.fetch_from)
        room = await open_room(site, origin, past.saved)
        store = Store(charter.session, files, StateStore(space.database), lock, space=space, home=space.home)
        services = HostedServices(_read_setup(ground, charter, room), store, charter, ground, room, team=remote.team)
    except BaseException:
        lock.release()
        raise
    return _hosted(services, charter, remote, ground, room, past)


def _hosted(
    services: HostedServices, charter: Charter, remote: Remote, ground: "Ground", room: Room, past: _Past
) -> Hosted:
    cwd = services.workspace.cwd
    told = "\n".join([f"You work on the machine of a worker, in a clone of the repository: {room.path}.", *room.notes])
    maker = JobMaker(charter, services.agents, services.spawn_deps, services.teammate_base(), told)

    async def closed() -> None:
        await services.close()
        await room.close()

    parts = HostedParts(
        services=services,
        remote=remote,
        name=charter.name,
        description=charter.description,
        table=RemoteTable(ground.space.database),
        room=room,
        make=maker.make,
        moved=moved_words(platform.node(), cwd, past.cwd) if past.cwd and past.progress > _FIRST else "",
        progress=past.progress,
        limits=services.options.limits,
        closed=closed,
        share_limits=services.share_limits,
        tell=ground.space.live.tell,
        log=services.log,
    )
    return Hosted(parts)


async def _read_charter(ground: "Ground", remote: Remote) -> Charter:
    data = await ground.space.lines.get(f"charter/{remote.charter}")
    if data is None or hashlib.sha256(data).hexdigest() != remote.charter:
        raise StoreError(f"The engine lacks what a worker must know of agent {remote.agent}, or has changed it.")
    charter = decode_charter(data)
    if charter.agent != remote.agent or charter.session != remote.session:
        raise UsageError(f"What the worker was told is about another agent than {remote.agent}.")
    return charter


async def _find_files(ground: "Ground", session: SessionId) -> SessionFiles:
    found = await ground.space.replica.read(fetch_all("SELECT cwd FROM sessions WHERE id = ?", (session,)))
    return files_in(ground.space.home, session, found[0][0] if found else "/")


def _read_past(path: Path) -> _Past:
    events = [line.event for _, line in transcripts.read(path)]
    saved = tuple(event.saved for event in events if isinstance(event, TreeSaved))
    cwd = next((event.cwd for event in events if isinstance(event, AgentStarted)), "")
    return _Past(saved, cwd, sum(not isinstance(event, Resumed | Reminded) for event in events))


def _read_setup(ground: "Ground", charter: Charter, room: Room) -> Setup:
    """Settings are the worker's own, as far as they restrict; from the repository only what agents read is used."""
    options = Options(
        cwd=room.path / charter.directory,
        env=ground.env,
        model=charter.model,
        mode=charter.mode,
        limits=Limits(usd=charter.usd, tokens=charter.tokens),
        trust=charter.trusted,
        setting_sources=("user",),
        definitions=(charter.definition,),
        instructions=charter.instructions,
        strict_mcp_config=True,
        hosted=True,
    )
    workspace = open_workspace(options)
    options = replace(options, setting_sources=("project",))
    rules = _read_rules(charter, workspace)
    written = Configured((), None, Skillset(options, workspace), {}, ())
    sandbox = _read_fence(options, workspace, charter) if workspace.settings.sandbox.values.enabled else None
    registry = AgentRegistry(options, workspace, rules, written, sandbox.words if sandbox else None)
    models = replace(ground.models, model=charter.model)
    return Setup(options, workspace, rules, models, written, registry, [], sandbox)


def _read_rules(charter: Charter, workspace: Workspace) -> Rulebook:
    """The lead's rules, and what the worker's own settings deny."""
    project, home = str(workspace.project), str(workspace.user.resolve())
    own = [parse_rules([rule.text], rule.source, project, home)[0] for rule in workspace.settings.permissions.deny]
    deny = Rules(deny=tuple(rule for rules in own for rule in rules))
    return Rulebook(read_rules(charter.rules, project, home) + deny, project, home)


def _read_fence(options: Options, workspace: Workspace, charter: Charter) -> "SandboxSetup | None":
    """Whether a command may ask to leave it depends on the lead's person."""
    from teamwright.app.sandbox import read_sandbox  # noqa: PLC0415  # nothing of it where it is off

    setup, leaves = read_sandbox(options, workspace), workspace.settings.sandbox.values.allow_unsandboxed_commands
    return setup and replace(setup, leaves=leaves and charter.asked)
