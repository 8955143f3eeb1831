"""Plans a rewind of files: what each file would become, what stands against it, and the counts of each point."""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from teamwright.core.data.conversation.rewind import Point
from teamwright.core.data.event import Line, Replied, ToolEnded
from teamwright.core.errors import StoreError
from teamwright.core.ids import CallId
from teamwright.core.permissions.rules import EDITING
from teamwright.host.files.snapshot import ABSENT, look_at
from teamwright.runtime.port import RewindPoint
from teamwright.runtime.rewind.entries import mark_of
from teamwright.store.files.checkpoints import MOST_BYTES, CheckpointEntry, Checkpoints

LONGEST = 50_000  # characters of a prompt to give back


class PlannedFile(Struct, frozen=True):
    """A file with the mark `now` that becomes what `then` says; contents are read only when its turn comes.

    `others`: it is not as our tools left it. `why`: the reason why it stays as it is.
    """

    path: str
    then: CheckpointEntry
    now: str
    others: bool = False
    why: str = ""

    @property
    def removes(self) -> bool:
        return self.then.was_absent


class RestorePlan(Struct, frozen=True):
    files: tuple[PlannedFile, ...]  # only those that differ from what they were
    gaps: tuple[str, ...] = ()  # what may have changed files unseen
    known: frozenset[str] = frozenset()  # files of which something was kept

    @property
    def due(self) -> list[PlannedFile]:
        return [file for file in self.files if not file.why]

    @property
    def by_others(self) -> list[PlannedFile]:
        return [file for file in self.due if file.others]


def plan_restore(checkpoints: Checkpoints, since: int) -> RestorePlan:
    """Plan for every file that was changed since then. Blocks; raises StoreError."""
    entries = checkpoints.read()
    first: dict[str, CheckpointEntry] = {}
    ours: dict[str, set[str]] = {}  # the marks that our tools, and rewinds, have left
    for entry in entries:
        if entry.is_before and entry.at >= since:
            first.setdefault(entry.path, entry)
        elif entry.mark:
            ours.setdefault(entry.path, set()).add(entry.mark)
    found = [_planned(checkpoints, entry, ours.get(path, set())) for path, entry in first.items()]
    due = tuple(file for file in found if file is not None)
    return RestorePlan(due, gaps_in(entries, since), frozenset(first))


def _planned(checkpoints: Checkpoints, then: CheckpointEntry, ours: set[str]) -> PlannedFile | None:
    """None if it is as it was."""
    now = look_at(then.path, MOST_BYTES)
    if then.lost:
        return PlannedFile(then.path, then, now.mark, why=f"no copy was kept: {then.why or 'it was too large'}")
    try:
        mark = mark_of(checkpoints, then)
    except StoreError as error:
        return PlannedFile(then.path, then, now.mark, why=f"its copy is lost: {error}")
    if mark == now.mark or (then.was_absent and now.kind == "folder"):  # a folder has no content of its own
        return None
    if now.kind == "lost":
        return PlannedFile(then.path, then, now.mark, why=f"it could not be kept as it is now: {now.why}")
    same = now.mark in ours or (now.kind == "folder" and ABSENT in ours)
    return PlannedFile(then.path, then, now.mark, others=not same)


def changed_unkept(lines: Iterable[tuple[int, Line]], line: int, known: Collection[str]) -> list[str]:
    """Files that the main agent's tools changed from this line on, in a run that kept nothing of them."""
    edits: set[CallId] = set()
    found: dict[str, None] = {}
    for n, told in lines:
        event = told.event
        if n >= line and isinstance(event, Replied):
            edits.update(call.id for call in event.message.calls if call.name in EDITING)
        elif isinstance(event, ToolEnded) and event.call_id in edits:
            found.update((seen.path, None) for seen in event.seen if seen.path not in known)
    return list(found)


def gaps_in(entries: Iterable[CheckpointEntry], since: int, until: int | None = None) -> tuple[str, ...]:
    """The reasons of gaps, each once."""
    listed = list(entries)
    closed = {entry.closes for entry in listed if entry.closes}
    open = [e for e in listed if e.gap and e.id not in closed and e.at >= since and (until is None or e.at < until)]
    return tuple(dict.fromkeys(entry.gap for entry in open))


def count_points(points: Sequence[Point], entries: Sequence[CheckpointEntry]) -> list[RewindPoint]:
    """Points, with what was changed from each to the next one."""
    ends = [*(point.at for point in points[1:]), None]
    return [_count(point, entries, end) for point, end in zip(points, ends, strict=False)]


def _count(point: Point, entries: Sequence[CheckpointEntry], end: int | None) -> RewindPoint:
    inside = [e for e in entries if point.at <= e.at and (end is None or e.at < end)]
    own = point.kind == "rewind"
    after = [e for e in inside if e.mark and (own or e.by != "rewind")]
    return RewindPoint(
        point.line,
        point.at,
        point.kind,
        point.text[:LONGEST],
        files=len({e.path for e in after}),
        plus=sum(e.plus for e in after),
        minus=sum(e.minus for e in after),
        gaps=gaps_in(entries, point.at, end),
    )
