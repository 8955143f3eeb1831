"""Small hosts for panels and dialogs, and a view with a small team in it."""

import time
from collections.abc import Callable
from typing import Any

import anyio
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from teamwright.core.data.event import AgentStarted, Asked, Record, TeamChanged, TurnStarted
from teamwright.core.data.tasks import Task, TaskId
from teamwright.core.ids import AgentId, CallId, LetterId, QuestionId, SessionId
from teamwright.core.permissions.consent import Question
from teamwright.runtime.port import Crew
from teamwright.store.tables.mail import MailEntry
from teamwright.surfaces.terminal.messages import AnswerQuestion, Background, OpenAgent, StopAgent, StopEverything
from teamwright.surfaces.terminal.render.themes import themes
from teamwright.surfaces.terminal.widgets.side import Page, Side
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.view import SessionFold

NOW = int(time.time() * 1000)
MAIN = AgentId("main-1")
EVIL = "\x1b[31mred\x1b]52;c;aGk=\x07\u202eevil\u200b[bold]x[/bold]"
LIMIT = 30.0


class Host(App[None]):
    """Holds one widget or shows one screen; keeps every message that reaches the app."""

    def __init__(self, make: Callable[[], Widget | Screen[Any]], theme: str = "tw-dark") -> None:
        super().__init__()
        self._make, self._theme = make, theme
        self.heard: list[Message] = []
        self.results: list[Any] = []
        self.shown: Widget | Screen[Any] | None = None

    def compose(self) -> ComposeResult:
        made = self.shown = self._make()
        if not isinstance(made, Screen):
            yield made

    def on_mount(self) -> None:
        for theme in themes():
            self.register_theme(theme)
        self.theme = self._theme
        if isinstance(self.shown, Screen):
            self.push_screen(self.shown, self.results.append)

    def on_open_agent(self, event: OpenAgent) -> None:
        self.heard.append(event)

    def on_stop_agent(self, event: StopAgent) -> None:
        self.heard.append(event)

    def on_stop_everything(self, event: StopEverything) -> None:
        self.heard.append(event)

    def on_background(self, event: Background) -> None:
        self.heard.append(event)

    def on_side_closed(self, event: Side.Closed) -> None:
        self.heard.append(event)

    def on_answer_question(self, event: AnswerQuestion) -> None:
        self.heard.append(event)


def side_host(view: SessionFold, page: Page, crew: Crew | None = None, *, budget: str = "") -> Host:
    """The app's side panel, open at a page."""
    shown = crew or Crew()

    class Opened(Side):
        def on_mount(self) -> None:
            self.add_class("-alone")
            self.call_after_refresh(self.fill)

        def fill(self) -> None:
            self.open(page)
            self.show(shown)

    return Host(lambda: Opened(view, here=lambda: MAIN, budget=lambda: budget, id="side"))


async def until(pilot: Pilot[Any], seen: Callable[[], object]) -> None:
    """Wait for something visible, with a limit."""
    with anyio.fail_after(LIMIT):
        while not seen():
            await pilot.pause(0.01)


def screen_text(app: App[Any]) -> str:
    """The screen, line by line."""
    return "\n".join(
        "".join(segment.text for segment in line).rstrip() for line in app.screen._compositor.render_strips()
    )


def make_view() -> SessionFold:
    """A lead, two teammates, a foreground agent with a child, and one that has ended."""
    colors = {"ada": "blue", "bert": "green"}
    view = SessionFold(MAIN, price=lambda _model, _usage: 0.02, color=lambda agent: colors.get(agent.name, ""))
    add(view, MAIN, "main", None)
    add(view, "a1", "ada", MAIN, team="site", description="writes the parser")
    add(view, "a2", "bert", MAIN, team="site", description="writes the tests")
    add(view, "a3", "Explore", MAIN, description="looks for callers")
    add(view, "a4", "reader", "a3", description="reads one file")
    view.apply(Record(AgentId("a2"), 0, NOW, TeamChanged("site", "idle", "bert@site")))
    view.agents[AgentId("a1")].tokens, view.agents[AgentId("a1")].usd = 12_345, 0.42
    view.agents[AgentId("a1")].doing = "Bash pytest -q tests/parser"
    return view


def add(
    view: SessionFold, id: str, name: str, parent: str | None, *, team: str = "", description: str = ""
) -> AgentView:
    started = AgentStarted(
        SessionId("s"), "/project", "1", kind="main" if parent is None else "general-purpose", name=name,
        parent=AgentId(parent) if parent else None, depth=int(parent is not None), description=description, team=team,
    )  # fmt: skip
    view.apply(Record(AgentId(id), 1, NOW - 65_000, started))
    view.apply(Record(AgentId(id), 0, NOW, TurnStarted()))
    return view.agents[AgentId(id)]


def question(
    id: str = "q1", tool: str = "Bash", agent: str = "a1", suggestions: tuple[str, ...] = ("Bash(git push *)",),
    name: str = "ada", wider: tuple[str, ...] = (), **args: Any,
) -> Question:  # fmt: skip
    given = args or {"command": "git push origin main"}
    return Question(
        QuestionId(id),
        AgentId(agent),
        name,
        CallId(f"c-{id}"),
        tool,
        given,
        f"no allow rule covers {tool}.",
        suggestions,
        wider=wider,
    )


def ask(view: SessionFold, *questions: Question) -> None:
    for found in questions:
        view.apply(Record(found.agent, 0, NOW, Asked(found)))


def answered(host: Host) -> list[tuple[str, Any, str]]:
    return [(m.question.id, m.decision, m.rule_scope) for m in host.heard if isinstance(m, AnswerQuestion)]


def task(id: int, subject: str, status: Any = "pending", owner: str | None = None, *waits: int) -> Task:
    return Task(
        TaskId(id), subject, f"All about {subject}.", status, owner, AgentId("a1") if owner else None,
        blocked_by=tuple(map(TaskId, waits)), updated=id,
    )  # fmt: skip


def mail(n: int, sender: str, to: str, summary: str, text: str = "", state: Any = "delivered") -> MailEntry:
    return MailEntry(
        n, LetterId(f"m{n}"), "site", sender, to, summary, "", text or summary, state, "", NOW - 60_000 + n * 1000, NOW,
        AgentId("a1"), AgentId("a2"),
    )  # fmt: skip
