"""Options of a session: everything that a surface decides about it."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import Effort
from teamwright.core.permissions.consent import Decision, Mode, Question
from teamwright.core.policies.budget import Limits
from teamwright.core.policies.placement import Asked
from teamwright.core.ports import Model, Tool
from teamwright.runtime.agents.resume import Origin
from teamwright.store.settings.load import SOURCES

KEEPING = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"  # set by a driving program that may ask for files back

HookFunction = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]
OwnHook = HookFunction | tuple[str, HookFunction]


class Options(Struct, kw_only=True):
    """Everything that a surface decides about a session."""

    cwd: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    origin: Origin = Origin()
    name: str | None = None  # of the session, in lists
    model: str | None = None
    own_model: Model | None = None  # e.g. a ScriptedModel; replaces `model`
    fallback_model: str | None = None
    effort: Effort | int | None = None
    think: bool = True  # False: never; True: if the model does
    thinking_display: str = ""  # "summarized", "omitted"; empty: the provider's default
    betas: Sequence[str] = ()  # of the provider's API
    limits: Limits = Limits()
    known_prices: bool = False  # refuse a budget in dollars for models whose price is not known
    system_prompt: str | None = None
    append_system_prompt: str = ""
    mode: Mode | None = None
    may_bypass: bool = False
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tools: Sequence[str] | None = None
    lean: bool | None = None  # a short prompt and few tools; None: by the settings, else by the model's window
    sandbox: bool | None = None  # commands run in it, without asking, or never; None: by the settings
    own_tools: Sequence[Tool] = ()
    add_dirs: Sequence[str] = ()
    settings: str | None = None
    setting_sources: Sequence[str] = SOURCES
    trust: bool = False
    can_ask: bool = False  # somebody watches, and answers questions by an op
    interactive: bool = False  # that is a person, whom the main agent may also ask its own questions
    open_door: bool = False  # people may come in later, and be asked as well
    keep_files: bool = False  # before changes: somebody may want to rewind
    answer: Callable[[Question], Awaitable[Decision]] | None = None  # code that answers instead
    hooks: Mapping[str, Sequence[OwnHook]] = {}  # functions by event, each alone or after a matcher
    debug: bool = False
    agent: str | None = None  # run the session itself as this kind of agent
    agents: str | None = None  # more definitions, as JSON or a file of it
    definitions: Sequence[AgentDefinition] = ()  # more definitions, made in Python
    mcp_config: Sequence[str] = ()  # files or JSON
    strict_mcp_config: bool = False  # no other servers
    plugin_dirs: Sequence[str] = ()
    fork: bool | None = None  # agents may fork; None: as the settings say
    team: str | None = None  # lead this team, whose lead is gone
    engine: str | None = None  # address, or `@FILE`; None: by the environment or the settings
    teammate_mode: Asked | None = None  # where teammates run; None: by the settings
    hosted: bool = False  # one agent of another machine's session, run by a worker
    instructions: str = ""  # of the person whose session that is
    coordinator: bool = False
    assistant: bool = False
    proactive: bool = False
    code_leads: bool = False  # a resume gives teams that code led back to code, not to the model
    driven: bool = False  # a program acts in the main agent's place: its model is never asked
