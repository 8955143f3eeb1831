"""Runs the project's check in a tree of the landing queue, in the sandbox if it is on."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.core.data.landing import LandEntry
from teamwright.core.ids import AgentId, CallId
from teamwright.core.ports import Desk
from teamwright.host.process.bash import describe_end, encode_script, run_script
from teamwright.host.process.capture import Capture, plain
from teamwright.runtime.landing.plan import CHECK_SECONDS, Checked
from teamwright.runtime.sandbox.use import Program

if TYPE_CHECKING:
    from teamwright.runtime.sandbox.fence import SessionFence

HEAD, TAIL = 2_000, 10_000  # bytes of the output that are kept: errors usually come last


class CheckRun(Struct, frozen=True):
    """Runs one command line in each tree. In the sandbox it has the rights of `agent`; `clean` makes output fit to be
    read."""

    command: str
    env: Mapping[str, str]
    fence: "SessionFence | None"
    agent: AgentId
    clean: Callable[[str], str]
    limit: float = CHECK_SECONDS

    async def __call__(self, tree: Path, entry: LandEntry) -> Checked:
        if not self.command.strip():
            return Checked()
        capture = Capture(head=HEAD, tail=TAIL)
        script = encode_script(self.command)
        async with self._place(tree) as (env, box):
            ended, _ = await run_script(script, cwd=tree, env=env, limit=self.limit, capture=capture, box=box)
        words, status = describe_end(ended, self.limit)
        if status == 0 and not ended.timed_out:
            return Checked()
        return Checked(f"the check failed ({words[0].lower()}{words[1:]})", self.clean(plain(capture.text())))

    @asynccontextmanager
    async def _place(self, tree: Path) -> AsyncGenerator[Program]:
        if self.fence is None:
            yield self.env, None
            return
        from teamwright.runtime.sandbox.hosts import Caller  # noqa: PLC0415

        caller = Caller(self.agent, "the landing queue", CallId(f"land-{os.urandom(6).hex()}"), self.command)
        async with self.fence.box(caller, Desk(tree, (tree,)), "default", self.env) as fenced:
            yield fenced.env, fenced.box
