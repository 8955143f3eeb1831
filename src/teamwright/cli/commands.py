"""Commands by name: what each does, its arguments if they are few, and the function that runs it."""

import sys

TYPE_CHECKING = False  # as in the package itself
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from teamwright.app import Options
    from teamwright.core.ids import SessionId
    from teamwright.surfaces.acp.threads.hosting import KeepDoor
    from teamwright.surfaces.usage import Parser

COMMANDS = {
    "demo": "watch a team of agents fix a small demo repository; needs no key",
    "agents": "list agent types and their sources",
    "sessions": "list sessions; `sessions delete ID ...` or `--older-than DAYS` removes them, also in an engine",
    "import": "import sessions of another program: `claude`, with `--list`, SESSION or `--all`",
    "teams": "list teams and their members; `teams delete NAME` removes one whose lead is gone",
    "inbox": "list a team's messages in order, with the status of each",
    "tasks": "show the shared task list of a session or a team",
    "jobs": "list a session's background jobs, running and finished",
    "why": "show what each waiting agent waits for",
    "acp": "serve an editor over the Agent Client Protocol: Zed, JetBrains, Neovim, Emacs, Toad",
    "attach": "watch and control a running session from another terminal",
    "web": "show all sessions in the browser; `web link`, `web links`, `web revoke ID`",
    "engine": "a server that several machines share: `init DIR`, `run DIR`, `add ROLE NAME DIR`, `status`",
    "worker": "run agents of an engine's sessions on this machine: `--join URL`",
    "workers": "list the workers of an engine, and what each runs",
    "worktrees": "list agents' git worktrees; `show NAME`, `merge NAME`, `clean [NAME ...]`",
    "land": "land finished branches one at a time, each checked first; `--list`, `--watch`",
    "mcp": "manage MCP servers: `list`, `add NAME COMMAND ...`, `remove NAME`, `test`, `login NAME`; `serve` runs one",
    "cost": "show the tokens, money and time used by sessions and agents",
    "config": "show the settings in effect and the source of each",
    "permissions": "list permission rules and the source of each; `remove RULE` takes one out of the local settings",
    "trust": "trust a project's directory: its settings, agents, skills, hooks and MCP servers",
    "untrust": "stop trusting a project's directory",
    "plugins": "list plugins and their contents; `install PATH_OR_GIT_ADDRESS`, `enable`, `disable`, `remove NAME`",
    "otel": "`export SESSION` sends the traces and events of a past session to a collector",
    "doctor": "check this machine, its keys, servers and files",
    "completion": "print a completion script for bash, zsh or fish",
    "help": "show all commands and options, or those of one command",
}


def run_command(name: str, args: list[str]) -> int:
    from teamwright.surfaces.usage import Parser

    parser = Parser(name, COMMANDS[name])
    if name not in ("acp", "demo", "completion", "help", "worker"):
        parser.add_argument("--json", action="store_true", help="print JSON")
    if name in ("sessions", "teams", "tasks", "inbox", "jobs", "why", "cost", "workers"):
        parser.add_argument("--engine", metavar="URL", help="show what is in this engine; @FILE reads the URL")
    if run := _COMMANDS_HERE.get(name):
        return run(parser, args)
    match name:
        case (
            "web"
            | "worktrees"
            | "land"
            | "attach"
            | "tasks"
            | "mcp"
            | "plugins"
            | "permissions"
            | "trust"
            | "untrust"
            | "import"
            | "otel"
            | "engine"
            | "worker"
            | "workers"
        ):
            return _own_parser(name)(parser, args)
        case "teams" | "inbox":
            return _of_teams(name, parser, args)
        case _:
            default = "all" if name == "cost" else "the last one here"
            words = f"session id or its beginning (default: {default})"
            parser.add_argument("session", nargs="?", metavar="SESSION", help=words)
            if name == "why":
                parser.add_argument("agent", nargs="?", metavar="AGENT", help="only this agent")
            if name == "jobs":
                parser.add_argument("--stop", metavar="ID", help="end this agent, which runs on a worker")
            return _of_session(name, parser.parse_args(args))


def _look_through(engine: str | None) -> bool:
    """Make listings read the engine that an option or the environment names; False if there is none."""
    import os

    if not (engine or os.environ.get("TEAMWRIGHT_ENGINE")):
        return False
    from teamwright.surfaces.commands.through_engine import look_through

    look_through(engine)
    return True


_OWN_PARSERS = {  # commands that add their own arguments, as `module:function`
    "web": "web.command:run_web",
    "worktrees": "commands.worktrees:run_worktrees",
    "land": "commands.land:run_land",
    "tasks": "commands.tasks:run_tasks",
    "import": "commands.import_sessions:run_import",
    "mcp": "commands.mcp.servers:run_mcp",
    "engine": "commands.engine.command:run_engine",
    "worker": "commands.worker.run:run_worker",
    "workers": "commands.worker.listing:run_workers",
    "otel": "commands.otel:run_otel",
    "permissions": "commands.permissions:run_permissions",
    "trust": "commands.permissions:run_trust",
    "untrust": "commands.permissions:run_untrust",
    "plugins": "commands.plugins:run_plugins",
}


def _own_parser(name: str) -> "Callable[[argparse.ArgumentParser, list[str]], int]":
    if name == "attach":
        return _attach
    from importlib import import_module

    module, _, function = _OWN_PARSERS[name].partition(":")
    return getattr(import_module(f"teamwright.surfaces.{module}"), function)


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
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="print a team on an engine and N workers, one of which is killed",
    )
    found = parser.parse_args(args)
    from teamwright.surfaces.demo.run import play
    from teamwright.surfaces.terminal.run import show_guided

    return play(
        show_guided, fast=found.fast, keep=found.keep, kill=found.kill, plain=found.plain, workers=found.workers
    )


def _acp(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    import gc

    gc.disable()  # until the application is imported: imported modules stay anyway
    from teamwright.surfaces.headless.flags import add_editor_flags

    parser.usage = "teamwright acp [OPTIONS]"
    add_editor_flags(parser)
    found = parser.parse_args(args)
    import anyio

    from teamwright.surfaces.acp.run import run_editor

    def ready() -> "tuple[Options, KeepDoor]":
        from teamwright.surfaces.headless.arguments import options_of
        from teamwright.surfaces.headless.door import keep_door

        return options_of(found), keep_door

    return anyio.run(run_editor, ready)


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
        if found.engine and (found.older_than is not None or not found.ids):
            parser.error("delete with --engine takes the ids of sessions")
        if found.engine:
            from teamwright.surfaces.commands.engine.removal import remove_sessions

            return remove_sessions(found.engine, found.ids)
        return commands.delete_sessions(found.ids, older_than=found.older_than)
    if found.ids or found.older_than is not None:
        parser.error("ids and --older-than belong to delete")
    everywhere = _look_through(found.engine) or found.all
    return commands.show_sessions(everywhere=everywhere, as_json=found.json)


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
    from teamwright.surfaces.commands.teams import inbox as inbox_command
    from teamwright.surfaces.commands.teams import listing as teams_command

    if name == "teams" and found.action == "delete":
        from teamwright.surfaces.commands.teams.delete import delete_team

        return delete_team(found.team, found.engine, as_json=found.json)
    _look_through(found.engine)
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


def _completion(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    from teamwright.surfaces.commands.from_parsers.completion import SHELLS, completion_script, read_command

    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(args).shell
    parsers = described_parsers()
    sys.stdout.write(completion_script(shell, [read_command(n, COMMANDS.get(n, ""), p) for n, p in parsers.items()]))
    return 0


def described_parsers() -> "dict[str, Parser]":
    """The complete parser of each command; the first is the program's own, with an empty name."""
    from functools import partial

    from teamwright.cli.prompts import run_prompt
    from teamwright.surfaces.usage import described

    found = {"": described(partial(run_prompt, ["--help"]))}
    return found | {name: described(partial(run_command, name, ["--help"])) for name in COMMANDS}


def _help(parser: "argparse.ArgumentParser", args: list[str]) -> int:
    from teamwright.cli.prompts import run_prompt
    from teamwright.core.errors import UsageError
    from teamwright.surfaces.usage import did_you_mean

    parser.add_argument("command", nargs="?", metavar="COMMAND", help="the command to explain")
    name = parser.parse_args(args).command
    if name and name not in COMMANDS:
        raise UsageError(
            f"there is no command {name}{did_you_mean(name, COMMANDS) or '; `teamwright help` lists them'}"
        )
    return run_command(name, ["--help"]) if name else run_prompt(["--help"])


_COMMANDS_HERE: "dict[str, Callable[[argparse.ArgumentParser, list[str]], int]]" = {
    "acp": _acp,
    "demo": _demo,
    "agents": _agents,
    "sessions": _sessions,
    "config": _config,
    "doctor": _doctor,
    "completion": _completion,
    "help": _help,
}


def _address_of(engine: str | None) -> str:
    """The engine's address, safe to show; empty if there is none."""
    import os

    if not (engine or os.environ.get("TEAMWRIGHT_ENGINE")):
        return ""
    from teamwright.surfaces.commands.through_engine import read_named_engine

    return str(read_named_engine(engine) or "")


def _of_session(name: str, found: "argparse.Namespace") -> int:
    if name == "jobs" and found.stop:
        from teamwright.surfaces.commands.remote_jobs import stop_remote

        return stop_remote(found.engine, found.stop)
    _look_through(found.engine)
    if name == "cost":
        from teamwright.surfaces.commands import listings as commands

        return commands.show_cost(found.session, as_json=found.json)
    from teamwright.surfaces.commands import jobs as jobs_command

    if name == "jobs":
        return jobs_command.show_jobs(found.session, _address_of(found.engine), as_json=found.json)
    return jobs_command.show_why(found.session, found.agent, as_json=found.json)
