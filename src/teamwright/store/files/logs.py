"""Log of a session's problems: small, private, rotated, free of prompts and keys."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.event import Denied, Event, Replied, ToolEnded, TurnEnded
from teamwright.core.data.message import Text
from teamwright.core.errors import StoreError
from teamwright.osfiles.private import make_dir, open_file

MOST_BYTES = 1_000_000
KEPT = 3  # rotated files


def brief(agent: str, event: Event) -> str:
    """An event for the log: what happened and how long it took; never what was said."""
    match event:
        case Replied():
            calls = ", ".join(call.name for call in event.message.calls)
            return f"{agent}: replied in {event.ms} ms, stop {event.stop}, {event.usage}, calls [{calls}]"
        case ToolEnded():
            size = sum(len(c.text) for c in event.content if isinstance(c, Text))
            return f"{agent}: call {event.call_id} ended, {size} characters{', an error' if event.is_error else ''}"
        case TurnEnded():
            return f"{agent}: turn ended, {event.reason} {event.status or ''}"
        case Denied():
            return f"{agent}: {event.tool} was refused"
        case _:
            return f"{agent}: {type(event).__name__}"


class LogFile(Struct, eq=False):
    """Appends lines to `logs/teamwright.log` below our home. Failing to write is no reason to stop."""

    path: Path
    session: str
    clean: Callable[[str], str] = str  # removes keys from what is logged

    def write(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        body = self.clean(text).rstrip().replace("\n", "\n    ")
        try:
            make_dir(self.path.parent)
            self._rotate()
            fd = open_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(fd, f"{stamp} {self.session[:8]} {os.getpid()} {body}\n".encode(errors="backslashreplace"))
            finally:
                os.close(fd)
        except (OSError, StoreError):
            return

    def _rotate(self) -> None:
        if not self.path.exists() or self.path.stat().st_size < MOST_BYTES:
            return
        for n in range(KEPT, 0, -1):
            older = self.path.with_suffix(f".log.{n - 1}") if n > 1 else self.path
            if older.exists():
                older.replace(self.path.with_suffix(f".log.{n}"))
