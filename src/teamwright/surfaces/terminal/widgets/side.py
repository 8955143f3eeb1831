"""Side of the screen with the agents, the task board and the team's mail, beside the conversation or replacing it."""

from collections.abc import Callable
from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, Static

from teamwright.core.ids import AgentId
from teamwright.runtime.port import Crew, SessionPort
from teamwright.surfaces.terminal.widgets.agents_panel import AgentsPanel
from teamwright.surfaces.terminal.widgets.board import TaskPanel
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, palette_of
from teamwright.surfaces.terminal.widgets.timeline import MailTimeline
from teamwright.surfaces.view.view import SessionFold

Page = Literal["agents", "tasks", "mail"]
PAGES: tuple[Page, ...] = ("agents", "tasks", "mail")
BESIDE = 110  # columns from which it stands beside the conversation


class Side(Vertical):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]
    DEFAULT_CSS = """
    Side { display: none; width: 44%; max-width: 90; border-left: vkey $panel; padding: 0 1; background: $background; }
    Side.-alone { width: 1fr; max-width: 1000; border-left: none; }
    Side > #side-tabs { height: 1; margin-bottom: 1; }
    Side > ContentSwitcher { height: 1fr; }
    """

    class Closed(Message):
        """The person is done with it."""

    def __init__(self, view: SessionFold, *, here: Callable[[], AgentId], budget: Callable[[], str], id: str) -> None:
        super().__init__(id=id)
        self._view = view
        self._agents = AgentsPanel(view, here=here, budget=budget, id="agents")
        self._tasks, self._mail = TaskPanel(id="tasks"), MailTimeline(id="mail")
        self.page: Page = "agents"
        self._begun = self._filled = False
        self._crew = Crew()

    def prepare(self) -> None:
        """Not with the first picture: it is not seen there, and takes a while."""
        if not self._begun:
            self._begun = True
            self.run_worker(self._mount_pages())

    async def _mount_pages(self) -> None:
        tabs = Static("", id="side-tabs", markup=False)
        await self.mount(tabs, ContentSwitcher(self._agents, self._tasks, self._mail, initial=self.page))
        if not all(page.query(RowList) for page in (self._agents, self._tasks, self._mail)):
            return  # the app was left meanwhile
        self._filled = True
        self.show(self._crew)
        if self.display:
            self.open(self.page)

    def open(self, page: Page) -> None:
        self.page, self.display = page, True
        if not self._filled:
            self.prepare()
            return
        self.query_one(ContentSwitcher).current = page
        self.draw_tabs()
        self._agents.draw()
        self.query_one(f"#{page}").query(RowList).first(RowList).focus()

    def action_close(self) -> None:
        self.post_message(self.Closed())

    def draw_tabs(self) -> None:
        palette = palette_of(self)
        pieces: list[Piece] = []
        for page in PAGES:
            pieces.append((f" {page} ", f"reverse {palette.accent}".strip() if page == self.page else palette.dim))
        self.query_one("#side-tabs", Static).update(Content.assemble(*pieces, ("  F2 next · Esc closes", palette.dim)))

    async def read(self, session: SessionPort) -> None:
        self.show(await session.crew())

    def show(self, crew: Crew) -> None:
        self._crew = crew
        if not self._filled:
            return
        colors = {agent.name: agent.color for agent in self._view.agents.values()}
        self._tasks.show(crew.tasks, colors)
        self._mail.show(crew.mail, self._view.team_events, colors)
