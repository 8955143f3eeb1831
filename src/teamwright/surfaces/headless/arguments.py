"""Parses and checks the options of a run, and turns them into the options of a session."""

import math
import os
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from teamwright.app import Options
from teamwright.core.errors import SettingsError, UsageError
from teamwright.core.jsontext import decode_object
from teamwright.core.permissions.rules import split_rules
from teamwright.core.policies.budget import Limits
from teamwright.runtime.agents.resume import Origin
from teamwright.surfaces.headless.run import Headless
from teamwright.surfaces.usage import Parser, listed_commands

MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def prompt_parser(commands: Mapping[str, str]) -> ArgumentParser:
    """`commands` come first in the help."""
    parser = Parser(
        "",
        "A coding agent for your terminal and scripts, on any model.\n\n"
        f"commands (`teamwright help COMMAND` shows more):\n{listed_commands(commands)}",
        usage="teamwright [OPTIONS] [PROMPT]\n       teamwright -p [OPTIONS] PROMPT\n       teamwright COMMAND ...",
        end="\n\nexit status: 0 success, 1 error, 2 usage error, 130 or 143 ended by a signal",
    )
    add = parser.add_argument
    add("prompt", nargs="?", type=_text, help="the task; also read from standard input")
    add("-p", "--print", action="store_true", help="headless: run the prompt, print the answer and exit")
    add("-v", "-V", "--version", action="store_true", help="print the version")
    _add_formats(parser.add_argument_group("input and output").add_argument)
    _add_model(parser.add_argument_group("model and limits").add_argument)
    _add_permissions(parser.add_argument_group("tools and permissions").add_argument)
    _add_session(parser.add_argument_group("session").add_argument)
    return parser


def _add_formats(add: Callable[..., object]) -> None:
    add("--output-format", choices=("text", "json", "stream-json"), default="text", help="default: text")
    add("--input-format", choices=("text", "stream-json"), default="text", help="stream-json: JSON lines on stdin")
    add("--include-partial-messages", action="store_true", help="stream-json: stream text as it is generated")
    add("--verbose", action="store_true", help="accepted for compatibility; stream-json always shows every step")
    add("--debug", action="store_true", help="log each step of every agent")
    add("--json-schema", metavar="JSON", help="return the answer as data that matches this schema")
    add("--replay-user-messages", action="store_true", help="stream-json: echo prompts as they are read")
    add("--session-mirror", action="store_true", help="stream-json: copy the transcript as it grows")
    add("--include-hook-events", action="store_true", help="stream-json: report hook activity")


def _add_model(add: Callable[..., object]) -> None:
    add("--model", metavar="NAME", help="sonnet, opus, haiku, anthropic/NAME, openai/NAME, script/FILE, ...")
    add("--fallback-model", metavar="NAME", help="model to use when the first is unavailable")
    add("--effort", choices=EFFORTS, help="reasoning effort")
    add("--thinking", choices=("adaptive", "disabled"), help="disabled: answer without thinking")
    add("--max-thinking-tokens", type=_count, metavar="N", help="replaces --effort; 0 means --thinking disabled")
    add("--thinking-display", choices=("summarized", "omitted"), help="how the provider returns thinking")
    add("--betas", metavar="LIST", help="beta features of the provider's API to enable")
    add("--max-turns", type=_positive, metavar="N", help="maximum model calls per prompt")
    add("--max-budget-usd", type=_money, metavar="X", help="maximum cost of the session")
    add("--task-budget", type=_positive, metavar="N", help="maximum tokens for the session")
    add("--system-prompt", type=_text, metavar="TEXT", help="replace the built-in system prompt")
    add("--system-prompt-file", metavar="FILE", help="read the system prompt from a file")
    add("--append-system-prompt", type=_text, metavar="TEXT", help="append to the built-in system prompt")


def _add_permissions(add: Callable[..., object]) -> None:
    add("--agent", metavar="NAME", help="run the session itself as this agent type")
    add("--agents", metavar="JSON", help="additional agent types, as JSON or a JSON file")
    add("--permission-mode", choices=MODES, help="what runs without approval")
    add("--dangerously-skip-permissions", action="store_true", help="same as bypassPermissions; for containers")
    add(
        "--allowed-tools",
        "--allowedTools",
        nargs="+",
        action="extend",
        metavar="RULE",
        help="allow these, e.g. 'Bash(git *)' Edit",
    )
    add("--disallowed-tools", "--disallowedTools", nargs="+", action="extend", metavar="RULE", help="deny these")
    add("--tools", nargs="+", action="extend", metavar="NAME", help='tools to offer; "" for none, default for all')
    add("--lean", action=BooleanOptionalAction, help="short prompt and six tools; default: for small context windows")
    add("--permission-prompt-tool", choices=("stdio",), help="send permission requests to stdout")
    add("--add-dir", nargs="+", action="extend", metavar="DIR", help="additional working directories")
    add("--settings", metavar="FILE_OR_JSON", help="additional settings for this run")
    add("--mcp-config", nargs="+", action="extend", metavar="FILE_OR_JSON", help="additional MCP servers for this run")
    add("--strict-mcp-config", action="store_true", help="use only the MCP servers of --mcp-config")
    add("--plugin-dir", action="append", metavar="DIR", help="load a plugin for this run")
    add("--setting-sources", metavar="LIST", help="settings sources to read: user,project,local")
    add("--trust", action="store_true", help="trust this directory for this run")


def _add_session(add: Callable[..., object]) -> None:
    add("--resume", "-r", nargs="?", const="", metavar="ID", help="resume a session, by its id or its beginning")
    add("--continue", "-c", dest="continue_", action="store_true", help="resume the last session of this directory")
    add("--session-id", metavar="UUID", help="id for the new session")
    add("--listen", action="store_true", help="let `teamwright attach` connect and answer permission requests")
    add("--no-wait", action="store_true", help="exit when the turn ends and stop background jobs")
    add("--fork", action="store_true", help="let agents fork; every agent runs in the background")
    add("--team", metavar="NAME", help="take over a team whose lead has exited")
    add("--teammate-mode", choices=("auto", "in-process", "tmux", "iterm2", "local"), help="where teammates run")
    add("--coordinator", action="store_true", help="the main agent only delegates")
    add("--assistant", action="store_true", help="never block: every agent runs in the background")
    add("--proactive", action="store_true", help="let an idle main agent act on its own")
    add("--fork-session", action="store_true", help="with --resume or --continue: resume a copy under a new id")
    add("--resume-session-at", metavar="UUID", help="with --resume: only up to this stream-json line")
    add("--resume-drops-turn", metavar="UUID", help="with --resume-session-at: refuse to drop more than this turn")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def _money(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ArgumentTypeError(f"{text!r} is not an amount above 0")
    return value


def _text(argument: str) -> str:
    """Bytes of a command line that are no UTF-8 would fit into no file and no request."""
    return argument.encode(errors="surrogateescape").decode(errors="replace")


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
        _schema(found.json_schema),
        found.session_mirror,
    )


def _schema(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return decode_object(text.encode(errors="replace"), "--json-schema")
    except SettingsError as error:
        raise UsageError(str(error)) from None


def options_of(found: Namespace) -> Options:
    return Options(
        cwd=Path.cwd(),
        env=dict(os.environ),
        origin=_origin(found),
        model=found.model,
        fallback_model=found.fallback_model,
        effort=_effort(found),
        think=found.thinking != "disabled" and found.max_thinking_tokens != 0,
        thinking_display=found.thinking_display or "",
        betas=_betas(found.betas or ""),
        limits=Limits(turns=found.max_turns, usd=found.max_budget_usd, tokens=found.task_budget),
        system_prompt=_system_prompt(found),
        append_system_prompt=found.append_system_prompt or "",
        mode="bypassPermissions" if found.dangerously_skip_permissions else found.permission_mode,
        may_bypass=found.dangerously_skip_permissions or found.permission_mode == "bypassPermissions",
        allowed_tools=_names(found.allowed_tools),
        disallowed_tools=_names(found.disallowed_tools),
        tools=None if found.tools is None else _names(found.tools),
        lean=found.lean,
        add_dirs=tuple(found.add_dir or ()),
        settings=found.settings,
        mcp_config=tuple(found.mcp_config or ()),
        strict_mcp_config=found.strict_mcp_config,
        plugin_dirs=tuple(found.plugin_dir or ()),
        setting_sources=_sources(found.setting_sources),
        trust=found.trust,
        can_ask=found.permission_prompt_tool == "stdio" or found.listen,
        debug=found.debug,
        agent=found.agent,
        agents=found.agents,
        fork=found.fork,
        team=found.team,
        teammate_mode=found.teammate_mode,
        coordinator=found.coordinator,
        assistant=found.assistant,
        proactive=found.proactive,
    )


def _effort(found: Namespace) -> Any:
    return found.effort or found.max_thinking_tokens or None


def _betas(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _system_prompt(found: Namespace) -> str | None:
    if found.system_prompt_file is None:
        return found.system_prompt
    if found.system_prompt is not None:
        raise UsageError("--system-prompt and --system-prompt-file cannot be combined")
    try:
        return Path(found.system_prompt_file).expanduser().read_text(errors="replace")
    except (OSError, RuntimeError) as error:
        raise UsageError(f"--system-prompt-file {found.system_prompt_file}: {error}") from None


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


def _sources(text: str | None) -> tuple[str, ...]:
    known = ("user", "project", "local")
    if text is None:
        return known
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise UsageError(f"--setting-sources: unknown source {name!r}; use some of {', '.join(known)}")
    return names


def _names(texts: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(name for text in texts or () for name in split_rules(text))
