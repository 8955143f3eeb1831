"""Teams of coding agents, on any model. The names below are the library; everything is imported when first used."""

__version__ = "0.2.0"

TYPE_CHECKING = False  # checkers know this name; importing `typing` for it would cost more than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from teamwright.api import SessionOptions, query, query_sync, session
    from teamwright.core.data.code import TreeSaved
    from teamwright.core.data.definition import AgentDefinition
    from teamwright.core.data.event import (
        AgentEnded,
        AgentStarted,
        Answered,
        AsideAnswered,
        Asked,
        Compacted,
        Denied,
        Event,
        FilesRestored,
        JobEnded,
        JobProgressed,
        JobStarted,
        LettersTaken,
        Mended,
        ModeChanged,
        PromptPosted,
        PromptWithdrawn,
        Record,
        Reminded,
        Rendered,
        Replied,
        Resumed,
        Rewound,
        Streamed,
        Suggested,
        TeamChanged,
        ToolEnded,
        ToolProgressed,
        ToolStarted,
        TurnEnded,
        TurnStarted,
        Warned,
    )
    from teamwright.core.data.landing import LandEntry
    from teamwright.core.data.message import (
        Image,
        InputDelta,
        Message,
        Retrying,
        Text,
        TextDelta,
        Thinking,
        ThinkingDelta,
        ToolCall,
        ToolResult,
        Usage,
    )
    from teamwright.core.data.op import (
        AddDirectories,
        AddRules,
        AddTask,
        Answer,
        AskAside,
        ChangeTask,
        Compact,
        Interrupt,
        Op,
        RemoveDirectories,
        RemoveRules,
        Rewind,
        Say,
        SendToBackground,
        SetEffort,
        SetMode,
        SetModel,
        SetServer,
        ShutDown,
        StopAll,
        StopJob,
    )
    from teamwright.core.errors import (
        ModelError,
        NoAnswer,
        SessionBusy,
        SessionMissing,
        SettingsError,
        StoreError,
        TeamwrightError,
        ToolError,
        UsageError,
    )
    from teamwright.core.permissions.consent import Allow, Deny, Question
    from teamwright.core.ports import Outcome, ToolContext
    from teamwright.models.scripted import ScriptedModel, call, thinking
    from teamwright.runtime.agents.agent import current_agent, current_teammate
    from teamwright.runtime.asking import TextStream
    from teamwright.runtime.landing.plan import LandEnd
    from teamwright.runtime.landing.service import Landing
    from teamwright.runtime.session import Session
    from teamwright.runtime.teams.lead_mail import TeamMessage
    from teamwright.runtime.teams.team import LedTeam
    from teamwright.tools.function import tool

_MODULES = {
    "teamwright.api": "SessionOptions query query_sync session",
    "teamwright.core.data.code": "TreeSaved",
    "teamwright.core.data.definition": "AgentDefinition",
    "teamwright.core.data.event": (
        "AgentEnded AgentStarted Answered AsideAnswered Asked Compacted Denied Event FilesRestored JobEnded "
        "JobProgressed JobStarted LettersTaken Mended ModeChanged PromptPosted PromptWithdrawn Record Reminded "
        "Rendered Replied Resumed Rewound Streamed Suggested TeamChanged ToolEnded ToolProgressed ToolStarted "
        "TurnEnded TurnStarted Warned "
    ),
    "teamwright.core.data.landing": "LandEntry",
    "teamwright.core.data.message": (
        "Image InputDelta Message Retrying Text TextDelta Thinking ThinkingDelta ToolCall ToolResult Usage "
    ),
    "teamwright.core.data.op": (
        "AddDirectories AddRules AddTask Answer AskAside ChangeTask Compact Interrupt Op RemoveDirectories RemoveRules "
        "Rewind Say SendToBackground SetEffort SetMode SetModel SetServer ShutDown StopAll StopJob "
    ),
    "teamwright.core.errors": (
        "ModelError NoAnswer SessionBusy SessionMissing SettingsError StoreError TeamwrightError ToolError UsageError "
    ),
    "teamwright.core.permissions.consent": "Allow Deny Question",
    "teamwright.core.ports": "Outcome ToolContext",
    "teamwright.models.scripted": "ScriptedModel call thinking",
    "teamwright.runtime.agents.agent": "current_agent current_teammate",
    "teamwright.runtime.asking": "TextStream",
    "teamwright.runtime.landing.plan": "LandEnd",
    "teamwright.runtime.landing.service": "Landing",
    "teamwright.runtime.session": "Session",
    "teamwright.runtime.teams.lead_mail": "TeamMessage",
    "teamwright.runtime.teams.team": "LedTeam",
    "teamwright.tools.function": "tool",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [
    "AddDirectories",
    "AddRules",
    "AddTask",
    "AgentDefinition",
    "AgentEnded",
    "AgentStarted",
    "Allow",
    "Answer",
    "Answered",
    "AsideAnswered",
    "AskAside",
    "Asked",
    "ChangeTask",
    "Compact",
    "Compacted",
    "Denied",
    "Deny",
    "Event",
    "FilesRestored",
    "Image",
    "InputDelta",
    "Interrupt",
    "JobEnded",
    "JobProgressed",
    "JobStarted",
    "LandEnd",
    "LandEntry",
    "Landing",
    "LedTeam",
    "LettersTaken",
    "Mended",
    "Message",
    "ModeChanged",
    "ModelError",
    "NoAnswer",
    "Op",
    "Outcome",
    "PromptPosted",
    "PromptWithdrawn",
    "Question",
    "Record",
    "Reminded",
    "RemoveDirectories",
    "RemoveRules",
    "Rendered",
    "Replied",
    "Resumed",
    "Retrying",
    "Rewind",
    "Rewound",
    "Say",
    "ScriptedModel",
    "SendToBackground",
    "Session",
    "SessionBusy",
    "SessionMissing",
    "SessionOptions",
    "SetEffort",
    "SetMode",
    "SetModel",
    "SetServer",
    "SettingsError",
    "ShutDown",
    "StopAll",
    "StopJob",
    "StoreError",
    "Streamed",
    "Suggested",
    "TeamChanged",
    "TeamMessage",
    "TeamwrightError",
    "Text",
    "TextDelta",
    "TextStream",
    "Thinking",
    "ThinkingDelta",
    "ToolCall",
    "ToolContext",
    "ToolEnded",
    "ToolError",
    "ToolProgressed",
    "ToolResult",
    "ToolStarted",
    "TreeSaved",
    "TurnEnded",
    "TurnStarted",
    "Usage",
    "UsageError",
    "Warned",
    "call",
    "current_agent",
    "current_teammate",
    "query",
    "query_sync",
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
