"""Teams of coding agents, on any model. The names below are the library; everything is imported when first used."""

__version__ = "0.1.0.dev0"

TYPE_CHECKING = False  # checkers know this name; importing `typing` for it would cost more than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from teamwright.api import session
    from teamwright.core.data.definition import AgentDefinition
    from teamwright.core.data.event import Record
    from teamwright.core.errors import ModelError, TeamwrightError, ToolError, UsageError
    from teamwright.core.permissions.consent import Allow, Deny, Question
    from teamwright.core.ports import Outcome, ToolContext
    from teamwright.models.scripted import ScriptedModel, call, thinking
    from teamwright.runtime.agents.agent import current_agent, current_teammate
    from teamwright.runtime.session import Session
    from teamwright.runtime.teams.team import LedTeam
    from teamwright.tools.function import tool

_PLACES = {
    "AgentDefinition": "teamwright.core.data.definition",
    "session": "teamwright.api",
    "Session": "teamwright.runtime.session",
    "LedTeam": "teamwright.runtime.teams.team",
    "tool": "teamwright.tools.function",
    "ToolContext": "teamwright.core.ports",
    "Outcome": "teamwright.core.ports",
    "Allow": "teamwright.core.permissions.consent",
    "Deny": "teamwright.core.permissions.consent",
    "Question": "teamwright.core.permissions.consent",
    "Record": "teamwright.core.data.event",
    "TeamwrightError": "teamwright.core.errors",
    "ModelError": "teamwright.core.errors",
    "ToolError": "teamwright.core.errors",
    "UsageError": "teamwright.core.errors",
    "ScriptedModel": "teamwright.models.scripted",
    "call": "teamwright.models.scripted",
    "thinking": "teamwright.models.scripted",
    "current_agent": "teamwright.runtime.agents.agent",
    "current_teammate": "teamwright.runtime.agents.agent",
}
__all__ = [
    "AgentDefinition",
    "Allow",
    "Deny",
    "LedTeam",
    "ModelError",
    "Outcome",
    "Question",
    "Record",
    "ScriptedModel",
    "Session",
    "TeamwrightError",
    "ToolContext",
    "ToolError",
    "UsageError",
    "call",
    "current_agent",
    "current_teammate",
    "session",
    "thinking",
    "tool",
]


def __getattr__(name: str) -> "Any":
    if name not in _PLACES:
        raise AttributeError(f"module 'teamwright' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 -- `teamwright --version` does not need it

    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value
