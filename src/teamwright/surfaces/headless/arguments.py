"""Checks the options of a run together, and turns them into the options of a session."""

import os
from argparse import Namespace
from itertools import chain
from pathlib import Path
from typing import Any

from teamwright.app import Options
from teamwright.app.options import KEEPING
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.core.policies.budget import Limits
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.headless.run import Headless


def headless_of(found: Namespace) -> Headless:
    if found.input_format == "stream-json" and found.output_format != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json")
    if found.include_partial_messages and found.output_format != "stream-json":
        raise UsageError("--include-partial-messages needs --output-format stream-json")
    if found.replay_user_messages and found.output_format != "stream-json":
        raise UsageError("--replay-user-messages needs --output-format stream-json")
    return Headless(
        found.prompt,
        found.output_format,
        found.input_format,
        found.include_partial_messages,
        not found.no_wait,
        found.listen,
        found.replay_user_messages,
        found.include_hook_events,
        None if found.json_schema is None else _schema(found.json_schema),
        found.session_mirror,
    )


def _schema(text: str) -> dict[str, Any]:
    try:
        return decode_object(text.encode(errors="replace"), "--json-schema")
    except SettingsError as error:
        raise UsageError(str(error)) from None


def options_of(found: Namespace) -> Options:
    return Options(
        cwd=Path.cwd(),
        env=dict(os.environ),
        origin=_origin(found),
        name=found.name,
        model=found.model,
        fallback_model=found.fallback_model,
        effort=found.effort or found.max_thinking_tokens or None,
        think=found.thinking != "disabled" and found.max_thinking_tokens != 0,
        thinking_display=found.thinking_display,
        betas=found.betas,
        limits=Limits(turns=found.max_turns, usd=found.max_budget_usd, tokens=found.task_budget),
        system_prompt=found.system_prompt if found.system_prompt_file is None else _read_prompt(found),
        append_system_prompt=found.append_system_prompt,
        mode="bypassPermissions" if found.dangerously_skip_permissions else found.permission_mode,
        may_bypass=found.dangerously_skip_permissions or found.permission_mode == "bypassPermissions",
        allowed_tools=tuple(chain(*found.allowed_tools)),
        disallowed_tools=tuple(chain(*found.disallowed_tools)),
        tools=None if found.tools is None else tuple(chain(*found.tools)),
        lean=found.lean,
        sandbox=found.sandbox,
        add_dirs=tuple(found.add_dir),
        settings=found.settings,
        mcp_config=tuple(found.mcp_config),
        strict_mcp_config=found.strict_mcp_config,
        plugin_dirs=tuple(found.plugin_dir),
        setting_sources=found.setting_sources,
        trust=found.trust,
        can_ask=found.permission_prompt_tool == "stdio" or found.listen,
        open_door=found.listen,
        keep_files=found.listen or os.environ.get(KEEPING) in ("1", "true"),
        debug=found.debug,
        agent=found.agent,
        agents=found.agents,
        fork=found.fork,
        team=found.team,
        engine=found.engine,
        teammate_mode=found.teammate_mode,
        **{name: getattr(found, name) for name in ("coordinator", "assistant", "proactive")},
    )


def _read_prompt(found: Namespace) -> str:
    if found.system_prompt is not None:
        raise UsageError("--system-prompt and --system-prompt-file cannot be combined")
    try:
        return Path(found.system_prompt_file).expanduser().read_text(errors="replace")
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--system-prompt-file {found.system_prompt_file} cannot be read: {why}") from None


def _origin(found: Namespace) -> Origin:
    if found.resume == "":
        raise UsageError(
            "--resume needs a session id: `teamwright sessions` lists them, --continue resumes the last one"
        )
    goes_on = found.resume or found.continue_
    for option, given in (("--fork-session", found.fork_session), ("--resume-session-at", found.resume_session_at)):
        if given and not goes_on:
            raise UsageError(f"{option} needs --resume ID or --continue")
    if found.resume and found.continue_:
        raise UsageError("--resume and --continue cannot be combined")
    cut = (found.resume_session_at, found.resume_drops_turn)
    if cut[1] is not None and not cut[0]:
        raise UsageError("--resume-drops-turn needs --resume-session-at")
    return Origin(found.resume, found.continue_, found.fork_session, found.session_id, *cut)
