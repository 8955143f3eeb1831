"""Imports sessions of another program, each once. The originals are only read."""

import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from teamwright import __version__
from teamwright.core.data.event import AgentStarted
from teamwright.core.errors import SettingsError
from teamwright.core.ids import SessionId
from teamwright.library.claude.conversation import Imported, make_events
from teamwright.library.claude.sessions import ClaudeSession
from teamwright.library.claude.transcript import ClaudeTranscript, read_transcript
from teamwright.osfiles.locks import hold
from teamwright.osfiles.private import fault, sync_dir
from teamwright.store.files.paths import Home, find_transcript
from teamwright.store.files.transcripts import Transcript

Status = Literal["imported", "already here", "empty", "unreadable", "busy"]


class ImportOutcome(Struct, frozen=True):
    """What became of one session; `left_out` counts what could not be taken over."""

    id: str
    status: Status
    title: str = ""
    cwd: str = ""
    messages: int = 0
    left_out: dict[str, int] = {}
    asides: int = 0  # lines of agents that worked beside the conversation
    error: str = ""


def import_session(session: ClaudeSession, home: Home) -> ImportOutcome:
    """Import a session under its own id. One that is already here stays as it is. Blocks."""
    id = SessionId(session.id.lower())
    if find_transcript(home, id):
        return ImportOutcome(id, "already here", session.title, session.cwd)
    lock = hold(home.session_lock(id))
    if lock is None:
        return ImportOutcome(id, "busy", session.title, session.cwd, error="another process is at it")
    try:
        found = read_transcript(session.path)
        made = make_events(found)
        if not made.messages:
            return ImportOutcome(id, "empty", session.title, session.cwd)
        return _keep(id, session, found, made, home)
    except SettingsError as error:
        return ImportOutcome(id, "unreadable", session.title, session.cwd, error=str(error))
    finally:
        lock.release()


def _keep(id: SessionId, session: ClaudeSession, found: ClaudeTranscript, made: Imported, home: Home) -> ImportOutcome:
    cwd = made.cwd if made.cwd.startswith("/") and "\0" not in made.cwd else str(Path.home())
    title = found.title or " ".join(made.prompt[:800].split())[:200]
    started = AgentStarted(id, cwd, __version__, description=title, imported="claude")
    _write(home.transcript(Path(cwd), id), started, made, session.modified)
    left_out = {f"lines: {kind}": count for kind, count in found.unknown.items()} | made.dropped
    return ImportOutcome(id, "imported", title, cwd, made.messages, left_out, found.asides)


def _write(path: Path, started: AgentStarted, made: Imported, modified: int) -> None:
    """Written whole or not at all: the file gets its name once everything is on the disk."""
    fresh = path.with_name(f".import-{path.name}")
    try:
        fresh.unlink(missing_ok=True)  # left by a killed process
        _append_all(fresh, started, made, modified)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        os.utime(fresh, ns=(modified * 1_000_000, modified * 1_000_000))
        fresh.rename(path)
        sync_dir(path.parent)
    except OSError as error:
        raise fault("write", path, error) from error


def _append_all(fresh: Path, started: AgentStarted, made: Imported, modified: int) -> None:
    first = next((at for at, _ in made.events if at), modified)
    transcript = Transcript.create(fresh)
    try:
        transcript.append(started, first)
        for at, event in made.events:
            first = max(first, at)
            transcript.append(event, first)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        transcript.close()
