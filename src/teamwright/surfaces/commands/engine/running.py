"""`teamwright engine run`: runs the server in the foreground, and makes the space in it, which workers cannot do."""

import os
import sys
from pathlib import Path

import anyio

from teamwright.core.errors import UsageError
from teamwright.core.text import shown
from teamwright.store.engine.wire.address import read_named
from teamwright.surfaces.commands.engine import server

_LIMIT = 120.0  # seconds until the server, or a majority of the nodes, is up
_PAUSE = 0.3


def run_server(directory: Path, node: int | None) -> int:
    """Replaces this program by the server."""
    plan = server.read_plan(directory)
    several = len(plan.hosts) > 1
    if several and node is None:
        raise UsageError(f"this engine has {len(plan.hosts)} nodes; --node N says which one this is, from 1 on")
    if node is not None and not 1 <= node <= len(plan.hosts):
        raise UsageError(f"--node {node}: this engine has {len(plan.hosts)}")
    program = server.find_server()
    sys.stdout.flush()
    _prepare_beside(directory)
    os.chdir(directory)
    os.execv(program, [program, "-c", plan.file(node or 1, "conf")])  # noqa: S606


def _prepare_beside(directory: Path) -> None:
    """Runs in a detached process, because the server would not reap a child."""
    if (child := os.fork()) == 0:
        if os.fork() == 0:
            os.setsid()
            _silence()
            try:
                anyio.run(_prepare, directory)
            except Exception as error:  # noqa: BLE001 -- the boundary of this process
                os.write(2, f"teamwright: the space could not be made: {shown(str(error) or repr(error))}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)


def _silence() -> None:
    """Errors are still shown among the server's own."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)


async def _prepare(directory: Path) -> None:
    from teamwright.store.engine.port import EngineError  # noqa: PLC0415
    from teamwright.store.engine.space import make_space  # noqa: PLC0415

    address, why = read_named(f"@{directory}/lead.url", directory), "it does not answer"
    with anyio.move_on_after(_LIMIT):
        while True:
            try:
                return await make_space(address)
            except EngineError as error:
                why = str(error)
                await anyio.sleep(_PAUSE)
    raise UsageError(f"{_LIMIT:g} s were not enough. {why}")
