"""Opens a session's history: new, resumed, or copied from another session under a new id."""

from pathlib import Path

from msgspec import Struct

from teamwright import __version__
from teamwright.core.data.conversation.history import History, fold
from teamwright.core.data.conversation.rewind import before
from teamwright.core.data.event import AgentStarted, Compacted, Durable, LettersTaken, Resumed
from teamwright.core.data.message import Usage
from teamwright.core.errors import SessionBusy, SessionMissing, UsageError
from teamwright.core.ids import AgentId, SessionId, line_uuid, new_session_id
from teamwright.osfiles.locks import Lock, hold, holder
from teamwright.runtime.agents.outcomes import Outcomes
from teamwright.store.files import prompts, transcripts
from teamwright.store.files.paths import Home, SessionFiles, find_transcript, is_session_id, list_sessions, one_session
from teamwright.store.files.transcripts import Transcript, Transcripts
from teamwright.store.tables.state import now_ms


class Origin(Struct, frozen=True):
    """Which session a surface asked for. At most one of `resume` and `last`."""

    resume: str | None = None
    last: bool = False  # the latest session of this directory in which something was said
    fork: bool = False  # continue under a new id; the original stays as it is
    id: str | None = None  # for the new session
    at: str | None = None  # only up to the line with this UUID, as programs know it
    drops: str | None = None  # the prompt whose turn alone may be lost by `at`


class Opened(Struct):
    """A session's main transcript, ready to be written by this process alone."""

    id: SessionId
    files: SessionFiles
    transcript: Transcript
    history: History
    lock: Lock
    notes: list[str]
    new: bool = False
    ended_at: int = 0  # when it was last written before, in milliseconds


def open_history(origin: Origin, home: Home, cwd: Path, made: Transcripts = Transcript) -> Opened:
    """Open the session that `origin` asks for; `made` makes and opens transcripts."""
    if origin.id is not None and not is_session_id(origin.id):
        raise UsageError(f"--session-id {origin.id!r} is not a UUID")
    old = _find(origin, home, cwd) if origin.resume or origin.last else None
    if old is None or origin.fork:
        id = _unused(origin.id, home) if origin.id else new_session_id()
        return _begin(id, home.files(cwd, id), _Making(home, cwd, made, origin), old)
    if origin.id is not None and origin.id.lower() != old.stem:
        raise UsageError("--session-id names a new session: with --resume it needs --fork-session")
    return _resume(old, _Making(home, cwd, made, origin))


def _unused(named: str, home: Home) -> SessionId:
    id = SessionId(named.lower())
    if find_transcript(home, id):
        raise UsageError(f"session {id} already exists: resume it with --resume, or choose another id")
    return id


def _find(origin: Origin, home: Home, cwd: Path) -> Path:
    if origin.resume:
        return one_session(home, origin.resume)
    sessions = [entry for entry in list_sessions(home, cwd) if not entry.fault]
    if not sessions:
        raise SessionMissing(f"there is no session to continue in {cwd}")
    return next((entry for entry in sessions if entry.said), sessions[0]).path


def _hold(home: Home, id: SessionId) -> Lock:
    path = home.session_lock(id)
    lock = hold(path)
    if lock is None:
        pid = holder(path)
        where = "another process" if pid is None else f"another process ({pid})"
        raise SessionBusy(f"session {id} is running in {where}; end that one first, or use --fork-session")
    lock.sign()
    return lock


class _Making(Struct, frozen=True):
    """Where and how a session is opened."""

    home: Home
    cwd: Path
    made: Transcripts
    origin: Origin


def _begin(id: SessionId, files: SessionFiles, making: _Making, source: Path | None) -> Opened:
    lock = _hold(making.home, id)
    try:
        kept = None if source is None else _last_line(source, making.origin)
        return _copy(id, files, making, source, lock, kept)
    except BaseException:
        lock.release()
        raise


def _last_line(source: Path, origin: Origin) -> int | None:
    """The last line to keep if a session continues from an earlier point; None: keep all."""
    if origin.at is None:
        return None
    agent = AgentId(source.stem)
    lines = [(n, line.event) for n, line in transcripts.read(source)]
    last = next((n for n, _ in lines if line_uuid(agent, n) == origin.at), None)
    if last is None:
        raise UsageError(f"--resume-session-at {origin.at}: there is no such line in session {agent}")
    lost = [line_uuid(agent, n) for n, event in lines if n > last and isinstance(event, LettersTaken)]
    if origin.drops is not None and lost != [origin.drops]:
        raise UsageError(
            f"Resume rejected by --resume-drops-turn: what comes after {origin.at} is not the turn of {origin.drops} "
            "alone"
        )
    return last


def _copy(
    id: SessionId, files: SessionFiles, making: _Making, source: Path | None, lock: Lock, kept: int | None = None
) -> Opened:
    """Make a transcript, with a copy of the history of `source`, if given, up to the line `kept`."""
    transcript = making.made.create(files.transcript)
    started = AgentStarted(id, str(making.cwd), __version__)
    transcript.append(started, now_ms())
    events: list[Durable] = [started]
    if source is not None:
        for n, line in transcripts.read(source):
            if kept is not None and n > kept:
                break
            if not isinstance(line.event, AgentStarted):
                transcript.append(line.event, line.at)
                events.append(line.event)
    history = fold(events)
    if source is not None and history.rendered:
        system, tools = prompts.get(SessionFiles(source).prompts, history.rendered.prompt)
        prompts.put(files.prompts, system, tools)
        from teamwright.store.files import checkpoints  # noqa: PLC0415  # of a copy alone

        checkpoints.share(SessionFiles(source), files)
    return Opened(id, files, transcript, history, lock, [], new=source is None)


def _resume(path: Path, making: _Making) -> Opened:
    id = SessionId(path.stem)
    lock = _hold(making.home, id)
    try:
        return _go_on(id, path, lock, making.made, _last_line(path, making.origin))
    except BaseException:
        lock.release()
        raise


def _go_on(id: SessionId, path: Path, lock: Lock, made: Transcripts, kept: int | None = None) -> Opened:
    ended_at = int(path.stat().st_mtime * 1000)
    transcript, events, torn = made.open(path)
    history = fold(events)
    if history.started is None:
        transcript.close()
        raise SessionMissing(f"session {id} was killed before it began: there is nothing to resume")
    notes: list[str] = []
    if torn:
        notes.append(f"the end of {path} was half-written ({torn} bytes) and has been cut off")
    resumed = Resumed(__version__, torn)
    transcript.append(resumed, now_ms())
    history.apply(resumed)
    if kept is not None:  # a transcript only grows, so later lines are left out of the conversation instead
        cut = Compacted(tuple(before(events, kept + 1).messages), "manual", 0, Usage())
        transcript.append(cut, now_ms())
        history.apply(cut)
    return Opened(id, SessionFiles(path), transcript, history, lock, notes, ended_at=ended_at)


async def close_open_calls(opened: Opened, outcomes: Outcomes) -> None:
    for ended in await outcomes.after_crash(AgentId(opened.id), opened.history):
        opened.transcript.append(ended, now_ms())
        opened.history.apply(ended)
