"""Reports the session's state to a driving program: running, waiting for an answer, idle."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio

from teamwright.core.data.event import Answered, Asked, JobEnded, Record, TeamChanged, TurnEnded, TurnStarted
from teamwright.runtime.driven_session import DrivenSession

State = Literal["running", "requires_action", "idle"]


class States:
    """Idle means that no agent owes a turn any more."""

    def __init__(self, session: DrivenSession, line: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self._session, self._line = session, line
        self._state: State = "idle"
        self._news = anyio.Event()

    async def heard(self, record: Record) -> None:
        """Called after the record itself was shown."""
        match record.event:
            case TurnStarted() | Answered():
                waiting = bool(self._session.snapshot().questions)
                await self._become("requires_action" if waiting else "running")
            case Asked():
                await self._become("requires_action")
            case TurnEnded() | JobEnded() | TeamChanged():
                self._news.set()
            case _:
                pass

    async def watch(self) -> None:
        """Reports when the session has become idle, as long as it lives."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self._session.at_rest()
            if self._state != "idle" and not self._session.owes_turn:
                await self._become("idle")

    async def _become(self, state: State) -> None:
        if state != self._state:
            self._state = state
            await self._line(
                {"type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": True}
            )
