"""Where the teammates of a session run, and how their processes are started."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, key_names, names_engine
from teamwright.core.data.team import Member
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.permissions.consent import Mode
from teamwright.core.policies.budget import Limits
from teamwright.core.policies.placement import Asked, choose
from teamwright.host.panes.base import Panes, look

if TYPE_CHECKING:
    from teamwright.runtime.teams.deps import TeammatePlaces

PACKED = "TEAMWRIGHT_TEAMMATE"  # environment variable with which a teammate's process is told what to be
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")
_NO_ENGINE = "There is no engine, so teammates run here: `remote` needs one. `--engine URL` names it."
# What a teammate's process takes over unchanged; everything else is the lead's own or cannot be passed on.
SHARED = (
    "assistant",
    "coordinator",
    "proactive",
    "fallback_model",
    "known_prices",
    "effort",
    "may_bypass",
    "can_ask",
    "allowed_tools",
    "disallowed_tools",
    "tools",
    "add_dirs",
    "settings",
    "setting_sources",
    "mcp_config",
    "strict_mcp_config",
    "plugin_dirs",
    "debug",
    "keep_files",
    "agents",
    "append_system_prompt",
    "system_prompt",
    "sandbox",
    "think",
    "thinking_display",
    "betas",
)


def open_places(
    asked: Asked, options: Options, workspace: Workspace, notes: list[str], since: int
) -> "TeammatePlaces | None":
    """None: in this process, where teammates can always run."""
    own = workspace.own
    if asked == "remote" and not names_engine(options, workspace):
        notes.append(_NO_ENGINE)
    choice = choose(asked, look(workspace.env), interactive=options.can_ask, prefer_tmux=own.prefer_tmux)
    if choice.note and asked != "auto":
        notes.append(choice.note)
    if choice.backend == "in-process":
        return None
    if options.own_model or options.own_tools or options.definitions or options.answer or options.hooks:
        notes.append("teammates run in this process: what was made in Python cannot be handed on")
        return None
    from teamwright.runtime.teams.deps import TeammatePlaces  # noqa: PLC0415  # with most of what a team needs

    panes = _panes(choice.backend, workspace, split=own.split_panes)
    return TeammatePlaces(panes, choice.backend, partial(_command, options=options, workspace=workspace, since=since))


def _panes(backend: str, workspace: Workspace, *, split: bool) -> Panes:
    seen, room = look(workspace.env), workspace.home.run / "parcels"
    if backend == "tmux":
        from teamwright.host.panes.tmux import Tmux  # noqa: PLC0415

        return Tmux(seen.tmux, env=workspace.env, room=room, name=f"teamwright-{workspace.project.name}", split=split)
    if backend == "iterm2":
        from teamwright.host.panes.iterm import Iterm  # noqa: PLC0415

        return Iterm(seen.it2, env=workspace.env, room=room, split=split)
    from teamwright.host.process.local_child import LocalChildren  # noqa: PLC0415

    return LocalChildren(env=workspace.env, logs=workspace.home.logs)


def _command(
    member: Member, mode: Mode, options: Options, workspace: Workspace, since: int
) -> tuple[Sequence[str], Mapping[str, str]]:
    """argv contains no secrets and nothing from outside: those are in the environment, which nobody else can read."""
    packed = {name: getattr(options, name) for name in SHARED} | {"model": member.model}
    packed["trust"] = workspace.trusted  # as long as the session runs, the teammate is trusted like its lead
    limits = options.limits
    names = {*KEYS, *key_names(workspace.settings)}
    env = {n: value for n, value in workspace.env.items() if n in names or n.startswith(("TEAMWRIGHT_", "MCP_"))}
    if any(name.endswith("_ENABLE_TELEMETRY") for name in workspace.env):
        from teamwright.app.telemetry import telemetry_env  # noqa: PLC0415

        env |= telemetry_env(options.env, workspace.settings)
    said = {
        "agent": member.agent,
        "session": member.session,
        "cwd": str(workspace.cwd),
        "mode": mode,
        "usd": limits.usd,
        "tokens": limits.tokens,
        "since": since,
        "options": packed,
    }
    if options.engine:
        env["TEAMWRIGHT_ENGINE"] = options.engine
    env |= {
        PACKED: msgspec.json.encode(said).decode(),
        "TEAMWRIGHT_AGENT_ID": member.agent,
        "TEAMWRIGHT_AGENT_NAME": member.name,
        "TEAMWRIGHT_TEAM": member.team,
        "TEAMWRIGHT_PARENT_SESSION_ID": member.session,
    }
    argv = [sys.executable, "-m", "teamwright", "teammate"]
    return argv, env


class Packed(Struct, frozen=True):
    """What a teammate's process is told."""

    agent: AgentId
    session: SessionId
    cwd: str
    mode: Mode
    options: dict[str, Any]
    since: int
    usd: float | None = None
    tokens: int | None = None


def unpack(env: Mapping[str, str]) -> tuple[Packed, Options]:
    try:
        packed = msgspec.json.decode(env[PACKED], type=Packed)
    except (KeyError, msgspec.DecodeError):
        raise UsageError("`teammate` is started by a lead, not by hand") from None
    rest = {name: value for name, value in env.items() if name != PACKED}
    limits = Limits(usd=packed.usd, tokens=packed.tokens)
    return packed, Options(cwd=Path(packed.cwd), env=rest, limits=limits, mode=packed.mode, **packed.options)
