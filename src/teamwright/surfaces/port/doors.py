"""Finds the doors of running sessions by their addresses on disk, and connects to them."""

import contextlib
import os
from pathlib import Path

from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.host.ipc.unix_stream import UnixStream, connect
from teamwright.store.files.paths import Home


def address_file(home: Home, session: SessionId) -> Path:
    return home.run / f"session-{session.lower()}.door"


def knock(home: Home, session: SessionId) -> UnixStream:
    """Raises UsageError if nobody answers."""
    try:
        return connect(os.fsdecode(address_file(home, session).read_bytes()))
    except (OSError, ValueError):
        words = f"session {session} is not open in an app and was not started with --listen"
        raise UsageError(f"{words}: `teamwright --resume {session}` resumes it") from None


def is_open(home: Home, session: SessionId) -> bool:
    """Whether anybody listens there now."""
    try:
        knock(home, session).close()
    except UsageError:
        return False
    return True


def open_doors(home: Home) -> set[SessionId]:
    """Sessions that listen, or did when they were killed."""
    with contextlib.suppress(OSError):
        return {SessionId(path.stem.removeprefix("session-")) for path in home.run.glob("session-*.door")}
    return set()
