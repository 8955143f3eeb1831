"""`teamwright mcp login` and `logout`: sign in to an MCP server in a browser, and forget the sign-in."""

import os
import sys

import anyio

from teamwright.app.extensions.servers import TOKENS
from teamwright.app.workspace import Workspace
from teamwright.core.data.extensions.server import Http, ServerConfig, ServerFault, Sse
from teamwright.core.errors import UsageError
from teamwright.host.mcp.callbacks import Ears
from teamwright.host.mcp.connect import McpContext, connect
from teamwright.host.mcp.oauth import PATIENCE
from teamwright.host.mcp.oauth_store import forget, token_path
from teamwright.host.process.browser import open_browser
from teamwright.library.mcp_config import limits
from teamwright.tools.bounds import visible


def log_in(config: ServerConfig, ground: Workspace) -> int:
    url = _url(config)
    token_path(ground.home.root / TOKENS, url).unlink(missing_ok=True)
    try:
        tools = anyio.run(_connect, config, ground)
    except ServerFault as fault:
        sys.stderr.write(f"teamwright: {visible(config.name)}: {visible(str(fault))}\n")
        return 1
    agreed = token_path(ground.home.root / TOKENS, url).exists()
    _say(f"{config.name}: {'signed in' if agreed else 'no sign-in needed'}; it has {tools} tools")
    return 0


async def _connect(config: ServerConfig, ground: Workspace) -> int:
    _, call = limits(ground.env)
    around = McpContext(
        env=ground.env,
        cwd=ground.project,
        connect_seconds=PATIENCE,
        call_seconds=call,
        tokens=ground.home.root / TOKENS,
        sign_in=_show,
    )
    async with connect(config, around, Ears()) as link:
        return len(await link.tools())


async def _show(address: str) -> None:
    """Open the browser and print the address as well: it may be the wrong browser, or none."""
    opened = await open_browser(address, os.environ)
    _say(f"{'Agree in the browser, or open' if opened else 'Open'} this address in one on this machine:\n{address}")
    sys.stdout.flush()


def log_out(config: ServerConfig, ground: Workspace) -> int:
    there = forget(ground.home.root / TOKENS, _url(config))
    _say(f"{config.name}: {'signed out' if there else 'was not signed in'}")
    return 0


def _url(config: ServerConfig) -> str:
    if config.fault:
        raise UsageError(f"{config.name}: {config.fault}")
    if not isinstance(config.reach, Http | Sse):
        raise UsageError(f"{config.name} has no URL, so there is nothing to sign in to")
    if any(name.lower() == "authorization" for name in config.reach.headers):
        raise UsageError(f"{config.name} already has a token in its headers; remove it first")
    return config.reach.url


def _say(words: str) -> None:
    sys.stdout.write("\n".join(map(visible, words.split("\n"))) + "\n")
