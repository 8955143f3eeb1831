"""Conversations read from transcripts, page by page. An item's id is always the same."""

import re
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from teamwright.core.data.content.patch import patch_of
from teamwright.core.data.event import (
    Compacted,
    Denied,
    LettersTaken,
    Line,
    Record,
    Replied,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import Image
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.files.lines import Lines
from teamwright.store.files.paths import Home, SessionFiles, find_transcript
from teamwright.store.files.transcripts import decode_line
from teamwright.surfaces.view.diff import rows_of
from teamwright.surfaces.view.sentences import to_person
from teamwright.surfaces.view.shapes import Item, Step
from teamwright.surfaces.view.text import safe
from teamwright.surfaces.web.sessions import shown
from teamwright.surfaces.web.sessions.fold import EVERYTHING, PageTalk, numbered

MOST_OPEN = 32  # transcripts whose index stays in memory
MOST_RESULT = 400_000  # characters of one result
PAGE, MOST_PAGE = 100, 500
_AGENT = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SHOWN = {kind.__struct_config__.tag for kind in (LettersTaken, Replied, Compacted, TurnEnded)}
_ENDING = {kind.__struct_config__.tag for kind in (ToolEnded, Denied, TurnEnded)}  # kinds that end calls

Json = dict[str, Any]
Numbered = list[tuple[str, Item]]
Place = tuple[int, int]  # an item's line, and its place among the items of that line


class NoSuchItem(LookupError):
    """The conversation has no item of this id."""


class Talks:
    """The conversations of all sessions of a home. Blocks: call it in a thread."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._turn = Lock()
        self._open: OrderedDict[Path, Lines] = OrderedDict()
        self._whole: tuple[Path, int, Numbered] | None = None  # the last one that had to be folded from its start

    def path(self, session: SessionId, agent: str) -> Path | None:
        """The transcript of an agent of the session. `agent` may be any text."""
        main = find_transcript(self._home, session)
        if main is None:
            return None
        if agent == main.stem:
            return main
        if not _AGENT.fullmatch(agent):
            return None
        found = SessionFiles(main).agent(AgentId(agent))
        return found if found.is_file() else None

    def page(self, path: Path, *, before: str = "", limit: int = PAGE, until: int = 0) -> Json:
        """The items before a given one, or the last ones; with `until` only those up to that moment."""
        with self._turn:
            lines = self._lines(path)
            count = lines.until(until) if until else len(lines)
            end = _place(before) if before else (count + 1, 0)
            found = self._items(lines, end, limit, count)
            if before and (end[0] > count or before not in dict(found)):
                raise NoSuchItem
            items = [(id, item) for id, item in found if _place(id) < end]
            shown_items = [shown.item(id, item) for id, item in items[-limit:]]
            return {"items": shown_items, "more": len(items) > limit, "version": count}

    def whole(self, path: Path, id: str) -> Json:
        """All of one item: the call, and what came of it."""
        with self._turn:
            lines = self._lines(path)
            line, place = _place(id)
            found = dict(self._items(lines, (line, place + 1), 1, len(lines))) if line <= len(lines) else {}
            if id not in found:
                raise NoSuchItem
            item = shown.item(id, found[id], MOST_RESULT)
            step = found[id]
            more: Json = (
                _details(lines, step) if isinstance(step, Step) else {"rows": [], "cut": item.get("cut", False)}
            )
            return item | more

    def _lines(self, path: Path) -> Lines:
        lines = self._open.setdefault(path, Lines(path))
        self._open.move_to_end(path)
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        lines.refresh()
        return lines

    def _items(self, lines: Lines, end: Place, limit: int, count: int) -> Numbered:
        """More than `limit` items before a place, or all there are; then some that follow."""
        if 0 < lines.rewound <= count:
            return self._from_start(lines, count)
        stop = min(end[0], count)
        first = _first_line(lines, stop, end, limit)
        return [(id, item) for id, item in numbered(_fold(lines, first, stop, count)) if item.n]

    def _from_start(self, lines: Lines, count: int) -> Numbered:
        """Fold everything: a rewind may remove any item before it."""
        if self._whole is None or self._whole[:2] != (lines.path, count):
            found = [(id, item) for id, item in numbered(_fold(lines, 1, count, count)) if item.n]
            self._whole = lines.path, count, found
        return self._whole[2]


def _first_line(lines: Lines, stop: int, end: Place, limit: int) -> int:
    """The line from which on there are more than `limit` items before `end`."""
    found = 0
    for n in range(stop, 0, -1):
        if lines.kinds[n - 1] in _SHOWN:
            found += end[1] if n == end[0] else len(_fold(lines, n, n, n))
            if found > limit:
                return n
    return 1


def _fold(lines: Lines, first: int, stop: int, count: int) -> list[Item]:
    """The items of some lines, with what became of their calls up to line `count`."""
    fold = PageTalk(most=EVERYTHING)
    numbers = [1, *range(max(2, first), stop + 1)] if count else []  # the first line says where the agent works
    for record in lines.records(numbers):
        _apply(fold, record)
    for record in lines.records(_ends(lines, fold, stop, count)):
        _apply(fold, record)
    return fold.talk.items


def _ends(lines: Lines, fold: PageTalk, stop: int, count: int) -> Iterator[int]:
    """Lines that end calls, as long as one is open."""
    for n in range(stop + 1, count + 1):
        if not fold.steps:
            return
        if lines.kinds[n - 1] in _ENDING:
            yield n


def _apply(fold: PageTalk, record: Record) -> None:
    event = record.event
    step = fold.steps.get(event.call_id) if isinstance(event, ToolEnded) else None
    fold.apply(record)
    if step is not None and isinstance(event, ToolEnded):
        step.args, step.result = {}, ""  # read again when somebody opens it
        started = (event.data or {}).get("agentId")
        step.agent = AgentId(started) if isinstance(started, str) else step.agent


def _place(id: str) -> Place:
    line, _, index = id.partition(".")
    return int(line), int(index)


def _details(lines: Lines, step: Step) -> Json:
    call, ended, asked = step.args, None, None
    for line in _about(lines, step):
        match line.event:
            case Replied(message):
                found = next((c for c in message.calls if c.id == step.call_id), None)
                call = found.args if found is not None and not found.fault else call
            case ToolEnded() as event if event.call_id == step.call_id:
                ended = event
                break
            case _:
                pass
    if ended is not None:
        call, asked = ended.args or call, ended.consent
    patch = patch_of(ended.data) if ended is not None else ()
    text = to_person(_text(ended)) if ended is not None else step.result or step.progress
    details: Json = {
        "rows": [shown.row(row) for row in rows_of(step.tool, call, None, patch)],
        "result": safe(text, most=MOST_RESULT),
        "cut": len(text) > MOST_RESULT,
        "answers": step.answers,
    }
    return details if asked is None else details | {"consent": asked}


def _about(lines: Lines, step: Step) -> Iterator[Line]:
    """The line of the call and those that mention it: only these are decoded."""
    mark = step.call_id.encode()
    for n, data in lines.raw(range(step.n, len(lines) + 1)):
        if n == step.n or mark in data:
            yield decode_line(lines.path, n, data)


def _text(event: ToolEnded) -> str:
    parts = [f"[image, {c.media_type}]" if isinstance(c, Image) else c.text for c in event.content]
    return "\n".join(parts)
