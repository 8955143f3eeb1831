"""Teammates of this process: makes, starts, resumes and stops them, here or in processes of their own."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.letter import Said
from teamwright.core.data.tasks import Actor, Task, TaskId, listed
from teamwright.core.data.team import Mail, Member, Refused, safe_name
from teamwright.core.errors import AgentLost, DiskError, StoreError, ToolError
from teamwright.core.ids import AgentId, LetterId, new_agent_id
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.spawn import Ask, Plan
from teamwright.core.ports import ToolContext
from teamwright.host.process.identity import gone, start_of
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.sub_agents import narrowest
from teamwright.runtime.concurrency.unbroken import unbroken
from teamwright.runtime.teams.deps import TeammatePlaces
from teamwright.runtime.teams.remote.processes import TeammateProcesses
from teamwright.runtime.teams.teammates.factory import TeammateFactory
from teamwright.runtime.teams.teammates.state import TeammateDeps
from teamwright.runtime.teams.teammates.teammate import Teammate, free_tasks
from teamwright.store.acts.members import AddMember
from teamwright.store.tables.jobs import NewAgent
from teamwright.store.tables.processes import Process
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.teams import call_key

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree

MOST_LOSSES = 3  # times that a teammate may end before the same letter
ORPHAN_LIMIT = 15.0  # seconds for the child of a dead lead to record what it has finished


class Teammates:
    def __init__(
        self,
        deps: TeammateDeps,
        factory: TeammateFactory,
        letters: StateStore,
        places: TeammatePlaces | None,
        *,
        env: Mapping[str, str],
        logs: Path,
    ) -> None:
        """`places`: where new teammates run; None: in this process."""
        self._deps, self._factory, self._letters = deps, factory, letters
        self._tables, self._roster, self._mail = deps.tables, deps.roster, deps.mail
        self._env, self._logs = env, logs
        self.running: dict[AgentId, Teammate] = {}  # in this process
        self.dropped: set[AgentId] = set()  # inactive until they are started again, whatever the store says
        self.absent: dict[AgentId, str] = {}  # those that something waits for, with the reason why they cannot continue
        self._told: dict[AgentId, str] = {}  # the reason that the lead has heard, until one has run again
        self._processes = TeammateProcesses(places, deps, self) if places is not None else None
        self._adopted: TeammateProcesses | None = None  # for teammates that live elsewhere, though new ones do not
        self._new: set[AgentId] = set()  # whoever recruits them hears if they do not come up
        self._starting: set[AgentId] = set()
        self._parking = False  # this process ends: resume nobody
        self._losses: dict[AgentId, tuple[LetterId, int]] = {}  # the letter that could not even be read, and how often

    # --- new ones

    async def recruit(
        self, plan: Plan, definition: AgentDefinition, parent: Agent, ctx: ToolContext, model: str, cwd: Path
    ) -> tuple[Member, Sequence[str]]:
        """The new member, and what else the call's result says of it. It has a runner, or it is taken back."""
        ask, team, own = plan.ask, plan.team, new_agent_id()
        assert team is not None and ask.name is not None
        lead = self._roster.lead_of(team)
        if lead is None or lead.agent != parent.id:
            raise ToolError(f"Only the lead of {team} can add teammates to it.")
        await parent.sync()  # the call is on disk before its teammate is on the roster
        draft = Member(own, ask.name, team, definition.name, model, ask.prompt, session=self._roster.session)
        draft = self._equipped(draft, ask, definition, parent, cwd)
        tree = None
        if plan.room == "worktree":
            called = safe_name(ask.name, [mate.name for mate in self._roster.mates(team)])
            tree = await self._deps.worktrees.open(parent.desk.cwd, own, own=called)
            draft = replace(draft, cwd=str(tree.path), worktree=str(tree.path))
        self._new.add(own)  # a look at the roster must not start it first
        try:
            if plan.room == "remote":
                return await self._enlist_afar(draft, definition, parent, lead, ctx)
            return await self._enlist_here(draft, definition, parent, lead, ctx, tree)
        finally:
            self._new.discard(own)

    def follow(self, member: Member) -> None:
        """Show what a member on a worker does."""
        if (remotes := self._deps.remotes) is not None:
            remotes.follow(member.agent)

    def _equipped(self, draft: Member, ask: Ask, definition: AgentDefinition, parent: Agent, cwd: Path) -> Member:
        """Say where and how it works. A plan mode ends with its plan's approval; the other modes stay."""
        modes: tuple[Mode | None, ...] = (definition.permission_mode, ask.mode)
        lasting: list[Mode | None] = [mode for mode in modes if mode != "plan"]
        return replace(
            draft,
            plan_mode_required="plan" in modes,
            cwd=str(cwd),
            backend=self._processes.backend if self._processes else "in-process",
            mode=narrowest(*lasting),
            effort=ask.effort or definition.effort or parent.effort,
            description=ask.description,
        )

    async def _enlist_afar(
        self, draft: Member, definition: AgentDefinition, parent: Agent, lead: Member, ctx: ToolContext
    ) -> tuple[Member, Sequence[str]]:
        """Add a member whose agent is given to a worker, or waits for one."""
        from teamwright.runtime.workers.remotes import Draft  # noqa: PLC0415  # few sessions have an engine

        remotes = self._deps.remotes
        assert remotes is not None
        travels = Draft(
            agent=draft.agent,
            name=safe_name(draft.name, [mate.name for mate in self._roster.mates(draft.team)]),
            definition=definition,
            model=draft.model,
            parent=parent,
            effort=draft.effort,
            mode=draft.mode,
            description=draft.description,
            call=ctx.call_id,
        )
        sent = await remotes.prepare(travels)
        new = self._joining(replace(draft, cwd="", backend="remote"), definition, parent, lead, ctx)
        member = await unbroken(remotes.enlist(sent, new))
        if isinstance(member, Refused):
            raise ToolError(member.reason)
        with anyio.CancelScope(shield=True):
            await self._settle(member)
            remotes.follow(member.agent)
            return member, (*sent.notes, *await remotes.waits(member.agent, member.name))
        raise AssertionError("a shield lets nothing through")

    def _joining(
        self, draft: Member, definition: AgentDefinition, parent: Agent, lead: Member, ctx: ToolContext
    ) -> AddMember:
        words = f"{definition.initial_prompt}\n\n{draft.prompt}" if definition.initial_prompt else draft.prompt
        row = NewAgent(draft.agent, self._roster.session, parent.id, definition.name, draft.name, parent.depth + 1)
        first = self._mail.draft(lead, draft, Said(words), id=f"m-{parent.id}-{ctx.call_id}")
        return AddMember(draft, row, first, call_key(parent.id, ctx.call_id), self._mail.limits)

    async def _enlist_here(
        self,
        draft: Member,
        definition: AgentDefinition,
        parent: Agent,
        lead: Member,
        ctx: ToolContext,
        tree: "Worktree | None",
    ) -> tuple[Member, Sequence[str]]:
        """Add a member and start it, unless all of its tasks wait for others."""
        new = self._joining(draft, definition, parent, lead, ctx)
        teams = self._tables.teams
        member = await unbroken(teams.add_member(draft, agent=new.agent, first=new.first, key=new.key))
        if isinstance(member, Refused):
            if tree is not None:
                await self._deps.worktrees.close(tree)
            raise ToolError(member.reason)
        with anyio.CancelScope(shield=True):
            try:
                await self._settle(member)
                if held := listed(await self.held_up(member)):
                    await self._let_go(tree)
                    return member, (f"It starts once one of its tasks ({held}) is free: they wait for others.",)
                placed = await self._place(member, tree)
                if placed.backend != "in-process" and self._processes is not None:
                    await self._processes.arrived(placed)
            except (ToolError, StoreError) as error:
                raise ToolError(await self._take_back(member, new.first, tree, str(error))) from error
            if placed != member:  # where it runs
                await self._deps.mirrors.write_config(member.team)
            return placed, ()
        raise AssertionError("a shield lets nothing through")

    async def _settle(self, member: Member) -> None:
        mirrors = self._deps.mirrors
        await self._roster.refresh(member.team)
        self._roster.tell(member, "spawn", member.description)
        await mirrors.write_config(member.team)
        await mirrors.write_inboxes(member.team, member.name)
        await self._hand_kept(member)

    async def _take_back(self, member: Member, first: Mail | None, tree: "Worktree | None", why: str) -> str:
        """Undo what was stored of a member that could not be started. Returns the words for its lead."""
        if self._processes is not None and member.backend != "in-process":
            await self._processes.stop(member)
        await self._tables.mail.told([first.letter.id] if first else ())  # the call's result says it
        freed = await self._deps.board.release_all(member.team, member.agent, Actor(member.agent, member.name))
        await self._shut_down(member, None)
        if tree is not None:
            await self._deps.worktrees.close(tree)
        tasks = ", ".join(f"#{task.id}" for task in freed)
        words = f"{member.name} could not be started and is not in the team: {why.rstrip('.')}."
        return f"{words} Nobody owns {tasks} now." if tasks else words

    async def held_up(self, member: Member) -> tuple[TaskId, ...]:
        """The tasks of a new member, if all of them wait for others and it has nothing but its prompt to read."""
        if member.state != "created" or len(await self._letters.waiting(member.agent)) != 1:
            return ()
        return await self._deps.board.table.held_up(member.team, Actor(member.agent, member.name))

    async def _let_go(self, tree: "Worktree | None") -> None:
        if tree is not None:
            await self._deps.worktrees.let_go(tree)

    async def _hand_kept(self, member: Member) -> None:
        """Give it the first task kept for its name, to read with its first message; others follow when it is idle."""
        await self._deps.board.claim_first(member.team, Actor(member.agent, member.name), kept=True)

    async def _place(self, member: Member, tree: "Worktree | None") -> Member:
        """Start it in a process of its own, or here if that cannot be."""
        self.dropped.discard(member.agent)
        with self._starts(member.agent):
            if self._processes is not None and member.backend != "in-process":
                await self._let_go(tree)  # locked for this process until now
                tree = None
                try:
                    return await self._processes.start(member)
                except ToolError as error:
                    self._roster.warn(member.agent, f"{member.address} runs in this process: {error}")
            if member.backend != "in-process":
                await self._settle_jobs(member)
                member = await self._place_here(member)
            await self.start(member, tree)
            return member

    @contextmanager
    def _starts(self, agent: AgentId) -> Generator[None, None, None]:
        """Until it is known here, nobody starts it a second time."""
        self._starting.add(agent)
        try:
            yield
        finally:
            self._starting.discard(agent)

    async def _place_here(self, member: Member) -> Member:
        placed = await self._tables.teams.set_place(member.team, member.agent, "in-process", None)
        return replace(member, backend="in-process", pane=None) if isinstance(placed, Refused) else placed

    async def start(self, member: Member, tree: "Worktree | None" = None) -> Teammate | None:
        """Run it in this process, unless another living process does."""
        own, processes = (await self._deps.wakeups.process()).id, self._tables.processes
        lease = await processes.claim_agent(member.agent, own)
        if isinstance(lease, Refused):
            return None
        if member.backend != "in-process" or member.session != self._roster.session:
            await self._settle_jobs(member)
        try:
            if tree is None and member.worktree:
                tree = await self._deps.worktrees.open_again(self._factory.root, member.agent, member.worktree)
            agent = await self._factory.make(member, tree)
        except BaseException:  # it must wait, and nobody runs it meanwhile
            with anyio.CancelScope(shield=True):
                await processes.release_agent(member.agent, own)
                await self._let_go(tree)
            raise
        teammate = Teammate(agent, member, lease.epoch, self._deps, tree)
        self.running[member.agent] = teammate
        self._deps.supervisor.house(agent, partial(self._run, teammate))
        return teammate

    async def _settle_jobs(self, member: Member) -> None:
        """Those that it had in another process, or for another lead, ended with that."""
        from teamwright.runtime.agents.remains import RemainsOnDisk  # noqa: PLC0415  # few teammates had one

        remains = RemainsOnDisk(self._deps.services.agents)
        await self._deps.supervisor.jobs.settle_below(member.agent, remains)

    async def _run(self, teammate: Teammate) -> None:
        try:
            await teammate.run()
        finally:
            self.running.pop(teammate.agent.id, None)
            with anyio.CancelScope(shield=True):
                await teammate.agent.put_away()
        if teammate.halted:  # a message or the next start tries again
            self.dropped.add(teammate.agent.id)
            self._roster.announce()
        if teammate.broken:
            self.dropped.add(teammate.agent.id)
            await self.lost(teammate.member)
            self._roster.announce()

    # --- existing ones

    async def resume(self, member: Member) -> None:
        """Resume a member. One that is lost is shut down, so that nobody waits for it; one that cannot run now
        waits."""
        try:
            await self._resume(member)
        except DiskError:
            raise  # it is not lost: it is resumed when the disk works again
        except AgentLost as error:
            words = f"{member.name} could not be brought back: {error}"
            self._warn(member, words)
            await self.bury(member, words)
        except (ToolError, StoreError) as error:
            await self._let_wait(member, str(error).rstrip("."))

    async def _resume(self, member: Member) -> None:
        """Continue a member that nobody runs, where it was, with what it knew."""
        known = self._parking or member.agent in {*self.running, *self._starting, *self._new}
        if known or member.state == "shutdown" or member.backend == "remote":  # a worker resumes remote members
            return
        if member.state == "created":
            await self._hand_kept(member)
        if await self.held_up(member):
            return
        self._factory.definition(member)  # raises before a process is started
        placed = await self._place(member, None)
        self.absent.pop(member.agent, None)
        if placed.backend == "in-process":
            self._told.pop(member.agent, None)

    async def _let_wait(self, member: Member, why: str) -> None:
        """Let it wait, with its mail and its tasks. Lead and person are told once for each reason."""
        self.dropped.add(member.agent)
        self.absent[member.agent] = why
        if self._told.get(member.agent) == why:
            return
        self._told[member.agent] = why
        words = f"{member.name} cannot continue here: {why}. Its mail and its tasks wait for it."
        self._warn(member, words)
        await self._notify_lead(member, words)

    def _warn(self, member: Member, words: str) -> None:
        lead = self._roster.lead_of(member.team)
        self._roster.warn(lead.agent if lead else member.agent, words)

    async def _notify_lead(self, member: Member, words: str) -> None:
        if (lead := self._roster.lead_of(member.team)) is not None:
            await self._mail.notify(lead, words)

    async def look(self) -> None:
        """Resume members that nobody runs, if somebody in another process has written to them."""
        for team in self._roster.led_here():
            known = self.running.keys() | self.dropped
            here = {m.agent: m for m in self._roster.mates(team) if m.agent not in known and m.backend != "remote"}
            for agent in await self._tables.processes.waited_for(team) if here else ():
                if agent in here:
                    await self.resume(here[agent])

    def recruits(self, agent: AgentId) -> bool:
        return agent in self._new

    async def failed(self, member: Member) -> None:
        """Its process could not run it, and has stored why."""
        await self._let_wait(member, member.trouble.rstrip("."))

    async def lost(self, member: Member) -> None:
        """Nobody runs it any more. What waits for it resumes it, but not for ever."""
        trouble = self._deps.supervisor.trouble
        self._told.pop(member.agent, None)
        with trouble.kept(f"{member.address} could not be brought back"):
            await self._make_up_for(member)

    async def _make_up_for(self, member: Member) -> None:
        waiting = await self._letters.waiting(member.agent)
        if not waiting:
            return
        letter, times = self._losses.get(member.agent, (waiting[0].id, 0))
        times = times + 1 if letter == waiting[0].id else 1
        self._losses[member.agent] = (waiting[0].id, times)
        if times < MOST_LOSSES:
            await self.resume(member)
            return
        self.dropped.add(member.agent)
        words = (
            f"{member.name} has ended {times} times before it could read what waits for it, so it is left alone. "
            "Its mail is kept: another message, or the next start of this session, tries again."
        )
        await self._notify_lead(member, words)

    async def adopt(self, member: Member, process: Process) -> None:
        """Look after a member that lives on in a process of its own, wherever new ones run."""
        if member.backend == "local":  # a child, which ends along with the lead that started it
            self._deps.supervisor.launch(partial(self._succeed, member, process))
            return
        self._adopted = self._adopted or self._processes or self._local_processes()
        await self._adopted.watch(member, process)

    def _local_processes(self) -> TeammateProcesses:
        from teamwright.host.process.local_child import LocalChildren  # noqa: PLC0415

        children = LocalChildren(env=self._env, logs=self._logs)
        return TeammateProcesses(TeammatePlaces(children, "local", _start_none), self._deps, self)

    async def _succeed(self, member: Member, process: Process) -> None:
        """Continue a dead lead's child here. Its turn and its tasks stay its own."""
        with anyio.move_on_after(ORPHAN_LIMIT):
            await gone(process.pid, await start_of(process.pid))
        await self.resume(member)

    # --- the end of this process, and of teammates

    async def park_all(self) -> None:
        """Stop all of them here. Their state stays as it is, and another process continues with them."""
        self._parking = True
        if (processes := self._processes or self._adopted) is not None:
            await processes.close()
        async with anyio.create_task_group() as group:
            for teammate in list(self.running.values()):
                group.start_soon(partial(teammate.stop, park=True))

    async def stop(self, member: Member) -> None:
        """Stop it by force, wherever it runs."""
        if teammate := self.running.get(member.agent):
            await teammate.stop(park=False)
            return
        if member.backend == "remote" and (remotes := self._deps.remotes) is not None:
            await remotes.stop(member.agent, "its lead stopped it")
            await remotes.ended(member.agent)
        elif (processes := self._processes or self._adopted) is not None and member.backend != "in-process":
            await processes.stop(member)
        await self.bury(member)

    async def bury(self, member: Member, why: str = "") -> None:
        """Shut down a member that nobody runs any more: in the store, with what follows from it.

        `why` is for the lead, if the lead did not want it.
        """
        await free_tasks(self._deps, member, why or f"{member.name} was stopped")
        lead = self._roster.lead_of(member.team)
        notice = self._mail.notice(lead, f"{why}. It is shut down.") if lead is not None and why else None
        await self._shut_down(member, notice)
        if lead is not None and notice is not None:
            await self._mail.arrived(lead)

    async def _shut_down(self, member: Member, notice: Mail | None) -> None:
        await self._tables.teams.set_state(member.team, member.agent, "shutdown", mail=notice)
        self._roster.tell(member, "shutdown", "stopped")  # watchers hear of it before the lead answers
        await self._roster.refresh(member.team)
        await self._deps.mirrors.write_team(member.team)
        await self._mail.tell_of_failures(member.team)

    # --- news for those that run

    def finished(self, agent: AgentId, task: Task) -> None:
        if teammate := self.running.get(agent):
            teammate.finished(task)

    def plans(self, agent: AgentId) -> bool:
        """Whether it is in plan mode here, and so gets no task."""
        teammate = self.running.get(agent)
        return teammate is not None and teammate.agent.mode == "plan"

    async def apply_answers(self, member: Member) -> None:
        if teammate := self.running.get(member.agent):
            await teammate.state.apply_answers()

    async def apply_all(self) -> None:
        for teammate in list(self.running.values()):
            await teammate.state.heed_interrupts()
            await teammate.state.apply_answers()


def _start_none(member: Member, _: Mode) -> tuple[Sequence[str], Mapping[str, str]]:
    raise ToolError(f"{member.address} runs in this process.")
