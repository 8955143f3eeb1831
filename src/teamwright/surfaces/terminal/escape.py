"""Esc and Ctrl+C: each ends the nearest thing that can be ended, and leaves only at a second press."""

from typing import TYPE_CHECKING

from teamwright.core.data.op import Interrupt
from teamwright.surfaces.terminal.leave import Leave, warning
from teamwright.surfaces.terminal.margins.moments import Presses

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp


class EscapeKeys:
    def __init__(self, app: "TerminalApp") -> None:
        self._app, self._presses = app, Presses()

    async def escape(self) -> None:
        app = self._app
        agent = app.view.agent(app.here)
        if app.side.display:
            app.close_side()
        elif agent.state in ("running", "waiting"):
            await self._interrupt()
        elif agent.id != app.view.main:
            app.open_agent(app.view.main)
        elif app.prompt.text:
            self._clear()
        elif self._presses.twice("back"):
            app.rewind()
        else:
            app.hint("Esc again rewinds to an earlier prompt")

    def _clear(self) -> None:
        if self._presses.twice("clear"):
            self._app.prompt.send_away()
        else:
            self._app.hint("Esc again clears the input (Up restores it)")

    async def interrupt_or_leave(self) -> None:
        app = self._app
        if selected := app.screen.get_selected_text() or app.prompt.selected_text:
            app.copy_to_clipboard(selected)
            app.screen.clear_selection()
            app.hint("copied")
        elif app.prompt.text:
            app.prompt.send_away()
            app.hint("cleared; Up restores it")
        elif app.view.agent(app.here).state in ("running", "waiting"):
            await self._interrupt()
        elif self._presses.twice("leave"):
            app.exit(Leave())
        else:
            app.hint(warning(app.view, elsewhere=app.session.elsewhere))

    async def _interrupt(self) -> None:
        app = self._app
        await app.attempt(app.session.submit(Interrupt(None if app.here == app.view.main else app.here)))
