"""Facts of a finished session, read from its log: the same facts with the same ids as while it ran."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from teamwright.core.data.event import AgentStarted, Record
from teamwright.core.ids import AgentId
from teamwright.store.files import transcripts
from teamwright.store.files.paths import SessionFiles
from teamwright.telemetry.facts.fold import Fold
from teamwright.telemetry.facts.shapes import Fact, Price, Spanned


def facts_of(files: SessionFiles, price: Price, since: int = 0) -> list[Fact]:
    """Everything that ended at `since` or later. Blocks; raises StoreError if a log is unreadable."""
    found: list[Fact] = []
    fold = Fold(found.append, price)
    paths = _transcripts(files)
    for record in _merged(paths):
        fold.feed(record)
    for state in fold.agents.values():
        fold.finish(state)
    return [fact for fact in found if (fact.end if isinstance(fact, Spanned) else fact.at) >= since]


def _transcripts(files: SessionFiles) -> dict[AgentId, Path]:
    folder = files.dir / "agents"
    others = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
    return {AgentId(files.transcript.stem): files.transcript} | {AgentId(path.stem): path for path in others}


def _merged(paths: Mapping[AgentId, Path]) -> Iterator[Record]:
    """Records in order of time; those of the same moment from the main agent down."""
    depths = {agent: _depth(path) for agent, path in paths.items()}
    logs = [_timed(agent, path, depths[agent]) for agent, path in paths.items()]
    for _, record in heapq.merge(*logs, key=_moment):
        yield record


def _moment(timed: tuple[tuple[int, int], Record]) -> tuple[int, int]:
    return timed[0]


def _depth(path: Path) -> int:
    first = next(iter(transcripts.read(path)), None)
    return first[1].event.depth if first is not None and isinstance(first[1].event, AgentStarted) else 0


def _timed(agent: AgentId, path: Path, depth: int) -> Iterable[tuple[tuple[int, int], Record]]:
    """Keeps an agent's lines in order even if the clock was set back."""
    latest = 0
    for n, line in transcripts.read(path):
        latest = max(latest, line.at)
        yield (latest, depth), Record(agent, n, line.at, line.event)
