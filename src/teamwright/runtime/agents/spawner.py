"""The Agent tool's whole meaning: plan, make, own, then join or leave. And how an agent that has ended goes on."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright import __version__
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import AgentStarted, ModeChanged, Source
from teamwright.core.data.fork import MOST_TURNS, directive
from teamwright.core.data.letter import Letter, Prompt, Sender
from teamwright.core.data.message import Text, ToolSpec
from teamwright.core.data.team import Member
from teamwright.core.errors import DiskError, ModelError, SessionMissing, StoreError, ToolError
from teamwright.core.ids import AgentId, CallId, JobId, new_agent_id, new_letter_id
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.core.permissions.judge import mode_allowed
from teamwright.core.policies.budget import Limits
from teamwright.core.policies.spawn import FORK, Ask, Caller, Features, Plan, plan_spawn
from teamwright.core.ports import Desk, Tool, ToolContext
from teamwright.host.files.paths import is_directory, resolve
from teamwright.host.git.worktree import Worktree
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.factory import AgentFactory, AgentSpec, Answers, Toolset, own_limits
from teamwright.runtime.agents.resources import AgentResources, Equip
from teamwright.runtime.agents.supervisor import Supervisor
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.worktrees import Worktrees, move_in
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.jobs import NewAgent


class AgentRecord(Struct, frozen=True):
    """An agent of this session, living or not."""

    id: AgentId
    name: str
    kind: str
    parent: AgentId
    depth: int
    description: str
    run: int


class RosterPort(Protocol):
    @property
    def names(self) -> frozenset[str]: ...

    def member_of(self, agent: AgentId) -> Member | None: ...


Served = Mapping[str, Tool] | None  # tools of servers; None: the session's
Recruit = Callable[[Ask, Plan, AgentDefinition, Agent, ToolContext, str], Awaitable[Member]]


class SpawnDeps(Struct, frozen=True, kw_only=True):
    """What the spawner is told by the composition root."""

    kinds: Callable[[], Mapping[str, AgentDefinition]]  # those that may be started now
    refusal: Callable[[str], str]  # why a kind that exists cannot be started; empty if it can
    absence: Callable[[str], str]  # why one of a kind that is not among them cannot go on, and what brings it back
    kit: Callable[[AgentDefinition, int, Served], Toolset]  # the tools of a definition at a depth
    kit_of: Callable[[tuple[ToolSpec, ...], int, Served], Toolset]  # and of an agent that was rendered before
    system: Callable[[AgentDefinition, str, Path], tuple[str, ...]]  # definition, model, cwd
    told: Callable[[AgentDefinition], tuple[str, ...]]  # what it is told besides: its skills, its memory
    equip: Equip  # what it has for as long as it lives
    resolve_model: Callable[[str], str]
    features: Features
    background_after: float | None = None


class Spawner:
    def __init__(self, workshop: AgentFactory, supervisor: Supervisor, rooms: Worktrees, ways: SpawnDeps) -> None:
        self._rooms = rooms
        self._workshop = workshop
        self._supervisor = supervisor
        self._ways = ways
        self.known: dict[AgentId, AgentRecord] = {}
        self.answers: Answers | None = None  # to calls that were in flight in an earlier process
        self.teams: RosterPort | None = None
        self.recruit: Recruit | None = None  # how a teammate is made
        self._waking: set[AgentId] = set()
        self._names: set[str] = set()  # given out, also to agents that are still being made

    async def spawn(self, ask: Ask, ctx: ToolContext) -> tuple[Job | Member, Plan]:
        """Start the agent and, if the plan says so, wait for it. A job that runs still is in the background."""
        parent = self._supervisor.agent(ctx.agent)
        assert parent is not None
        if ask.kind and (words := self._ways.refusal(ask.kind)):
            raise ToolError(words)
        kinds = self._ways.kinds()
        features, member = self._ways.features, None
        if self.teams is not None:
            features, member = replace(features, teams=self.teams.names), self.teams.member_of(parent.id)
        forked = parent.kind == FORK or (features.may_fork and ask.kind in (None, FORK) and parent.history.is_fork)
        caller = Caller(
            depth=parent.depth, may_start=parent.may_start, is_fork=forked, team=member.team if member else None,
            is_teammate=member is not None and not member.is_lead,
        )  # fmt: skip
        plan = plan_spawn(ask, caller, kinds, features)
        if plan.life == "resident" and self.recruit is not None:
            definition = kinds[plan.kind]
            return await self.recruit(ask, plan, definition, parent, ctx, self._model(ask, definition, parent)), plan
        own = new_agent_id()
        tree = await self._rooms.open(parent.desk.cwd, own) if plan.room == "worktree" else None
        gear: AgentResources | None = None
        made: tuple[Agent, AgentRecord, str] | None = None
        try:
            gear = await self._ways.equip(kinds.get(plan.kind), own, parent.id)
            if plan.context == "inherit":
                await parent.sync()  # what it points to is on the disk before it begins
                made = self._fork(ask, parent, ctx, own, tree)
            else:
                made = self._make(ask, kinds[plan.kind], parent, ctx.call_id, own, tree, gear)
            made[0].gear = gear
            job = await self._begin(*made, parent, ctx.call_id, plan, tree)
        except BaseException:
            await self._undo(made[0] if made else None, gear, tree)
            raise
        if not job.background:
            await self._supervisor.join(job, parent, self._ways.background_after)
        return job, plan

    async def _undo(self, agent: Agent | None, gear: AgentResources | None, tree: Worktree | None) -> None:
        if agent is not None:
            agent.close_transcript()
        with anyio.CancelScope(shield=True):
            if gear is not None:
                await gear.close()
            if tree is not None:
                await self._rooms.close(tree)

    async def _begin(
        self,
        agent: Agent,
        known: AgentRecord,
        prompt: str,
        parent: Agent,
        call: CallId,
        plan: Plan,
        tree: Worktree | None,
    ) -> Job:
        job = self._job(known, parent.id, call, background=plan.report == "letter")
        job.tree = tree
        sender = Sender("agent", parent.name, parent.id)
        letter = Letter(new_letter_id(), known.id, sender, Prompt((Text(prompt),)))
        row = NewAgent(known.id, self._workshop.session, parent.id, known.kind, known.name, known.depth)
        with anyio.CancelScope(shield=True):  # its row and its life begin together; who joins is cancelled after that
            await self._supervisor.jobs.begin(job, agent=row, letter=letter)
            agent.inbox.begin(letter)
            self.known[known.id] = known
            self._supervisor.start(agent, job)
        return job

    def _job(self, known: AgentRecord, owner: AgentId, call: CallId | None, *, background: bool) -> Job:
        return Job(
            JobId(known.id), "agent", owner=owner, output=self._workshop.output(known.id),
            description=known.description, call=call, background=background, run=known.run,
        )  # fmt: skip

    def _make(
        self, ask: Ask, definition: AgentDefinition, parent: Agent, call: CallId, own: AgentId, tree: Worktree | None,
        gear: AgentResources | None,
    ) -> tuple[Agent, AgentRecord, str]:  # fmt: skip
        name = self._free_name(ask.name or definition.name) if ask.name else definition.name
        model = self._model(ask, definition, parent)
        effort = ask.effort or definition.effort or parent.effort
        kit = self._ways.kit(definition, parent.depth + 1, gear.tools if gear else None)
        desk = child_desk(parent.desk, self._cwd(ask, parent), own, name)
        if tree is not None:
            move_in(desk, tree)
        shape = AgentSpec(
            id=own, name=name, kind=definition.name, model=model, effort=effort, kit=kit, desk=desk,
            mode=narrowest(parent.mode if parent.parent else None, definition.permission_mode, ask.mode),
            meter=parent.meter.child(own_limits(definition)), parent=parent.id, depth=parent.depth + 1,
        )  # fmt: skip
        started = AgentStarted(
            self._workshop.session, str(desk.cwd), __version__, kind=definition.name, name=name, parent=parent.id,
            depth=parent.depth + 1, call_id=call, description=ask.description, worktree=str(tree.path) if tree else "",
            limits=dict(kit.limits), may_start=kit.may_start,
        )  # fmt: skip
        agent = self._workshop.begin(shape, started)
        told = self._ways.told(definition)
        key = (id(kit), model, desk.cwd, told)  # a kit belongs to one definition, and is kept
        prompt = self._workshop.prompt(key, lambda: (*self._ways.system(definition, model, desk.cwd), *told), kit.specs)
        agent.render(prompt, model, "start", effort)
        if shape.mode is not None:
            agent.emit(ModeChanged(shape.mode))
        first = f"{definition.initial_prompt}\n\n{ask.prompt}" if definition.initial_prompt else ask.prompt
        return agent, AgentRecord(own, name, definition.name, parent.id, parent.depth + 1, ask.description, 1), first

    def _fork(
        self, ask: Ask, parent: Agent, ctx: ToolContext, own: AgentId, tree: Worktree | None
    ) -> tuple[Agent, AgentRecord, str]:
        """Prompt, tools, model and history are the parent's very objects: they are not encoded again."""
        name = self._free_name(ask.name) if ask.name else FORK
        desk = child_desk(parent.desk, parent.desk.cwd, own, name)
        if tree is not None:
            move_in(desk, tree)
        shape = AgentSpec(
            id=own, name=name, kind=FORK, model=parent.model, effort=parent.effort,
            kit=Toolset(parent.tools, parent.prompt.tools, parent.limits, parent.may_start), desk=desk,
            mode=narrowest(parent.mode if parent.parent else None, ask.mode) or "bubble",
            meter=parent.meter.child(Limits(turns=MOST_TURNS)), parent=parent.id, depth=parent.depth + 1,
        )  # fmt: skip
        started = AgentStarted(
            self._workshop.session, str(desk.cwd), __version__, kind=FORK, name=name, parent=parent.id,
            depth=parent.depth + 1, call_id=ctx.call_id, description=ask.description,
            worktree=str(tree.path) if tree else "", limits=dict(parent.limits), may_start=parent.may_start,
            source=Source(parent.id, parent.replied_at),
        )  # fmt: skip
        branch = parent.history.branch((*ctx.request.messages, ctx.reply.message), ctx.reply.message.calls)
        agent = self._workshop.begin(shape, started, branch)
        agent.render(parent.prompt, parent.model, "fork", parent.effort)
        agent.emit(ModeChanged(shape.mode or "bubble"))
        moved = (str(desk.cwd), str(parent.desk.cwd)) if tree else None
        known = AgentRecord(own, name, FORK, parent.id, parent.depth + 1, ask.description, 1)
        return agent, known, directive(ask.prompt, moved=moved)

    def _model(self, ask: Ask, definition: AgentDefinition, parent: Agent) -> str:
        asked = None if self._ways.features.coordinator else ask.model
        name = next((n for n in (asked, definition.model) if n and n != "inherit"), None)
        try:
            return self._ways.resolve_model(name) if name else parent.model
        except ModelError as error:
            raise ToolError(f"{error} Leave `model` out to use this agent's own.") from None

    def _cwd(self, ask: Ask, parent: Agent) -> Path:
        if not ask.cwd or not self._ways.features.assistant:
            return parent.desk.cwd
        path = resolve(ask.cwd, parent.desk.cwd)
        if not is_directory(path):
            raise ToolError(f"cwd {ask.cwd}: there is no such directory.")
        if not any(path.is_relative_to(root) for root in parent.desk.roots):
            raise ToolError(f"cwd {ask.cwd} lies outside of the working directories.")
        return path

    def _free_name(self, name: str) -> str:
        """As asked for; a name that another agent has gets a number."""
        taken = self._names | {known.name for known in self.known.values()}
        found, n = name, 1
        while found in taken:
            n += 1
            found = f"{name}-{n}"
        self._names.add(found)
        return found

    def is_one_shot(self, kind: str) -> bool:
        definition = self._ways.kinds().get(kind)
        return definition is not None and definition.one_shot

    # --- going on with an agent that has ended

    def find(self, to: str) -> AgentRecord | None:
        """By id, or by name: the newest that has it."""
        if AgentId(to) in self.known:
            return self.known[AgentId(to)]
        named = [known for known in self.known.values() if known.name == to]
        given = [known for known in named if known.name != known.kind]
        if given:
            return given[-1]
        return named[0] if len(named) == 1 else None  # a kind is a name as long as only one has it

    async def wake(self, known: AgentRecord, owner: AgentId, call: CallId | None) -> Job | None:
        """Its letter is stored. A living agent is rung for, one that has ended goes on in the background; never two."""
        id = known.id
        if (agent := self._supervisor.agent(id)) is not None or id in self._waking:
            if agent is not None:
                agent.inbox.ring()
            return None
        self._waking.add(id)
        try:
            if (before := self._supervisor.job_of(id)) is not None:
                await before.closed.wait()  # its transcript has one writer at a time
            self.known[id] = known = AgentRecord(
                id, known.name, known.kind, known.parent, known.depth, known.description, known.run + 1
            )
            job = self._job(known, owner, call, background=True)
            agent, job.tree = await self._revive(known)
            with anyio.CancelScope(shield=True):
                await self._supervisor.jobs.begin(job)
                self._supervisor.start(agent, job)
        finally:
            self._waking.discard(id)
        return job

    async def pass_on(self, letter: Letter) -> bool:
        """A person's words for an agent that was started here. False if there is none; else they are stored."""
        known = self.known.get(letter.to)
        if known is not None:
            await self._supervisor.post(letter)
            await self.wake(known, self._supervisor.main.id, None)
        return known is not None

    async def _revive(self, known: AgentRecord) -> tuple[Agent, Worktree | None]:
        try:
            transcript, history = await self._workshop.reopen(known.id, self.answers)
        except DiskError:
            raise
        except (SessionMissing, StoreError) as error:
            raise ToolError(f"Agent {known.id} cannot go on: {error}. Start a new one.") from None
        main = self._supervisor.main
        parent = self._supervisor.agent(known.parent) or main
        rendered = history.rendered
        if rendered is None:
            transcript.close()
            raise ToolError(f"Agent {known.id} was killed before it began; start a new one.")
        prompt = self._workshop.stored_prompt(rendered.prompt)
        definition = next((d for d in self._ways.kinds().values() if d.name == known.kind), None)
        desk = child_desk(main.desk, Path(history.cwd), known.id, known.name)
        tree = None
        if history.started is not None and history.started.worktree:
            tree = await self._rooms.open(main.desk.roots[0], known.id)  # the same one, if it was kept
            move_in(desk, tree)
        desk.seen = dict(history.seen)
        gear = await self._equip_again(definition, known, transcript, tree)
        kit = self._ways.kit_of(prompt.tools, known.depth, gear.tools if gear else None)
        if history.started is not None:  # how far its tools may be used is not in what was rendered
            kit = replace(kit, limits=history.started.limits, may_start=history.started.may_start)
        limits = own_limits(definition) if definition else main.meter.limits
        if known.kind == FORK:
            limits = Limits(turns=MOST_TURNS)
        shape = AgentSpec(
            id=known.id, name=known.name, kind=known.kind, model=rendered.model, effort=rendered.effort, kit=kit,
            desk=desk, mode=history.mode, parent=known.parent, depth=known.depth,
            meter=parent.meter.child(limits),
        )  # fmt: skip
        agent = self._workshop.make(shape, history, transcript)
        agent.prompt, agent.gear = prompt, gear
        agent.rest()
        return agent, tree

    async def _equip_again(
        self, definition: AgentDefinition | None, known: AgentRecord, transcript: Transcript, tree: Worktree | None
    ) -> AgentResources | None:
        try:
            return await self._ways.equip(definition, known.id, known.parent)
        except BaseException:
            transcript.close()
            if tree is not None:
                with anyio.CancelScope(shield=True):
                    await self._rooms.close(tree)
            raise


def child_desk(parent: Desk, cwd: Path, id: AgentId, name: str) -> Desk:
    """A copy of the record of read files; what the child reads never flows back."""
    env = parent.env | {"TEAMWRIGHT_AGENT_ID": id, "TEAMWRIGHT_AGENT_NAME": name}
    return replace(parent, cwd=cwd, seen=dict(parent.seen), env=env)


def narrowest(*modes: Mode | None) -> Mode | None:
    """Of those that are given; None if none is."""
    found: Mode | None = None
    for mode in modes:
        if mode in MODES:
            found = mode if found is None else mode_allowed(found, mode)
    return found
