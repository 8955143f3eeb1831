"""Joins pieces of text that come in quick succession: a remote watcher does not need every token."""

from collections.abc import AsyncIterator
from typing import cast

import anyio
from msgspec.structs import replace

from teamwright.core.data.event import Record, Streamed
from teamwright.core.data.message import TextDelta, ThinkingDelta
from teamwright.core.ids import AgentId
from teamwright.runtime.port import Live

Block = tuple[AgentId, int, type]


class _Ended:
    """No more records come."""


async def joined(live: Live, every_ms: int) -> AsyncIterator[Record]:
    """The same records, with each block's text held back for `every_ms` at most, and given out before anything
    later."""
    held: dict[Block, Record] = {}
    source, due = aiter(live), 0.0
    while True:
        found = await _next(source, due if held else None)
        block = _block(found) if isinstance(found, Record) else None
        if block is not None and isinstance(found, Record):
            due = due if held else anyio.current_time() + every_ms / 1000
            held[block] = _appended(held.get(block), found)
            if anyio.current_time() < due:
                continue
        for waiting in held.values():
            yield waiting
        held.clear()
        if isinstance(found, _Ended):
            return
        if block is None and found is not None:
            yield found


async def _next(source: AsyncIterator[Record], due: float | None) -> Record | _Ended | None:
    """None: the time is up."""
    if due is None:
        return await anext(source, _Ended())
    with anyio.move_on_at(due):
        return await anext(source, _Ended())
    return None


def _block(record: Record) -> Block | None:
    match record.event:
        case Streamed(delta=TextDelta() | ThinkingDelta() as delta):
            return record.agent, delta.index, type(delta)
        case _:
            return None


def _appended(before: Record | None, record: Record) -> Record:
    if before is None:
        return record
    old, new = cast("Streamed", before.event).delta, cast("Streamed", record.event).delta
    assert isinstance(old, TextDelta | ThinkingDelta) and isinstance(new, TextDelta | ThinkingDelta)
    return replace(record, event=Streamed(replace(old, text=old.text + new.text)))
