"""Makes teammates: their place on the roster first, then the agent, here or in a process of its own."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
from msgspec.structs import replace

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import ModeChanged, Warned
from teamwright.core.data.letter import Said
from teamwright.core.data.team import Member, Refused
from teamwright.core.errors import AgentLost, DiskError, SessionMissing, StoreError, ToolError
from teamwright.core.ids import AgentId, LetterId, new_agent_id
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.spawn import Ask, Plan
from teamwright.core.ports import ToolContext
from teamwright.host.git.worktree import Worktree
from teamwright.host.process.identity import gone, start_of
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.factory import AgentFactory, Answers, own_limits
from teamwright.runtime.agents.spec import AgentSpec
from teamwright.runtime.agents.sub_agents import Served, SpawnDeps, child_desk, narrowest
from teamwright.runtime.teams.deps import Roles, TeammateHost
from teamwright.runtime.teams.teammate import Teammate, TeammateDeps, free_tasks
from teamwright.runtime.unbroken import unbroken
from teamwright.runtime.worktrees import move_in
from teamwright.store.tables.jobs import NewAgent
from teamwright.store.tables.processes import Process
from teamwright.store.tables.teams import call_key

MOST_LOSSES = 3  # times that one comes to its end before the same letter
ORPHAN_LIMIT = 15.0  # seconds for the child of a dead lead to record what is finished


class TeammateFactory:
    def __init__(self, workshop: AgentFactory, means: TeammateDeps, ways: SpawnDeps, roles: Roles) -> None:
        self._workshop, self._means, self._ways, self._roles = workshop, means, ways, roles
        self.residents: dict[AgentId, Teammate] = {}
        self.answers: Answers | None = None
        self._starting: set[AgentId] = set()
        self._keeper: TeammateHost | None = None
        self._parking = False  # this process ends: nobody is brought back here any more
        self.dropped: set[AgentId] = set()  # whatever the store says of them, they do nothing until they are started
        self.absent: dict[AgentId, str] = {}  # those of them that wait for something, and for what
        self._losses: dict[AgentId, tuple[LetterId, int]] = {}  # what it could not even read, and how often

    # --- a new one

    async def recruit(
        self, ask: Ask, plan: Plan, definition: AgentDefinition, parent: Agent, ctx: ToolContext, model: str
    ) -> Member:
        assert plan.team is not None and ask.name is not None
        teams = self._means.teams
        lead = teams.lead_of(plan.team)
        if lead is None or lead.agent != parent.id:
            raise ToolError(f"Only the lead of {plan.team} can add teammates to it.")
        await parent.sync()  # the call is on disk before its teammate is on the roster
        own = new_agent_id()
        tree = await self._means.rooms.open(parent.desk.cwd, own) if plan.room == "worktree" else None
        place = self._roles.place
        planning = ask.mode == "plan"
        draft = Member(
            own,
            ask.name,
            plan.team,
            definition.name,
            model,
            ask.prompt,
            plan_mode_required=planning,
            cwd=str(tree.path if tree else parent.desk.cwd),
            backend=place.backend if place else "in-process",
            session=self._workshop.session,
            worktree=str(tree.path) if tree else "",
            mode=narrowest(definition.permission_mode, None if planning else ask.mode),
            effort=ask.effort or definition.effort or parent.effort,
            description=ask.description,
        )
        with self._starts(own):  # a look at the roster must not find it first
            return await self._enlist(draft, definition, parent, ctx, tree)

    async def _enlist(
        self, draft: Member, definition: AgentDefinition, lead: Agent, ctx: ToolContext, tree: Worktree | None
    ) -> Member:
        teams, by = self._means.teams, self._means.teams.lead_of(draft.team)
        assert by is not None
        first = f"{definition.initial_prompt}\n\n{draft.prompt}" if definition.initial_prompt else draft.prompt
        row = NewAgent(draft.agent, self._workshop.session, lead.id, definition.name, draft.name, lead.depth + 1)
        key = call_key(lead.id, ctx.call_id)
        member = await unbroken(
            teams.tables.teams.add_member(
                draft,
                agent=row,
                key=key,
                first=lambda m: self._means.post.draft(by, m, Said(first), id=f"m-{lead.id}-{ctx.call_id}"),
            )
        )
        if isinstance(member, Refused):
            if tree is not None:
                await self._means.rooms.close(tree)
            raise ToolError(member.reason)
        settled = member
        with anyio.CancelScope(shield=True):
            await teams.refresh(member.team)
            teams.tell(member, "spawn", draft.description)
            await teams.copy(teams.tables.mirror.write_config, member.team)
            await teams.copy(teams.tables.mirror.write_inbox, member.team, member.name)
            settled = await self._settle(member, tree)
            if settled != member:  # where it runs
                await teams.copy(teams.tables.mirror.write_config, member.team)
        return settled

    async def _settle(self, member: Member, tree: Worktree | None) -> Member:
        """In a process of its own, or here if that cannot be."""
        self.dropped.discard(member.agent)
        with self._starts(member.agent):
            place = self._roles.place
            if place is not None and member.backend != "in-process":
                try:
                    return await place.start(member)
                except ToolError as error:
                    self._means.teams.here.tell(member.agent, Warned(f"{member.address} runs in this process: {error}"))
            if member.backend != "in-process":
                member = await self._amend(replace(member, backend="in-process", pane=None))
            await self.start(member, tree)
            return member

    @contextmanager
    def _starts(self, agent: AgentId) -> Generator[None, None, None]:
        """Until it is known here: nobody starts it a second time."""
        self._starting.add(agent)
        try:
            yield
        finally:
            self._starting.discard(agent)

    async def _amend(self, member: Member) -> Member:
        changed = await self._means.teams.tables.teams.amend(member.team, member.agent, lambda _: member)
        return member if isinstance(changed, Refused) else changed

    # --- one that there is already

    async def bring_back(self, member: Member) -> None:
        """Nobody runs it: it goes on, where it was, with what it knew."""
        known = self._parking or member.agent in self.residents or member.agent in self._starting
        if known or member.state == "shutdown":
            return
        self._definition(member)  # before a process is started for it
        await self._settle(member, None)
        self.absent.pop(member.agent, None)

    async def revive(self, member: Member) -> None:
        """Bring it back. One that is lost is shut down, so that nobody waits for it; any other waits for its time."""
        try:
            await self.bring_back(member)
        except DiskError:
            raise  # it is not gone: it comes back when the disk is well
        except AgentLost as error:
            words = f"{member.name} could not be brought back: {error}"
            self._warn(member, words)
            await self.bury(member, words)
        except (ToolError, StoreError) as error:
            await self._let_wait(member, str(error).rstrip("."))

    async def _let_wait(self, member: Member, why: str) -> None:
        """Its mail and its tasks stay its own. Lead and person are told, once for each reason."""
        self.dropped.add(member.agent)
        if self.absent.get(member.agent) == why:
            return
        self.absent[member.agent] = why
        words = f"{member.name} cannot go on here: {why}. Its mail and its tasks wait for it."
        self._warn(member, words)
        if (lead := self._means.teams.lead_of(member.team)) is not None:
            await self._means.post.notify(lead, words)

    def _warn(self, member: Member, words: str) -> None:
        self._means.teams.here.tell(self._lead(member) or member.agent, Warned(words))

    async def look(self) -> None:
        """A member of another process may have written to one that nobody runs."""
        teams = self._means.teams
        for team in teams.led_here():
            known = self.residents.keys() | self.dropped
            here = {m.agent: m for m in teams.members(team) if not m.is_lead and m.agent not in known}
            for agent in await teams.tables.processes.waited_for(team) if here else ():
                if agent in here:
                    await self.revive(here[agent])

    async def lost(self, member: Member) -> None:
        """Nobody runs it any more. What waits for it brings it back, but not for ever."""
        with self._means.teams.supervisor.trouble.kept(f"{member.address} could not be brought back"):
            await self._make_up_for(member)

    async def _make_up_for(self, member: Member) -> None:
        waiting = await self._means.teams.here.waiting(member.agent)
        if not waiting:
            return
        letter, times = self._losses.get(member.agent, (waiting[0].id, 0))
        times = times + 1 if letter == waiting[0].id else 1
        self._losses[member.agent] = (waiting[0].id, times)
        if times < MOST_LOSSES:
            await self.revive(member)
            return
        self.dropped.add(member.agent)
        if (lead := self._means.teams.lead_of(member.team)) is not None:
            words = (
                f"{member.name} has ended {times} times before it could read what waits for it, so it is left alone. "
                "Its mail is kept: another message, or the next start of this session, tries again."
            )
            await self._means.post.notify(lead, words)

    async def adopt(self, member: Member, process: Process) -> None:
        """It lives on in a process of its own: from now on we look after that, wherever new ones run."""
        if member.backend == "local":  # a child, which ends with the lead that started it
            self._means.teams.supervisor.launch(lambda: self._succeed(member, process))
            return
        self._keeper = self._keeper or self._roles.place or self._roles.keeper()
        await self._keeper.watch(member, process)

    async def _succeed(self, member: Member, process: Process) -> None:
        """Its turn and its tasks are still its own: nobody frees them, and it goes on here."""
        with anyio.move_on_after(ORPHAN_LIMIT):
            await gone(process.pid, await start_of(process.pid))
        await self.revive(member)

    async def start(self, member: Member, tree: Worktree | None = None) -> Teammate | None:
        """Run it in this process, unless another living one does."""
        teams, own = self._means.teams, (await self._means.teams.process()).id
        lease = await teams.tables.processes.claim_agent(member.agent, own)
        if isinstance(lease, Refused):
            return None
        try:
            if tree is None and member.worktree:
                root = self._roles.base().desk.roots[0]
                tree = await self._means.rooms.open(root, member.agent)  # the same one, if it was kept
            agent = await self._make(member, tree)
        except ToolError:  # it waits, and nobody runs it meanwhile
            await teams.tables.processes.release_agent(member.agent, own)
            if tree is not None:
                await self._means.rooms.let_go(tree)
            raise
        resident = Teammate(agent, member, lease.epoch, self._means, tree)
        self.residents[member.agent] = resident
        teams.supervisor.house(agent, lambda: self._host(resident))
        return resident

    async def _host(self, resident: Teammate) -> None:
        try:
            await resident.run()
        finally:
            self.residents.pop(resident.agent.id, None)
            with anyio.CancelScope(shield=True):
                await resident.agent.put_away()
        if resident.halted:  # a message, or the next start, tries again
            self.dropped.add(resident.agent.id)
            self._means.teams.announce()
        if resident.broken:
            self.dropped.add(resident.agent.id)
            await self.lost(resident.member)
            self._means.teams.announce()

    def _definition(self, member: Member) -> AgentDefinition:
        definition = next((d for d in self._ways.kinds().values() if d.name == member.kind), None)
        if definition is None:
            raise ToolError(self._ways.absence(member.kind))
        return definition

    async def _make(self, member: Member, tree: Worktree | None) -> Agent:
        definition = self._definition(member)
        gear = await self._ways.equip(definition, member.agent, self._lead(member))
        try:
            agent = await self._build(member, definition, tree, gear.tools if gear else None)
        except BaseException:
            if gear is not None:
                with anyio.CancelScope(shield=True):
                    await gear.close()
            raise
        agent.gear = gear
        return agent

    async def _build(self, member: Member, definition: AgentDefinition, tree: Worktree | None, served: Served) -> Agent:
        base = self._roles.base()
        kit = self._roles.kit(definition, 1, served)
        desk = child_desk(base.desk, Path(member.cwd), member.agent, member.name)
        desk.env |= {"TEAMWRIGHT_TEAM": member.team}
        if tree is not None:
            move_in(desk, tree)
        mode: Mode | None = "plan" if member.plan_mode_required else member.mode
        spec = AgentSpec(
            id=member.agent,
            name=member.name,
            kind=member.kind,
            model=member.model,
            effort=member.effort,
            toolset=kit,
            desk=desk,
            mode=mode,
            meter=base.meter.child(own_limits(definition)),
            parent=self._lead(member),
            depth=1,
            description=member.description,
            worktree=member.worktree,
            team=member.team,
        )
        path = self._workshop.files_of(member.agent).agent(member.agent)
        if path.is_file() and (agent := await self._again(spec, member)):
            return agent
        system = partial(self._roles.system, definition, member.model, desk.cwd, member)
        prompt = self._workshop.prompt((id(kit), member.model, desk.cwd, member.agent), system, kit.specs)
        agent = self._workshop.begin(spec, prompt)
        agent.rest()
        return agent

    def _lead(self, member: Member) -> AgentId | None:
        lead = self._means.teams.lead_of(member.team)
        return lead.agent if lead else None

    async def _again(self, spec: AgentSpec, member: Member) -> Agent | None:
        """From its transcript. None if it was killed before it could do anything: it begins anew."""
        try:
            transcript, history = await self._workshop.reopen(member.agent, self.answers)
        except DiskError:
            raise
        except (SessionMissing, StoreError) as error:
            raise AgentLost(f"{member.address} cannot go on: {error}") from None
        if history.rendered is None:  # killed between its first line and the next
            transcript.close()
            self._workshop.files_of(member.agent).agent(member.agent).unlink()
            return None
        spec.desk.seen = dict(history.seen)
        spec.desk.cwd = _still_there(history.cwd) or spec.desk.cwd
        mode = None if history.mode == "bubble" else history.mode or spec.mode
        untold = history.mode is None and mode is not None  # killed before the line that says its mode
        agent = self._workshop.resume(replace(spec, mode=mode), history, transcript)
        if untold and mode is not None:
            agent.emit(ModeChanged(mode))
            agent.rest()
        return agent

    # --- the end of this process, and of teammates

    async def park_all(self) -> None:
        """Their state stays as it is; another process goes on with them."""
        self._parking = True
        if (place := self._roles.place or self._keeper) is not None:
            await place.close()
        async with anyio.create_task_group() as group:
            for resident in list(self.residents.values()):
                group.start_soon(lambda r=resident: r.stop(park=True))

    async def stop(self, member: Member) -> None:
        """By force, wherever it runs."""
        if resident := self.residents.get(member.agent):
            await resident.stop(park=False)
            return
        if (place := self._roles.place or self._keeper) is not None and member.backend != "in-process":
            await place.stop(member)
        await self.bury(member)

    async def bury(self, member: Member, why: str = "") -> None:
        """One that nobody runs any more is shut down: in the store, with what follows from it.

        `why` is for the lead, where it was not the lead that wanted it.
        """
        teams = self._means.teams
        await free_tasks(self._means, member, why or f"{member.name} was stopped")
        lead = teams.lead_of(member.team)
        notice = self._means.post.notice(lead, f"{why}. It is shut down.") if lead is not None and why else None
        await teams.tables.teams.set_state(member.team, member.agent, "shutdown", mail=notice)
        teams.tell(member, "shutdown", "stopped")  # watchers hear of it before the lead answers
        if lead is not None and notice is not None:
            await self._means.post.arrived(lead)
        await teams.refresh(member.team)
        await teams.copy(teams.tables.mirror.write_team, member.team)
        await self._means.post.tell_of_failures(member.team)

    async def apply_answers(self, member: Member) -> None:
        if resident := self.residents.get(member.agent):
            await resident.apply_answers()

    async def apply_all(self) -> None:
        for resident in list(self.residents.values()):
            await resident.heed_interrupts()
            await resident.apply_answers()


def _still_there(cwd: str) -> Path | None:
    path = Path(cwd)
    return path if path.is_dir() else None
