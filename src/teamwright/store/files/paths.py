"""Paths of every file under TEAMWRIGHT_HOME. Ids are checked here before they become part of a path."""

import hashlib
import os
import re
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright.core.data.event import FORMAT, AgentStarted, LettersTaken, Line
from teamwright.core.data.letter import said_in
from teamwright.core.data.message import Message, Text
from teamwright.core.errors import SessionMissing, StoreError, UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.osfiles.private import fault, write_file

_SESSION = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FEWEST = 4  # characters of an id: fewer could be a name
_BEGINNING = re.compile(rf"[0-9a-f-]{{{_FEWEST},36}}")
_AGENT = re.compile(r"[A-Za-z0-9_-]{1,100}")
_PLAIN = re.compile(r"[A-Za-z0-9/]*")
STATE = "state.db"
_LONGEST_SLUG = 100
_HEAD = 64 * 1024  # bytes of a transcript that a listing reads
_LONGEST_PROMPT = 200
_LONGEST_NAME = 100
_MOST_NAMED = 5  # sessions in a sentence


class SessionFiles(Struct, frozen=True):
    """All files of one session, found from its main transcript: it may have begun in another directory."""

    transcript: Path

    @property
    def dir(self) -> Path:
        return self.transcript.with_suffix("")

    @property
    def prompts(self) -> Path:
        return self.dir / "prompts"

    @property
    def jobs(self) -> Path:
        return self.dir / "jobs"

    @property
    def outputs(self) -> Path:
        """The rest of tool outputs that were too long to show."""
        return self.dir / "outputs"

    @property
    def name(self) -> Path:
        """Holds the session's name, if a person gave it one."""
        return self.dir / "name"

    def agent(self, agent: AgentId) -> Path:
        """The transcript of an agent other than the main one."""
        if not _AGENT.fullmatch(agent):
            raise StoreError(f"{agent!r} is not an agent id: only letters, digits, `-` and `_`.")
        return self.dir / "agents" / f"{agent}.jsonl"


class Home(Struct, frozen=True):
    root: Path

    @property
    def state(self) -> Path:
        return self.root / STATE

    @property
    def projects(self) -> Path:
        return self.root / "projects"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def memory(self) -> Path:
        return self.root / "memory"

    def session_lock(self, session: SessionId) -> Path:
        """The lock held by the process that runs the session."""
        return self.root / "run" / f"session-{checked(session).lower()}.lock"

    def session_log(self, session: str) -> Path:
        """Error output of a session that was started from the page."""
        return self.logs / f"web-{checked(session).lower()[:8]}.log"

    def project(self, cwd: Path) -> Path:
        return self.projects / slug(cwd)

    def files(self, cwd: Path, session: SessionId) -> SessionFiles:
        return SessionFiles(self.root / "projects" / slug(cwd) / f"{checked(session)}.jsonl")

    def transcript(self, cwd: Path, session: SessionId) -> Path:
        return self.files(cwd, session).transcript


class SessionEntry(Struct, frozen=True):
    """A session in a listing. `fault` says why it cannot be resumed; empty if it can, as far as its head tells."""

    id: SessionId
    path: Path
    modified: int  # milliseconds since 1970
    size: int
    cwd: str = ""
    prompt: str = ""  # the first one, shortened to one line
    fault: str = ""
    imported: str = ""  # the program that it comes from
    name: str = ""  # given by a person
    said: bool = True  # something was said, or the head is too short to tell


def home_from(env: Mapping[str, str]) -> Home:
    named = env.get("TEAMWRIGHT_HOME")
    home = Path(named) if named else Path(env.get("HOME") or Path.home()) / ".teamwright"
    return Home(home.absolute())


def is_session_id(text: str) -> bool:
    return _SESSION.fullmatch(text) is not None


def is_beginning(text: str) -> bool:
    """Whether this is the beginning of an id, long enough to name a session."""
    return _BEGINNING.fullmatch(text) is not None


def checked(session: str) -> SessionId:
    if not _SESSION.fullmatch(session):
        raise StoreError(f"{session!r} is not a session id: it must be a UUID.")
    return SessionId(session)


def slug(cwd: Path) -> str:
    """The real path as one readable name, with a hash if another path could give the same name."""
    real = os.path.realpath(cwd)
    name = re.sub(r"[^A-Za-z0-9]", "-", real)
    if _PLAIN.fullmatch(real) and len(name) <= _LONGEST_SLUG:
        return name
    return f"{name[-_LONGEST_SLUG:]}_{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"


def find_transcript(home: Home, session: str) -> Path | None:
    """The session's main transcript, whatever project it began in; if there are two, the one written last."""
    if not is_session_id(session):
        return None
    found = [p for d in project_dirs(home) if (p := d / f"{session}.jsonl").is_file()]
    return max(found, key=_written_at, default=None)


def sessions_named(home: Home, named: str) -> list[Path]:
    """Main transcripts of the sessions that an id, or at least four characters of its beginning, can mean."""
    if is_session_id(named):
        found = find_transcript(home, named) or find_transcript(home, named.lower())
        return [found] if found else []
    start = named.lower()
    if not is_beginning(start):
        return []
    ids = {p.stem for d in project_dirs(home) for p in d.glob(f"{start}*.jsonl") if is_session_id(p.stem)}
    return [path for id in sorted(ids) if (path := find_transcript(home, id))]


def one_session(home: Home, named: str) -> Path:
    """The main transcript of the session that is meant. Raises UsageError or SessionMissing."""
    found = sessions_named(home, named)
    if not found and len(named) < _FEWEST:
        raise SessionMissing(f"{named!r} is too short for a session's id: give at least its first four characters")
    if not found:
        raise SessionMissing(f"there is no session {named}; `teamwright sessions --all` lists them")
    if len(found) > 1:
        ids = ", ".join(path.stem for path in found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")
        raise UsageError(f"{named} is the beginning of {len(found)} sessions: {ids}")
    return found[0]


def _written_at(path: Path) -> int:
    return path.stat().st_mtime_ns


def project_dirs(home: Home) -> list[Path]:
    try:
        with os.scandir(home.projects) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise fault("read", home.projects, error) from error


def list_sessions(home: Home, project: Path | None = None) -> list[SessionEntry]:
    """All sessions, or those that began in the working directory `project`; the one written last comes first."""
    dirs = project_dirs(home) if project is None else [home.project(project)]
    paths = [path for dir in dirs for path in dir.glob("*.jsonl") if is_session_id(path.stem)]
    entries = [entry for path in paths if (entry := read_entry(path)) is not None]
    return sorted(entries, key=attrgetter("modified"), reverse=True)


def read_entry(path: Path) -> SessionEntry | None:
    """Read from the head of the file only; None if it vanished meanwhile."""
    try:
        with path.open("rb") as file:
            head, stat = file.read(_HEAD), os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        return SessionEntry(SessionId(path.stem), path, 0, 0, fault=f"cannot be read: {error.strerror}")
    started, prompt, fault = _read_head(head)
    said = prompt is not None or stat.st_size > len(head)
    cwd = started.cwd if started else ""
    id = SessionId(path.stem)
    imported = started.imported if started else ""
    title = started.description if started and imported else ""
    modified, words = stat.st_mtime_ns // 1_000_000, title or prompt or ""
    name = read_name(SessionFiles(path))
    return SessionEntry(id, path, modified, stat.st_size, cwd, words, fault, imported, name, said)


def read_name(files: SessionFiles) -> str:
    """Empty if the session has no name, or it cannot be read: the first prompt is shown instead."""
    try:
        with files.name.open("rb") as file:
            return _as_name(file.read(4 * _LONGEST_NAME).decode(errors="replace"))
    except OSError:
        return ""


def write_name(files: SessionFiles, name: str) -> str:
    """The name as it is stored: on one line, and not too long."""
    kept = _as_name(name)
    write_file(files.name, kept.encode(errors="replace"))
    return kept


def _as_name(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_NAME]


def is_unsaid(files: SessionFiles) -> bool:
    """Whether surely nothing was said in this session. False if it cannot be read."""
    entry = read_entry(files.transcript)
    return entry is not None and not entry.said and not entry.fault


def _read_head(head: bytes) -> tuple[AgentStarted | None, str | None, str]:
    """How the agent began, its first prompt if the head shows it, and what is wrong."""
    started = None
    for line in head.split(b"\n")[:-1]:  # the last piece is cut, or empty
        try:
            event = msgspec.json.decode(line, type=Line).event
        except (ValueError, RecursionError) as error:
            return started, None, f"damaged, or written by a newer version ({error})"
        if isinstance(event, AgentStarted):
            started = event
            if event.format > FORMAT:
                return started, None, "written by a newer version of teamwright"
        elif isinstance(event, LettersTaken):
            return started, _prompt(event.message), ""
    return started, None, "" if started else "empty: it ended before it began"


def _prompt(message: Message) -> str:
    """The person's own words, if there are any: what was attached to them is no title."""
    own = said_in(message) or [block.text for block in message.blocks if isinstance(block, Text)]
    return " ".join(" ".join(own)[: 4 * _LONGEST_PROMPT].split())[:_LONGEST_PROMPT]


def remove_files(files: SessionFiles) -> None:
    """Remove all files of a session outside `state.db`. Hold its lock meanwhile."""
    from teamwright.osfiles.trees import remove_tree  # noqa: PLC0415

    try:
        for path in (files.transcript, files.transcript.with_name(files.transcript.name + ".damaged")):
            path.unlink(missing_ok=True)
        if files.dir.is_dir():
            remove_tree(files.dir, strict=True)
    except OSError as error:
        raise StoreError(
            f"Cannot remove {error.filename}: {error.strerror}. Check the permissions of that path."
        ) from error
