"""Spawns agents for the Agent tool (plan, make, own, then join or detach) and resumes those that have ended."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Warned
from teamwright.core.data.letter import Letter, Prompt, Sender
from teamwright.core.data.message import Text
from teamwright.core.data.team import Member
from teamwright.core.errors import TeamwrightError, ToolError
from teamwright.core.ids import AgentId, CallId, JobId, new_agent_id, new_letter_id
from teamwright.core.policies.spawn import FORK, Ask, Plan, SpawnCaller, plan_spawn, without_denied
from teamwright.core.ports import ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.resources import AgentResources
from teamwright.runtime.agents.sub_agents import AgentRecord, Birth, SpawnDeps, SubAgents, narrowest
from teamwright.runtime.concurrency.unbroken import following, unbroken
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.services import Services
from teamwright.store.tables.jobs import NewAgent

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree


class Answers(Struct, frozen=True):
    """How often an agent has answered other agents since a person spoke or it used a tool."""

    since: tuple[int, int]
    last: tuple[int, int | None] | None = None  # its run, and how many turns have ended (None: it no longer lives)
    many: int = 0


class Spawner:
    def __init__(self, services: Services, deps: SpawnDeps) -> None:
        self._services, self._deps = services, deps
        self._agents, self._supervisor = services.agents, services.supervisor
        self._making = SubAgents(services, deps)
        self.known: dict[AgentId, AgentRecord] = {}
        self._resuming: dict[AgentId, anyio.Event] = {}
        self._answers: dict[AgentId, Answers] = {}
        self._names: set[str] = set()  # of agents still being made

    async def spawn(self, ask: Ask, ctx: ToolContext) -> tuple[Job | Member, Plan]:
        """Start the agent and, if the plan says so, wait for it. A job that still runs is in the background."""
        parent = self._supervisor.agent(ctx.agent)
        assert parent is not None
        if ask.kind and (words := self._deps.refusal(ask.kind)):
            raise ToolError(words)
        kinds, teams = without_denied(self._deps.kinds(), parent.denied), self._services.open_teams
        features, member = self._deps.features, None
        if teams is not None:
            features, member = replace(features, teams=teams.names), teams.member_of(parent.id)
        forked = parent.kind == FORK or (features.may_fork and ask.kind in (None, FORK) and parent.history.is_fork)
        caller = SpawnCaller(
            depth=parent.depth,
            may_start=parent.may_start,
            is_fork=forked,
            team=member.team if member else None,
            is_teammate=self._supervisor.teammate_of(parent) is not None,
            mode=self._deps.mode(parent.mode),
        )
        plan = plan_spawn(ask, caller, kinds, features)
        if plan.life == "resident":
            definition = kinds[plan.kind]
            model, cwd = self._making.model_for(plan.ask, definition, parent), self._making.cwd_for(plan.ask, parent)
            member, notes = await self._services.teams.recruit(plan, definition, parent, ctx, model, cwd)
            return member, replace(plan, notes=(*plan.notes, *notes))
        return await self._start(plan, kinds.get(plan.kind), parent, ctx), plan

    async def _start(self, plan: Plan, definition: AgentDefinition | None, parent: Agent, ctx: ToolContext) -> Job:
        ask = plan.ask
        if plan.room == "remote" and definition is not None:
            return await self._send_away(ask, definition, parent, ctx)
        own, kind = new_agent_id(), definition.name if definition else plan.kind
        tree = None
        if plan.room == "worktree":
            tree = await self._services.worktrees.open(parent.desk.cwd, own, own=ask.name or "")
        gear: AgentResources | None = None
        made: tuple[Agent, AgentRecord, str] | None = None
        try:
            gear = await self._deps.equip(definition, own, parent.id)
            with self._naming(ask.name, kind) as name:
                birth = Birth(own, name, ctx.call_id, tree, gear)
                if plan.context == "inherit":
                    await parent.sync()  # the history that the fork points to is on disk before it begins
                    made = self._making.fork(ask, parent, ctx, birth)
                else:
                    assert definition is not None
                    made = self._making.make(ask, definition, parent, birth)
                made[0].gear = gear
                job = await self._begin(*made, parent, ctx.call_id, plan, tree)
        except BaseException:
            await self._making.undo(made[0].close_transcript if made else None, gear, tree)
            raise
        if not job.background:
            await self._supervisor.join(job, parent, self._deps.background_after)
        return job

    async def _send_away(self, ask: Ask, definition: AgentDefinition, parent: Agent, ctx: ToolContext) -> Job:
        """Start the agent on a worker."""
        from teamwright.runtime.workers.remotes import Draft  # noqa: PLC0415

        remotes = self._services.remotes
        assert remotes is not None
        with self._naming(ask.name, definition.name) as name:
            draft = Draft(
                agent=new_agent_id(),
                name=name,
                definition=definition,
                model=self._making.model_for(ask, definition, parent),
                parent=parent,
                effort=ask.effort or definition.effort or parent.effort,
                mode=narrowest(parent.mode if parent.parent else None, definition.permission_mode, ask.mode),
                description=ask.description,
                call=ctx.call_id,
            )
            first = f"{definition.initial_prompt}\n\n{ask.prompt}" if definition.initial_prompt else ask.prompt
            job, self.known[draft.agent] = await remotes.launch(draft, first, ctx)
        return job

    async def _begin(
        self,
        agent: Agent,
        known: AgentRecord,
        prompt: str,
        parent: Agent,
        call: CallId,
        plan: Plan,
        tree: "Worktree | None",
    ) -> Job:
        job = self._job(known, parent.id, call, background=plan.report == "letter")
        job.tree = tree
        sender = Sender("agent", parent.name, parent.id)
        letter = Letter(new_letter_id(), known.id, sender, Prompt((Text(prompt),)))
        row = NewAgent(known.id, self._agents.session, parent.id, known.kind, known.name, known.depth)
        # its row and its life begin together; a cancellation takes effect in `join`
        with anyio.CancelScope(shield=True):
            await self._supervisor.jobs.begin(job, agent=row, letter=letter)
            agent.inbox.begin(letter)
            self.known[known.id] = known
            self._supervisor.start(agent, job)
        return job

    def _job(self, known: AgentRecord, owner: AgentId, call: CallId | None, *, background: bool) -> Job:
        return Job(
            JobId(known.id),
            "agent",
            owner=owner,
            output=self._agents.output(known.id),
            description=known.description,
            call=call,
            background=background,
            run=known.run,
        )

    @contextmanager
    def _naming(self, asked: str | None, kind: str) -> Generator[str]:
        """The name that was asked for, with a number if another agent has it. It is taken while the agent is made."""
        if not asked:
            yield kind
            return
        taken = self._names | {known.name for known in self.known.values()}
        found, n = asked, 1
        while found in taken:
            n += 1
            found = f"{asked}-{n}"
        self._names.add(found)
        try:
            yield found
        finally:
            self._names.discard(found)

    def is_one_shot(self, kind: str) -> bool:
        definition = self._deps.kinds().get(kind)
        return definition is not None and definition.one_shot

    # --- continuing agents that have ended

    def find(self, to: str) -> AgentRecord | None:
        """Find an agent by id, or the newest one of that name."""
        if AgentId(to) in self.known:
            return self.known[AgentId(to)]
        named = [known for known in self.known.values() if known.name == to]
        given = [known for known in named if known.name != known.kind]
        if given:
            return given[-1]
        return named[0] if len(named) == 1 else None  # a kind works as a name while only one agent has it

    def count_answer(self, known: AgentRecord, most: int) -> None:
        """Count a message that an agent is about to get from another. Two that only answer each other are stopped:
        ToolError.

        Several messages to an agent that is at work and has not answered in between count as one.
        """
        living, job = self._supervisor.agent(known.id), self._supervisor.job_of(known.id)
        result = job.result if job else None
        used = living.history.tool_uses if living else result.usage.tool_uses if result else 0
        since, answer = (self._supervisor.asked, used), (known.run, living.history.ends if living else None)
        before = self._answers.get(known.id, Answers(since))
        many = 0 if before.since != since else before.many
        if answer != before.last:
            many += 1
        if many > most:
            raise ToolError(
                f"{known.name} has answered {most} times without using a tool, so this was not sent. Do the next step "
                "yourself, start another agent, or end your turn and say what is missing."
            )
        self._answers[known.id] = Answers(since, answer, many)

    async def write(self, known: AgentRecord, letter: Letter, owner: AgentId, call: CallId | None) -> Job | None:
        """Store words for an agent, and wake it or continue it. If that fails they are taken back, because nobody would
        read them."""
        await unbroken(self._supervisor.post(letter))
        try:
            return await self._resume(known.id, owner, call)
        except BaseException:
            with following():
                await self._agents.state.withdraw(letter.id)
            raise

    async def hear(self, unheard: Sequence[AgentId]) -> None:
        """Continue ended agents for which words wait: the process that stored them was killed before it did."""
        main = self._supervisor.main
        for id in unheard:
            try:
                await self._resume(id, main.id, None)
            except TeamwrightError as error:
                main.emit(Warned(f"A message waits for agent {id}, which cannot be resumed: {error}"))

    async def _resume(self, id: AgentId, owner: AgentId, call: CallId | None) -> Job | None:
        """Wake a living agent, or continue an ended one in the background; never two of one."""
        while (under_way := self._resuming.get(id)) is not None:
            await under_way.wait()
        if (agent := self._supervisor.agent(id)) is not None:
            agent.inbox.ring()
            return None
        done = self._resuming[id] = anyio.Event()  # before anything is awaited: another letter may come meanwhile
        try:
            again = replace(self.known[id], run=self.known[id].run + 1)
            if (remotes := self._services.remotes) is not None and await remotes.is_remote(id):
                if (job := await remotes.resume_job(again, owner, call)) is not None:
                    self.known[id] = again
                return job
            return await self._resume_here(again, owner, call)
        finally:
            del self._resuming[id]
            done.set()

    async def _resume_here(self, known: AgentRecord, owner: AgentId, call: CallId | None) -> Job:
        if (before := self._supervisor.job_of(known.id)) is not None:
            await before.closed.wait()  # a transcript has one writer at a time
        job = self._job(known, owner, call, background=True)
        agent, job.tree = await self._making.resume(known)
        try:
            with anyio.CancelScope(shield=True):
                self.known[known.id] = known  # its number is used up, even if nobody can tell whether it was stored
                await self._supervisor.jobs.begin(job)
                self._supervisor.start(agent, job)
        except BaseException:
            await self._making.undo(agent.close_transcript, agent.gear, job.tree)
            raise
        return job

    async def pass_on(self, letter: Letter) -> bool:
        """Store a person's words for an agent that was started here, and wake it. False if there is no such agent."""
        known = self.known.get(letter.to)
        if known is not None:
            await self.write(known, letter, self._supervisor.main.id, None)
        return known is not None
