"""Margins of the screen: checklist, queue, status line and terminal title, drawn with each frame."""

from typing import TYPE_CHECKING, Any

from anyio import to_thread
from textual.screen import Screen

from teamwright.app import open_workspace
from teamwright.core.errors import TeamwrightError
from teamwright.surfaces.terminal.margins.checklist import TaskChecklist
from teamwright.surfaces.terminal.margins.own_status import StatusRunner
from teamwright.surfaces.terminal.margins.title import TerminalTitle, title_of, wants_title
from teamwright.surfaces.terminal.prompt.shell_actions import branch_of
from teamwright.surfaces.terminal.widgets.queue_list import QueueList
from teamwright.surfaces.terminal.widgets.status import StatusLine

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.app import TerminalApp


class Margins:
    def __init__(self, app: "TerminalApp") -> None:
        self._app, self._view = app, app.view
        self._branch, self._title = "", TerminalTitle(app.write_terminal)
        self._own: StatusRunner | None = None
        self._tasks_read = 0  # how often the task list had changed when it was last read
        self._reading = self._hidden = False  # hidden: the person does not want to see the tasks
        self._stamp: object = None  # what tasks and title were last drawn for

    def draw(self, hint: str) -> bool:
        """False if nothing has changed since the last time. `hint` is shown in the status line for a moment."""
        app, view, base = self._app, self._view, self._app.screen_stack[0]
        facts, changed = app.session.facts, False
        stamp = (
            view.version,
            view.tasks_changed,
            self._tasks_read,
            self._title.allowed,
            app.size,
            app.theme,
            self._hidden,
        )
        if stamp != self._stamp:  # at rest a frame must cost almost nothing
            self._stamp = stamp
            changed = self._draw_tasks(base)
            self._title.show(title_of(view, app.session.cwd))
        base.query_one("#queue", QueueList).show(view.queue)
        if self._own is not None:
            self._own.look(facts)
        branch = None if base.query_one("#own-status").display else self._branch
        status = base.query_one("#status", StatusLine)
        return status.show(facts, view.agent(app.here), view, branch=branch, hint=hint) or changed

    def _draw_tasks(self, base: Screen[Any]) -> bool:
        view = self._view
        if view.tasks_changed != self._tasks_read and not self._reading:
            self._reading = True
            self._app.run_worker(self._read_tasks(), name="tasks")
        colors = {agent.name: agent.color for agent in view.agents.values() if agent.color}
        alone = not any(agent.team for agent in view.agents.values())
        tasks = [] if self._hidden else view.tasks
        return base.query_one("#checklist", TaskChecklist).show(tasks, colors, alone=alone)

    def prepare(self) -> None:
        """Do what the first picture need not wait for."""
        self._app.run_worker(self.read_branch(), name="branch")
        self._app.run_worker(self._read_settings(), name="settings")

    async def _read_settings(self) -> None:
        try:
            place = await to_thread.run_sync(open_workspace, self._app.options)
        except TeamwrightError:
            return  # reported when the session was opened
        settings = place.settings
        if (command := settings.status_line) is not None:
            self._own = StatusRunner(self._app, place, command)
        self._title.allowed = wants_title(place.env, setting=settings.own.terminal_title)

    def leave(self) -> None:
        """Restore the terminal."""
        self._title.restore()

    async def _read_tasks(self) -> None:
        """Read the list from the store when an event says that it has changed: no event contains it."""
        seen = self._view.tasks_changed
        try:
            self._view.tasks = list((await self._app.session.crew()).tasks)
        except TeamwrightError as error:
            self._app.hint(f"the tasks cannot be read: {error}")
        finally:
            self._tasks_read, self._reading = seen, False
            self._app.wake()

    async def read_branch(self) -> None:
        self._branch = await branch_of(self._app.session.cwd)

    def toggle_tasks(self) -> None:
        self._hidden = not self._hidden
        self._app.hint(
            f"the task list is {'hidden: Ctrl+T shows it' if self._hidden else 'shown while tasks are open'}"
        )
