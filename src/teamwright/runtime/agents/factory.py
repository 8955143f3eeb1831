"""Makes agents from what the agents of a session share."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from teamwright import __version__
from teamwright.core.data.conversation.history import History, fold
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import AgentStarted, Durable, ModeChanged, Resumed, ToolEnded
from teamwright.core.data.message import ToolCall, ToolSpec
from teamwright.core.errors import SessionMissing
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.permissions.consent import Decision
from teamwright.core.policies.budget import Limits
from teamwright.core.ports import Keeper, Model
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.agents.compactor import AgentCompactor, Facts, Windows
from teamwright.runtime.agents.limits.meter import MeteredModel
from teamwright.runtime.agents.spec import AgentSpec, RenderedPrompt, started
from teamwright.runtime.bus import Bus
from teamwright.runtime.extensions.hook_points import HookPoints
from teamwright.runtime.extensions.hook_services import CompactHooks
from teamwright.runtime.services import Services, SessionTurn
from teamwright.runtime.trouble import Trouble
from teamwright.store.files import prompts, transcripts
from teamwright.store.files.paths import Home, SessionFiles
from teamwright.store.files.transcripts import Transcript, Transcripts
from teamwright.store.tables.state import StateStore


class AgentFactory(Struct, kw_only=True):
    services: Services  # what its agents reach through their tools
    session: SessionId
    files: SessionFiles
    home: Home  # where sessions' files are
    bus: Bus
    state: StateStore
    model: Model
    gate: Callable[[AgentId, ToolCall], Awaitable[Decision]]
    slots: anyio.Semaphore  # how many may run at once
    now: Callable[[], int]
    log: Callable[[str], None]
    debug: Callable[[str], None] | None
    trouble: Trouble
    windows: Windows
    letter_room: Callable[[str], int]
    facts: Facts
    fallback: str | None = None
    around: HookPoints | None = None  # people's hooks
    keeper: Keeper | None = None
    rendered: dict[object, RenderedPrompt] = {}
    transcripts: Transcripts = Transcript
    # fetches a transcript that another machine continued
    fetch: Callable[[AgentId, SessionFiles], Awaitable[None]] | None = None
    lodgers: dict[AgentId, SessionFiles] = {}  # agents whose transcripts belong to another session

    def make(self, spec: AgentSpec, history: History, transcript: Transcript) -> Agent:
        """Make an agent on an open transcript; its prompt is still to be rendered."""
        for places in (self.bus.first, self.bus.agents):
            places.setdefault(spec.id, transcript.lines)  # lines from before anybody could watch
        return Agent(spec, history, transcript, self)

    def seat(self, agent: Agent, spec: AgentSpec, transcript: Transcript) -> SessionTurn:
        """What its turns run with."""
        hooks = None if self.around is None else CompactHooks(self.around, agent)
        return SessionTurn(
            agent=agent.id,
            history=agent.history,
            model=agent,
            tools=spec.toolset.tools,
            inbox=agent.inbox,
            gate=agent,
            meter=agent.meter,
            letter_room=self.letter_room(spec.model),
            desk=agent.desk,
            emit=agent.emit,
            request=agent.request,
            sync=transcript.sync,
            around=self.around,
            keeper=self.keeper,
            # a teammate goes on by itself after a kill: a failed sync must not take the line that says a call began
            started=transcript.sync if spec.team else transcript.started,
            compactor=AgentCompactor(agent, self.windows, self.facts, hooks),
            session=self.services,
        )

    async def settle(self, agent: AgentId, history: History) -> list[ToolEnded]:
        if not history.calls:
            return history.unfinished(crashed=False)
        return await self.services.outcomes.at_interrupt(agent, history)

    def metered(self, spec: AgentSpec, history: History, *, turns: bool) -> MeteredModel:
        return MeteredModel(
            model=self.model,
            ledger=self.state,
            meter=spec.meter,
            session=self.session,
            agent=spec.id,
            turns=turns,
            tokens=history.tokens,
        )

    def files_of(self, agent: AgentId) -> SessionFiles:
        return self.lodgers.get(agent, self.files)

    def begin(
        self,
        spec: AgentSpec,
        prompt: RenderedPrompt,
        reason: str = "start",
        history: History | None = None,
        transcript: Transcript | None = None,
    ) -> Agent:
        """Begin a new agent with a transcript of its own; a fork brings the history that it branches off from.

        `transcript` and its history are given for an agent that was killed before it did anything. It begins again
        after its first line, if that still names the right directory.
        """
        first = history.started if transcript is not None and history is not None else None
        transcript = transcript or self.transcripts.create(self.files_of(spec.id).agent(spec.id))
        agent = self.make(spec, history or History(), transcript)
        if first is None or first.cwd != str(spec.desk.cwd):
            agent.emit(started(spec, self.session, self._where() if spec.team else ""))
        agent.render(prompt, spec.model, reason, spec.effort)
        if spec.mode is not None:
            agent.emit(ModeChanged(spec.mode))
        return agent

    def resume(self, spec: AgentSpec, history: History, transcript: Transcript) -> Agent:
        """Resume an agent on the transcript that `reopen` gave, with the prompt that it had."""
        assert history.rendered is not None
        agent = self.make(spec, history, transcript)
        agent.prompt = self.stored_prompt(history.rendered.prompt, spec.id)
        agent.left = bool(history.open_calls)
        agent.rest()
        return agent

    async def reopen(self, id: AgentId, *, goes_on: bool = False) -> tuple[Transcript, History]:
        """Open the transcript of an agent that has ended, here or in another process, to continue it.

        The store knows more than the transcript about calls that were in flight when a process was killed. With
        `goes_on`, its next turn begins with those that never began, if this machine has run since it asked for them:
        on another one they would mean other files, and a power cut may have taken the line that says that one began.
        """
        if self.fetch is not None:
            await self.fetch(id, self.files_of(id))
        path = self.files_of(id).agent(id)
        if not path.is_file():
            raise SessionMissing(f"the transcript of agent {id} is gone")
        transcript, events, torn = self.transcripts.open(path)
        try:
            history = self._fold(events)
        except BaseException:
            transcript.close()
            raise
        where = self._where() if goes_on else ""
        goes_on = history.replied_where == where != ""
        resumed = Resumed(__version__, torn, where)
        transcript.append(resumed, self.now())
        history.apply(resumed)
        try:
            owed = await self.services.left.after_crash(id, history, goes_on=goes_on) if history.open_calls else ()
            for ended in owed:
                transcript.append(ended, self.now())
                history.apply(ended)
        except BaseException:
            transcript.close()
            raise
        return transcript, history

    def _where(self) -> str:
        """Where a teammate's process runs, as in `AgentStarted`."""
        from teamwright.host.process.boot import run_of_machine  # noqa: PLC0415  # no other agent goes on by itself

        return run_of_machine(self.home.root)

    def _fold(self, events: Sequence[Durable]) -> History:
        """Fold events into a history. A fork's begins with its parent's history up to the branch."""
        first = next(iter(events), None)
        if not isinstance(first, AgentStarted) or first.source is None:
            return fold(events)
        source = first.source
        path = self.files.transcript if source.agent == self.session else self.files.agent(source.agent)
        if not path.is_file():
            raise SessionMissing(f"the transcript of agent {source.agent}, which it was forked from, is gone")
        lines = itertools.takewhile(lambda line: line[0] <= source.line, transcripts.read(path))
        before = self._fold([line.event for _, line in lines])
        return fold(events, before.branch(before.messages, before.calls.values()))

    def prompt(self, key: object, system: Callable[[], tuple[str, ...]], specs: tuple[ToolSpec, ...]) -> RenderedPrompt:
        """Render once for each key: agents with the same key share the objects, and so the encoded bytes."""
        if key not in self.rendered:
            # an engine has the prompt before any line that names it, so no sync is needed
            text, alone = system(), self.fetch is None
            hash = prompts.put(self.files.prompts, text, specs, synced=alone)
            self.rendered[key] = RenderedPrompt(hash, text, specs)
        return self.rendered[key]

    def stored_prompt(self, hash: str, agent: AgentId | None = None) -> RenderedPrompt:
        if hash not in self.rendered:
            files = self.files_of(agent) if agent else self.files
            system, tools = prompts.get(files.prompts, hash)
            self.rendered[hash] = RenderedPrompt(hash, system, tools)
        return self.rendered[hash]

    def output(self, job: str) -> Path:
        return self.files.jobs / f"{job}.output"


def own_limits(definition: AgentDefinition) -> Limits:
    return Limits(turns=definition.max_turns)
