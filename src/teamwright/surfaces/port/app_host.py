"""Serves an attached app: sends it every record, and carries out its requests in this session."""

from collections.abc import Awaitable, Callable
from typing import Any, assert_never

import anyio
import msgspec
from anyio.abc import TaskGroup

from teamwright.core.data.event import Streamed
from teamwright.core.errors import TeamwrightError
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.port import Live, SessionFacts
from teamwright.surfaces.port.app_protocol import (
    SETTLE_SECONDS,
    AnyControlBody,
    AskCrew,
    AskExpand,
    AskPast,
    AskPoints,
    AskPreview,
    AskRules,
    AskSay,
    AskSettled,
    AskSkills,
    AskStatus,
    AskStop,
    AskSubmit,
    AskWatch,
    AskWithdraw,
    Told,
    Welcome,
)
from teamwright.surfaces.port.joined import joined

Write = Callable[[bytes], Awaitable[None]]


class AppGuest:
    """`watching` once it has asked for records; until then it is like any other guest."""

    def __init__(self, session: LocalSession, write: Write, group: TaskGroup) -> None:
        self._session, self._write, self._group = session, write, group
        self._told: SessionFacts | None = None
        self.watching = False

    async def take(self, id: str, request: dict[str, Any]) -> None:
        """Slow requests must not delay later ones, such as an interrupt."""
        try:
            wanted = msgspec.convert(request, AnyControlBody)
        except msgspec.ValidationError as error:
            await self._answer(id, error=f"not understood: {error}")
            return
        if isinstance(wanted, AskWatch):
            await self._begin(id, wanted.every_ms)
        else:
            self._group.start_soon(self._carry_out, id, wanted)

    async def _begin(self, id: str, every_ms: int) -> None:
        self.watching = True
        session = self._session
        cursor, now, live = await session.join()
        self._told = session.facts
        welcome = Welcome(
            session.id,
            session.main,
            str(session.cwd),
            tuple(session.model_names),
            session.kind_colors,
            self._told,
            cursor,
            tuple(now),
        )
        self._group.start_soon(self._tell, live, every_ms)
        await self._answer(id, welcome)

    async def _tell(self, live: Live, every_ms: int) -> None:
        try:
            async for record in joined(live, every_ms) if every_ms > 0 else live:
                if not isinstance(record.event, Streamed):
                    await self._tell_facts()
                await self._line(Told(subtype="record", record=record))
        finally:
            live.close()
        self._group.cancel_scope.cancel()  # the session has ended

    async def _tell_facts(self) -> None:
        """Send facts before a record that may rely on them."""
        facts = self._session.facts
        if facts != self._told:
            self._told = facts
            await self._line(Told(subtype="facts", facts=facts))

    async def _carry_out(self, id: str, wanted: AnyControlBody) -> None:
        try:
            value = await self._do(wanted)
            await self._tell_facts()
        except TeamwrightError as error:
            await self._answer(id, error=str(error))
        else:
            await self._answer(id, value)

    async def _do(self, wanted: AnyControlBody) -> object:  # noqa: C901 one case for each kind
        session = self._session
        match wanted:
            case AskSubmit(op):
                return await session.submit(op)
            case AskSay(op):
                return await session.say(op)
            case AskWithdraw(letter, agent):
                return await session.withdraw(letter, agent)
            case AskStop(agent):
                return await session.stop(agent)
            case AskExpand(text):
                return await session.expand(text)
            case AskSkills():
                return await session.skills()
            case AskRules():
                return await session.rules()
            case AskCrew():
                return await session.crew()
            case AskStatus():
                return await session.status()
            case AskSettled():
                with anyio.move_on_after(SETTLE_SECONDS):
                    return await session.settled()
                return None
            case AskPoints() | AskPreview():
                return await self._look_back(wanted)
            case AskPast(agent):
                return await session.past(agent)
            case AskWatch():
                raise AssertionError("it begins elsewhere")
            case _:
                assert_never(wanted)

    async def _look_back(self, wanted: AskPoints | AskPreview) -> object:
        session = self._session
        return await (session.preview(wanted.line) if isinstance(wanted, AskPreview) else session.points())

    async def _answer(self, id: str, value: object = None, *, error: str = "") -> None:
        response: dict[str, object] = {"subtype": "error" if error else "success", "request_id": id}
        response |= {"error": error} if error else {"response": value}
        await self._line({"type": "control_response", "response": response})

    async def _line(self, value: object) -> None:
        await self._write(msgspec.json.encode(value) + b"\n")
