"""One screen for everybody at work: agents, tasks and mail behind three tabs."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, Literal

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TabbedContent, TabPane

from teamwright.core.ids import AgentId
from teamwright.surfaces.terminal.acts import Crew
from teamwright.surfaces.terminal.agents_panel import AgentsPanel
from teamwright.surfaces.terminal.board import TaskBoard
from teamwright.surfaces.terminal.messages import OpenAgent
from teamwright.surfaces.terminal.rows import RowList, app_of
from teamwright.surfaces.terminal.timeline import MailTimeline
from teamwright.surfaces.terminal.view import View

Tab = Literal["agents", "tasks", "mail"]
TABS: tuple[Tab, ...] = ("agents", "tasks", "mail")
REFRESH = 1.0  # seconds between looks at the store, while somebody looks
_KEYS = "←/→ tabs · ↑/↓ · Enter opens · x stop · X stop all · b background · Esc close"


class CrewScreen(ModalScreen[None]):
    """`read` reads what no event tells: tasks, mail, budget."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("left", "turn(-1)", show=False, priority=True),
        Binding("right", "turn(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    CrewScreen {
        align: center middle;
        & > Vertical { width: 100%; height: 100%; max-width: 160; background: $surface; padding: 0 1; }
        & TabbedContent { height: 1fr; }
        & TabPane { padding: 0; height: 1fr; }
        & .crew--keys { height: auto; color: $text-muted; }
    }
    """

    def __init__(
        self, view: View, read: Callable[[], Awaitable[Crew]], *, tab: Tab = "agents",
        here: Callable[[], AgentId] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._view, self._read, self._tab, self._here = view, read, tab, here
        self._crew = Crew()

    def compose(self) -> ComposeResult:
        with Vertical():
            with TabbedContent(initial=self._tab):
                with TabPane("Agents", id="agents"):
                    yield AgentsPanel(self._view, here=self._here, budget=lambda: self._crew.budget)
                with TabPane("Tasks", id="tasks"):
                    yield TaskBoard()
                with TabPane("Mail", id="mail"):
                    yield MailTimeline()
            yield Static(_KEYS, classes="crew--keys", markup=False)

    def on_mount(self) -> None:
        self.set_interval(REFRESH, self._look)
        self._look()
        self.call_after_refresh(self._focus)

    @work(exclusive=True, group="crew")
    async def _look(self) -> None:
        """One look at a time; a slow store does not pile them up."""
        self._crew = await self._read()
        colors = {agent.name: agent.color for agent in self._view.agents.values() if agent.color}
        self.query_one(TaskBoard).show(self._crew.tasks, colors)
        self.query_one(MailTimeline).show(self._crew.mail, self._view.team_events, colors)

    def on_tabbed_content_tab_activated(self) -> None:
        self._focus()

    def _focus(self) -> None:
        pane = self.query_one(TabbedContent).active_pane
        if pane is not None and (found := pane.query(RowList)):
            found.first().focus()

    def action_turn(self, by: int) -> None:
        tabs = self.query_one(TabbedContent)
        at = TABS.index(tabs.active) if tabs.active in TABS else 0
        tabs.active = TABS[(at + by) % len(TABS)]

    def on_open_agent(self, event: OpenAgent) -> None:
        """The app opens it; this screen makes room."""
        event.stop()
        app_of(self).post_message(OpenAgent(event.agent))
        self.dismiss()
