"""Replays past events from the transcripts, for a screen that has just attached or is scrolled up.

A screen shows a few dozen lines, so what is far above them is not folded: an index finds the lines to read, and the
skipped ones are only added up. Blocks: call it in a thread.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from teamwright.core.data.event import LettersTaken, Record, Rendered, Replied, Rewound
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, SessionId
from teamwright.runtime.past.skim import Skimmed, skim
from teamwright.runtime.port import END
from teamwright.store.files import transcripts
from teamwright.store.files.lines import Lines
from teamwright.store.files.paths import Home, SessionFiles, find_transcript

MOST_EARLIER = 30  # agents of earlier runs to show
# each call has ended before the next of these
_OPENING = {kind.__struct_config__.tag for kind in (LettersTaken, Replied)}
_RENDERED = Rendered.__struct_config__.tag
_REWOUND = Rewound.__struct_config__.tag


class Past(Struct):
    """Records in order of time, and sums over the lines before them in some transcripts."""

    records: list[Record]
    skimmed: dict[AgentId, Skimmed]


def read_all(
    home: Home, session: SessionId, until: Mapping[AgentId, int], newest: int = END
) -> tuple[Past, list[AgentId]]:
    """The records of these agents up to a line each, and of agents of earlier runs; and agents with transcripts
    elsewhere.

    From a transcript of more than `newest` lines come only the lines that tell its end.
    """
    main = find_transcript(home, session)
    past = Past([], {})
    if main is None:
        return past, list(until)
    paths = {agent: _path(main, session, agent) for agent in until}
    for agent, path in paths.items():
        if path.is_file():
            _read_end(past, path, until[agent], newest)
    for path in _earlier(SessionFiles(main).dir / "agents", set(until)):
        with suppress(StoreError):  # an old transcript that cannot be read is not missed
            _read_end(past, path, END, newest)
    past.records.sort(key=lambda record: record.at)
    return past, [agent for agent, path in paths.items() if not path.is_file()]


class PageReader:
    """Reads transcripts of a session page by page; the index of the last one stays in memory."""

    def __init__(self, home: Home, session: SessionId) -> None:
        self._home, self._session = home, session
        self._turn = Lock()
        self._lines: Lines | None = None

    def read(self, agent: AgentId, before: int, newest: int) -> list[Record] | None:
        """Records of about `newest` lines before `before`; None if the transcript does not belong to this session."""
        main = find_transcript(self._home, self._session)
        path = _path(main, self._session, agent) if main is not None else None
        if path is None or not path.is_file():
            return None
        if newest >= END:
            return list(_read(path, END))
        with self._turn:
            if (lines := self._lines) is None or lines.path != path:
                lines = self._lines = Lines(path)
            lines.refresh()
            if lines.rewound:  # a rewind may take away any line before it
                return list(_read(path, END))
            end = min(before - 1, len(lines))
            return list(lines.records(_told(lines, _first_line(lines, end, newest), end)))


def _read_end(past: Past, path: Path, until: int, newest: int) -> None:
    if newest >= END:
        past.records += _read(path, until)
        return
    lines = Lines(path)
    lines.refresh()
    end = min(until, len(lines))
    first = _first_line(lines, end, newest)
    past.records += lines.records(_told(lines, first, end))
    if first > 1:
        past.skimmed[AgentId(path.stem)] = skim(lines, first)


def _told(lines: Lines, first: int, end: int) -> list[int]:
    """The lines to read, with the one that says who the agent is, and the one that names its model."""
    model = next((n for n in range(first - 1, 1, -1) if lines.kinds[n - 1] == _RENDERED), 0)
    before = {1, model} - {0} if first > 1 and end else set[int]()
    return [*sorted(before), *range(first, end + 1)]


def _first_line(lines: Lines, end: int, newest: int) -> int:
    """Where to begin so that the last lines come out as if all had been read: where no call is open, and far enough
    before any line that a later rewind goes back to."""
    back = {n: _goal(lines, n) for n in range(1, end + 1) if lines.kinds[n - 1] == _REWOUND} if lines.rewound else {}
    first = _opening(lines, end - newest + 1)
    while first > 1 and (goal := min((to for n, to in back.items() if n >= first), default=END)) < first + newest // 2:
        first = _opening(lines, min(goal, first) - newest)
    return first


def _opening(lines: Lines, line: int) -> int:
    return next((n for n in range(line, 1, -1) if lines.kinds[n - 1] in _OPENING), 1)


def _goal(lines: Lines, line: int) -> int:
    event = next(lines.read([line]))[1].event
    return event.to if isinstance(event, Rewound) else END


def _path(main: Path, session: SessionId, agent: AgentId) -> Path:
    return main if agent == session else SessionFiles(main).agent(agent)


def _read(path: Path, until: int) -> Iterator[Record]:
    agent = AgentId(path.stem)
    for n, line in transcripts.read(path):
        if n > until:
            return
        yield Record(agent, n, line.at, line.event)


def _earlier(folder: Path, known: set[AgentId]) -> list[Path]:
    """The newest transcripts of agents that do not run here."""
    found = [path for path in folder.glob("*.jsonl") if path.stem not in known] if folder.is_dir() else []
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)[-MOST_EARLIER:]
