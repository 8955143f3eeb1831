"""Teams of one process: makes their parts top-down, starts them and ends them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import LettersTaken, Reminded, TurnEnded
from teamwright.core.data.letter import Letter
from teamwright.core.data.letters.text import finished_tasks, with_tasks
from teamwright.core.data.message import user
from teamwright.core.data.tasks import Actor, Task
from teamwright.core.data.team import LEAD_NAME, Member, Refused, Team, TeamRequest, new_request_id
from teamwright.core.errors import StoreError, ToolError
from teamwright.core.ids import AgentId, CallId, LetterId
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.spawn import Ask, Plan
from teamwright.core.ports import Desk, ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.limits.shared import share_limits
from teamwright.runtime.concurrency.lock import LightLock
from teamwright.runtime.concurrency.unbroken import unbroken
from teamwright.runtime.extensions.hook_services import TeamHooks
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.teams.deps import TeamDeps
from teamwright.runtime.teams.effort import Effort
from teamwright.runtime.teams.lead_mail import LeadMail
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.teams.mirrors import Mirrors
from teamwright.runtime.teams.recalling import recall
from teamwright.runtime.teams.remote.copies import FarCopies
from teamwright.runtime.teams.remote.events import RemoteEvents
from teamwright.runtime.teams.remote.permission_relay import PermissionResponder
from teamwright.runtime.teams.requests import TeamRequests
from teamwright.runtime.teams.resumed import resumed_words
from teamwright.runtime.teams.roster import Roster
from teamwright.runtime.teams.tasks.board import TaskBoard
from teamwright.runtime.teams.tasks.open_work import OpenWork, ask_lead, find_open
from teamwright.runtime.teams.tasks.scope import TeamTaskScope
from teamwright.runtime.teams.teammates.factory import TeammateFactory
from teamwright.runtime.teams.teammates.local import Teammates
from teamwright.runtime.teams.teammates.state import TeammateDeps
from teamwright.runtime.teams.wakeups import Wakeups
from teamwright.store.files import transcripts
from teamwright.store.files.paths import SessionFiles, find_transcript
from teamwright.store.mirrors.team import TeamMirror
from teamwright.store.tables.team_tables import open_team_tables
from teamwright.store.tables.teams import call_key

if TYPE_CHECKING:
    from teamwright.core.sandbox.fencing import Fencing

LOOK = 1.0  # seconds after which a team at work is looked at again
STILL = 10.0  # seconds without news after which tasks that nobody takes no longer delay the end


class Teamwork:
    """Also the `TeammateControl` of its parts: bells, requests and tasks are made before the teammates that they
    reach."""

    def __init__(self, deps: TeamDeps) -> None:
        services, home, at = deps.services, deps.home, deps.hosting
        agents, supervisor = services.agents, services.supervisor
        self._deps, self._services, self.supervisor, self._asked = deps, services, supervisor, False
        self._hooks = TeamHooks(services.points)
        self._followed: set[AgentId] = set()  # leads that are listened to
        self.code_mail: LeadMail | None = None  # for the teams that code leads
        self.making = LightLock()  # of teams by code
        self.tables = tables = open_team_tables(deps.state.database, home.run, deps.limits)
        self.roster = roster = Roster(agents.session, tables.teams, supervisor, services.tell)
        mirror = TeamMirror(deps.copies or home.root, tables.teams, tables.mail)
        self.mirrors = Mirrors(mirror, roster, supervisor, agents.log)
        self.wakeups = Wakeups(tables, roster, self.mirrors, supervisor, self, deps.env, at and at.process)
        self.mail = TeamMail(tables.mail, agents.state, roster, self.wakeups, self.mirrors, at and at.agent)
        self.requests = TeamRequests(tables.requests, roster, self.mail, supervisor, self, patience=deps.patience)
        self.board = self._share_board()
        parts = TeammateDeps(
            tables=tables,
            roster=roster,
            wakeups=self.wakeups,
            mirrors=self.mirrors,
            mail=self.mail,
            requests=self.requests,
            board=self.board,
            supervisor=supervisor,
            hooks=self._hooks,
            log=agents.log,
            services=services,
            room=at and at.room,
        )
        self.factory = TeammateFactory(agents, deps.spawning, deps.setup, roster, at and at.room)
        self.teammates = Teammates(parts, self.factory, agents.state, deps.places, env=deps.env, logs=home.logs)
        self.responder = PermissionResponder(
            parts,
            rulebook=services.rules,
            put=services.approver,
            facts=deps.facts,
            fencing=self._fencing,
            protected=services.protected,
        )
        self.far_copies = FarCopies(roster, self.mirrors, self.board, supervisor)
        self.remote_events = RemoteEvents(parts, agents, since=deps.since)

    def _fencing(self, agent: AgentId, desk: Desk, mode: Mode) -> "Fencing | None":
        sandbox = self._services.sandbox
        return None if sandbox is None else sandbox.fencing(agent, desk, mode)

    def _share_board(self) -> TaskBoard:
        alone, hooks = self._services.session_board, self._hooks
        scope = TeamTaskScope(self.roster, self.wakeups, alone.scope, hooks if hooks.guards else None)
        return alone.shared(scope, self)

    # --- for the spawner

    @property
    def names(self) -> frozenset[str]:
        return self.roster.names

    def member_of(self, agent: AgentId) -> Member | None:
        return self.roster.member_of(agent)

    async def recruit(
        self, plan: Plan, definition: AgentDefinition, parent: Agent, ctx: ToolContext, model: str, cwd: Path
    ) -> tuple[Member, Sequence[str]]:
        """The new teammate, and what the call's result says of it besides."""
        return await self.teammates.recruit(plan, definition, parent, ctx, model, cwd)

    # --- what agents do

    async def spawn(self, ask: Ask, ctx: ToolContext) -> tuple[Job | Member, Plan]:
        """Spawn as the Agent tool does."""
        return await self._services.spawner.spawn(ask, ctx)

    async def create(self, agent: Agent, name: str, description: str, kind: str, call: CallId) -> Team:
        if agent.parent is not None:
            raise ToolError("Only the main agent leads teams: ask it.")
        if not name.strip():
            raise ToolError("team_name is empty: give the team a name.")
        return await unbroken(self._create(agent, name, description, kind, call))

    async def _create(self, agent: Agent, name: str, description: str, kind: str, call: CallId) -> Team:
        me = await self.wakeups.process()
        lead, key = self._lead(agent, name, kind or agent.kind), call_key(agent.id, call)
        team = await self.tables.teams.create_team(name, description, lead, me.id, key=key)
        if isinstance(team, Refused):
            raise ToolError(team.reason)
        await self.roster.lead(team)
        self._follow(agent)
        await self.mirrors.write_team(team.name)
        await self.board.take_over(self.roster.session, team.name)
        return team

    def _follow(self, lead: Agent) -> None:
        """Listen to a lead from its first team on: what it does and reads concerns its team's mail."""
        if lead.id not in self._followed:
            self._followed.add(lead.id)
            lead.listen(Effort(self.mail, lead).note)
            lead.inbox.on_read = partial(self.mirrors.read_by, lead.id)
            lead.inbox.still_true, lead.inbox.on_letters = self._still_true, self._bring_in

    async def _still_true(self, notices: Sequence[Letter]) -> dict[LetterId, Letter]:
        """Idle notices as they are true now: not of one that works again, and without tasks that were opened again."""
        found: dict[LetterId, Letter] = {}
        for letter in notices:
            if self.roster.is_outdated(letter):
                continue
            true: Letter | None = letter
            if (finished := finished_tasks(letter)) and (team := self._team_led(letter.sender.id)):
                again = {
                    str(task.id) for task in (await self.board.table.list(team)).tasks if task.status != "completed"
                }
                true = with_tasks(letter, [id for id in finished if id not in again]) if again & {*finished} else letter
            if true is not None:
                found[letter.id] = true
        return found

    async def _bring_in(self, _: Sequence[Letter]) -> None:
        """What members on workers have told of must be here before the lead reads it."""
        if (remotes := self._services.remotes) is not None:
            await remotes.bring_in_all()

    def _team_led(self, agent: AgentId | None) -> str | None:
        led = self.roster.led_here()
        return next((name for name in led if any(m.agent == agent for m in self.roster.everybody(name))), None)

    def hear_by_code(self, lead: Agent, team: str) -> LeadMail:
        """From now on code reads what this team tells its lead."""
        if self.code_mail is None:
            self.code_mail = LeadMail(lead.inbox, self.roster)
        self.code_mail.teams.add(team)
        return self.code_mail

    def _lead(self, agent: Agent, team: str, kind: str) -> Member:
        cwd, session = str(agent.desk.cwd), self.roster.session
        return Member(agent.id, LEAD_NAME, team, kind, agent.model, cwd=cwd, session=session, state="running")

    async def delete(self, agent: Agent, team: str | None = None, call: CallId | None = None) -> str:
        """Delete this team or the current one, unless somebody in it works; idle members are ended first."""
        lead = self.roster.lead_of(team) if team else self.roster.member_of(agent.id)
        if lead is None:
            raise ToolError("There is no team to delete.")
        if not lead.is_lead or lead.agent != agent.id:
            raise ToolError(f"Only the lead of {lead.team} can delete it.")
        await self.roster.refresh(lead.team)
        others = self.roster.mates(lead.team)
        rests = await self._unrun(lead.team)
        if busy := [m.name for m in others if m.state != "idle" and m.name not in rests]:
            raise ToolError(f"These still work: {', '.join(busy)}. Ask them to shut down first, then delete the team.")
        for member in others:
            await self.teammates.stop(member)
        key = call_key(agent.id, call) if call else None
        await unbroken(self._drop(lead.team, key))
        return lead.team

    async def _drop(self, team: str, key: str | None) -> None:
        done = await self.tables.teams.delete_team(team, epoch=self.roster.epoch(team), key=key)
        if isinstance(done, Refused):
            raise ToolError(done.reason)
        self.roster.forget(team)
        await self.mirrors.remove(team)
        await self.board.drop(team)

    async def stop(self, agent: Agent, address: str) -> Member:
        """Stop a teammate by force."""
        name, _, team = address.partition("@")
        lead = self.roster.member_of(agent.id)
        if lead is None or not lead.is_lead or (member := self.roster.find(team or lead.team, name)) is None:
            raise ToolError(f"There is no teammate {address!r} that you lead.")
        if member.is_lead or member.state == "shutdown":
            raise ToolError(f"{address} has shut down already." if not member.is_lead else "The lead ends by itself.")
        await self.teammates.stop(member)
        return member

    def mates(self) -> list[Member]:
        """The teammates of all teams that are led here, wherever they run."""
        return [member for name in self.roster.led_here() for member in self.roster.mates(name)]

    async def last_words(self, member: Member) -> str:
        """What a teammate said last, wherever it runs: its transcript is here."""
        if (living := self.supervisor.agent(member.agent)) is not None:
            return living.history.last_words
        path = self._services.agents.files_of(member.agent).agent(member.agent)
        return await to_thread.run_sync(_last_words, path)

    def why_absent(self, agent: AgentId) -> str:
        """Why a teammate that something waits for cannot be resumed now; empty if nothing is held up."""
        return self.teammates.absent.get(agent, "")

    async def interrupt(self, member: Member) -> bool:
        """End the turn of a teammate that another process runs. False if none does."""
        holder = await self.tables.processes.holder(member.agent)
        if holder is None or (lead := self.roster.lead_of(member.team)) is None:
            return False
        asked = TeamRequest(new_request_id("interrupt"), "interrupt", lead.team, lead.agent, member.agent, {})
        if isinstance(await self.tables.requests.open(asked), Refused):
            return False
        self.wakeups.ring_process(holder)
        return True

    async def recall(self, agent: AgentId) -> list[str]:
        """What an agent must still know after its conversation was shortened, from the store."""
        return await recall(self.roster, self.board, self.requests, agent)

    # --- start and end of this process

    async def resume(self, main: Agent, team: str | None) -> None:
        """Lead again what this session led, and `team` if given; the members continue where they were."""
        names = [t.name for t in await self.tables.teams.teams_of(main.id) if t.lead == main.id]
        for name in reversed(names):  # the current one last
            await self._resume_team(name, main, ours=True)
        if team is not None:
            await self._resume_team(team, main, ours=False)
        if words := resumed_words(self._deps.ended_at, self.mates(), self.teammates.absent):
            main.emit(Reminded(user(words)))
        if names or team:
            if self._deps.copies is None:
                await self.mirrors.rebuild()
            self.supervisor.launch(self.wakeups.look)  # questions may be waiting since before

    async def _resume_team(self, name: str, main: Agent, *, ours: bool) -> None:
        taken = await self._take_over(name, main)
        if isinstance(taken, Refused):
            if not ours:
                raise ToolError(taken.reason)
            self.roster.warn(main.id, f"{taken.reason} This session does not lead it now.")
            return
        for note in await self.board.rebuild(name):
            self.roster.warn(main.id, note)
        mates = self.roster.mates(name)
        for member in mates:
            self.remote_events.meet(member)
        for member in mates:
            await self._resume_or_adopt(member)
        if (lead := self.roster.lead_of(name)) is not None:
            await self.requests.finish(lead)
        await self.mail.tell_of_failures(name)

    async def _take_over(self, name: str, main: Agent) -> Team | Refused:
        """Take over a team whose lead's process is gone."""
        if (before := await self.tables.teams.team(name)) is not None and not self._is_led(before):
            await self._inherit(before, await self.tables.teams.members(name))
        me = await self.wakeups.process()
        team = await self.tables.teams.take_over(name, self._lead(main, name, main.kind), me.id, current=True)
        if not isinstance(team, Refused):
            await self.roster.lead(team)
            self._follow(main)
            await self.mirrors.write_team(team.name)
        return team

    def _is_led(self, team: Team) -> bool:
        return team.process is not None and self.tables.processes.alive(team.process)

    async def _inherit(self, team: Team, members: Sequence[Member]) -> None:
        """Before leading another session's team: mark what its lead had read, and note where its members' files are."""
        home, agents = self._deps.home, self._services.agents
        path = find_transcript(home, team.session) if team.session else None
        if path is not None and team.session != agents.session:
            taken = [line.event.letters for _, line in transcripts.read(path) if isinstance(line.event, LettersTaken)]
            await self._deps.state.delivered([id for ids in taken for id in ids])
        for member in members:
            if member.session != agents.session and (path := find_transcript(home, member.session)):
                agents.lodgers[member.agent] = SessionFiles(path)

    async def _resume_or_adopt(self, member: Member) -> None:
        if member.backend == "remote":
            self.teammates.follow(member)  # a worker runs it, or will
            return
        if (process := await self.tables.processes.holder(member.agent)) is not None:
            await self.teammates.adopt(member, process)
        else:
            await self.teammates.resume(member)

    # --- for the parts that are made before the teammates

    async def resume_member(self, member: Member) -> None:
        await self.teammates.resume(member)

    async def look(self) -> None:
        for team in self.roster.led_here():
            await self.mail.tell_of_rounds(team)
            if self._deps.copies is not None:  # in an engine: of failures that workers noticed
                await self.mail.tell_of_failures(team)
        await self.teammates.apply_all()
        await self.teammates.look()
        await self.responder.look()
        await share_limits(self._deps.setup.base().meter, self._deps.state, self.roster.session, self._deps.since)
        await self.remote_events.look()
        self.far_copies.ring()

    async def apply_answers(self, member: Member) -> None:
        await self.teammates.apply_answers(member)

    def finished(self, agent: AgentId, task: Task) -> None:
        self.teammates.finished(agent, task)

    def set_aside(self, agent: AgentId, why: str) -> None:
        """A letter was set aside. Senders and leads learn that from the store; this is for the person."""
        member = self.roster.member_of(agent)
        self.roster.warn(agent, f"A letter for {member.name if member else agent} was set aside: {why}.")
        self.supervisor.launch(self._tell_of_failures)

    async def _tell_of_failures(self) -> None:
        try:
            for team in sorted(self.roster.names):
                await self.mail.tell_of_failures(team)
        except StoreError as error:
            self._services.agents.log(f"that a letter was set aside could not be told: {error}")

    # --- rest

    async def all_rest(self) -> bool:
        """Whether no teammate that is led here has anything left to do. If one has, waits for news first."""
        for name in self.roster.led_here():
            if not await self.rests(name):
                return False
            await self.mail.tell_of_failures(name)  # also about what another process could not deliver
            await self.mail.tell_of_rounds(name)
            if self.code_mail is not None and name in self.code_mail.teams:
                continue  # code reads its mail when it wants to
            await self.tables.mail.release_reports(name)  # they still wait if one who was at work cannot go on
            if (await self.tables.teams.unrest(name)).lead and (lead := self.roster.lead_of(name)) is not None:
                self.supervisor.ring(lead.agent)  # it has not heard its bell yet
                return False
        return True

    async def rests(self, name: str) -> bool:
        """Like `all_rest`, for one team."""
        if await self._is_busy(name):
            with anyio.move_on_after(LOOK):  # news may have come while the store was read
                await self.roster.news()
            return False
        able = [Actor(m.agent, m.name) for m in self.roster.mates(name) if not self.teammates.plans(m.agent)]
        if await self.board.table.has_claimable(name, able):
            with anyio.move_on_after(STILL) as scope:
                await self.roster.news()
            return scope.cancelled_caught
        return not await self._is_busy(name)  # somebody may have claimed a task before the look at the tasks

    async def _is_busy(self, name: str) -> bool:
        """Also by our copy, which shows a member as idle or gone only when all that follows from it is done."""
        unrun = await self._unrun(name)
        idle = all(m.state == "idle" or m.name in unrun for m in self.roster.mates(name))
        return not idle or (await self.tables.teams.unrest(name, without=unrun)).mates

    async def _unrun(self, name: str) -> set[str]:
        """Members that nobody runs, for a reason that somebody was told."""
        mates, teammates = self.roster.mates(name), self.teammates
        return {m.name for m in mates if m.agent in teammates.dropped or await teammates.held_up(m)}

    async def open_work(self) -> list[OpenWork]:
        """Tasks that nobody has completed, and requests that the lead has not answered."""
        return await find_open(self.roster, self.board.table, self.requests)

    async def ask_about_open_work(self) -> bool:
        """Tell the lead of open tasks and requests, once; False if there are none, or if it was told before."""
        if self._asked or not (found := await self.open_work()):
            return False
        self._asked = True
        return await ask_lead(self.supervisor.main, self.roster, self.mail, found)

    async def close(self) -> None:
        await self.teammates.park_all()
        await self.far_copies.write()
        await self.mirrors.catch_up()
        await self.wakeups.leave()


def _last_words(path: Path) -> str:
    said = ""
    if path.is_file():
        for _, line in transcripts.read(path):
            said = line.event.text if isinstance(line.event, TurnEnded) else said
    return said
