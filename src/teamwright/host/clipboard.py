"""The desktop clipboard, through whichever program is installed: reads a picture, writes text."""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from subprocess import DEVNULL

import anyio

from teamwright.core.errors import UsageError

SECONDS = 10.0
MOST_BYTES = 50 * 1024 * 1024
_HEX = re.compile(rb"PNGf([0-9A-Fa-f]+)")
_MISSING = (
    "No program here reads pictures from the clipboard: install wl-clipboard (Wayland), xclip (X11) or pngpaste "
    "(macOS), or name the file with @"
)


def _readers(env: Mapping[str, str]) -> list[list[str]]:
    """Commands that print a PNG, if their program and its display are available."""
    found: list[list[str]] = []
    if env.get("WAYLAND_DISPLAY"):
        found.append(["wl-paste", "--no-newline", "--type", "image/png"])
    if env.get("DISPLAY"):
        found.append(["xclip", "-selection", "clipboard", "-target", "image/png", "-out"])
    if sys.platform == "darwin":
        found += [["pngpaste", "-"], ["osascript", "-e", "the clipboard as «class PNGf»"]]
    return _present(found, env)


def _writers(env: Mapping[str, str]) -> list[list[str]]:
    found: list[list[str]] = []
    if env.get("WAYLAND_DISPLAY"):
        found.append(["wl-copy"])
    if env.get("DISPLAY"):
        found.append(["xclip", "-selection", "clipboard", "-in"])
    if sys.platform == "darwin":
        found.append(["pbcopy"])
    return _present(found, env)


def _present(commands: Sequence[list[str]], env: Mapping[str, str]) -> list[list[str]]:
    paths = [(shutil.which(command[0], path=env.get("PATH")), command) for command in commands]
    return [[path, *command[1:]] for path, command in paths if path]


def _why_none(env: Mapping[str, str]) -> str:
    """Why no command works: an installed program may lack its display, as in a remote login."""
    for name, display in (("wl-paste", "WAYLAND_DISPLAY"), ("xclip", "DISPLAY")):
        if not env.get(display) and shutil.which(name, path=env.get("PATH")):
            return f"{name} cannot read the clipboard: {display} is not set in this terminal. Name the file with @"
    return _MISSING


async def read_picture(env: Mapping[str, str]) -> bytes:
    """The bytes of a PNG; empty if the clipboard holds no picture."""
    readers = _readers(env)
    if not readers:
        raise UsageError(_why_none(env))
    for argv in readers:
        data = await _run(argv, env)
        if (hidden := _HEX.search(data)) is not None and argv[0].endswith("osascript"):
            data = bytes.fromhex(hidden[1].decode())
        if data.startswith(b"\x89PNG") and len(data) <= MOST_BYTES:
            return data
    return b""


async def write_text(text: str, env: Mapping[str, str]) -> bool:
    """Returns False if no installed program can do it."""
    for argv in _writers(env):
        with anyio.move_on_after(SECONDS):
            # discard output: the background process that keeps the clipboard alive would hold a pipe open
            ran = await anyio.run_process(
                argv, input=text.encode(), stdout=DEVNULL, stderr=DEVNULL, check=False, env=env
            )
            if ran.returncode == 0:
                return True
    return False


async def _run(argv: Sequence[str], env: Mapping[str, str]) -> bytes:
    with anyio.move_on_after(SECONDS):
        return (await anyio.run_process(argv, check=False, env=env)).stdout
    return b""
