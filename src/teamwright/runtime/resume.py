"""Where a session comes from: begun anew, resumed, or copied from another one under a new id."""

from pathlib import Path

from msgspec import Struct

from teamwright import __version__
from teamwright.core.errors import SessionBusy, SessionMissing, UsageError
from teamwright.core.event import AgentStarted, Durable, Resumed
from teamwright.core.history import History, fold
from teamwright.core.ids import SessionId, new_session_id
from teamwright.store import prompts, transcripts
from teamwright.store.locks import Lock, hold
from teamwright.store.paths import Home, SessionFiles, find_transcript, is_session_id, list_sessions
from teamwright.store.state import now_ms
from teamwright.store.transcripts import Transcript


class Origin(Struct, frozen=True):
    """What a surface asked for. At most one of `resume` and `last`."""

    resume: str | None = None
    last: bool = False  # the latest session of this directory
    fork: bool = False  # go on under a new id; the original stays as it is
    id: str | None = None  # of the new session


class Opened(Struct):
    """A session's main transcript, ready to be written by us alone."""

    id: SessionId
    files: SessionFiles
    transcript: Transcript
    history: History
    lock: Lock
    notes: list[str]


def open_history(origin: Origin, home: Home, cwd: Path) -> Opened:
    if origin.id is not None and not is_session_id(origin.id):
        raise UsageError(f"--session-id {origin.id!r} is not a UUID")
    old = _find(origin, home, cwd)
    if old is None or origin.fork:
        id = SessionId(origin.id.lower()) if origin.id else new_session_id()
        if find_transcript(home, id):
            raise UsageError(f"there is a session {id} already: go on with it by --resume, or choose another id")
        return _begin(id, home, cwd, old)
    if origin.id is not None and origin.id.lower() != old.stem:
        raise UsageError("--session-id names a new session: with --resume it needs --fork-session")
    return _resume(old, home)


def _find(origin: Origin, home: Home, cwd: Path) -> Path | None:
    if origin.resume:
        found = find_transcript(home, origin.resume)
        if found is None:
            raise SessionMissing(f"there is no session {origin.resume}; `teamwright sessions --all` lists them")
        return found
    if origin.last:
        sessions = [entry for entry in list_sessions(home, cwd) if not entry.fault]
        if not sessions:
            raise SessionMissing(f"there is no session to continue in {cwd}")
        return sessions[0].path
    return None


def _hold(home: Home, id: SessionId) -> Lock:
    lock = hold(home.session_lock(id))
    if lock is None:
        raise SessionBusy(f"session {id} is running in another process; end that one first, or use --fork-session")
    return lock


def _begin(id: SessionId, home: Home, cwd: Path, source: Path | None) -> Opened:
    """A new transcript, with the history of `source` if there is one."""
    lock = _hold(home, id)
    files = home.files(cwd, id)
    transcript = Transcript.create(files.transcript)
    started = AgentStarted(id, str(cwd), __version__)
    transcript.append(started, now_ms())
    events: list[Durable] = [started]
    if source is not None:
        for _, line in transcripts.read(source):
            if not isinstance(line.event, AgentStarted):
                transcript.append(line.event, line.at)
                events.append(line.event)
    history = fold(events)
    if source is not None and history.rendered:
        system, tools = prompts.get(SessionFiles(source).prompts, history.rendered.prompt)
        prompts.put(files.prompts, system, tools)
    _close_open_calls(transcript, history)
    return Opened(id, files, transcript, history, lock, [])


def _resume(path: Path, home: Home) -> Opened:
    id = SessionId(path.stem)
    lock = _hold(home, id)
    transcript, events, torn = Transcript.open(path)
    history = fold(events)
    if history.started is None:
        lock.release()
        transcript.close()
        raise SessionMissing(f"session {id} was killed before it began: there is nothing to resume")
    notes: list[str] = []
    if torn:
        notes.append(f"the end of {path} was half-written ({torn} bytes) and has been cut off")
    resumed = Resumed(__version__, torn)
    transcript.append(resumed, now_ms())
    history.apply(resumed)
    _close_open_calls(transcript, history)
    return Opened(id, SessionFiles(path), transcript, history, lock, notes)


def _close_open_calls(transcript: Transcript, history: History) -> None:
    """Calls that were in flight when the other process ended get the one result that is true."""
    for ended in history.unfinished(crashed=True):
        transcript.append(ended, now_ms())
        history.apply(ended)
