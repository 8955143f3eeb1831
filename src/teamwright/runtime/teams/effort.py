"""Effort of team members besides talking: work and effects, without which their team is soon silenced."""

from teamwright.core.data.event import Event, ToolEnded
from teamwright.core.data.message import ToolCall
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.teams.mail import TeamMail
from teamwright.runtime.tool_traits import ToolTraits, told_by


class Effort:
    """Hears the events of one agent."""

    def __init__(self, mail: TeamMail, agent: Agent) -> None:
        self._mail, self._agent = mail, agent
        self._seen: set[int] = set()  # its calls so far: the same call again has no new effect

    def note(self, event: Event) -> None:
        """Note a call that did more than talk: answers to this agent are no idle chatter then."""
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
        """Whether a call changed something. Stored effects are left out: the store counts them itself. A command counts
        once."""
        if traits is not None and traits.delegates:
            return bool((event.data or {}).get("totalToolUseCount"))
        if traits is not None and (traits.effects != "local" or traits.own):
            return False
        words = hash((call.name, bytes(call.input)))
        fresh = words not in self._seen
        self._seen.add(words)
        return fresh
