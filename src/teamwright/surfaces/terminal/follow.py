"""The stream of events into the view. It gives way often: however much arrives, a key that is pressed comes first."""

import time
from typing import Protocol

from anyio import lowlevel, to_thread

from teamwright.core.event import Asked, Record, TurnEnded
from teamwright.core.ids import AgentId, SessionId
from teamwright.runtime.session import Session
from teamwright.store import transcripts
from teamwright.store.paths import Home, SessionFiles, find_transcript
from teamwright.surfaces.terminal.shapes import Item
from teamwright.surfaces.terminal.view import View, older

SLICE = 0.008  # seconds of folding between two looks at the keyboard
END = 1 << 60


class Heard(Protocol):
    def __call__(self, *, ended: bool, asked: bool) -> None: ...


class Follower:
    def __init__(self, session: Session, view: View, heard: Heard) -> None:
        self._session, self._view, self._heard = session, view, heard

    async def follow(self) -> None:
        """Until the session ends. It begins with all that the main agent's transcript has."""
        session, view = self._session, self._view
        watch = session.watch({session.main.id: 0})
        since = time.monotonic()
        begun, loaded = time.time_ns() // 1_000_000, False
        try:
            async for record in watch:
                view.apply(record)
                if record.at >= begun:
                    ended = isinstance(record.event, TurnEnded) and record.agent == view.main
                    asked = isinstance(record.event, Asked)
                    if ended or asked:
                        self._heard(ended=ended, asked=asked)
                if record.at >= begun or not record.n:
                    loaded = True
                if loaded and time.monotonic() - since > SLICE:  # what was before is folded at once, and drawn once
                    await lowlevel.checkpoint()
                    since = time.monotonic()
        finally:
            watch.close()


async def read_again(home: Home, session: SessionId, agent: AgentId, before: int = END) -> list[Item]:
    """The items of an agent's transcript before a line."""
    return await to_thread.run_sync(_read, home, session, agent, before, abandon_on_cancel=True)


def _read(home: Home, session: SessionId, agent: AgentId, before: int) -> list[Item]:
    main = find_transcript(home, session)
    if main is None:
        return []
    path = main if agent == session else SessionFiles(main).agent(agent)
    if not path.is_file():
        return []
    return older((Record(agent, n, line.at, line.event) for n, line in transcripts.read(path)), agent, before)
