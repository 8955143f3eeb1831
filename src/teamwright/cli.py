"""The command line: argv in, exit status out. Imports are inside functions: `--version` must not pay for the rest."""

import sys
from collections.abc import Callable, Sequence

TYPE_CHECKING = False  # checkers know this name; importing `typing` for it would double what `--version` costs
if TYPE_CHECKING:
    import argparse
    from typing import NoReturn

    from teamwright.app import Options
    from teamwright.runtime.resume import Origin
    from teamwright.surfaces.headless.run import Headless

USAGE = 2
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def main(argv: Sequence[str] | None = None) -> "NoReturn":
    """The program's entry point."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args in (["--version"], ["-v"]):
        from teamwright import __version__

        sys.stdout.write(f"{__version__} (Teamwright)\n")
        sys.exit(0)
    if sys.platform == "win32":
        sys.exit("teamwright: native Windows is not supported; run it inside WSL (https://aka.ms/wsl)")
    status = _run(args)
    _leave(status)


def _leave(status: int) -> "NoReturn":
    """At once: everything is closed, and taking down what was imported would cost as much as a turn."""
    import os

    if "teamwright.host.process" in sys.modules:
        from teamwright.host.process import stop_all

        stop_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            status = status or 1
    os._exit(status)


def _run(args: list[str]) -> int:
    from teamwright.core.errors import TeamwrightError, UsageError
    from teamwright.tools.bounds import visible

    try:
        if args and args[0] in COMMANDS:
            return _run_command(args[0], args[1:])
        if args == ["teammate"]:  # a lead starts it; there is nothing in it for a person
            import anyio

            from teamwright.surfaces.teammate import run_teammate

            return anyio.run(run_teammate)
        return _run_prompt(args)
    except UsageError as error:
        sys.stderr.write(f"teamwright: {visible(str(error))}\n")
        return USAGE
    except TeamwrightError as error:
        sys.stderr.write(f"teamwright: {visible(str(error))}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1


# --- commands

COMMANDS = {
    "demo": "an agent fixes a failing test before your eyes; needs no key",
    "agents": "the kinds of agents that there are here, and where each comes from",
    "sessions": "list sessions; `sessions delete ID ...` or `--older-than DAYS` removes them",
    "teams": "the teams that there are and who is in them",
    "inbox": "the messages of a team in order, and what became of each",
    "tasks": "the shared task list of a session or a team",
    "jobs": "what ran or runs in the background of a session",
    "why": "what the agents of a session that are not running wait for",
    "worktrees": "the git worktrees of agents; `show NAME`, `merge NAME`, `clean [NAME ...]`",
    "mcp": "MCP servers: `list`, `add NAME COMMAND ...`, `remove NAME`, `test [NAME ...]`",
    "cost": "what sessions and agents have used: tokens, money, time",
    "config": "the settings that hold here, and where each comes from",
    "plugins": "what plugins bring; `install PATH_OR_GIT_ADDRESS`, `enable`, `disable`, `remove NAME`",
    "doctor": "check this machine, keys, servers and files",
}


def _run_command(name: str, args: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog=f"teamwright {name}", description=COMMANDS[name], allow_abbrev=False)
    if name != "demo":
        parser.add_argument("--json", action="store_true", help="for programs")
    match name:
        case "demo":
            return _demo(parser, args)
        case "agents":
            return _agents(parser, args)
        case "sessions":
            return _sessions(parser, args)
        case "config":
            return _config(parser, args)
        case "worktrees":
            from teamwright.surfaces.worktrees_command import run_worktrees

            return run_worktrees(parser, args)
        case "tasks":
            from teamwright.surfaces.tasks_command import run_tasks

            return run_tasks(parser, args)
        case "mcp":
            from teamwright.surfaces.mcp_command import run_mcp

            return run_mcp(parser, args)
        case "plugins":
            from teamwright.surfaces.plugins_command import run_plugins

            return run_plugins(parser, args)
        case "teams" | "inbox":
            return _of_teams(name, parser, args)
        case "doctor":
            parser.add_argument("--model", metavar="NAME", help="check this model's server")
            found = parser.parse_args(args)
            from teamwright.surfaces.doctor import run_doctor

            return run_doctor(found.model, as_json=found.json)
        case _:
            parser.add_argument("session", nargs="?", metavar="SESSION", help="its id; the last one here if left out")
            if name == "why":
                parser.add_argument("agent", nargs="?", metavar="AGENT", help="only this one")
            return _of_session(name, parser.parse_args(args))


def _demo(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--fast", action="store_true", help="do not slow the typing down")
    parser.add_argument("--keep", action="store_true", help="keep the little repository afterwards")
    found = parser.parse_args(args)
    from teamwright.surfaces.demo import play

    return play(fast=found.fast, keep=found.keep)


def _agents(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--agents", metavar="JSON", help="further kinds, as JSON or a file of it")
    parser.add_argument("--trust", action="store_true", help="as if this directory were trusted")
    found = parser.parse_args(args)
    from teamwright.surfaces.agents_command import show_agents

    return show_agents(flag=found.agents, trust=found.trust, as_json=found.json)


def _sessions(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("action", nargs="?", choices=("list", "delete"), default="list")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--older-than", type=float, metavar="DAYS", help="with delete: by last use")
    parser.add_argument("--all", action="store_true", help="of all directories, not only this one")
    found = parser.parse_args(args)
    from teamwright.surfaces import commands

    if found.action == "delete":
        return commands.delete_sessions(found.ids, older_than=found.older_than)
    return commands.show_sessions(everywhere=found.all, as_json=found.json)


def _of_teams(name: str, parser: "argparse.ArgumentParser", args: list[str]) -> int:
    if name == "inbox":
        parser.add_argument("team", nargs="?", metavar="TEAM", help="all teams if left out; NAME@TEAM is one inbox")
        parser.add_argument("agent", nargs="?", metavar="AGENT", help="only what was sent to this one")
    found = parser.parse_args(args)
    from teamwright.surfaces import inbox_command, teams_command

    if name == "teams":
        return teams_command.show_teams(as_json=found.json)
    return inbox_command.show_inbox(found.team, found.agent, as_json=found.json)


def _config(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--trust", action="store_true", help="as if this directory were trusted")
    parser.add_argument("--settings", metavar="FILE_OR_JSON")
    found = parser.parse_args(args)
    from teamwright.surfaces import commands

    return commands.show_config(found.settings, trust=found.trust, as_json=found.json)


def _of_session(name: str, found: "argparse.Namespace") -> int:
    if name == "cost":
        from teamwright.surfaces import commands

        return commands.show_cost(found.session, as_json=found.json)
    from teamwright.surfaces import jobs_command

    if name == "jobs":
        return jobs_command.show_jobs(found.session, as_json=found.json)
    return jobs_command.show_why(found.session, found.agent, as_json=found.json)


# --- prompts


def _run_prompt(args: list[str]) -> int:
    import gc

    gc.disable()  # until the session is open: what is imported stays
    from teamwright.core.errors import UsageError

    found = _prompt_parser().parse_args(args)
    if found.version:
        main(["--version"])
    if not found.print and found.input_format != "stream-json":
        raise UsageError(
            "the terminal app is not there yet. Use `teamwright -p PROMPT` (see --help), or watch `teamwright demo`."
        )
    import anyio

    from teamwright.surfaces.headless.run import run

    headless, options = _headless(found), _options(found)
    return anyio.run(run, headless, options)


def _prompt_parser() -> "argparse.ArgumentParser":
    import argparse

    commands = "\n".join(f"  teamwright {name:<10} {words}" for name, words in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="teamwright",
        description="A coding agent for your terminal and your scripts, on any model.",
        epilog=f"commands:\n{commands}\n\nexit status: 0 done, 1 ended in an error, 2 wrong use, 130 and 143 by signal",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("prompt", nargs="?", help="what to do; also from standard input")
    add("-p", "--print", action="store_true", help="headless: do it, print the answer, end")
    add("-v", "--version", action="store_true", help="print the version")
    _add_formats(parser.add_argument_group("input and output").add_argument)
    _add_model(parser.add_argument_group("model and limits").add_argument)
    _add_permissions(parser.add_argument_group("tools and permissions").add_argument)
    _add_session(parser.add_argument_group("session").add_argument)
    return parser


def _add_formats(add: Callable[..., object]) -> None:
    add("--output-format", choices=("text", "json", "stream-json"), default="text")
    add("--input-format", choices=("text", "stream-json"), default="text", help="stream-json: JSON lines on stdin")
    add("--include-partial-messages", action="store_true", help="text as it comes, in stream-json")
    add("--verbose", action="store_true", help="accepted; stream-json always shows every step")
    add("--debug", action="store_true", help="write more into the log")


def _add_model(add: Callable[..., object]) -> None:
    add("--model", metavar="NAME", help="sonnet, opus, haiku, anthropic/NAME, openai/NAME, script/FILE, ...")
    add("--fallback-model", metavar="NAME", help="when the first one is out of reach")
    add("--effort", choices=EFFORTS, help="how hard it thinks")
    add("--max-turns", type=_positive, metavar="N", help="model calls for one prompt")
    add("--max-budget-usd", type=_money, metavar="X", help="money for the session")
    add("--system-prompt", metavar="TEXT", help="in place of ours")
    add("--append-system-prompt", metavar="TEXT", help="after ours")


def _add_permissions(add: Callable[..., object]) -> None:
    add("--agent", metavar="NAME", help="run the session itself as this kind of agent")
    add("--agents", metavar="JSON", help="further kinds of agents, as JSON or a file of it")
    add("--permission-mode", choices=MODES, help="what may happen unasked")
    add("--dangerously-skip-permissions", action="store_true", help="bypassPermissions, for containers")
    add("--allowed-tools", "--allowedTools", nargs="+", action="extend", metavar="RULE", help="e.g. 'Bash(git *)' Edit")
    add("--disallowed-tools", "--disallowedTools", nargs="+", action="extend", metavar="RULE")
    add("--tools", nargs="+", action="extend", metavar="NAME", help='what the model sees; "" is none, default is all')
    add("--permission-prompt-tool", choices=("stdio",), help="questions as control requests on stdout")
    add("--add-dir", nargs="+", action="extend", metavar="DIR", help="further working directories")
    add("--settings", metavar="FILE_OR_JSON", help="settings for this run")
    add("--setting-sources", metavar="LIST", help="which settings are read: user,project,local")
    add("--trust", action="store_true", help="trust this directory, for this run")


def _add_session(add: Callable[..., object]) -> None:
    add("--resume", "-r", nargs="?", const="", metavar="ID", help="go on with a session")
    add("--continue", "-c", dest="continue_", action="store_true", help="go on with the last one of this directory")
    add("--session-id", metavar="UUID", help="name the new session")
    add("--no-wait", action="store_true", help="end with the turn, whatever still runs in the background")
    add("--fork", action="store_true", help="the agent may fork itself; every agent runs in the background")
    add("--team", metavar="NAME", help="lead this team, whose lead is gone")
    add("--teammate-mode", choices=("auto", "in-process", "tmux", "iterm2", "local"), help="where teammates run")
    add("--coordinator", action="store_true", help="the main agent only delegates")
    add("--assistant", action="store_true", help="nothing blocks: every agent runs in the background")
    add("--proactive", action="store_true", help="the main agent may act by itself when idle")
    add("--fork-session", action="store_true", help="with --resume or --continue: under a new id")


def _positive(text: str) -> int:
    import argparse

    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _money(text: str) -> float:
    import argparse
    import math

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above 0")
    return value


def _headless(found: "argparse.Namespace") -> "Headless":
    from teamwright.core.errors import UsageError
    from teamwright.surfaces.headless.run import Headless

    if found.input_format == "stream-json" and found.output_format != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json")
    if found.include_partial_messages and found.output_format != "stream-json":
        raise UsageError("--include-partial-messages needs --output-format stream-json")
    return Headless(
        found.prompt, found.output_format, found.input_format, found.include_partial_messages, not found.no_wait
    )


def _options(found: "argparse.Namespace") -> "Options":
    import os
    from pathlib import Path

    from teamwright.app import Options
    from teamwright.core.budget import Limits

    return Options(
        cwd=Path.cwd(),
        env=dict(os.environ),
        origin=_origin(found),
        model=found.model,
        fallback_model=found.fallback_model,
        effort=found.effort,
        limits=Limits(turns=found.max_turns, usd=found.max_budget_usd),
        system_prompt=found.system_prompt,
        append_system_prompt=found.append_system_prompt or "",
        mode="bypassPermissions" if found.dangerously_skip_permissions else found.permission_mode,
        may_bypass=found.dangerously_skip_permissions or found.permission_mode == "bypassPermissions",
        allowed_tools=_names(found.allowed_tools),
        disallowed_tools=_names(found.disallowed_tools),
        tools=None if found.tools is None else _names(found.tools),
        add_dirs=tuple(found.add_dir or ()),
        settings=found.settings,
        setting_sources=_sources(found.setting_sources),
        trust=found.trust,
        can_ask=found.permission_prompt_tool == "stdio",
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


def _origin(found: "argparse.Namespace") -> "Origin":
    from teamwright.core.errors import UsageError
    from teamwright.runtime.resume import Origin

    if found.resume == "":
        raise UsageError("--resume needs a session's id: `teamwright sessions` lists them, --continue takes the last")
    if found.fork_session and not (found.resume or found.continue_):
        raise UsageError("--fork-session needs --resume ID or --continue")
    if found.resume and found.continue_:
        raise UsageError("--resume and --continue exclude each other")
    return Origin(found.resume, last=found.continue_, fork=found.fork_session, id=found.session_id)


def _sources(text: str | None) -> tuple[str, ...]:
    from teamwright.core.errors import UsageError

    known = ("user", "project", "local")
    if text is None:
        return known
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise UsageError(f"--setting-sources: there is no source {name!r}; there are {', '.join(known)}")
    return names


def _names(texts: Sequence[str] | None) -> tuple[str, ...]:
    from teamwright.core.rules import split_rules

    return tuple(name for text in texts or () for name in split_rules(text))
