"""Opens the process of one teammate: the same services as a session's, without its main agent."""

import time
from collections.abc import Mapping

from teamwright.app.agents.main_agent import build_desk
from teamwright.app.models import build_limits
from teamwright.app.services import Services, lazy
from teamwright.app.session import arm_crashpoint, open_engine
from teamwright.app.setup import Setup, Store, read_setup
from teamwright.app.teams.places import Packed, unpack
from teamwright.core.errors import SessionMissing
from teamwright.core.permissions.consent import Mode
from teamwright.models.prices import cost
from teamwright.osfiles.locks import hold
from teamwright.runtime.agents.limits.meter import AgentMeter
from teamwright.runtime.teams.deps import Base
from teamwright.runtime.teams.remote.permission_relay import PermissionForwarder
from teamwright.runtime.teams.remote.process_main import TeammateProcess
from teamwright.store.files.paths import SessionFiles, find_transcript
from teamwright.store.tables.state import StateStore


class TeammateServices(Services):
    """The lead is in another process: it passed on mode and limits, and its person answers questions."""

    def __init__(self, setup: Setup, store: Store, packed: Packed) -> None:
        super().__init__(setup, store, packed.since)
        self._packed = packed
        self.answer = PermissionForwarder(self, packed.agent).put

    @property
    def places(self) -> None:
        """A teammate starts no others."""

    @property
    def mode(self) -> Mode:
        return self._packed.mode

    @lazy
    def _base(self) -> Base:
        limits = build_limits(self.options.limits, self.workspace.settings)
        return Base(build_desk(self), AgentMeter(limits, cost, time.monotonic, time.monotonic()))

    def teammate_base(self) -> Base:
        return self._base


async def open_member(env: Mapping[str, str]) -> TeammateProcess:
    """Opens a teammate from what the lead passed on; it begins to live inside `async with`."""
    if point := env.get("TEAMWRIGHT_TEAMMATE_CRASHPOINT"):
        arm_crashpoint(point)
    packed, options = unpack(env)
    setup = read_setup(options)
    workspace = setup.workspace
    store = await _open_store(setup, packed)
    services = TeammateServices(setup, store, packed)
    _ = services.telemetry  # so that it watches from the first moment
    services.extensions.add_hooks()
    return TeammateProcess(services, packed.agent, patience=workspace.own.adopt_seconds)


async def _open_store(setup: Setup, packed: Packed) -> Store:
    """As for a session, but without opening the main transcript, which is the lead's."""
    space = await open_engine(setup.options, setup.workspace, member=True)
    home = setup.workspace.home if space is None else space.home
    try:
        path = find_transcript(home, packed.session)
        if path is None:
            raise SessionMissing(f"there is no session {packed.session}")
        lock = hold(home.run / f"teammate-{packed.agent}.lock", 5.0)
        if lock is None:
            raise SessionMissing(f"the teammate {packed.agent} runs in another process already")
        files = SessionFiles(path)
        if space is not None:  # its transcript is this process's own from here on, by that lock
            await space.transcripts.fetch(packed.agent, files.agent(packed.agent), files.prompts)
        state = await StateStore.open(home.state) if space is None else StateStore(space.database)
    except BaseException:
        if space is not None:
            await space.close()
        raise
    return Store(packed.session, files, state, lock, space=space, home=space and home)
