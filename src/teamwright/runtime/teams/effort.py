"""Effort of team members besides talking: work and effects, without which their team soon falls silent."""

from teamwright.core.data.event import Event, ToolEnded
from teamwright.core.data.message import ToolCall
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.tool_traits import ToolTraits, told_by


class Effort:
    """Of one agent; hears its events."""

    def __init__(self, mail: TeamMail, agent: Agent) -> None:
        self._mail, self._agent = mail, agent
        self._seen: set[int] = set()  # calls that it has made: the same once more brings nothing about

    def note(self, event: Event) -> None:
        """A tool that was used for more than talking: whoever answers it now does not answer idle words."""
        agent = self._agent
        if not isinstance(event, ToolEnded) or event.is_error or event.call_id not in agent.history.used:
            return
        calls = (c for m in reversed(agent.history.messages) if m.role == "assistant" for c in m.calls)
        if (call := next((c for c in calls if c.id == event.call_id), None)) is None:
            return
        traits = told_by(agent.tools.get(call.name))
        if not (traits and traits.talks):
            self._mail.worked(agent.id, effect=self._has_effect(call, traits, event))

    def _has_effect(self, call: ToolCall, traits: ToolTraits | None, event: ToolEnded) -> bool:
        """Of tasks the store itself knows. A command that only looks is new the first time, and no more."""
        if traits is not None and traits.delegates:
            return bool((event.data or {}).get("totalToolUseCount"))
        if traits is not None and (traits.effects != "local" or traits.own):
            return False
        words = hash((call.name, bytes(call.input)))
        fresh = words not in self._seen
        self._seen.add(words)
        return fresh
