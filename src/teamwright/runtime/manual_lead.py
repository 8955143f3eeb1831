"""Lets a program act as the main agent: it calls the tools and reads the letters, without a model."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import msgspec
from msgspec import Raw

from teamwright.core.data.event import LettersTaken
from teamwright.core.data.letter import Letter
from teamwright.core.data.letters.text import as_message
from teamwright.core.data.message import Message, Reply, ToolCall, Usage
from teamwright.core.errors import ToolError
from teamwright.core.ids import CallId
from teamwright.core.permissions.consent import Deny
from teamwright.core.ports import Outcome, Tool
from teamwright.runtime.services import SessionContext
from teamwright.runtime.session import Session


class ManualLead:
    """Acts as the main agent of a session opened as `driven`: nobody else takes that agent's letters."""

    def __init__(self, session: Session) -> None:
        self.session, self.main = session, session.main
        self._acting, self._reading = anyio.Lock(), anyio.Lock()

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.main.tools

    @property
    def team(self) -> str | None:
        roster = self.session.teamwork.roster
        return roster.team_of(self.main.id)

    async def act(self, name: str, args: Mapping[str, Any]) -> Outcome:
        """Call a tool as if the main agent's model had: under the same rules, one call at a time."""
        tool = self.main.tools.get(name)
        if tool is None:
            raise ToolError(f"{name} is not available in this session.")
        call = ToolCall(CallId(f"mcp_{os.urandom(8).hex()}"), name, Raw(msgspec.json.encode(args)))
        async with self._acting:
            decision = await self.main.ask(self.main.id, call)
            if isinstance(decision, Deny):
                raise ToolError(decision.reason)
            nothing = Reply(Message("assistant", ()), "end_turn", Usage())
            main, paths = self.main, decision.paths
            ctx = SessionContext(
                main.id, call.id, main.desk, main.request(), nothing, main.emit, paths, session=self.session.services
            )
            return await tool.call(args if decision.args is None else decision.args, ctx)

    async def read(self, wait: float = 0.0) -> Sequence[Letter]:
        """Letters for the main agent; waits up to `wait` seconds if there are none.

        A letter counts as delivered once the transcript has it, so no two readers get the same one.
        """
        inbox = self.main.inbox
        async with self._reading:
            letters = await inbox.take(at_rest=True)
            if not letters and wait > 0:
                with anyio.move_on_after(wait):
                    while not letters:
                        await inbox.wait()
                        with anyio.CancelScope(shield=True):  # a letter taken but not recorded would reach nobody
                            letters = await inbox.take(at_rest=True)
            if letters:
                with anyio.CancelScope(shield=True):
                    await self._record(letters)
        return letters

    async def _record(self, letters: Sequence[Letter]) -> None:
        ids = tuple(letter.id for letter in letters)
        self.main.emit(LettersTaken(ids, as_message(letters)))
        await self.main.sync()
        self.main.inbox.acknowledge(ids)

    async def unread(self) -> int:
        return len(await self.main.inbox.unread())

    async def idle(self, limit: float) -> bool:
        """Wait until no teammate has anything left to do; False if that took too long."""
        with anyio.move_on_after(limit):
            while not await self._rest():
                await anyio.lowlevel.checkpoint()
            return True
        return False

    async def _rest(self) -> bool:
        """Whether all teams led here rest. Mail for the lead does not count: its driver may read that at any time."""
        work = self.session.teamwork
        for name in work.roster.led_here():
            if not await work.rests(name):
                return False
        return True
