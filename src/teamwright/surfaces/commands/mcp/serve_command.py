"""Options of `teamwright mcp serve`."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import anyio

from teamwright.app import Options
from teamwright.core.errors import UsageError
from teamwright.core.permissions.consent import MODES
from teamwright.runtime.agents.resume import Origin

HTTP_PORT = 7434


def add_serving(group: Any) -> None:
    add = group.add_argument
    add("--http", action="store_true", help="serve at an address of this machine; print the address and its token")
    add("--port", type=int, metavar="N", help=f"with --http: port (default: {HTTP_PORT}; 0: any free port)")
    add("--model", metavar="NAME", help="model of the teammates")
    modes = ", ".join(MODES)
    words = f"what runs without approval ({modes}); everything else is denied"
    add("--permission-mode", choices=MODES, metavar="MODE", help=words)
    add("--resume", metavar="ID", help="resume a session and its teams")
    add("--team", metavar="NAME", help="take over a team whose lead has exited")
    add(
        "--teammate-mode",
        choices=("auto", "in-process", "tmux", "iterm2", "local", "remote"),
        metavar="PLACE",
        help="where teammates run",
    )


def run_serve(found: Namespace) -> int:
    if found.words:
        raise UsageError("mcp serve takes no arguments; an MCP client starts it and talks to it over pipes")
    if found.port is not None and not found.http:
        raise UsageError("--port needs --http")
    from teamwright.surfaces.commands.mcp.serve import serve  # noqa: PLC0415  # the protocol package takes a second
    from teamwright.surfaces.commands.mcp.transports import serve_at, serve_pipes  # noqa: PLC0415

    port = HTTP_PORT if found.port is None else found.port
    run = serve_at(port, os.environ, as_json=found.json) if found.http else serve_pipes
    options = Options(
        cwd=Path.cwd(),
        env=dict(os.environ),
        trust=found.trust,
        origin=Origin(found.resume),
        model=found.model,
        mode=found.permission_mode,
        may_bypass=found.permission_mode == "bypassPermissions",
        team=found.team,
        teammate_mode=found.teammate_mode,
        mcp_config=found.mcp_config,
        strict_mcp_config=found.strict_mcp_config,
        driven=True,
    )
    return anyio.run(serve, options, run)
