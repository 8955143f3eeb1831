"""A session as its files show it: one that has ended, or that runs without a door."""

from pathlib import Path

from teamwright.core.data.event import (
    Compacted,
    Denied,
    LettersTaken,
    Mended,
    Record,
    Reminded,
    Replied,
    ToolEnded,
    ToolStarted,
)
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.store.files.paths import SessionFiles
from teamwright.surfaces.web.sessions.brief import MOST_ITEMS, Brief, Used
from teamwright.surfaces.web.sessions.fold import PageFold

_TAIL, _LONGEST = 64 * 1024, 32 * 1024 * 1024  # bytes read from the end of a transcript: at first, and at most
_TURN = (LettersTaken, Reminded, Replied, Compacted, Mended, ToolStarted, ToolEnded, Denied)
_IN_A_TURN = tuple(f'"type":"{kind.__struct_config__.tag}"'.encode() for kind in _TURN)


class DiskSession:
    """Blocks: call it in a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fold = PageFold(AgentId(path.stem), most=MOST_ITEMS)
        self._told: dict[Path, tuple[Brief, int]] = {}  # with the number of folded lines

    def refresh(self) -> bool:
        """Fold what was written since the last time; True if there was something."""
        found: list[Record] = []
        spent: list[tuple[AgentId, Used]] = []
        for path in transcripts_of(self.path):
            brief, folded = self._told.get(path) or (Brief(path), 0)
            try:
                brief.refresh()
                more, used = brief.tell(len(brief.lines)) if not folded else (_after(brief, folded), {})
            except StoreError:
                continue  # damaged or gone: keep what could be read
            self._told[path] = brief, len(brief.lines)
            found += more
            spent.append((brief.agent, used))
        for record in sorted(found, key=_time):
            self.fold.apply(record)
        for agent, used in spent:
            self.fold.spend(agent, used)
        self.fold.price_all()
        return bool(found)


def _after(brief: Brief, folded: int) -> list[Record]:
    return list(brief.lines.records(range(folded + 1, len(brief.lines) + 1)))


def transcripts_of(main: Path) -> list[Path]:
    """The main transcript comes first."""
    folder = SessionFiles(main).dir / "agents"
    return [main, *sorted(folder.glob("*.jsonl"))] if folder.is_dir() else [main]


def _time(record: Record) -> int:
    return record.at


def has_ended(path: Path) -> bool:
    """Whether the main agent had come to rest when its program ended, by its last line."""
    size, last = _TAIL, b""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            while not last and size <= _LONGEST:
                file.seek(max(0, end - size))
                lines = file.read(size).split(b"\n")
                whole = len(lines) > 2 or size >= end  # otherwise the last line began earlier
                last = lines[-2] if whole and len(lines) > 1 else b""
                size = size * 8 if size < end else _LONGEST + 1
    except OSError:
        return True
    return not any(mark in last[:200] for mark in _IN_A_TURN)
