"""Line above the input that suggests the next key to press, until it has been tried."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from teamwright.surfaces.terminal.widgets.rows import palette_of
from teamwright.surfaces.view.newcomer import Newcomer

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp


class Coach(Static):
    DEFAULT_CSS = "Coach { height: auto; max-height: 3; padding: 0 1; margin-top: 1; background: $background; }"

    def __init__(self, advise: Callable[[Newcomer], str]) -> None:
        super().__init__("", id="coach", markup=False)
        self._advise, self._seen = advise, Newcomer()
        self._drawn: Content | None = None

    def look(self, app: "TerminalApp") -> None:
        """Called with each frame: what the person has done may call for other advice."""
        self._note(app, self._seen)
        palette = palette_of(self)
        line = Content.assemble(("demo  ", palette.accent), (self._advise(self._seen), palette.text))
        if self._drawn is None or not line.is_same(self._drawn):
            self._drawn = line
            self.update(line)

    def _note(self, app: "TerminalApp", seen: Newcomer) -> None:
        view, here = app.view, app.view.agent(app.here)
        seen.team = seen.team or any(agent.team for agent in view.agents.values() if agent.parent)
        seen.asked = view.questions[0].agent_name if view.questions else ""
        seen.page = app.side.page if app.side.display else ""
        seen.elsewhere = here.name if here.id != view.main else ""
        seen.tried_reading = seen.tried_reading or bool(seen.elsewhere)
        # quick key presses would be missed there
        seen.tried_side = seen.tried_side or bool(seen.page) or seen.tried_reading
