"""Replays past events from the transcripts, for a screen that has just attached or is scrolled up."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from teamwright.core.data.event import Record
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.files import transcripts
from teamwright.store.files.paths import Home, SessionFiles, find_transcript

MOST_EARLIER = 30  # agents of earlier runs that are shown
END = 1 << 60


def read_all(home: Home, session: SessionId, until: Mapping[AgentId, int]) -> tuple[list[Record], list[AgentId]]:
    """The records of these agents up to a line, and of agents of earlier runs; and whose transcripts lie elsewhere.

    In the order of time. Blocks.
    """
    main = find_transcript(home, session)
    if main is None:
        return [], list(until)
    paths = {agent: _path(main, session, agent) for agent in until}
    found = [record for agent, path in paths.items() if path.is_file() for record in _read(path, agent, until[agent])]
    for path in _earlier(SessionFiles(main).dir / "agents", set(until)):
        with suppress(StoreError):  # what cannot be read of them is missed by nobody
            found += _read(path, AgentId(path.stem), END)
    elsewhere = [agent for agent, path in paths.items() if not path.is_file()]
    return sorted(found, key=lambda record: record.at), elsewhere


def read_agent(home: Home, session: SessionId, agent: AgentId) -> list[Record] | None:
    """One agent's records; None if its transcript does not lie with this session. Blocks."""
    main = find_transcript(home, session)
    path = _path(main, session, agent) if main is not None else None
    return list(_read(path, agent, END)) if path is not None and path.is_file() else None


def _path(main: Path, session: SessionId, agent: AgentId) -> Path:
    return main if agent == session else SessionFiles(main).agent(agent)


def _read(path: Path, agent: AgentId, until: int) -> Iterator[Record]:
    for n, line in transcripts.read(path):
        if n > until:
            return
        yield Record(agent, n, line.at, line.event)


def _earlier(folder: Path, known: set[AgentId]) -> list[Path]:
    """Transcripts of agents that nobody runs here, the newest ones."""
    found = [path for path in folder.glob("*.jsonl") if path.stem not in known] if folder.is_dir() else []
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)[-MOST_EARLIER:]
