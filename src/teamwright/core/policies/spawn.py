"""Plans a spawn: a pure function from the request to a plan."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.definition import AgentDefinition, Isolation
from teamwright.core.data.message import Effort
from teamwright.core.errors import ToolError
from teamwright.core.permissions.consent import MODES, Mode, mode_allowed
from teamwright.core.permissions.rules import AGENT, detail_rule, parse_rules

FORK = "fork"
Room = Literal["shared", "worktree", "remote"]
DEFAULT_KIND = "general-purpose"
BROUGHT_KINDS = {"claude-code-guide": "guide"}  # names of another program's built-in agents, if nobody defined them


class Ask(Struct, frozen=True, kw_only=True):
    """One call of the Agent tool."""

    description: str
    prompt: str
    kind: str | None = None
    model: str | None = None
    effort: Effort | int | None = None
    background: bool | None = None
    name: str | None = None
    team: str | None = None
    mode: Mode | None = None
    isolation: Isolation | None = None
    cwd: str | None = None
    typed: bool = False  # a person's /name, which waits for its output in every mode but assistant


class SpawnCaller(Struct, frozen=True, kw_only=True):
    """The caller. `may_start` are the kinds that its definition names; None for all."""

    is_teammate: bool = False  # it is one, or works for one
    is_fork: bool = False
    depth: int = 0
    team: str | None = None  # its current team
    mode: Mode = "bypassPermissions"  # in effect for it
    may_start: tuple[str, ...] | None = None


class Features(Struct, frozen=True, kw_only=True):
    """What is switched on in this session."""

    fork: bool = False
    background: bool = True
    coordinator: bool = False
    assistant: bool = False
    proactive: bool = False
    teams: frozenset[str] = frozenset()
    max_depth: int = 3
    remote: bool = False  # there is an engine, and with it workers
    remote_teammates: bool = False  # all teammates run on workers
    hosted: bool = False  # this is a worker

    @property
    def all_in_background(self) -> bool:
        return self.background and (self.fork or self.coordinator or self.assistant or self.proactive)

    @property
    def may_fork(self) -> bool:
        return self.fork and self.background and not self.coordinator


class Plan(Struct, frozen=True, kw_only=True):
    """What becomes of a call. `ask` holds the parameters that take effect; `notes` name the others."""

    ask: Ask
    kind: str
    context: Literal["fresh", "inherit"] = "fresh"
    life: Literal["once", "resident"] = "once"
    report: Literal["result", "letter", "none"] = "result"
    owner: Literal["caller", "session", "team"] = "caller"
    room: Room = "shared"
    team: str | None = None
    notes: tuple[str, ...] = ()


def plan_spawn(ask: Ask, caller: SpawnCaller, kinds: Mapping[str, AgentDefinition], features: Features) -> Plan:
    """Chooses the route, or refuses in words that the model can act on. `kinds` are the kinds that may be started, by
    name."""
    _check(ask, caller, features)
    if ask.name and (ask.team or caller.team):
        definition = find_kind(DEFAULT_KIND if ask.kind in (None, FORK) else ask.kind, caller, kinds)
        return _heeded(_teammate(ask, caller, definition, features), caller, definition, features)
    if ask.isolation == "remote":
        _check_remote(ask, features)
    elif ask.kind == FORK or (ask.kind is None and features.may_fork):
        return _heeded(_fork(ask, caller, kinds, features), caller, None, features)
    definition = find_kind(ask.kind or DEFAULT_KIND, caller, kinds)
    isolation = ask.isolation or definition.isolation
    if isolation == "remote" and not features.hosted:
        return _heeded(_remote(ask, caller, definition, features), caller, definition, features)
    background = _in_background(ask, caller, definition, features)
    plan = Plan(
        ask=ask,
        kind=definition.name,
        report="letter" if background else "result",
        owner="session" if background else "caller",
        room="worktree" if isolation == "worktree" else "shared",
    )
    return _heeded(plan, caller, definition, features)


def _check(ask: Ask, caller: SpawnCaller, features: Features) -> None:
    if not ask.prompt.strip():
        raise ToolError("The prompt is empty: say what the agent is to do.")
    if not ask.description.strip():
        raise ToolError("The description is empty: give three to five words for people to read.")
    if caller.depth >= features.max_depth:
        raise ToolError(f"Agents are nested {caller.depth} deep, which is the limit: do this work yourself.")
    if ask.cwd is not None and ask.isolation == "worktree":
        raise ToolError("cwd and isolation: worktree exclude each other: a worktree is the agent's directory.")
    if ask.mode is not None and ask.mode not in MODES:
        raise ToolError(f"There is no mode {ask.mode!r}; there are {', '.join(MODES)}.")
    if ask.team:
        _check_team(ask.team, ask.name, features)


def _check_team(team: str, name: str | None, features: Features) -> None:
    if not name:
        raise ToolError("team_name needs a name for the teammate.")
    if team not in features.teams:
        raise ToolError(f"There is no team {team!r}; TeamCreate makes one.")


def _teammate(ask: Ask, caller: SpawnCaller, definition: AgentDefinition, features: Features) -> Plan:
    if caller.is_teammate:
        raise ToolError("A teammate cannot add teammates: the roster is flat. Ask the lead.")
    asked = ask.isolation or definition.isolation
    room: Room = "remote" if features.remote_teammates else asked or "shared"
    if room == "remote":
        _check_remote(ask, features)
    return Plan(
        ask=ask,
        kind=definition.name,
        life="resident",
        report="letter",
        owner="team",
        room=room,
        team=ask.team or caller.team,
    )


def _remote(ask: Ask, caller: SpawnCaller, definition: AgentDefinition, features: Features) -> Plan:
    """A job on a worker, which is always in the background."""
    _check_remote(ask, features)
    if caller.is_teammate:
        raise ToolError("A teammate cannot start background agents, and a remote one is. Ask the lead.")
    if definition.required_mcp_servers:
        raise ToolError(f"{definition.name} needs MCP servers, which workers do not have: leave isolation out.")
    return Plan(ask=ask, kind=definition.name, report="letter", owner="session", room="remote")


def _check_remote(ask: Ask, features: Features) -> None:
    if features.hosted:
        raise ToolError("You run on a worker yourself: your own agents run beside you. Leave isolation out.")
    if not features.remote:
        raise ToolError("isolation: remote is not available: no engine is configured. Leave it out, or use worktree.")
    if ask.kind == FORK and not ask.name:
        raise ToolError("A fork runs beside the agent that it is a copy of: name a subagent_type, or leave it out.")


def _fork(ask: Ask, caller: SpawnCaller, kinds: Mapping[str, AgentDefinition], features: Features) -> Plan:
    if caller.is_fork:
        raise ToolError("A fork cannot fork: do the work yourself.")
    if caller.is_teammate:
        raise ToolError("A teammate cannot start background agents, and a fork is one. Name a subagent_type.")
    if not features.may_fork:
        raise ToolError(f"Forks are off in this session: name a subagent_type. {_choice(_offered(caller, kinds))}")
    return Plan(ask=ask, kind=FORK, context="inherit", report="letter", owner="session", room=ask.isolation or "shared")


def without_denied(kinds: Mapping[str, AgentDefinition], denied: Iterable[str]) -> Mapping[str, AgentDefinition]:
    """`denied` are rules of the definition of the agent that asks, such as `Agent(explore)`."""
    rules, _ = parse_rules(denied, "agent", "/", "/")
    return {name: kind for name, kind in kinds.items() if not detail_rule(rules, AGENT, name, wide=False)}


def find_kind(name: str, caller: SpawnCaller, kinds: Mapping[str, AgentDefinition]) -> AgentDefinition:
    """Finds a kind by name, ignoring case; never substitutes another."""
    offered = _offered(caller, kinds)
    found = next((d for k, d in offered.items() if k.lower() == name.lower()), None)
    found = found or offered.get(BROUGHT_KINDS.get(name.lower(), ""))
    if found is None:
        raise ToolError(f"There is no agent {name!r} to start here. {_choice(offered)}")
    return found


def _offered(caller: SpawnCaller, kinds: Mapping[str, AgentDefinition]) -> Mapping[str, AgentDefinition]:
    allowed = None if caller.may_start is None else {k.lower() for k in caller.may_start}
    return {k: d for k, d in kinds.items() if allowed is None or k.lower() in allowed}


def _choice(offered: Mapping[str, AgentDefinition]) -> str:
    return f"There are: {', '.join(sorted(offered)) or 'none'}."


def _in_background(ask: Ask, caller: SpawnCaller, definition: AgentDefinition, features: Features) -> bool:
    if not features.background:
        return False
    if caller.is_teammate:
        if ask.background:
            raise ToolError("A teammate cannot start background agents: leave run_in_background out.")
        return False
    everything = features.assistant if ask.typed else features.all_in_background
    return bool(ask.background) or definition.background or everything


def _heeded(plan: Plan, caller: SpawnCaller, definition: AgentDefinition | None, features: Features) -> Plan:
    """Take what has no effect out of the call, and say so."""
    idle = list(_without_effect(plan, definition, features))
    notes = [f"{parameter} was ignored: {why}" for parameter, _, why in idle]
    if held := _held_back(plan, caller, definition):
        notes.append(f"mode {plan.ask.mode} is held back by a narrower one: {held}")
    return replace(plan, ask=replace(plan.ask, **{field: None for _, field, _ in idle}), notes=tuple(notes))


def _without_effect(
    plan: Plan, definition: AgentDefinition | None, features: Features
) -> Iterator[tuple[str, str, str]]:
    """Each parameter that was sent and has no effect: its name, its field, and why."""
    ask, forks, away = plan.ask, plan.context == "inherit", plan.room == "remote"
    if ask.kind == FORK and not forks:
        yield "subagent_type", "kind", "a teammate begins with a fresh context"
    if ask.model not in (None, "", "inherit") and forks:
        yield "model", "model", "a fork runs on its parent's"
    elif ask.model not in (None, "", "inherit") and features.coordinator:
        yield "model", "model", "a coordinator's workers run on its own"
    if ask.effort is not None and forks:
        yield "effort", "effort", "a fork thinks as hard as its parent"
    if ask.background and plan.report == "result":
        yield "run_in_background", "background", "background jobs are off"
    elif ask.background is False and plan.report == "letter":
        yield "run_in_background", "background", _why_in_background(plan, definition)
    if ask.isolation == "worktree" and away:
        yield "isolation", "isolation", "on a worker it has a clone of its own"
    if ask.cwd and not features.assistant:
        yield "cwd", "cwd", "it is offered in assistant mode only"
    elif ask.cwd and (forks or plan.room != "shared"):
        yield "cwd", "cwd", "a fork works where its parent does" if forks else "it gets a directory of its own"


def _why_in_background(plan: Plan, definition: AgentDefinition | None) -> str:
    if plan.life == "resident":
        return "a teammate works beside you"
    if plan.context == "inherit":
        return "a fork works in the background"
    if plan.room == "remote":
        return "an agent on another machine works in the background"
    asked = definition is not None and definition.background
    return f"{plan.kind} works in the background" if asked else "all agents work in the background here"


def _held_back(plan: Plan, caller: SpawnCaller, definition: AgentDefinition | None) -> Mode | None:
    """The mode that the call's cannot widen. A teammate's plan mode lasts until its plan is approved."""
    asked, own = plan.ask.mode, definition.permission_mode if definition else None
    if own is None or (own == "plan" and plan.life == "resident"):
        own = caller.mode
    held = mode_allowed(caller.mode, own)
    return held if asked is not None and mode_allowed(held, asked) != asked else None
