"""Output file of an agent's job: its work as text, growing while it works."""

import os
from pathlib import Path

from teamwright.core.data.event import AgentEnded, Event, Replied, ToolEnded
from teamwright.core.data.message import words_of
from teamwright.core.errors import StoreError
from teamwright.osfiles.private import create_file

MOST_RESULT = 2_000  # characters of one tool result


class OutputFile:
    """Opened for each note, so that a thousand waiting agents hold no file open. On a full disk only this file
    suffers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._add("")  # the file must be there as soon as its name is known

    def note(self, event: Event) -> None:
        if text := _text(event):
            self._add(text)

    def _add(self, text: str) -> None:
        try:
            fd = create_file(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                if text:
                    os.write(fd, text.encode(errors="backslashreplace"))
            finally:
                os.close(fd)
        except (OSError, StoreError):
            return


def _text(event: Event) -> str:
    match event:
        case Replied():
            message = event.message
            said = message.text.strip()
            calls = [f"[{call.name}] {bytes(call.input).decode()[:MOST_RESULT]}" for call in message.calls]
            return "\n".join([*([said] if said else []), *calls]) + "\n"
        case ToolEnded():
            text = words_of(event.content)
            return f"{'[error] ' if event.is_error else ''}{text[:MOST_RESULT]}\n"
        case AgentEnded():
            return f"[{event.status}]{f' {event.error}' if event.error else ''}\n"
        case _:
            return ""
