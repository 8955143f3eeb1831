"""Teams, put together for one process."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Event, LettersTaken, Warned
from teamwright.core.data.tasks import Owner
from teamwright.core.data.team import Backend, Member, Team
from teamwright.core.errors import StoreError, ToolError
from teamwright.core.ids import AgentId
from teamwright.core.permissions.consent import Decision, Mode, Question
from teamwright.core.permissions.rules import Rules
from teamwright.host.ipc.wakeup import Wakeup, open_bell, ring
from teamwright.host.panes.base import Panes
from teamwright.runtime.agents.factory import AgentFactory
from teamwright.runtime.agents.prompt import team_prompt
from teamwright.runtime.agents.spawner import Spawner
from teamwright.runtime.agents.spec import Toolset
from teamwright.runtime.agents.sub_agents import Served, SpawnDeps
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.permissions.call_facts import FactReader
from teamwright.runtime.teams.deps import Base, Roles
from teamwright.runtime.teams.factory import TeammateFactory
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.teams.permission_relay import PermissionResponder
from teamwright.runtime.teams.processes import Command, TeammateProcesses
from teamwright.runtime.teams.remote_events import RemoteEvents
from teamwright.runtime.teams.requests import TeamRequests
from teamwright.runtime.teams.roster import Here, Tables, Teams
from teamwright.runtime.teams.service import Teamwork
from teamwright.runtime.teams.task_scope import SessionTaskScope
from teamwright.runtime.teams.tasks import TaskBoard
from teamwright.runtime.teams.team_scope import Check, TeamTaskScope
from teamwright.runtime.teams.teammate import TeammateDeps
from teamwright.runtime.worktrees import Worktrees
from teamwright.store.db.poll import EVERY, watch_changes
from teamwright.store.files import transcripts
from teamwright.store.files.paths import Home, SessionFiles, find_transcript
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.mirrors.team import TeamMirror
from teamwright.store.tables.mail import MailTable
from teamwright.store.tables.mail_insert import LIMITS, MailLimits
from teamwright.store.tables.processes import Process, ProcessTable
from teamwright.store.tables.requests import RequestTable
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable
from teamwright.store.tables.teams import TeamTable

LEAVE_LIMIT = 2.0  # seconds for what a bell has begun


class Places(Struct, frozen=True):
    """Processes of their own for teammates."""

    panes: Panes
    backend: Backend
    command: Command


class TeamDeps(Struct, frozen=True, kw_only=True):
    """What teams are built on."""

    state: StateStore
    home: Home
    env: Mapping[str, str]
    facts: FactReader
    tell: Callable[[AgentId, Event], None]
    log: Callable[[str], None]
    patience: float  # seconds for the answer to a shutdown request
    lead_mode: Callable[[], Mode]
    kit: Callable[[AgentDefinition, int, Served], Toolset]
    system: Callable[[str, Path], tuple[str, ...]]  # of the main agent
    told: Callable[[AgentDefinition], tuple[str, ...]]  # what an agent of this kind knows besides
    base: Callable[[], Base]
    rules: Callable[[AgentId], Rules]  # that hold for an agent
    put: Callable[[Question], Awaitable[Decision]] | None  # a person, if one can be asked
    mail: MailLimits = LIMITS
    since: int = 0  # when the lead's process began, in milliseconds: what is spent from then on counts
    places: Places | None = None
    check: Check | None = None
    before_idle: Callable[[Member], Awaitable[str | None]] | None = None


def open_teamwork(
    ground: TeamDeps,
    workshop: AgentFactory,
    supervisor: Supervisor,
    spawner: Spawner,
    rooms: Worktrees,
    ways: SpawnDeps,
) -> Teamwork:
    presence = _Presence(ground, workshop, supervisor)
    teams = presence.teams
    post = TeamMail(teams)

    async def apply(member: Member) -> None:
        await recruiter.apply_answers(member)

    handshakes = TeamRequests(teams, post, patience=ground.patience, lead_mode=ground.lead_mode, apply=apply)
    board = _board(ground, workshop, supervisor, spawner, teams)
    means = TeammateDeps(teams, post, handshakes, board, rooms, ground.before_idle or _go_idle)
    place = None
    if ground.places is not None:
        place = TeammateProcesses(ground.places.panes, ground.places.backend, ground.places.command, means)

    def keeper() -> TeammateProcesses:
        from teamwright.host.process.local_child import LocalChildren  # noqa: PLC0415

        kept = TeammateProcesses(LocalChildren(env=ground.env, logs=ground.home.logs), "local", _none, means)
        kept.on_lost = recruiter.lost
        return kept

    recruiter = TeammateFactory(workshop, means, ways, Roles(ground.kit, _system(ground), place, keeper, ground.base))
    teams.bring_back, ground.state.on_set_aside = recruiter.revive, _teller(ground, supervisor, teams, post)
    if place is not None:
        place.on_lost = recruiter.lost
    deputy = PermissionResponder(
        teams, mode=ground.lead_mode, rules=ground.rules, put=ground.put, facts=ground.facts, tell=post.notify
    )
    follower = RemoteEvents(teams, workshop.files_of, workshop.bus, since=ground.since)
    share = lambda: _share_limits(ground, workshop)  # noqa: E731
    teams.on_look += [recruiter.apply_all, recruiter.look, deputy.look, share, follower.look]
    spawner.teams, spawner.recruit = teams, recruiter.recruit
    board.on_completed = lambda agent, task: (
        recruiter.residents[agent].finished(task) if agent in recruiter.residents else None
    )

    async def settle(team: Team, members: Sequence[Member]) -> None:
        await _settle(ground, workshop, team, members)

    return Teamwork(teams, post, handshakes, recruiter, board, follower, presence.leave, spawner.spawn, settle)


def _teller(ground: TeamDeps, supervisor: Supervisor, teams: Teams, post: TeamMail) -> Callable[[AgentId, str], None]:
    """Of letters that were set aside: senders and leads hear of mail by the store, the person of all by this."""

    async def tell_all() -> None:
        try:
            for team in sorted(teams.names):
                await post.tell_of_failures(team)
        except StoreError as error:
            ground.log(f"that a letter was set aside could not be told: {error}")

    def tell(agent: AgentId, why: str) -> None:
        member = teams.member_of(agent)
        ground.tell(agent, Warned(f"A letter for {member.name if member else agent} was set aside: {why}."))
        supervisor.launch(tell_all)

    return tell


async def _settle(ground: TeamDeps, workshop: AgentFactory, team: Team, members: Sequence[Member]) -> None:
    """Before another session's team is led here: what its lead has read is read; where its members' files are."""
    path = find_transcript(ground.home, team.session) if team.session else None
    if path is not None and team.session != workshop.session:
        taken = [line.event.letters for _, line in transcripts.read(path) if isinstance(line.event, LettersTaken)]
        await ground.state.delivered([id for ids in taken for id in ids])
    for member in members:
        if member.session != workshop.session and (path := find_transcript(ground.home, member.session)):
            workshop.lodgers[member.agent] = SessionFiles(path)


class _Presence:
    """This process as others see it: a row, a lock and a bell, from its first team on."""

    def __init__(self, ground: TeamDeps, workshop: AgentFactory, supervisor: Supervisor) -> None:
        database = ground.state.database
        self._ground, self._supervisor = ground, supervisor
        self._session = workshop.session
        self._processes = ProcessTable(database, ground.home.run)
        self._bell: Wakeup | None = None
        self._me: Process | None = None
        self._ears, self._deaf = anyio.CancelScope(), anyio.Event()
        limits = ground.mail
        table, mail = TeamTable(database, self._processes, limits=limits), MailTable(database, limits)
        mirror = TeamMirror(ground.home.root, table, mail)
        tables = Tables(table, mail, RequestTable(database, limits=limits), self._processes, mirror)
        store = ground.state
        here = Here(workshop.session, self._enter, ring, store.post, store.waiting, ground.tell, ground.log)
        self.teams = Teams(tables, here, supervisor)

    async def _enter(self) -> Process:
        self._bell = bell = open_bell(self._ground.env)
        self._me = await self._processes.register(self._session, bell=bell.address)
        self._supervisor.launch(lambda: self._listen(bell))
        self._supervisor.launch(self._poll)
        return self._me

    async def _listen(self, bell: Wakeup) -> None:
        try:
            with self._ears:
                while True:
                    await bell.wait()
                    self.teams.heard()
        finally:
            self._deaf.set()

    async def _poll(self) -> None:
        """A bell that was lost costs a second, never a letter."""
        address = self._bell.address if self._bell else ""
        while True:
            with self._supervisor.trouble.kept("looking for what other processes have stored"):
                await watch_changes(self._ground.state.database, lambda: ring(address))
            await anyio.sleep(EVERY)

    async def leave(self) -> None:
        if self._me is not None:
            await self._processes.leave(self._me.id)
        if self._bell is not None:  # nobody may wait at a socket that is closed
            self._ears.cancel()
            with anyio.move_on_after(LEAVE_LIMIT):
                await self._deaf.wait()
            self._bell.close()


def _board(
    ground: TeamDeps, workshop: AgentFactory, supervisor: Supervisor, spawner: Spawner, teams: Teams
) -> TaskBoard:
    table = TaskTable(ground.state.database)
    session = workshop.session

    def name(id: AgentId) -> str:
        agent = supervisor.agent(id)
        return agent.name if agent else id

    def find(to: str) -> Owner | None:
        known = spawner.find(to)
        return Owner(known.name, known.id) if known else None

    def names() -> list[str]:
        """A name that several have is no address: then it is the id."""
        return [known.name if spawner.find(known.name) == known else known.id for known in spawner.known.values()]

    def report(words: str) -> None:
        ground.tell(AgentId(session), Warned(words))

    desk = TeamTaskScope(teams, SessionTaskScope(session, name, find, names), ground.check)
    return TaskBoard(table, TaskMirror(ground.home.root, table), desk, report)


def _system(ground: TeamDeps) -> Callable[[AgentDefinition, str, Path, Member], tuple[str, ...]]:
    def system(definition: AgentDefinition, model: str, cwd: Path, member: Member) -> tuple[str, ...]:
        role = team_prompt(member.name, member.team, definition.prompt)
        return (*ground.system(model, cwd), role, *ground.told(definition))

    return system


async def _share_limits(ground: TeamDeps, workshop: AgentFactory) -> None:
    """Every process counts against one limit: what the others have used is in the ledger."""
    meter = ground.base().meter
    if meter.limits.usd is not None or meter.limits.tokens is not None:
        spent = await ground.state.spent(workshop.session, ground.since)
        meter.others_spent(spent.usd, spent.usage.total)


def _none(member: Member, _: Mode) -> tuple[Sequence[str], Mapping[str, str]]:
    raise ToolError(f"{member.address} runs in this process.")


async def _go_idle(_: Member) -> str | None:
    return None
