"""Watches a running session: each wait is for something visible, and limited."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from conftest import Walker
from teamwright.app import open_session
from teamwright.core.data.event import Event, Record, TurnEnded
from teamwright.core.data.message import Message, Text, ToolResult
from teamwright.core.data.op import Say
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.session import Session

LIMIT = 20.0


class Live:
    def __init__(self, session: Session, model: ScriptedModel) -> None:
        self.session, self.model = session, model
        self.watch = session.watch()
        self.records: list[Record] = []

    async def say(self, text: str) -> None:
        await self.session.submit(Say((Text(text),)))

    async def until(self, seen: Callable[[Event], bool] | type) -> Any:
        """The next event of that kind; earlier ones are kept."""
        with anyio.fail_after(LIMIT):
            async for record in self.watch:
                self.records.append(record)
                if isinstance(record.event, seen) if isinstance(seen, type) else seen(record.event):
                    return record.event
        raise AssertionError("the session ended before it was seen")

    async def rest(self) -> None:
        """The remaining events after the session has ended."""
        with anyio.fail_after(LIMIT):
            self.records += [record async for record in self.watch]

    def of(self, kind: type) -> list[Any]:
        return [r.event for r in self.records if isinstance(r.event, kind)]

    @property
    def ends(self) -> list[str]:
        return [end.reason for end in self.of(TurnEnded)]


@asynccontextmanager
async def living(walker: Walker, script: Any, **more: Any) -> AsyncIterator[Live]:
    options = walker.options(script, **{"mode": "bypassPermissions"} | more)
    session = await open_session(options)
    assert isinstance(options.own_model, ScriptedModel)
    async with session:
        live = Live(session, options.own_model)
        yield live
    await live.rest()


def results(message: Message) -> list[tuple[str, bool]]:
    """(text, is_error) of the results in a message."""
    blocks = [b for b in message.blocks if isinstance(b, ToolResult)]
    return [("\n".join(c.text for c in b.content if isinstance(c, Text)), b.is_error) for b in blocks]


def transcript(walker: Walker) -> Path:
    (file,) = (walker.store / "projects").glob("*/*.jsonl")
    return file


def ledger(walker: Walker) -> list[tuple[int, int, float | None, int | None]]:
    """(input with cache, output, dollars, outcome) of every call in the store."""
    with sqlite3.connect(walker.store / "state.db") as db:
        rows = db.execute("SELECT input + cache_read + cache_write, output, usd, outcome FROM ledger ORDER BY n")
        found = rows.fetchall()
    db.close()
    return found


async def written(path: Path) -> str:
    """The text of a file that a command is about to write."""
    with anyio.fail_after(LIMIT):
        while not (path.exists() and path.read_text().strip()):
            await anyio.sleep(0.01)
    return path.read_text()
