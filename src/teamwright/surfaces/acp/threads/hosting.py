"""Where an editor's session lives: in this process, or in another one behind its door."""

import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import anyio
from anyio.abc import TaskStatus

from teamwright.app import Options, open_session
from teamwright.core.errors import SessionBusy, UsageError
from teamwright.core.ids import SessionId
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.port import SessionPort
from teamwright.runtime.session import Session
from teamwright.store.files.paths import Home, home_from
from teamwright.surfaces.port.doors import is_open
from teamwright.surfaces.port.visiting import visit
from teamwright.tools.bounds import visible

KeepDoor = Callable[[Session, Home, Mapping[str, str]], Coroutine[Any, Any, None]]  # lets others attach to a session


class SessionHost:
    """Runs as a task of its own, from the opening of a session to its end."""

    def __init__(self, options: Options, keep_door: KeepDoor) -> None:
        self.options = options
        self._keep_door, self._open = keep_door, False
        self._closing, self.closed = anyio.Event(), anyio.Event()

    def close(self) -> None:
        self._closing.set()

    async def run(self, *, task_status: TaskStatus[SessionPort]) -> None:
        """Reports the session's port once it is open. Raises TeamwrightError if it cannot be opened."""
        home, named = home_from(self.options.env), self.options.origin.resume
        try:
            if named and not self.options.origin.fork and is_open(home, SessionId(named)):
                await self._there(home, SessionId(named), task_status)
            else:
                await self._here(home, task_status)
        except SessionBusy as error:
            raise UsageError(f"{error}; it has no door, so it cannot be opened here as well") from None
        except Exception:
            if not self._open:
                raise
            traceback.print_exc()  # the connection's other sessions go on
        finally:
            self.closed.set()

    async def _here(self, home: Home, status: TaskStatus[SessionPort]) -> None:
        session = await open_session(self.options)
        home = session.home or home
        async with session:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_door, session, home, self.options.env)
                group.start_soon(self._heed_trouble, session)
                self._open = True
                status.started(LocalSession(session, home))
                await self._closing.wait()
                group.cancel_scope.cancel()
            session.hurry()
        for words in session.last_words:
            sys.stderr.write(f"teamwright: {visible(words)}\n")

    async def _heed_trouble(self, session: Session) -> None:
        """Close when the disk fails: nothing done after that could be kept."""
        await session.trouble.met()
        self.close()

    async def _there(self, home: Home, id: SessionId, status: TaskStatus[SessionPort]) -> None:
        async with visit(home, id) as there:
            self._open = True
            status.started(there)
            await self._closing.wait()
