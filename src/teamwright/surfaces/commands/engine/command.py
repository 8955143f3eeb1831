"""`teamwright engine`: makes an engine's server, runs it, adds identities, and tells how it is."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from teamwright.surfaces.commands.engine import server
from teamwright.tools.bounds import visible

ACTIONS = ("init", "run", "add", "status")


def run_engine(parser: ArgumentParser, args: Sequence[str]) -> int:
    add = parser.add_argument
    parser.usage = (
        "teamwright engine init DIR [--host HOST] [--port PORT] [--space SPACE]\n"
        "       teamwright engine run DIR\n"
        "       teamwright engine add NAME DIR\n"
        "       teamwright engine status [--engine URL] [--json]"
    )
    add("action", choices=ACTIONS)
    add("words", nargs="*", metavar="DIR", help="the engine's directory; for add, a name before it")
    add("--host", default="127.0.0.1", help="init: the address at which other machines reach it (default: 127.0.0.1)")
    add("--port", type=int, default=4222, help="init: default 4222")
    add("--space", default="main", help="init: default main")
    add("--engine", metavar="URL", help="status: of this engine; @FILE reads the URL")
    found = parser.parse_args(args)
    wanted = {"init": 1, "run": 1, "add": 2, "status": 0}[found.action]
    if len(found.words) != wanted:
        parser.error({0: "status takes no directory", 1: f"{found.action} DIR", 2: "add NAME DIR"}[wanted])
    if found.action == "status":
        from teamwright.surfaces.commands.engine.status import show_status  # noqa: PLC0415

        return show_status(found.engine, as_json=found.json)
    directory = Path(found.words[-1]).expanduser().absolute()
    if found.action == "run":
        return _run(directory)
    if found.action == "init":
        file = server.make(directory, found.host, found.port, found.space)
        _say(f"The engine is ready: start it with `teamwright engine run {directory}`.")
    else:
        file = server.add(directory, found.words[0])
    _say(f"Whoever has {file} leads sessions in it: `teamwright --engine @{file}`.")
    return 0


def _run(directory: Path) -> int:
    """In the foreground, in place of this program."""
    server.read_plan(directory)
    program = server.find_server()
    sys.stdout.flush()
    os.execv(program, [program, "-c", str(directory / "server.conf")])  # noqa: S606


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
