"""Time from the reply that asks for a fork to the fork's encoded first request; it must not grow with the history.

Meanwhile the parent waits for another tool, so that its own next request is not counted.
"""

import os
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from msgspec import Struct
from rows import Row, ms
from session import Rig

from teamwright.app import Options, open_session
from teamwright.core.data.conversation.fork import TAG
from teamwright.core.data.message import Message, Reply, Request, Text, Usage
from teamwright.core.data.op import Say
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.models.scripted import call
from teamwright.models.wires.anthropic import AnthropicWire
from teamwright.tools.define import spec

FORKS = 30
SHORT, LONG = 20, 1_000  # messages


class NoArgs(Struct, frozen=True):
    pass


class Hold:
    """Returns when the fork has sent its request."""

    spec = spec("Hold", "Waits for the fork.", NoArgs, parallel=True)

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def call(self, args: Any, ctx: ToolContext) -> Outcome:
        await self.asked.wait()
        self.asked = anyio.Event()
        return said("it has asked")


class Forking:
    """Reads a file until the history is long, then forks repeatedly, and records the CPU of each fork."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._wire = AnthropicWire()
        self._asked = 0.0
        self._forks = 0
        self.hold = Hold()
        self.costs: list[float] = []

    async def reply(self, request: Request, on_delta: Any) -> Reply:
        self._wire.body(request, {})
        last = request.messages[-1].text
        if TAG in last:
            self.costs.append(time.process_time() - self._asked)
            self.hold.asked.set()
            return self._say("Scope: done")
        if len(request.messages) < self._messages:
            return self._say("looking", call("Glob", pattern="*"))
        if not self._forks or (self._forks < FORKS and "<task-notification>" in last):
            self._forks += 1
            task = call("Agent", description="part", prompt=f"part {self._forks}", subagent_type="fork")
            reply = self._say("forking", task, call("Hold"))
            self._asked = time.process_time()
            return reply
        return self._say("waiting")

    def _say(self, text: str, *calls: Any) -> Reply:
        blocks = (Text(text), *(type(c)(f"t{time.monotonic_ns()}", c.name, c.input) for c in calls))
        return Reply(Message("assistant", blocks, "script/given"), "tool_use" if calls else "end_turn", Usage(1, 1))


async def fork(messages: int) -> list[float]:
    with TemporaryDirectory() as root:
        model = Forking(messages)
        env = {"HOME": root, "TEAMWRIGHT_HOME": f"{root}/state", "PATH": "/usr/bin:/bin"}
        session = await open_session(
            Options(
                cwd=Path(root),
                env=env,
                own_model=model,
                own_tools=[model.hold],
                fork=True,
                mode="bypassPermissions",
                may_bypass=True,
            )
        )
        async with session:
            await session.submit(Say((Text("go"),)))
            with anyio.fail_after(120):
                await session.idle()
    assert len(model.costs) == FORKS, len(model.costs)
    return ms(model.costs)


def bare() -> list[float]:
    """The disk's share: a new file and its name, one more sync, two commits. Shows whether the disk is slow."""
    took: list[float] = []
    with TemporaryDirectory() as root:
        db = sqlite3.connect(f"{root}/db", isolation_level=None)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE rows (a, b)"):
            db.execute(statement)
        old, folder = os.open(f"{root}/old", os.O_CREAT | os.O_WRONLY), os.open(root, os.O_RDONLY)
        for n in range(FORKS):
            began = time.process_time()
            os.write(old, b"x" * 500)
            os.fdatasync(old)
            new = os.open(f"{root}/{n}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.write(new, b"x" * 1000)
            os.fdatasync(new)
            os.fsync(folder)
            os.close(new)
            for _ in range(2):
                db.execute("INSERT INTO rows VALUES (?, ?)", (n, "x" * 200))
            took.append(time.process_time() - began)
        db.close()
        os.close(old)
        os.close(folder)
    return ms(took)


def measure(rig: Rig) -> list[Row]:
    short, long = anyio.run(fork, SHORT), anyio.run(fork, LONG)
    return [
        Row(f"fork to its first request, {LONG} messages : {SHORT}", long, short, most_ratio=1.5),
        Row(f"  with {LONG} messages", long, most=3.0),
        Row(f"  with {LONG} messages : its bare disk work", long, bare()),
    ]
