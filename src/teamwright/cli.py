"""Command line: argv in, exit status out; imports are inside functions to keep `--version` quick."""

import sys
from collections.abc import Sequence

TYPE_CHECKING = False  # checkers know this name; importing `typing` for it would double what `--version` costs
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import NoReturn

    from teamwright.core.ids import SessionId

USAGE = 2


def main(argv: Sequence[str] | None = None) -> "NoReturn":
    """The program's entry point."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args in (["--version"], ["-v"], ["-V"]):
        from teamwright import __version__

        sys.stdout.write(f"{__version__} (Teamwright)\n")
        sys.exit(0)
    if sys.platform == "win32":
        sys.exit("teamwright: native Windows is not supported; run it inside WSL (https://aka.ms/wsl)")
    from teamwright.host.process.secrecy import keep_secrets

    keep_secrets()
    status = _run(args)
    _leave(status)


def _leave(status: int) -> "NoReturn":
    """At once: everything is closed, and taking down what was imported would cost as much as a turn."""
    import os

    if "teamwright.host.process.run" in sys.modules:
        from teamwright.host.process.run import stop_all

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
        _check_directory()
        if args and args[0] in COMMANDS:
            return _run_command(args[0], args[1:])
        if args == ["teammate"]:  # a lead starts it; there is nothing in it for a person
            import anyio

            from teamwright.surfaces.teammate import run_teammate

            return anyio.run(run_teammate)
        return _run_prompt(args)
    except BrokenPipeError:
        return 1
    except Exception as error:
        only = _only(error)
        if not isinstance(only, TeamwrightError):
            raise
        _complain(visible(_without_keys(str(only))))
        return USAGE if isinstance(only, UsageError) else 1
    except KeyboardInterrupt:
        return 130


def _without_keys(words: str) -> str:
    """An error may quote an address or an answer with a key in it."""
    import os

    from teamwright.core.policies.redaction import redacted, secrets_of

    return redacted(words, secrets_of(os.environ))


def _check_directory() -> None:
    import os

    from teamwright.core.errors import UsageError

    try:
        os.getcwd()  # noqa: PTH109 -- pathlib need not be imported for it
    except OSError as error:
        raise UsageError(f"the working directory cannot be used ({error.strerror}): change to another one") from None


def _only(error: Exception) -> Exception:
    """A session that could not be entered fails inside a task group, and alone in it."""
    parts = getattr(error, "exceptions", ())
    return _only(parts[0]) if len(parts) == 1 else error


def _complain(words: str) -> None:
    """A person reads it in whole words, a program as it is."""
    text = f"teamwright: {words}"
    if sys.stderr.isatty():
        import shutil
        import textwrap

        width = max(20, shutil.get_terminal_size().columns - 1)
        wrapped = (textwrap.wrap(line, width, break_long_words=False) for line in text.split("\n"))
        text = "\n".join("\n".join(lines) for lines in wrapped)
    sys.stderr.write(f"{text}\n")


# --- commands

COMMANDS = {
    "demo": "watch a team of agents fix a small demo repository; needs no key",
    "agents": "list agent types and their sources",
    "sessions": "list sessions; `sessions delete ID ...` or `--older-than DAYS` removes them",
    "teams": "list teams and their members; `teams delete NAME` removes one whose lead is gone",
    "inbox": "list a team's messages in order, with the status of each",
    "tasks": "show the shared task list of a session or a team",
    "jobs": "list a session's background jobs, running and finished",
    "why": "show what each waiting agent waits for",
    "attach": "watch and control a running session from another terminal",
    "worktrees": "list agents' git worktrees; `show NAME`, `merge NAME`, `clean [NAME ...]`",
    "mcp": "manage MCP servers: `list`, `add NAME COMMAND ...`, `remove NAME`, `test`, `login NAME`; or `serve` as one",
    "cost": "show the tokens, money and time used by sessions and agents",
    "config": "show the settings in effect and the source of each",
    "permissions": "list permission rules and the source of each; `remove RULE` takes one out of the local settings",
    "trust": "trust a project's directory: its settings, agents, skills, hooks and MCP servers",
    "untrust": "take that back",
    "plugins": "list plugins and their contents; `install PATH_OR_GIT_ADDRESS`, `enable`, `disable`, `remove NAME`",
    "doctor": "check this machine, its keys, servers and files",
    "help": "show all commands and options, or those of one command",
}


def _run_command(name: str, args: list[str]) -> int:
    from teamwright.surfaces.usage import Parser

    parser = Parser(name, COMMANDS[name])
    if name not in ("demo", "help"):
        parser.add_argument("--json", action="store_true", help="print JSON")
    if run := _COMMANDS_HERE.get(name):
        return run(parser, args)
    match name:
        case "worktrees" | "attach" | "tasks" | "mcp" | "plugins" | "permissions" | "trust" | "untrust":
            return _own_parser(name)(parser, args)
        case "teams" | "inbox":
            return _of_teams(name, parser, args)
        case _:
            default = "all" if name == "cost" else "the last one here"
            words = f"session id or its beginning (default: {default})"
            parser.add_argument("session", nargs="?", metavar="SESSION", help=words)
            if name == "why":
                parser.add_argument("agent", nargs="?", metavar="AGENT", help="only this agent")
            return _of_session(name, parser.parse_args(args))


def _own_parser(name: str) -> "Callable[[argparse.ArgumentParser, list[str]], int]":
    """Commands that add their own arguments."""
    match name:
        case "worktrees":
            from teamwright.surfaces.commands.worktrees import run_worktrees

            return run_worktrees
        case "attach":
            return _attach
        case "tasks":
            from teamwright.surfaces.commands.tasks import run_tasks

            return run_tasks
        case "mcp":
            from teamwright.surfaces.commands.mcp import run_mcp

            return run_mcp
        case "permissions" | "trust" | "untrust":
            from teamwright.surfaces.commands import permissions

            return getattr(permissions, f"run_{name}")
        case _:
            from teamwright.surfaces.commands.plugins import run_plugins

            return run_plugins


def _attach(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    from teamwright.surfaces.attach.command import run_attach

    async def show_app(session: "SessionId") -> int:
        from teamwright.surfaces.headless.door import keep_door
        from teamwright.surfaces.terminal.run import run_attached

        return await run_attached(session, keep_door)

    return run_attach(parser, args, show_app)


def _demo(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--fast", action="store_true", help="do not slow down the typing")
    parser.add_argument("--keep", action="store_true", help="keep the sample repository afterwards")
    parser.add_argument("--kill", action="store_true", help="print a run that is killed halfway and resumed")
    parser.add_argument("--plain", action="store_true", help="print the story even in a terminal")
    found = parser.parse_args(args)
    from teamwright.surfaces.demo.run import play
    from teamwright.surfaces.terminal.run import show_guided

    return play(show_guided, fast=found.fast, keep=found.keep, kill=found.kill, plain=found.plain)


def _agents(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--agents", metavar="JSON", help="additional agent types, as JSON or a JSON file")
    parser.add_argument("--trust", action="store_true", help="treat this directory as trusted")
    found = parser.parse_args(args)
    from teamwright.surfaces.commands.agents import show_agents

    return show_agents(flag=found.agents, trust=found.trust, as_json=found.json)


def _sessions(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("action", nargs="?", choices=("list", "delete"), default="list")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument(
        "--older-than", type=float, metavar="DAYS", help="with delete: sessions last used more than DAYS ago"
    )
    parser.add_argument("--all", action="store_true", help="list the sessions of all directories")
    found = parser.parse_args(args)
    from teamwright.surfaces.commands import listings as commands

    if found.action == "delete":
        return commands.delete_sessions(found.ids, older_than=found.older_than)
    return commands.show_sessions(everywhere=found.all, as_json=found.json)


def _of_teams(name: str, parser: "argparse.ArgumentParser", args: list[str]) -> int:
    if name == "inbox":
        parser.add_argument("team", nargs="?", metavar="TEAM", help="a team, or one inbox: NAME@TEAM (default: all)")
        parser.add_argument("agent", nargs="?", metavar="AGENT", help="only messages to this agent")
    else:
        parser.add_argument("action", nargs="?", choices=("list", "delete"), default="list")
        parser.add_argument("team", nargs="?", metavar="TEAM", help="with delete: a team whose lead is gone")
    found = parser.parse_args(args)
    if name == "teams" and (found.action == "delete") != bool(found.team):
        parser.error("delete needs the name of a team" if found.action == "delete" else "list takes no name")
    from teamwright.surfaces.commands import inbox as inbox_command
    from teamwright.surfaces.commands import teams as teams_command

    if name == "teams" and found.action == "delete":
        from teamwright.surfaces.commands.team_delete import delete_team

        return delete_team(found.team, as_json=found.json)
    if name == "teams":
        return teams_command.show_teams(as_json=found.json)
    return inbox_command.show_inbox(found.team, found.agent, as_json=found.json)


def _config(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--trust", action="store_true", help="treat this directory as trusted")
    parser.add_argument("--settings", metavar="FILE_OR_JSON", help="additional settings")
    found = parser.parse_args(args)
    from teamwright.surfaces.commands import listings as commands

    return commands.show_config(found.settings, trust=found.trust, as_json=found.json)


def _doctor(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    parser.add_argument("--model", metavar="NAME", help="check this model's server")
    found = parser.parse_args(args)
    from teamwright.surfaces.commands.doctor import run_doctor

    return run_doctor(found.model, as_json=found.json)


def _help(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    from teamwright.core.errors import UsageError
    from teamwright.surfaces.usage import did_you_mean

    parser.add_argument("command", nargs="?", metavar="COMMAND", help="the one to explain")
    name = parser.parse_args(args).command
    if name and name not in COMMANDS:
        raise UsageError(
            f"there is no command {name}{did_you_mean(name, COMMANDS) or '; `teamwright help` lists them'}"
        )
    return _run_command(name, ["--help"]) if name else _run_prompt(["--help"])


_COMMANDS_HERE: "dict[str, Callable[[argparse.ArgumentParser, list[str]], int]]" = {
    "demo": _demo,
    "agents": _agents,
    "sessions": _sessions,
    "config": _config,
    "doctor": _doctor,
    "help": _help,
}


def _of_session(name: str, found: "argparse.Namespace") -> int:
    if name == "cost":
        from teamwright.surfaces.commands import listings as commands

        return commands.show_cost(found.session, as_json=found.json)
    from teamwright.surfaces.commands import jobs as jobs_command

    if name == "jobs":
        return jobs_command.show_jobs(found.session, as_json=found.json)
    return jobs_command.show_why(found.session, found.agent, as_json=found.json)


# --- prompts


def _run_prompt(args: list[str]) -> int:
    import gc

    gc.disable()  # until the session is open: what is imported stays
    from teamwright.surfaces.headless.arguments import headless_of, options_of, prompt_parser
    from teamwright.surfaces.usage import check_command

    if args and "-p" not in args and "--print" not in args:
        check_command(args[0], COMMANDS)
    found = prompt_parser(COMMANDS).parse_args(args)
    if found.version:
        main(["--version"])
    if not found.print and found.input_format != "stream-json":
        check_command(found.prompt or "", COMMANDS)
        return _run_app(found)
    import anyio

    from teamwright.surfaces.headless.run import run

    return anyio.run(run, headless_of(found), options_of(found))


def _run_app(found: "argparse.Namespace") -> int:
    import anyio

    from teamwright.surfaces.headless.arguments import options_of
    from teamwright.surfaces.terminal.run import check_terminal, run_terminal

    check_terminal()
    from teamwright.surfaces.headless.door import keep_door

    pick = found.resume == ""
    found.resume = found.resume or None
    options = options_of(found)

    async def show_app() -> int:
        return await run_terminal(options, keep_door, prompt=found.prompt, pick=pick)

    return anyio.run(show_app)
