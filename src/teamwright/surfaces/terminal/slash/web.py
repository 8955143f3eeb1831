"""The command that shows this session in the browser."""

import subprocess
import sys
from collections.abc import Mapping

import anyio
import msgspec
from anyio import to_thread

from teamwright.core.errors import UsageError
from teamwright.surfaces.terminal.slash.command import CommandContext

SECONDS = 20.0  # for the hub to print its link
_hubs: list["subprocess.Popen[bytes]"] = []  # they go on; the next start collects those that have ended


class _Told(msgspec.Struct):
    url: str


async def web(stage: CommandContext, words: str) -> str:
    """The hub runs in a process of its own and outlives the app; one that already runs is asked for a link."""
    told = b""
    with anyio.move_on_after(SECONDS):
        told = await to_thread.run_sync(_start, stage.session.id, stage.options.env, abandon_on_cancel=True)
    try:
        return f"Opened in the browser; the link opens once: {msgspec.json.decode(told, type=_Told).url}"
    except msgspec.DecodeError:
        raise UsageError("no link was printed: `teamwright web` in another terminal says why") from None


def _start(session: str, env: Mapping[str, str]) -> bytes:
    argv = [sys.executable, "-m", "teamwright", "web", "--json", "--session", session]
    hub = subprocess.Popen(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _hubs[:] = [*(one for one in _hubs if one.poll() is None), hub]
    assert hub.stdout is not None
    with hub.stdout as lines:
        return lines.readline()
