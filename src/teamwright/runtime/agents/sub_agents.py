"""Makes sub-agents and forks from a call, and resumes them from their transcripts."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.conversation.fork import MOST_TURNS, directive
from teamwright.core.data.conversation.history import History
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Source
from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import DiskError, ModelError, SessionMissing, StoreError, ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import MODES, Mode, mode_allowed
from teamwright.core.policies.budget import Limits
from teamwright.core.policies.spawn import FORK, Ask, Features
from teamwright.core.ports import Desk, Tool, ToolContext
from teamwright.host.files.paths import is_directory, resolve
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.factory import own_limits
from teamwright.runtime.agents.prompt import Seat
from teamwright.runtime.agents.resources import AgentResources, Equip
from teamwright.runtime.agents.spec import AgentSpec, RenderedPrompt, Toolset
from teamwright.runtime.moving import move_in, worktree_words
from teamwright.runtime.services import Services
from teamwright.store.files.transcripts import Transcript

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree


class AgentRecord(Struct, frozen=True):
    """An agent of this session, living or not."""

    id: AgentId
    name: str
    kind: str
    parent: AgentId
    depth: int
    description: str
    run: int


Served = Mapping[str, Tool] | None  # servers' tools; None: the session's


class SpawnDeps(Struct, frozen=True, kw_only=True):
    """What the composition root gives the spawner."""

    kinds: Callable[[], Mapping[str, AgentDefinition]]  # kinds that may be started now
    refusal: Callable[[str], str]  # why a kind that exists cannot be started; empty if it can
    absence: Callable[[str], str]  # why an agent of a missing kind cannot continue, and what brings the kind back
    toolset: Callable[[AgentDefinition, int, Served], Toolset]  # the tools of a definition at a depth
    toolset_of: Callable[[tuple[ToolSpec, ...], int, Served], Toolset]  # tools of an agent that was rendered before
    mode: Callable[[Mode | None], Mode]  # in effect for an agent with this mode of its own
    system: Callable[[AgentDefinition, Seat], tuple[str, ...]]
    told: Callable[[AgentDefinition], tuple[str, ...]]  # further text: its skills, its memory
    equip: Equip  # resources for as long as it lives
    resolve_model: Callable[[str], str]
    features: Features
    background_after: float | None = None

    def toolset_again(self, tools: tuple[ToolSpec, ...], history: History, depth: int, served: Served) -> Toolset:
        """The tools of an agent that is resumed. Their limits are not part of the rendered prompt."""
        kit, started = self.toolset_of(tools, depth, served), history.started
        if started is None:
            return kit
        return replace(kit, limits=started.limits, may_start=started.may_start, denied=started.denied)


class Birth(Struct, frozen=True):
    """What is known of a new agent before it is made."""

    id: AgentId
    name: str
    call: CallId  # the tool call that starts it
    tree: "Worktree | None"  # its own worktree, if it gets one
    gear: AgentResources | None


class SubAgents:
    """Makes agents, each with its tools, desk, limits and prompt."""

    def __init__(self, services: Services, deps: SpawnDeps) -> None:
        self._services, self._deps = services, deps
        self._agents, self._supervisor = services.agents, services.supervisor

    def make(
        self, ask: Ask, definition: AgentDefinition, parent: Agent, birth: Birth
    ) -> tuple[Agent, AgentRecord, str]:
        own, name, tree, gear = birth.id, birth.name, birth.tree, birth.gear
        model = self.model_for(ask, definition, parent)
        kit = self._deps.toolset(definition, parent.depth + 1, gear.tools if gear else None)
        desk = child_desk(parent.desk, self.cwd_for(ask, parent), own, name)
        if tree is not None:
            move_in(desk, tree)
        spec = AgentSpec(
            id=own,
            name=name,
            kind=definition.name,
            model=model,
            effort=ask.effort or definition.effort or parent.effort,
            toolset=kit,
            desk=desk,
            mode=narrowest(parent.mode if parent.parent else None, definition.permission_mode, ask.mode),
            meter=parent.meter.child(own_limits(definition)),
            parent=parent.id,
            depth=parent.depth + 1,
            description=ask.description,
            call=birth.call,
            worktree=str(tree.path) if tree else "",
        )
        moved = worktree_words(tree, parent.desk.cwd) if tree else ""
        agent = self._agents.begin(spec, self._prompt(definition, spec, moved))
        first = f"{definition.initial_prompt}\n\n{ask.prompt}" if definition.initial_prompt else ask.prompt
        return agent, AgentRecord(own, name, definition.name, parent.id, parent.depth + 1, ask.description, 1), first

    def _prompt(self, definition: AgentDefinition, spec: AgentSpec, moved: str) -> RenderedPrompt:
        """`moved` tells of its worktree, if it has one."""
        told, cwd, mode = self._deps.told(definition), spec.desk.cwd, self._deps.mode(spec.mode)
        seat = Seat(cwd, spec.model, mode, spec.toolset.specs, told, moved)
        # a toolset belongs to one definition, and is never freed
        key = (id(spec.toolset), spec.model, cwd, told, moved, mode)
        return self._agents.prompt(key, partial(self._deps.system, definition, seat), spec.toolset.specs)

    def fork(self, ask: Ask, parent: Agent, ctx: ToolContext, birth: Birth) -> tuple[Agent, AgentRecord, str]:
        """Make a fork. It shares the parent's prompt, tools, model and history objects, which are not encoded again."""
        own, name, tree = birth.id, birth.name, birth.tree
        desk = child_desk(parent.desk, parent.desk.cwd, own, name)
        if tree is not None:
            move_in(desk, tree)
        spec = AgentSpec(
            id=own,
            name=name,
            kind=FORK,
            model=parent.model,
            effort=parent.effort,
            toolset=Toolset(parent.tools, parent.prompt.tools, parent.limits, parent.may_start, parent.denied),
            desk=desk,
            mode=narrowest(parent.mode if parent.parent else None, ask.mode) or "bubble",
            meter=parent.meter.child(Limits(turns=MOST_TURNS)),
            parent=parent.id,
            depth=parent.depth + 1,
            description=ask.description,
            call=birth.call,
            worktree=str(tree.path) if tree else "",
            source=Source(parent.id, parent.replied_at),
        )
        said = ctx.reply.message
        branch = parent.history.branch((*ctx.request.messages, said), said.calls)
        agent = self._agents.begin(spec, parent.prompt, FORK, branch)
        moved = worktree_words(tree, parent.desk.cwd) if tree else ""
        known = AgentRecord(own, name, FORK, parent.id, parent.depth + 1, ask.description, 1)
        return agent, known, directive(ask.prompt, moved=moved)

    def model_for(self, ask: Ask, definition: AgentDefinition, parent: Agent) -> str:
        name = next((n for n in (ask.model, definition.model) if n and n != "inherit"), None)
        try:
            return self._deps.resolve_model(name) if name else parent.model
        except ModelError as error:
            raise ToolError(f"{error} Leave `model` out to use this agent's own.") from None

    def cwd_for(self, ask: Ask, parent: Agent) -> Path:
        if not ask.cwd:
            return parent.desk.cwd
        path = resolve(ask.cwd, parent.desk.cwd)
        if not is_directory(path):
            raise ToolError(f"cwd {ask.cwd}: there is no such directory.")
        if not any(path.is_relative_to(root) for root in parent.desk.roots):
            raise ToolError(f"cwd {ask.cwd} lies outside of the working directories.")
        return path

    async def resume(self, known: AgentRecord) -> "tuple[Agent, Worktree | None]":
        transcript, history = await self._reopen(known)
        main, gear, tree = self._supervisor.main, None, None
        try:
            definition = next((d for d in self._deps.kinds().values() if d.name == known.kind), None)
            desk = child_desk(main.desk, Path(history.cwd), known.id, known.name)
            if history.started is not None and history.started.worktree:
                before = history.started.worktree
                tree = await self._services.worktrees.open_again(main.desk.roots[0], known.id, before)
                move_in(desk, tree)
            desk.seen = dict(history.seen)
            gear = await self._deps.equip(definition, known.id, known.parent)
            spec = self._spec_again(known, definition, history, desk, gear)
            agent = self._agents.resume(spec, history, transcript)
        except BaseException:
            await self.undo(transcript.close, gear, tree)
            raise
        agent.gear = gear
        return agent, tree

    async def undo(
        self, close: Callable[[], None] | None, gear: AgentResources | None, tree: "Worktree | None"
    ) -> None:
        """Leave nothing of an agent that could not be made or resumed; `close` closes its transcript."""
        if close is not None:
            close()
        with anyio.CancelScope(shield=True):
            if gear is not None:
                await gear.close()
            if tree is not None:
                await self._services.worktrees.close(tree)

    async def _reopen(self, known: AgentRecord) -> tuple[Transcript, History]:
        try:
            transcript, history = await self._agents.reopen(known.id)
        except DiskError:
            raise
        except (SessionMissing, StoreError) as error:
            raise ToolError(f"Agent {known.id} cannot be resumed: {error}. Start a new one.") from None
        if history.rendered is None:
            transcript.close()
            raise ToolError(f"Agent {known.id} was killed before it began; start a new one.")
        return transcript, history

    def _spec_again(
        self,
        known: AgentRecord,
        definition: AgentDefinition | None,
        history: History,
        desk: Desk,
        gear: AgentResources | None,
    ) -> AgentSpec:
        """The spec that it was made with, from its transcript and from what is known of its kind now."""
        rendered, main = history.rendered, self._supervisor.main
        assert rendered is not None
        tools = self._agents.stored_prompt(rendered.prompt).tools
        kit = self._deps.toolset_again(tools, history, known.depth, gear.tools if gear else None)
        limits = own_limits(definition) if definition else main.meter.limits
        if known.kind == FORK:
            limits = Limits(turns=MOST_TURNS)
        return AgentSpec(
            id=known.id,
            name=known.name,
            kind=known.kind,
            model=rendered.model,
            effort=rendered.effort,
            toolset=kit,
            desk=desk,
            mode=history.mode,
            parent=known.parent,
            depth=known.depth,
            meter=(self._supervisor.agent(known.parent) or main).meter.child(limits),
        )


def child_desk(parent: Desk, cwd: Path, id: AgentId, name: str) -> Desk:
    """A desk with a copy of the record of read files: what the child reads does not flow back."""
    env = parent.env | {"TEAMWRIGHT_AGENT_ID": id, "TEAMWRIGHT_AGENT_NAME": name}
    return replace(parent, cwd=cwd, seen=dict(parent.seen), env=env)


def narrowest(*modes: Mode | None) -> Mode | None:
    """The narrowest of the given modes; None if none is given."""
    found: Mode | None = None
    for mode in modes:
        if mode in MODES:
            found = mode if found is None else mode_allowed(found, mode)
    return found
