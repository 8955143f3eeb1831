"""Side of the screen next to the conversation, or in its place: agents, task board, mail and landing queue."""

import time
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
from teamwright.surfaces.terminal.widgets.land_panel import LandPanel
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, palette_of
from teamwright.surfaces.terminal.widgets.timeline import MailTimeline
from teamwright.surfaces.view.view import SessionFold

Page = Literal["agents", "tasks", "mail", "landing"]
PAGES: tuple[Page, ...] = ("agents", "tasks", "mail", "landing")
LOOK = 0.9  # seconds after which the visible landing queue is read again
BESIDE = 110  # columns from which on it is next to the conversation


class Side(Vertical):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]
    DEFAULT_CSS = """
    Side { display: none; width: 44%; max-width: 90; border-left: vkey $panel; padding: 0 1; background: $background; }
    Side.-alone { width: 1fr; max-width: 1000; border-left: none; }
    Side > #side-tabs { height: 1; margin-bottom: 1; }
    Side > ContentSwitcher { height: 1fr; }
    """

    class Closed(Message):
        """The person closes it."""

    def __init__(self, view: SessionFold, *, here: Callable[[], AgentId], budget: Callable[[], str], id: str) -> None:
        super().__init__(id=id)
        self._view = view
        self._agents = AgentsPanel(view, here=here, budget=budget, id="agents")
        self._tasks, self._mail, self._landing = TaskPanel(id="tasks"), MailTimeline(id="mail"), LandPanel(id="landing")
        self.page: Page = "agents"
        self._begun = self._filled = False
        self._crew, self._read_at = Crew(), 0.0

    def prepare(self) -> None:
        """Not with the first picture: it is not visible then, and takes a while."""
        if not self._begun:
            self._begun = True
            self.run_worker(self._mount_pages())

    async def _mount_pages(self) -> None:
        tabs = Static("", id="side-tabs", markup=False)
        pages = (self._agents, self._tasks, self._mail, self._landing)
        await self.mount(tabs, ContentSwitcher(*pages, initial=self.page))
        if not all(page.query(RowList) for page in pages):
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
        self.take_keys()

    def take_keys(self) -> None:
        self.query_one(f"#{self.page}").query(RowList).first(RowList).focus()

    def action_close(self) -> None:
        self.post_message(self.Closed())

    @property
    def pages(self) -> tuple[Page, ...]:
        """The landing queue is a page only if it has entries."""
        landing = bool(self._crew.landing) or self.page == "landing"
        return PAGES if landing else PAGES[:-1]

    @property
    def next_page(self) -> Page | None:
        """None after the last one."""
        place = self.pages.index(self.page) + 1
        return self.pages[place] if place < len(self.pages) else None

    def draw_tabs(self) -> None:
        palette = palette_of(self)
        pieces: list[Piece] = []
        for page in self.pages:
            pieces.append((f" {page} ", f"reverse {palette.accent}".strip() if page == self.page else palette.dim))
        self.query_one("#side-tabs", Static).update(Content.assemble(*pieces, ("  F2 next · Esc closes", palette.dim)))

    def falls_due(self) -> bool:
        """Whether to read again: no event tells what other processes do to the landing queue."""
        now = time.monotonic()
        if self.page != "landing" or now - self._read_at < LOOK:
            return False
        self._read_at = now
        return True

    async def read(self, session: SessionPort) -> None:
        self.show(await session.crew())

    def show(self, crew: Crew) -> None:
        before, self._crew = self.pages, crew
        if not self._filled:
            return
        if self.pages != before:
            self.draw_tabs()
        colors = {agent.name: agent.color for agent in self._view.agents.values()}
        self._tasks.show(crew.tasks, colors)
        self._mail.show(crew.mail, self._view.team_events, colors)
        self._landing.show(crew.landing, colors)
