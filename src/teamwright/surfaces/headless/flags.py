"""Options of a run on the command line, without the code that acts on them, so that parsing costs little."""

import math
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Mapping
from typing import Any

from teamwright.core.permissions.rules import split_rules
from teamwright.core.text import shown
from teamwright.surfaces.usage import Parser

MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
Rows = tuple[tuple[str, str, dict[str, Any]], ...]  # names, help, and how the value is read
_FLAG: dict[str, Any] = {"action": "store_true"}
_MANY: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
_RULES: dict[str, Any] = _MANY | {"type": split_rules, "metavar": "RULE"}
_SOURCES = ("user", "project", "local")
_MOST_DIGITS = 18


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise ArgumentTypeError(f"{shown(text, 80)!r} is not a whole number above 0, of at most {_MOST_DIGITS} digits")
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


def _list(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _sources(text: str) -> tuple[str, ...]:
    for name in _list(text):
        if name not in _SOURCES:
            raise ArgumentTypeError(f"unknown source {name!r}; use some of {', '.join(_SOURCES)}")
    return _list(text)


def _text(argument: str) -> str:
    """Repair bytes that are not UTF-8, which would fit into no file and no request."""
    return argument.encode(errors="surrogateescape").decode(errors="replace")


_FORMATS: Rows = (
    ("--output-format", "default: text", {"choices": ("text", "json", "stream-json"), "default": "text"}),
    ("--input-format", "stream-json: JSON lines on stdin", {"choices": ("text", "stream-json"), "default": "text"}),
    ("--include-partial-messages", "stream-json: stream text as it is generated", _FLAG),
    ("--verbose", "accepted for compatibility; stream-json always shows every step", _FLAG),
    ("--debug", "log each step of every agent", _FLAG),
    ("--json-schema", "return the answer as data that matches this schema", {"metavar": "JSON"}),
    ("--replay-user-messages", "stream-json: echo prompts as they are read", _FLAG),
    ("--session-mirror", "stream-json: copy the transcript as it grows", _FLAG),
    ("--include-hook-events", "stream-json: report hook activity", _FLAG),
)
_MODEL: Rows = (
    ("--model", "sonnet, opus, haiku, anthropic/NAME, openai/NAME, script/FILE, ...", {"metavar": "NAME"}),
    ("--fallback-model", "model to use when the first is unavailable", {"metavar": "NAME"}),
    ("--effort", "reasoning effort", {"choices": EFFORTS}),
    ("--thinking", "disabled: answer without thinking", {"choices": ("adaptive", "disabled")}),
    ("--max-thinking-tokens", "replaces --effort; 0 means --thinking disabled", {"type": _count, "metavar": "N"}),
    ("--thinking-display", "how the provider returns thinking", {"choices": ("summarized", "omitted"), "default": ""}),
    ("--betas", "beta features of the provider's API to enable", {"type": _list, "metavar": "LIST", "default": ()}),
    ("--max-turns", "maximum model calls per prompt", {"type": _positive, "metavar": "N"}),
    ("--max-budget-usd", "maximum cost of the session", {"type": _money, "metavar": "X"}),
    ("--task-budget", "maximum tokens for the session", {"type": _positive, "metavar": "N"}),
    ("--system-prompt", "replace the built-in system prompt", {"type": _text, "metavar": "TEXT"}),
    ("--system-prompt-file", "read the system prompt from a file", {"metavar": "FILE"}),
    (
        "--append-system-prompt",
        "append to the built-in system prompt",
        {"type": _text, "metavar": "TEXT", "default": ""},
    ),
)
_PERMISSIONS: Rows = (
    ("--agent", "run the session itself as this agent type", {"metavar": "NAME"}),
    ("--agents", "additional agent types, as JSON or a JSON file", {"metavar": "JSON"}),
    ("--permission-mode", "what runs without approval", {"choices": MODES}),
    ("--dangerously-skip-permissions", "same as bypassPermissions; for containers", _FLAG),
    ("--allowed-tools --allowedTools", "allow these, e.g. 'Bash(git *)' Edit", _RULES),
    ("--disallowed-tools --disallowedTools", "deny these", _RULES),
    ("--tools", 'tools to offer; "" for none, default for all', _RULES | {"metavar": "NAME", "default": None}),
    ("--lean", "short prompt and six tools; default: for small context windows", {"action": BooleanOptionalAction}),
    ("--sandbox", "run commands in the sandbox, without approval, or outside of it", {"action": BooleanOptionalAction}),
    ("--permission-prompt-tool", "send permission requests to stdout", {"choices": ("stdio",)}),
    ("--add-dir", "additional working directories", _MANY | {"metavar": "DIR"}),
    ("--settings", "additional settings for this run", {"metavar": "FILE_OR_JSON"}),
    ("--mcp-config", "additional MCP servers for this run", _MANY | {"metavar": "FILE_OR_JSON"}),
    ("--strict-mcp-config", "use only the MCP servers of --mcp-config", _FLAG),
    ("--plugin-dir", "load a plugin for this run", {"action": "append", "metavar": "DIR", "default": []}),
    (
        "--setting-sources",
        "settings sources to read: user,project,local",
        {"type": _sources, "metavar": "LIST", "default": _SOURCES},
    ),
    ("--trust", "trust this directory for this run", _FLAG),
)
_SESSION: Rows = (
    ("--resume -r", "resume a session, by its id or its beginning", {"nargs": "?", "const": "", "metavar": "ID"}),
    ("--continue -c", "resume the last session of this directory", _FLAG | {"dest": "continue_"}),
    ("--session-id", "id for the new session", {"metavar": "UUID"}),
    ("--name -n", "name of the session in lists", {"type": _text, "metavar": "NAME"}),
    (
        "--worktree -w",
        "work in a new git worktree, or in the one of that name",
        {"nargs": "?", "const": "", "metavar": "NAME"},
    ),
    ("--listen", "let `teamwright attach` connect and answer permission requests", _FLAG),
    ("--no-wait", "exit when the turn ends and stop background jobs", _FLAG),
    ("--team", "take over a team whose lead has exited", {"metavar": "NAME"}),
    ("--engine", "keep the session in an engine that other machines share; @FILE reads the URL", {"metavar": "URL"}),
    ("--fork-session", "with --resume or --continue: resume a copy under a new id", _FLAG),
    ("--resume-session-at", "with --resume: only up to this stream-json line", {"metavar": "UUID"}),
    ("--resume-drops-turn", "with --resume-session-at: refuse to drop more than this turn", {"metavar": "UUID"}),
)
_WAYS: Rows = (  # how its agents work
    ("--fork", "let agents fork; every agent runs in the background", _FLAG),
    (
        "--teammate-mode",
        "where teammates run: auto, in-process, tmux, iterm2, local or remote",
        {"choices": ("auto", "in-process", "tmux", "iterm2", "local", "remote"), "metavar": "PLACE"},
    ),
    ("--coordinator", "the main agent only delegates", _FLAG),
    ("--assistant", "never block: every agent runs in the background", _FLAG),
    ("--proactive", "let an idle main agent act on its own", _FLAG),
)
_GROUPS: Mapping[str, Rows] = {
    "": (
        ("prompt", "the task; also read from standard input", {"nargs": "?", "type": _text}),
        ("-p --print", "headless: run the prompt, print the answer and exit", _FLAG),
        ("-v -V --version", "print the version", _FLAG),
    ),
    "input and output": _FORMATS,
    "model and limits": _MODEL,
    "tools and permissions": _PERMISSIONS,
    "session": _SESSION + _WAYS,
}


def prompt_parser(commands: Mapping[str, str]) -> ArgumentParser:
    """`commands` come first in the help."""
    parser = Parser(
        "",
        "A coding agent for your terminal and scripts, on any model.",
        commands,
        usage="teamwright [OPTIONS] [PROMPT]\n       teamwright -p [OPTIONS] PROMPT\n       teamwright COMMAND ...",
        end="\n\nexit status: 0 success, 1 error, 2 usage error, 130 or 143 ended by a signal",
    )
    for title, rows in _GROUPS.items():
        group = parser.add_argument_group(title) if title else parser
        for names, words, how in rows:
            group.add_argument(*names.split(), help=words, **how)
    return parser


def add_editor_flags(parser: ArgumentParser) -> None:
    """Options for runs that an editor drives: it opens, resumes and copies sessions itself."""
    parser.add_argument("--debug", action="store_true", help="log each step of every agent")
    for title, rows in (("model and limits", _MODEL), ("tools and permissions", _PERMISSIONS), ("session", _WAYS)):
        group = parser.add_argument_group(title)
        for names, words, how in rows:
            group.add_argument(*names.split(), help=words, **how)
    parser.set_defaults(resume=None, continue_=False, session_id=None, fork_session=False, listen=False)
    parser.set_defaults(team=None, engine=None, name=None)
    parser.set_defaults(resume_session_at=None, resume_drops_turn=None)
