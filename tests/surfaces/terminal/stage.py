"""The app on a stage: a real session with a scripted model; presses keys and reads the screen."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from teamwright.app import open_session
from teamwright.runtime.local_session import LocalSession
from teamwright.runtime.session import Session
from teamwright.store.files.paths import home_from
from teamwright.surfaces.terminal.app import TerminalApp
from teamwright.surfaces.terminal.leave import Leave
from teamwright.surfaces.view.shapes import Item
from teamwright.surfaces.view.view import SessionFold

LIMIT = 30.0


class Stage:
    def __init__(self, app: TerminalApp, pilot: Pilot[Leave], session: Session) -> None:
        self.app, self.pilot, self.session = app, pilot, session

    @property
    def view(self) -> SessionFold:
        return self.app.view

    @property
    def items(self) -> list[Item]:
        return self.view.talk(self.app.here).items

    @property
    def screen(self) -> str:
        """The screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def until(self, done: Callable[[], object], what: str = "") -> None:
        """Wait for something visible."""
        end = time.monotonic() + LIMIT
        while not done():
            assert time.monotonic() < end, f"never came: {what}\n{self.screen}"
            await self.pilot.pause(0.02)

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.screen, text)

    async def gone(self, text: str) -> None:
        await self.until(lambda: text not in self.screen, f"no {text}")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        names = {" ": "space", "/": "slash", "@": "at", "!": "exclamation_mark", "\n": "ctrl+j"}
        await self.pilot.press(*(names.get(letter, letter) for letter in text))

    async def say(self, text: str) -> None:
        self.app.prompt.put(text)
        await self.press("enter")

    async def rests(self) -> None:
        """The main agent has answered."""
        await self.until(lambda: self.view.agents[self.view.main].state in ("idle", "failed"), "rest")
        await self.pilot.pause()


@asynccontextmanager
async def staged(
    walker: Any, script: Any = None, *, size: tuple[int, int] = (100, 30), theme: str = "dark",
    prompt: str | None = None, **more: Any,
) -> AsyncIterator[Stage]:  # fmt: skip
    options = walker.options(script, can_ask=True, **more)
    session = await open_session(options)
    async with session:
        app = TerminalApp(LocalSession(session, home_from(options.env)), options, theme=theme, prompt=prompt)
        async with app.run_test(size=size) as pilot:
            yield Stage(app, pilot, session)
        session.hurry()
