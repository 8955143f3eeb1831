"""Opens a session's history: new, resumed, or copied from another session under a new id."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from teamwright import __version__
from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Compacted,
    Durable,
    LettersTaken,
    Replied,
    Resumed,
    ToolEnded,
)
from teamwright.core.data.history import History, fold
from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import Figures
from teamwright.core.data.message import Usage
from teamwright.core.errors import SessionBusy, SessionMissing, UsageError
from teamwright.core.ids import AgentId, CallId, SessionId, line_uuid, new_session_id
from teamwright.osfiles.locks import Lock, hold
from teamwright.runtime.agents.outcomes import Outcomes
from teamwright.store.files import prompts, transcripts
from teamwright.store.files.paths import Home, SessionFiles, find_transcript, is_session_id, list_sessions, one_session
from teamwright.store.files.transcripts import Transcript
from teamwright.store.tables.state import now_ms


class Origin(Struct, frozen=True):
    """What a surface asked for. At most one of `resume` and `last`."""

    resume: str | None = None
    last: bool = False  # the latest session of this directory in which something was said
    fork: bool = False  # continue under a new id; the original stays as it is
    id: str | None = None  # of the new session
    at: str | None = None  # only up to this line, by the UUID under which programs know it
    drops: str | None = None  # the prompt whose turn alone may be lost by that


class Opened(Struct):
    """A session's main transcript, ready to be written by us alone."""

    id: SessionId
    files: SessionFiles
    transcript: Transcript
    history: History
    lock: Lock
    notes: list[str]
    new: bool = False
    ended_at: int = 0  # when it was last written before, in milliseconds

    def answered(self, agent: AgentId, call: CallId) -> bool:
        """Is the result of this call in its agent's transcript?"""
        if agent == self.id:
            return call in self.history.used and call not in {c.id for c in self.history.open_calls}
        path = self.files.agent(agent)
        if not path.is_file():
            return False
        lines = transcripts.read(path)
        return any(isinstance(line.event, ToolEnded) and line.event.call_id == call for _, line in lines)

    def left(self, agent: AgentId) -> JobResult:
        """What an agent that was at work had said since it was last heard of, and what it had used."""
        path = self.files.agent(agent)
        said, usage, uses, began, last = "", Usage(), 0, 0, 0
        for _, line in transcripts.read(path) if path.is_file() else ():
            began, last = began or line.at, line.at
            match line.event:
                case Replied() as event:
                    said, usage = event.message.text or said, usage + event.usage
                case ToolEnded():
                    uses += 1
                case AgentEnded():
                    said, began = "", 0
                case _:
                    pass
        return JobResult(said, usage=Figures(usage.total, uses, last - (began or last)))


def open_history(origin: Origin, home: Home, cwd: Path) -> Opened:
    if origin.id is not None and not is_session_id(origin.id):
        raise UsageError(f"--session-id {origin.id!r} is not a UUID")
    old = _find(origin, home, cwd)
    if old is None or origin.fork:
        id = SessionId(origin.id.lower()) if origin.id else new_session_id()
        if find_transcript(home, id):
            raise UsageError(f"session {id} already exists: resume it with --resume, or choose another id")
        return _begin(id, home, cwd, old, origin)
    if origin.id is not None and origin.id.lower() != old.stem:
        raise UsageError("--session-id names a new session: with --resume it needs --fork-session")
    return _resume(old, home, origin)


def _find(origin: Origin, home: Home, cwd: Path) -> Path | None:
    if origin.resume:
        return one_session(home, origin.resume)
    if origin.last:
        sessions = [entry for entry in list_sessions(home, cwd) if not entry.fault]
        if not sessions:
            raise SessionMissing(f"there is no session to continue in {cwd}")
        return next((entry for entry in sessions if entry.said), sessions[0]).path
    return None


def _hold(home: Home, id: SessionId) -> Lock:
    lock = hold(home.session_lock(id))
    if lock is None:
        raise SessionBusy(f"session {id} is running in another process; end that one first, or use --fork-session")
    return lock


def _begin(id: SessionId, home: Home, cwd: Path, source: Path | None, origin: Origin) -> Opened:
    lock = _hold(home, id)
    try:
        kept = None if source is None else _last_line(source, origin)
        return _copy(id, home.files(cwd, id), cwd, source, lock, kept)
    except BaseException:
        lock.release()
        raise


def _last_line(source: Path, origin: Origin) -> int | None:
    """Where a session that continues from an earlier point is cut; None: nowhere."""
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
    id: SessionId, files: SessionFiles, cwd: Path, source: Path | None, lock: Lock, kept: int | None = None
) -> Opened:
    """A new transcript, with the history of `source` if there is one, up to the line `kept`."""
    transcript = Transcript.create(files.transcript)
    started = AgentStarted(id, str(cwd), __version__)
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
    return Opened(id, files, transcript, history, lock, [], new=source is None)


def _resume(path: Path, home: Home, origin: Origin) -> Opened:
    id = SessionId(path.stem)
    lock = _hold(home, id)
    try:
        return _go_on(id, path, lock, _last_line(path, origin))
    except BaseException:
        lock.release()
        raise


def _go_on(id: SessionId, path: Path, lock: Lock, kept: int | None = None) -> Opened:
    ended_at = int(path.stat().st_mtime * 1000)
    transcript, events, torn = Transcript.open(path)
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
    if kept is not None:  # a transcript only grows: what comes after is left out of the conversation
        cut = Compacted(tuple(_rewound(events, kept).messages), "manual", 0, Usage())
        transcript.append(cut, now_ms())
        history.apply(cut)
    return Opened(id, SessionFiles(path), transcript, history, lock, notes, ended_at=ended_at)


def _rewound(events: Sequence[Durable], kept: int) -> History:
    """As it was after a line. Calls that were in flight there have the results that they came to have."""
    history = fold(events[:kept])
    came = {event.call_id: event for event in events[kept:] if isinstance(event, ToolEnded)}
    for unknown in history.unfinished(crashed=True):
        history.apply(came.get(unknown.call_id, unknown))
    return history


async def close_open_calls(opened: Opened, outcomes: Outcomes) -> None:
    for ended in await outcomes.after_crash(AgentId(opened.id), opened.history):
        opened.transcript.append(ended, now_ms())
        opened.history.apply(ended)
