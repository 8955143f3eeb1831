"""`teamwright engine`: sets up an engine's server, runs it, adds identities, and shows its status."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from teamwright.surfaces.commands.engine import server
from teamwright.tools.bounds import visible

WORDS = {"init": "DIR", "run": "DIR", "add": "lead|worker NAME DIR", "status": "--engine URL"}
COUNTS = {"init": 1, "run": 1, "add": 3, "status": 0}


def run_engine(parser: ArgumentParser, args: Sequence[str]) -> int:
    add = parser.add_argument
    parser.usage = (
        "teamwright engine init DIR [--host H,H,H] [--port N] [--tls] [--space S]\n"
        "       teamwright engine run DIR [--node N]\n"
        "       teamwright engine add lead|worker NAME DIR\n"
        "       teamwright engine status [--engine URL] [--json]"
    )
    add("action", choices=tuple(WORDS))
    add("words", nargs="*", metavar="DIR", help="the engine's directory; for add, a role and a name before it")
    add(
        "--host",
        default="127.0.0.1",
        help="init: the address at which other machines reach it, or three of them (default: 127.0.0.1)",
    )
    add("--port", type=int, default=4222, help="init: port, default 4222; three nodes also use the port 2000 above it")
    add("--tls", action="store_true", help="init: encrypt all connections, with certificates of its own")
    add("--space", default="main", help="init: name of the space (default: main)")
    add("--node", type=int, metavar="N", help="run: the number of this node, if there are three")
    add("--engine", metavar="URL", help="status: the engine to ask; @FILE reads the URL")
    found = parser.parse_args(args)
    if len(found.words) != COUNTS[found.action] or not all(found.words):
        parser.error(f"write `teamwright engine {found.action} {WORDS[found.action]}`")
    if found.action == "status":
        from teamwright.surfaces.commands.engine.status import show_status  # noqa: PLC0415

        return show_status(found.engine, as_json=found.json)
    directory = Path(found.words[-1]).expanduser().absolute()
    if found.action == "run":
        from teamwright.surfaces.commands.engine.running import run_server  # noqa: PLC0415

        return run_server(directory, found.node)
    if found.action == "init":
        _init(directory, found)
    else:
        _tell_identity(server.add(directory, found.words[0], found.words[1]), found.words[0])
        if len(server.read_plan(directory).hosts) > 1:
            _say(f"Copy {directory}/users.conf to the other nodes, and send each server a SIGHUP.")
    return 0


def _init(directory: Path, found: Namespace) -> None:
    hosts = tuple(found.host.split(","))
    server.make(directory, hosts, found.port, found.space, tls=found.tls)
    if len(hosts) == 1:
        _say(f"The engine is ready: start it with `teamwright engine run {directory}`.")
    else:
        _say(f"The engine is ready: copy {directory} to each machine, and start it there with")
        for node, host in enumerate(hosts, 1):
            _say(f"  {host}: `teamwright engine run {directory} --node {node}`")
    for role in ("lead", "worker"):
        _tell_identity(directory / f"{role}.url", role)
    if found.tls:
        _say(f"Each needs {directory / 'ca.pem'} beside it, to know the server by.")


def _tell_identity(file: Path, role: str) -> None:
    if role == "lead":
        _say(f"Whoever has {file} leads sessions in it: `teamwright --engine @{file}`.")
    else:
        _say(f"Whoever has {file} runs agents for them: `teamwright worker --join @{file}`.")


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
