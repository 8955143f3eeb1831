"""From the reply that asks for a fork to the fork's first request, encoded: whatever the history's length."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from rows import Row, ms
from session import Rig

from teamwright.app import Options, open_session
from teamwright.core.fork import TAG
from teamwright.core.message import Message, Reply, Request, Text, Usage
from teamwright.core.op import Say
from teamwright.models.anthropic import Wire
from teamwright.models.scripted import call

FORKS = 30
SHORT, LONG = 20, 1_000  # messages


class Forking:
    """Reads a file until the history is long, then forks again and again; notes the CPU that each fork takes."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._wire = Wire()
        self._asked = 0.0
        self._forks = 0
        self.costs: list[float] = []

    async def reply(self, request: Request, on_delta: Any) -> Reply:
        self._wire.body(request, {})
        last = request.messages[-1].text
        if TAG in last:
            self.costs.append(time.process_time() - self._asked)
            return self._say("Scope: done")
        if len(request.messages) < self._messages:
            return self._say("looking", call("Glob", pattern="*"))
        if not self._forks or (self._forks < FORKS and "<task-notification>" in last):
            self._forks += 1
            task = call("Agent", description="part", prompt=f"part {self._forks}", subagent_type="fork")
            reply = self._say("forking", task)
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
        session = await open_session(Options(cwd=Path(root), env=env, own_model=model, fork=True))
        async with session:
            await session.submit(Say((Text("go"),)))
            with anyio.fail_after(120):
                await session.idle()
    assert len(model.costs) == FORKS, len(model.costs)
    return ms(model.costs)


def measure(rig: Rig) -> list[Row]:
    short, long = anyio.run(fork, SHORT), anyio.run(fork, LONG)
    return [
        Row(f"fork to its first request, {LONG} messages : {SHORT}", long, short, most_ratio=1.5),
        Row(f"  with {LONG} messages", long, most=3.0),
    ]
