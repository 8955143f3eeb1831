"""One line above the input that says what a stranger could press next, until they have tried it."""

from collections.abc import Callable
from typing import cast

from msgspec import Struct
from textual.content import Content
from textual.widgets import Static

from teamwright.surfaces.terminal.app import TerminalApp
from teamwright.surfaces.terminal.widgets.rows import app_of, palette_of

BEAT = 0.25  # seconds
_READ = "Tab and Enter open a step · Shift+Up/Down: another agent · Esc: back to the lead"


class Shown(Struct):
    """What there is to see, and what the person has tried."""

    team: bool = False  # teammates are there
    asked: str = ""  # who waits for an answer
    over: bool = False
    page: str = ""  # of the side, if it is open
    elsewhere: str = ""  # whose conversation is open, if not the lead's
    tried_side: bool = False
    tried_reading: bool = False


def advice(seen: Shown) -> str:
    """The one thing to do next."""
    if seen.asked:
        return f"{seen.asked} waits for your answer: {'Esc, then ' if seen.page else ''}Enter opens the question"
    if seen.elsewhere:
        return f"{seen.elsewhere}, in a tree of its own. {_READ}"
    if not seen.team:
        return "a script plays the model; files, git, mail and tasks are real. The lead makes a team: watch"
    if seen.page == "agents" and not seen.tried_reading:
        return "Down and Enter open a teammate's conversation · F2: tasks, then mail · Esc closes"
    if seen.page:
        return "F2: agents, tasks, mail, one after the other · Enter shows all of one · Esc closes"
    if not seen.tried_side:
        return "F2 shows the team: who does what, its tasks, its mail"
    if not seen.tried_reading:
        return "Shift+Down opens ada's conversation, once more ben's; Esc comes back"
    if seen.over:
        return "the story is over. Look around as long as you like; Ctrl+C twice leaves"
    return "Ctrl+O opens all steps · F2 shows the team · Ctrl+C twice leaves"


class Coach(Static):
    DEFAULT_CSS = "Coach { height: auto; max-height: 3; padding: 0 1; margin-top: 1; background: $background; }"

    def __init__(self, over: Callable[[], bool]) -> None:
        super().__init__("", id="coach", markup=False)
        self._over, self._seen = over, Shown()
        self._drawn: Content | None = None

    def on_mount(self) -> None:
        self.set_interval(BEAT, self._look)

    def _look(self) -> None:
        app, seen = cast("TerminalApp", app_of(self)), self._seen
        view, here = app.view, app.view.agent(app.here)
        seen.team = seen.team or any(agent.team for agent in view.agents.values() if agent.parent)
        seen.asked = view.questions[0].agent_name if view.questions else ""
        seen.page = app.side.page if app.side.display else ""
        seen.elsewhere = here.name if here.id != view.main else ""
        seen.tried_reading = seen.tried_reading or bool(seen.elsewhere)
        seen.tried_side = seen.tried_side or bool(seen.page) or seen.tried_reading  # quick fingers are not seen there
        seen.over = self._over()
        palette = palette_of(self)
        line = Content.assemble(("demo  ", palette.accent), (advice(seen), palette.text))
        if self._drawn is None or not line.is_same(self._drawn):
            self._drawn = line
            self.update(line)
