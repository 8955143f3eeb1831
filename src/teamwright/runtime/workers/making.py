"""Makes the agent of a remote job on a worker: new, or from the transcript that other workers wrote."""

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from teamwright.core.data.charter import Charter
from teamwright.core.data.conversation.history import History
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.factory import AgentFactory, own_limits
from teamwright.runtime.agents.prompt import Seat
from teamwright.runtime.agents.remains import RemainsOnDisk
from teamwright.runtime.agents.spec import AgentSpec
from teamwright.runtime.agents.sub_agents import SpawnDeps, child_desk
from teamwright.runtime.teams.deps import Base
from teamwright.store.files.transcripts import Transcript

MOVED = (
    "[You continue on another machine, {host}, in {cwd}; before, you were in {was}. You have the files as they were "
    "after your last finished call: branches, commits and changes (what was staged is not staged any more). Ignored "
    "files, stashes, a merge half-way, running programs and everything outside of the repository stayed there. Paths "
    "below {was} are below {cwd} now.]"
)


class JobMaker:
    def __init__(self, charter: Charter, agents: AgentFactory, spawning: SpawnDeps, base: Base, told: str) -> None:
        """`told`: what it is told about the place where it works."""
        self._charter, self._agents, self._spawning, self._base, self._told = charter, agents, spawning, base, told

    async def make(self) -> Agent:
        agents, agent = self._agents, self._charter.agent
        if not agents.files_of(agent).agent(agent).is_file():
            return self._begin()
        jobs = agents.services.supervisor.jobs
        await jobs.settle_below(agent, RemainsOnDisk(agents))  # they ended with the worker before
        transcript, history = await agents.reopen(agent)
        return (self._begin if history.rendered is None else self._go_on)(transcript, history)

    def _begin(self, transcript: Transcript | None = None, history: History | None = None) -> Agent:
        charter, deps = self._charter, self._spawning
        spec = self._spec()
        mode, told, tools = deps.mode(spec.mode), deps.told(charter.definition), spec.toolset.specs
        seat = Seat(spec.desk.cwd, spec.model, mode, tools, told, self._told)
        prompt = self._agents.prompt(charter.agent, partial(deps.system, charter.definition, seat), tools)
        return self._agents.begin(spec, prompt, history=history, transcript=transcript)

    def _go_on(self, transcript: Transcript, history: History) -> Agent:
        """Keeps the prompt that it had, so that its provider's cache stays good."""
        rendered, spec = history.rendered, self._spec()
        assert rendered is not None
        tools = self._agents.stored_prompt(rendered.prompt).tools
        kit = self._spawning.toolset_again(tools, history, self._charter.depth, None)
        spec.desk.seen = dict(history.seen)
        mode = history.mode or spec.mode
        spec = replace(spec, model=rendered.model, effort=rendered.effort, toolset=kit, mode=mode)
        return self._agents.resume(spec, history, transcript)

    def _spec(self) -> AgentSpec:
        charter, base = self._charter, self._base
        return AgentSpec(
            id=charter.agent,
            name=charter.name,
            kind=charter.definition.name,
            model=charter.model,
            effort=charter.effort,
            toolset=self._spawning.toolset(charter.definition, charter.depth, None),
            desk=child_desk(base.desk, base.desk.cwd, charter.agent, charter.name),
            mode=charter.own_mode,
            meter=base.meter.child(own_limits(charter.definition)),
            parent=charter.parent,
            depth=charter.depth,
            description=charter.description,
            call=charter.call,
        )


def moved_words(host: str, cwd: Path, was: str) -> str:
    return MOVED.format(host=host, cwd=cwd, was=was)
