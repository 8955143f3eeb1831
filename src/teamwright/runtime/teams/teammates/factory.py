"""Makes the agents of teammates, new or resumed from their transcripts."""

from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from teamwright.core.data.conversation.history import History
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import ModeChanged
from teamwright.core.data.team import Member
from teamwright.core.errors import AgentLost, DiskError, SessionMissing, StoreError, ToolError
from teamwright.core.ids import AgentId
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.factory import AgentFactory, own_limits
from teamwright.runtime.agents.prompt import Seat
from teamwright.runtime.agents.spec import AgentSpec
from teamwright.runtime.agents.sub_agents import Served, SpawnDeps, child_desk
from teamwright.runtime.moving import move_in, worktree_words
from teamwright.runtime.teams.deps import TeammateSetup
from teamwright.runtime.teams.rooms import TeammateRoom
from teamwright.runtime.teams.roster import Roster
from teamwright.store.files.transcripts import Transcript

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree


class TeammateFactory:
    def __init__(
        self,
        agents: AgentFactory,
        spawning: SpawnDeps,
        setup: TeammateSetup,
        roster: Roster,
        room: TeammateRoom | None = None,
    ) -> None:
        """`room`: on a worker, where each takeover has a clone of its own. Elsewhere a resumed one begins the calls
        that an earlier process did not begin."""
        self._agents, self._spawning, self._setup, self._roster, self._room = agents, spawning, setup, roster, room

    @property
    def root(self) -> Path:
        """The directory that worktrees are made from."""
        return self._setup.base().desk.roots[0]

    def definition(self, member: Member) -> AgentDefinition:
        definition = next((d for d in self._spawning.kinds().values() if d.name == member.kind), None)
        if definition is None:
            raise ToolError(self._spawning.absence(member.kind))
        return definition

    async def make(self, member: Member, tree: "Worktree | None") -> Agent:
        definition = self.definition(member)
        gear = await self._spawning.equip(definition, member.agent, self._lead(member))
        try:
            agent = await self._make(member, definition, tree, gear.tools if gear else None)
        except BaseException:
            if gear is not None:
                with anyio.CancelScope(shield=True):
                    await gear.close()
            raise
        agent.gear = gear
        return agent

    async def _make(
        self, member: Member, definition: AgentDefinition, tree: "Worktree | None", served: Served
    ) -> Agent:
        spec = self._spec(member, definition, tree, served)
        path = self._agents.files_of(member.agent).agent(member.agent)
        moved = worktree_words(tree, self.root) if tree else self._room.words if self._room else ""
        if not path.is_file():
            return self._begin(spec, member, definition, moved)
        found = await self._resume(spec, member)
        return found if isinstance(found, Agent) else self._begin(spec, member, definition, moved, *found)

    def _spec(self, member: Member, definition: AgentDefinition, tree: "Worktree | None", served: Served) -> AgentSpec:
        base = self._setup.base()
        kit = self._setup.toolset(definition, served)
        cwd = self._setup.find_cwd(member.cwd) or base.desk.cwd  # missing if it began on another machine
        desk = child_desk(base.desk, cwd, member.agent, member.name)
        desk.env |= {"TEAMWRIGHT_TEAM": member.team}
        if tree is not None:
            move_in(desk, tree)
        return AgentSpec(
            id=member.agent,
            name=member.name,
            kind=member.kind,
            model=member.model,
            effort=member.effort,
            toolset=kit,
            desk=desk,
            mode="plan" if member.plan_mode_required else member.mode,
            meter=base.meter.child(own_limits(definition)),
            parent=self._lead(member),
            depth=1,
            description=member.description,
            worktree=member.worktree,
            team=member.team,
            approver="lead",
        )

    def _begin(
        self,
        spec: AgentSpec,
        member: Member,
        definition: AgentDefinition,
        moved: str,
        transcript: Transcript | None = None,
        history: History | None = None,
    ) -> Agent:
        """`moved` tells of its worktree or room, if it has one."""
        kit, cwd = spec.toolset, spec.desk.cwd

        def system() -> tuple[str, ...]:
            seat = Seat(cwd, member.model, spec.mode or "default", kit.specs, here=moved)
            return self._setup.system(definition, member, seat)

        prompt = self._agents.prompt((id(kit), member.model, cwd, member.agent), system, kit.specs)
        agent = self._agents.begin(spec, prompt, history=history, transcript=transcript)
        agent.rest()
        return agent

    async def _resume(self, spec: AgentSpec, member: Member) -> Agent | tuple[Transcript, History]:
        """Resume from the transcript. Returns that as read if the agent was killed before it could do anything."""
        try:
            transcript, history = await self._agents.reopen(member.agent, goes_on=self._room is None)
        except DiskError:
            raise
        except (SessionMissing, StoreError) as error:
            raise AgentLost(f"{member.address} cannot be resumed: {error}") from None
        if history.rendered is None:  # killed between its first line and the next
            return transcript, history
        spec.desk.seen = dict(history.seen)
        spec.desk.cwd = self._setup.find_cwd(history.cwd) or spec.desk.cwd
        mode = None if history.mode == "bubble" else history.mode or spec.mode
        untold = history.mode is None and mode is not None  # killed before the line that says its mode
        agent = self._agents.resume(replace(spec, mode=mode), history, transcript)
        if untold and mode is not None:
            agent.emit(ModeChanged(mode))
            agent.rest()
        return agent

    def _lead(self, member: Member) -> AgentId | None:
        lead = self._roster.lead_of(member.team)
        return lead.agent if lead else None
