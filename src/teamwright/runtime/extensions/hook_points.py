"""Fires hooks in the life of an agent: its start, prompts, calls and stops."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.conversation.history import History
from teamwright.core.data.event import TurnEnded, Warned
from teamwright.core.data.extensions.hook import NOTHING, Fired, HookEvent
from teamwright.core.data.letter import Letter, Prompt
from teamwright.core.data.message import Text, ToolCall, words_of
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import Question
from teamwright.core.ports import Fate, Outcome, Received
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.services import Services
from teamwright.runtime.tool_traits import ToolTraits, told_by

if TYPE_CHECKING:
    from teamwright.runtime.extensions.hooks import Hooks

MOST_ROUNDS = 10  # times that hooks may send an agent back to work in one turn


class HookPoints(Struct, eq=False):
    """One per session. Without hooks a point costs one look; the first hook makes `hooks`."""

    _services: Services
    _home: Path  # where hooks run if no living agent is concerned
    hooks: "Hooks | None" = None
    _met: set[AgentId] = set()
    _refused: set[AgentId] = set()
    _held: dict[tuple[AgentId, CallId], Fired] = {}  # what hooks said before a call, for its result
    _later: dict[AgentId, list[str]] = {}  # what hooks that nobody waited for said, for the next result or prompt

    def _agent(self, id: AgentId) -> Agent | None:
        return self._services.supervisor.agent(id)

    def use(self) -> "Hooks":
        if self.hooks is None:
            self.hooks = self._services.extensions.make_hooks()
            self.hooks.beside = self._run_beside
        return self.hooks

    def _run_beside(self, agent: AgentId, run: Callable[[], Awaitable[Fired]]) -> None:
        """Run a hook that nobody waits for, as long as the session lives. Its decision comes too late to count."""

        async def work() -> None:
            fired = await run()
            for words in fired.messages:
                self._services.tell(agent, Warned(words))
            self._later.setdefault(agent, []).extend(fired.context)

        self._services.supervisor.launch(work)

    def has(self, event: HookEvent) -> bool:
        """Whether a hook may want this event."""
        return self.hooks is not None and self.hooks.has(event)

    async def fire(
        self, event: HookEvent, agent: AgentId, *, subject: str = "", cwd: Path | None = None, **fields: Any
    ) -> Fired:
        """Run the hooks, and show the person what they report."""
        if self.hooks is None or not self.hooks.has(event, agent):
            return NOTHING
        found = self._agent(agent)
        kind = "" if found is None or found.parent is None else found.kind
        fired = await self.hooks.fire(
            event,
            subject=subject,
            agent=agent,
            agent_type=kind,
            cwd=cwd or (found.desk.cwd if found else self._home),
            mode=self._services.mode_of(agent),
            **fields,
        )
        for words in fired.messages:
            self._services.tell(agent, Warned(words))
        return fired

    # --- prompts

    async def receive(self, agent: AgentId, letters: Sequence[Letter]) -> Received:
        first = agent not in self._met
        self._met.add(agent)
        if self.hooks is None:
            return Received(letters)
        begun = await self._begin(agent) if first else NOTHING
        await self._look_at_settings(agent)
        if (no := begun.stop or begun.blocked) is not None:
            self.ended_by_hook(agent)
            return Received((), refused=f"A hook refused it: {no}")
        kept, context, refused = list[Letter](), [*self._later.pop(agent, ()), *begun.context], list[str]()
        for letter in letters:
            fired = await self._fire_prompt(agent, letter)
            if (no := fired.stop or fired.blocked) is None:
                kept.append(letter)
                context += fired.context
            else:
                refused.append(no)
        if not refused:
            return Received(kept, tuple(context))
        if not kept:
            self.ended_by_hook(agent)
        words = f"A hook refused the prompt: {' '.join(refused)}"
        self._services.tell(agent, Warned(words))
        return Received(kept, tuple(context), words)

    async def _fire_prompt(self, agent: AgentId, letter: Letter) -> Fired:
        if letter.sender.kind != "person" or not isinstance(letter.body, Prompt):
            return NOTHING
        words = words_of(letter.body.content)
        return await self.fire("UserPromptSubmit", agent, prompt=words)

    async def _look_at_settings(self, agent: AgentId) -> None:
        """Report changed settings files before each prompt of the main agent. It is too late to refuse: refusals go to
        the person."""
        found = self._agent(agent)
        hooks = self.hooks
        if hooks is None or hooks.config is None or found is None or found.parent is not None:
            return
        for source, path in hooks.config() if hooks.has("ConfigChange") else ():
            fired = await self.fire("ConfigChange", agent, subject=source, source=source, file_path=path)
            if fired.blocked:
                self._services.tell(agent, Warned(fired.blocked))

    async def _begin(self, agent: AgentId) -> Fired:
        """For an agent that continues earlier work, only the session's hook fires."""
        found = self._agent(agent)
        if found is None:
            return NOTHING
        before = bool(found.history.letters)
        if found.parent is None:
            return await self.start(agent, "resume" if before else "startup")
        return NOTHING if before else await self.fire("SubagentStart", agent, subject=found.kind)

    async def start(self, agent: AgentId, source: str) -> Fired:
        """Fire SessionStart. A hook cannot block a session: its words go to the person."""
        fired = await self.fire("SessionStart", agent, subject=source, source=source)
        if fired.blocked:
            self._services.tell(agent, Warned(fired.blocked))
        return replace(fired, blocked=None)

    # --- calls

    async def before(self, agent: AgentId, call: ToolCall) -> Fired:
        if self.hooks is None or not self.hooks.has("PreToolUse", agent):
            return NOTHING
        return self._hold(
            agent, call, await self.fire("PreToolUse", agent, subject=call.name, **_of_call(call, call.args))
        )

    def _hold(self, agent: AgentId, call: ToolCall, fired: Fired) -> Fired:
        """Keep what was said before a call for its result."""
        if fired.context or fired.stop is not None:
            self._held[agent, call.id] = fired
        return fired

    async def requested(self, agent: AgentId, call: ToolCall, args: Mapping[str, Any]) -> Fired:
        return await self.fire("PermissionRequest", agent, subject=call.name, **_of_call(call, args))

    def waits(self, question: Question) -> None:
        """Tell Notification hooks that a person is asked. They do not delay the question."""
        if self.hooks is None or not self.hooks.has("Notification", question.agent):
            return
        kind, words = "permission_prompt", f"{question.agent_name} asks about {question.tool}: {question.reason}"

        async def notify() -> None:
            await self.fire("Notification", question.agent, subject=kind, message=words, notification_type=kind)

        self._services.supervisor.launch(notify)

    async def after(
        self, agent: AgentId, call: ToolCall, args: Mapping[str, Any] | None, outcome: Outcome, fate: Fate
    ) -> Outcome:
        """The result with what hooks add to it, and perhaps the end of the turn."""
        if self.hooks is None and not self._held:
            return outcome
        said = [self._held.pop((agent, call.id), NOTHING)]
        fields = _of_call(call, call.args if args is None else args) if fate != "unfit" else {}
        words = words_of(outcome.content)
        if fate == "denied":
            said.append(await self.fire("PermissionDenied", agent, subject=call.name, reason=words, **fields))
        elif fate == "ran" and outcome.is_error:
            said.append(await self.fire("PostToolUseFailure", agent, subject=call.name, error=words, **fields))
        elif fate == "ran":
            response = _response(self._traits(agent, call.name), outcome)
            said.append(await self.fire("PostToolUse", agent, subject=call.name, tool_response=response, **fields))
        if outcome.cwd and (found := self._agent(agent)):
            said.append(await self.fire("CwdChanged", agent, old_cwd=found.history.cwd, new_cwd=outcome.cwd))
        return self._added(agent, outcome, [*said, Fired(context=tuple(self._later.pop(agent, ())))])

    def _added(self, agent: AgentId, outcome: Outcome, said: Sequence[Fired]) -> Outcome:
        stop = next((fired.stop for fired in said if fired.stop is not None), None)
        if stop is not None:
            self.tell_stop(agent, stop)
        # A block before the call is the result already, so `said[0]` is left out.
        words = [f"A hook objects: {fired.blocked}" for fired in said[1:] if fired.blocked]
        words += chain.from_iterable(fired.context for fired in said)
        if not words and stop is None:
            return outcome
        content = (*outcome.content, *map(Text, words))
        return replace(outcome, content=content, ends_turn=outcome.ends_turn or stop is not None)

    # --- stops

    async def stopping(self, agent: AgentId, text: str, rounds: int) -> str | None:
        found = self._agent(agent)
        if self.hooks is None or found is None:
            return None
        told: dict[str, Any] = {"stop_hook_active": rounds > 0, "last_assistant_message": text}
        supervisor = self._services.supervisor
        if found.parent is None:
            fired = await self.fire("Stop", agent, **told)
        elif supervisor.jobs.unfinished(agent) or _is_teammate(found.history):
            return None  # it only waits for its jobs, or it is a teammate, which goes idle
        else:
            files = self._services.agents.files
            told["agent_transcript_path"] = files.agent(agent)
            fired = await self.fire("SubagentStop", agent, subject=found.kind, **told)
        if fired.stop is not None:
            self.tell_stop(agent, fired.stop)
            return None
        if fired.blocked is None:
            return None
        if rounds >= MOST_ROUNDS:
            self._services.tell(
                agent, Warned(f"Hooks sent {found.name} back to work {rounds} times: it ends all the same.")
            )
            return None
        return fired.blocked

    def tell_stop(self, agent: AgentId, why: str) -> None:
        self._services.tell(agent, Warned(f"A hook ended the turn: {why}"))

    def _traits(self, agent: AgentId, tool: str) -> ToolTraits | None:
        found = self._agent(agent)
        return told_by(found.tools.get(tool)) if found else None

    def ended_by_hook(self, agent: AgentId) -> None:
        """The running turn is about to fail because a hook wants it."""
        self._refused.add(agent)

    async def failed(self, agent: AgentId, end: TurnEnded) -> None:
        if agent in self._refused:  # a hook itself made the turn fail
            self._refused.discard(agent)
            return
        found = self._agent(agent)
        last = found.history.last_words if found else ""
        await self.fire("StopFailure", agent, error=end.error, last_assistant_message=last)


def _is_teammate(history: History) -> bool:
    return history.started is not None and bool(history.started.team)


def _of_call(call: ToolCall, args: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_name": call.name, "tool_input": args, "tool_use_id": call.id}


def _response(tool: ToolTraits | None, outcome: Outcome) -> str | dict[str, Any]:
    """The result as data, with its words under the name that scripts look for."""
    if outcome.data is None:
        return words_of(outcome.content)
    return {tool.output if tool else "content": words_of(outcome.content)} | outcome.data
