"""`teamwright attach`: shows a running session in a second terminal, in the app or line by line."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import msgspec

from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.host.ipc.unix_stream import UnixStream
from teamwright.store.files.paths import Home, home_from, is_session_id, list_sessions
from teamwright.surfaces.attach.lines import HELP, ToldLine, describe, typed
from teamwright.surfaces.attach.remote import attach_agent, find_agent, is_url
from teamwright.surfaces.plain import is_terminal, wants_colours
from teamwright.surfaces.port.doors import knock, open_doors
from teamwright.surfaces.stdin import read_lines


def run_attach(parser: ArgumentParser, args: Sequence[str], show_app: Callable[[SessionId], Awaitable[int]]) -> int:
    """`show_app` is for people at a terminal."""
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="session id or its beginning, or the URL of an agent in an engine (default: the last one here)",
    )
    parser.add_argument("--plain", action="store_true", help="print lines instead of opening the app")
    parser.add_argument("--engine", metavar="URL", help="with an agent's URL: take user and password from this one")
    found = parser.parse_args(args)
    if is_url(found.session):
        return anyio.run(attach_agent, *find_agent(found.session, found.engine), found.json)
    home = home_from(os.environ)
    session = find_session(home, found.session, Path.cwd())
    if found.json or found.plain or not is_terminal():
        return anyio.run(attach, home, session, found.json)
    return anyio.run(show_app, session)


def find_session(home: Home, named: str | None, cwd: Path) -> SessionId:
    """The session that is meant, among those that listen."""
    listening = open_doors(home)
    if named is not None:
        meant = sorted(id for id in listening if id.startswith(named.lower()))
        if len(meant) > 1:
            raise UsageError(f"{named!r} matches several sessions: {', '.join(meant)}")
        if not meant and not is_session_id(named):
            raise UsageError(f"no running session begins with {named!r}; `teamwright sessions` lists them")
        return meant[0] if meant else SessionId(named)
    here = [entry.id for entry in list_sessions(home, cwd) if entry.id in listening]
    if here:
        return here[0]
    raise UsageError(
        f"no session of {cwd} can be attached to: open one with `teamwright`, or start it with --listen"
        + (f"; running elsewhere: {', '.join(sorted(listening))}" if listening else "")
    )


async def attach(home: Home, session: SessionId, as_json: bool) -> int:  # noqa: FBT001
    """Show a session until it ends or there is nothing more to type."""
    async with knock(home, session) as stream:
        told = ToldLine(colours=wants_colours(sys.stdout, dict(os.environ)))
        async with anyio.create_task_group() as group:

            async def show() -> None:
                await _show(stream, told, as_json=as_json)
                group.cancel_scope.cancel()

            group.start_soon(show)
            if not as_json and sys.stdin.isatty():
                sys.stderr.write(f"attached to {session}. {HELP}\n")
            await _type(stream, told, as_json=as_json)
            group.cancel_scope.cancel()
    return 0


async def _show(stream: UnixStream, told: ToldLine, *, as_json: bool) -> None:
    waiting: list[bytes] = []
    while chunk := await stream.receive():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line, waiting = b"".join([*waiting, part]), []
            _print(line, told, as_json=as_json)
        waiting.append(rest)
        sys.stdout.flush()


def _print(line: bytes, told: ToldLine, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(line.decode(errors="backslashreplace") + "\n")
        return
    for shown in describe(line, told):
        sys.stdout.write(shown + "\n")


async def _type(stream: UnixStream, told: ToldLine, *, as_json: bool) -> None:
    """Pass on standard input: JSON lines as they are, or what a person types."""
    async for line in read_lines():
        if as_json:
            await stream.send(line + b"\n")
            continue
        text = line.decode(errors="replace").rstrip("\r")
        if text.strip() in ("/quit", "/detach"):
            return
        try:
            for value in typed(text, told):
                await stream.send(msgspec.json.encode(value) + b"\n")
        except UsageError as error:
            sys.stderr.write(f"teamwright: {error}\n")
