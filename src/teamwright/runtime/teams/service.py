"""Everything that makes teams work in one process, and what is done with them at its start and at its end."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec import Struct

from teamwright.core.data.event import Warned
from teamwright.core.data.team import Member, Refused, Team, TeamRequest, new_request_id
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.core.policies.spawn import Ask, Plan
from teamwright.core.ports import ToolContext
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.jobs.jobs import Job
from teamwright.runtime.teams.factory import TeammateFactory
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.teams.remote_events import RemoteEvents
from teamwright.runtime.teams.requests import TeamRequests
from teamwright.runtime.teams.roster import Teams
from teamwright.runtime.teams.tasks import TaskBoard
from teamwright.runtime.unbroken import unbroken
from teamwright.store.tables.teams import call_key

LOOK = 1.0  # seconds after which a team that works is looked at again
STILL = 10.0  # seconds without any news after which tasks that nobody takes hold up the end no longer


class Teamwork(Struct, frozen=True):
    teams: Teams
    post: TeamMail
    handshakes: TeamRequests
    recruiter: TeammateFactory
    board: TaskBoard
    follower: RemoteEvents
    leave: Callable[[], Awaitable[None]]  # this process is known no more
    spawn: Callable[[Ask, ToolContext], Awaitable[tuple[Job | Member, Plan]]]  # as the Agent tool does it
    settle: Callable[[Team, Sequence[Member]], Awaitable[None]]  # what another session's process left of a team

    # --- what agents do

    async def create(self, agent: Agent, name: str, description: str, kind: str, call: CallId) -> Team:
        if agent.parent is not None:
            raise ToolError("Only the main agent leads teams: ask it.")
        if not name.strip():
            raise ToolError("team_name is empty: give the team a name.")
        return await unbroken(self._create(agent, name, description, kind, call))

    async def _create(self, agent: Agent, name: str, description: str, kind: str, call: CallId) -> Team:
        team = await self.teams.create(agent, name, description, kind, call)
        await self.board.adopt(self.teams.here.session, team.name)
        return team

    async def delete(self, agent: Agent, team: str | None = None, call: CallId | None = None) -> str:
        """This team or the current one, once nobody in it works any more; those that are idle are ended first."""
        lead = self.teams.lead_of(team) if team else self.teams.member_of(agent.id)
        if lead is None:
            raise ToolError("There is no team to delete.")
        if not lead.is_lead or lead.agent != agent.id:
            raise ToolError(f"Only the lead of {lead.team} can delete it.")
        await self.teams.refresh(lead.team)
        others = [m for m in self.teams.members(lead.team) if not m.is_lead]
        if busy := [m.name for m in others if m.state != "idle"]:
            raise ToolError(f"These still work: {', '.join(busy)}. Ask them to shut down first, then delete the team.")
        for member in others:
            await self.recruiter.stop(member)
        key = call_key(agent.id, call) if call else None
        await unbroken(self._drop(lead.team, key))
        return lead.team

    async def _drop(self, team: str, key: str | None) -> None:
        await self.teams.delete(team, key)
        await self.board.drop(team)

    async def stop(self, agent: Agent, address: str) -> Member:
        """A teammate, by force."""
        name, _, team = address.partition("@")
        lead = self.teams.member_of(agent.id)
        if lead is None or not lead.is_lead or (member := self.teams.find(team or lead.team, name)) is None:
            raise ToolError(f"There is no teammate {address!r} that you lead.")
        if member.is_lead or member.state == "shutdown":
            raise ToolError(f"{address} has shut down already." if not member.is_lead else "The lead ends by itself.")
        await self.recruiter.stop(member)
        return member

    def mates(self) -> list[Member]:
        """Of all teams that are led here, wherever they run."""
        return [m for name in self.teams.led_here() for m in self.teams.members(name) if not m.is_lead]

    async def interrupt(self, member: Member) -> bool:
        """End the turn of a teammate that another process runs. False if none does."""
        holder = await self.teams.tables.processes.holder(member.agent)
        if holder is None or (lead := self.teams.lead_of(member.team)) is None:
            return False
        asked = TeamRequest(new_request_id("interrupt"), "interrupt", lead.team, lead.agent, member.agent, {})
        if isinstance(await self.teams.tables.requests.open(asked), Refused):
            return False
        self.teams.here.ring(holder.bell)
        return True

    async def recall(self, agent: AgentId) -> list[str]:
        """What an agent must still know after its conversation was shortened, from the store."""
        lines = self.teams.describe(agent)
        listing = await self.board.listing(agent)
        mine = self.teams.member_of(agent)
        name = mine.name if mine else ""
        for task in listing.tasks:
            if task.status != "completed" and (task.agent in (agent, None) or name == "team-lead" or not mine):
                owner = f", {task.owner}'s" if task.owner else ""
                lines.append(f"Task #{task.id} ({task.status}{owner}): {task.subject}")
        requests = self.teams.tables.requests
        for request in await requests.open_for(agent) if mine else ():
            lines.append(f"Waits for your answer: {request.kind} request {request.id}")
        for request in await requests.asked_by(agent) if mine else ():
            lines.append(f"You wait for the answer to your {request.kind} request {request.id}")
        return lines[:60]

    # --- the start and the end of this process

    async def resume(self, main: Agent, team: str | None) -> None:
        """Lead again what this session led, and `team` if one is asked for; its members go on where they were."""
        names = [t.name for t in await self.teams.tables.teams.teams_of(main.id) if t.lead == main.id]
        for name in reversed(names):  # the current one last
            await self._take(name, main, ours=True)
        if team is not None:
            await self._take(team, main, ours=False)
        for note in await self.teams.tables.mirror.rebuild() if names or team else ():
            self.teams.here.log(f"teams/{note} is not a team's directory")
        if names or team:  # questions may wait since before
            self.teams.supervisor.launch(self.teams.look)

    async def _take(self, name: str, main: Agent, *, ours: bool) -> None:
        if (before := await self.teams.tables.teams.team(name)) is not None and not self._is_led(before):
            await self.settle(before, await self.teams.tables.teams.members(name))
        taken = await self.teams.lead_again(name, main)
        if isinstance(taken, Refused):
            if not ours:
                raise ToolError(taken.reason)
            self._warn(main, f"{taken.reason} This session does not lead it now.")
            return
        for note in await self.board.rebuild(name):
            self._warn(main, note)
        mates = [m for m in self.teams.members(name) if not m.is_lead]
        for member in mates:
            self.follower.meet(member)
        for member in mates:
            await self._bring_back(member)
        if (lead := self.teams.lead_of(name)) is not None:
            await self.handshakes.finish(lead)
        await self.post.tell_of_failures(name)

    def _is_led(self, team: Team) -> bool:
        return team.process is not None and self.teams.tables.processes.alive(team.process)

    async def _bring_back(self, member: Member) -> None:
        if (process := await self.teams.tables.processes.holder(member.agent)) is not None:
            await self.recruiter.adopt(member, process)
        else:
            await self.recruiter.revive(member)

    def _warn(self, main: Agent, words: str) -> None:
        self.teams.here.tell(main.id, Warned(words))

    async def settled(self) -> bool:
        """Has every teammate that is led here nothing left to do? Waits for news if not."""
        for name in self.teams.led_here():
            if not await self.rests(name):
                return False
            await self.post.tell_of_failures(name)  # also of what another process could not deliver
            if (await self.teams.tables.teams.unrest(name)).lead and (lead := self.teams.lead_of(name)) is not None:
                self.teams.supervisor.ring(lead.agent)  # the bell for it has not been heard yet
                return False
        return True

    async def rests(self, name: str) -> bool:
        """The same of one team."""
        if await self._is_busy(name):
            with anyio.move_on_after(LOOK):  # news that came while the store was read
                await self.teams.news()
            return False
        if len(self.teams.members(name)) > 1 and await self.board.table.has_claimable(name):
            with anyio.move_on_after(STILL) as scope:
                await self.teams.news()
            return scope.cancelled_caught
        return not await self._is_busy(name)  # one may have claimed a task before it was looked for

    async def _is_busy(self, name: str) -> bool:
        """By our copy too: that shows a member as idle or gone only when all that follows from it is done."""
        dropped = {m.name for m in self.teams.members(name) if m.agent in self.recruiter.dropped}
        idle = all(m.is_lead or m.state == "idle" or m.name in dropped for m in self.teams.members(name))
        return not idle or (await self.teams.tables.teams.unrest(name, without=dropped)).mates

    async def close(self) -> None:
        await self.recruiter.park_all()
        await self.teams.catch_up()
        await self.leave()
