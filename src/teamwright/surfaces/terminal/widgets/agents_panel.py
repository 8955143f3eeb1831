"""Tree of all agents: the state of each, what it is doing or waiting for, and what it has used."""

import time
from collections.abc import Callable, Iterator
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static

from teamwright.core.ids import AgentId
from teamwright.surfaces.terminal.messages import Background, OpenAgent, StopAgent, StopEverything
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.terminal.widgets.rows import Piece, RowList, palette_of, row
from teamwright.surfaces.view.shapes import AgentView, State
from teamwright.surfaces.view.text import duration, money, one_line, title, tokens
from teamwright.surfaces.view.view import SessionFold

MARKS: dict[State, str] = {"running": "●", "waiting": "◐", "idle": "○", "done": "✓", "failed": "✗", "stopped": "■"}
MOST_ENDED = 30  # newest ended agents that are shown
_DEEPEST = 20  # levels below the main agent
REFRESH = 0.5  # seconds; times keep changing
_WIDE, _MIDDLE = 64, 40  # cells from which on money and time, and tokens, are shown
_KEYS = "Enter opens · x stops · X all · b background"
_ENDED = ("done", "failed", "stopped")


def tree_of(view: SessionFold) -> Iterator[tuple[AgentView, str]]:
    """Each agent below the one that started it, with the branches before its name. Only a few ended ones."""
    shown = _worth_showing(view)
    below: dict[AgentId | None, list[AgentView]] = {}
    for agent in shown.values():
        parent = agent.parent if agent.parent in shown and agent.parent != agent.id else None
        below.setdefault(parent, []).append(agent)
    waiting = [(agent, "", "") for agent in reversed(below.get(None, []))]
    seen: set[AgentId] = set()
    while waiting:
        agent, prefix, indent = waiting.pop()
        if agent.id in seen:
            continue
        seen.add(agent.id)
        yield agent, prefix
        children = below.get(agent.id, [])
        last = children[-1].id if children else None
        for child in reversed(children):
            branch, below_it = ("└ ", "  ") if child.id == last else ("├ ", "│ ")
            waiting.append((child, indent + branch, indent + below_it))


def _worth_showing(view: SessionFold) -> dict[AgentId, AgentView]:
    """Living agents, the newest ended ones, and the agents between them and the main one."""
    ended = sorted((a for a in view.agents.values() if a.state in _ENDED), key=lambda a: a.ended)
    dropped = {agent.id for agent in ended[:-MOST_ENDED]}
    for agent in view.agents.values():
        above = view.agents.get(agent.parent) if agent.parent and agent.id not in dropped else None
        for _ in range(_DEEPEST):
            if above is None:
                break
            dropped.discard(above.id)
            above = view.agents.get(above.parent) if above.parent else None
    return {id: agent for id, agent in view.agents.items() if id not in dropped}


def state_style(state: State, palette: Palette) -> str:
    styles: dict[State, str] = {
        "running": palette.good,
        "waiting": palette.warn,
        "idle": palette.dim,
        "done": palette.dim,
        "failed": palette.bad,
        "stopped": palette.dim,
    }
    return styles[state]


def took(agent: AgentView, now: int) -> str:
    return duration((agent.ended or now) - agent.started) if agent.started else ""


def agent_row(agent: AgentView, prefix: str, width: int, palette: Palette, now: int, *, here: bool) -> Content:
    waits = agent.state == "waiting"
    doing = f"waits for {agent.waiting_for}" if waits and agent.waiting_for else agent.doing or agent.description
    doing = f"idle · {doing}" if agent.state == "idle" and agent.parent and doing else doing
    left = [
        (prefix, palette.dim),
        (f"{MARKS[agent.state]} ", state_style(agent.state, palette)),
        (one_line(agent.name, 40), agent_style(agent.color, palette) + (" underline" if here else "")),
        ("  ", ""),
        (one_line(doing, 120), palette.warn if waits else palette.dim),
    ]
    return row(left, [(text, palette.dim) for text in _figures(agent, width, now)], width)


def _figures(agent: AgentView, width: int, now: int) -> Iterator[str]:
    """As many figures as fit, always separated by a space."""
    if width >= _MIDDLE:
        yield f" {tokens(agent.tokens):>6}"
    if width >= _WIDE and agent.usd is not None:
        yield f" {money(agent.usd):>7}"
    if width >= _WIDE:
        yield f" {took(agent, now):>11}"


def asking(agent: AgentView, view: SessionFold) -> AgentView:
    """The agent, with the question that it waits for, even for a teammate that runs elsewhere."""
    question = next((q for q in view.questions if q.agent == agent.id), None)
    if question is None or agent.state == "waiting":
        return agent
    about = f"your answer: {question.tool} {title(question.tool, question.args, agent.cwd)}"
    return replace(agent, state="waiting", waiting_for=about)


def why(agent: AgentView, now: int, jobs: str = "") -> str:
    """Why it does not continue, in a sentence. `jobs` are those that run for it."""
    match agent.state:
        case "running":
            return agent.summary or agent.doing or "working"
        case "waiting":
            return f"waits for {agent.waiting_for or 'an answer'}"
        case "idle":
            return f"idle: waits for {agent.waiting_for or _awaited(jobs)}"
        case "done":
            return "finished; send a message to resume it"
        case "failed":
            return f"failed: {agent.waiting_for or 'see its conversation'}"
        case "stopped":
            return f"was stopped{_since(agent, now)}"


def _awaited(jobs: str) -> str:
    return f"its jobs: {jobs}" if jobs else "a message"


def _since(agent: AgentView, now: int) -> str:
    return f" for {took(agent, now)}" if agent.started and not agent.ended else ""


class AgentsPanel(Vertical):
    """Enter opens an agent's conversation, `x` stops it, `X` stops all, `b` lets callers continue without waiting."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop"),
        Binding("X", "stop_all", "Stop all"),
        Binding("b", "background", "To background"),
    ]
    DEFAULT_CSS = """
    AgentsPanel { height: 1fr; }
    AgentsPanel > .panel--detail { height: auto; max-height: 6; padding: 0 1; color: $text-muted; }
    """

    def __init__(
        self,
        view: SessionFold,
        *,
        here: Callable[[], AgentId] | None = None,
        budget: Callable[[], str] | None = None,
        id: str | None = None,
    ) -> None:
        """`here` is the agent whose conversation is open."""
        super().__init__(id=id)
        self._view, self._here, self._budget = view, here, budget

    def compose(self) -> ComposeResult:
        yield RowList()
        yield Static("", classes="panel--detail", markup=False)

    def on_mount(self) -> None:
        self._clock = self.set_interval(REFRESH, self.draw)
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draws repeatedly while it is visible; opening it calls this once."""
        if not self.is_mounted:
            return
        if not all(widget.display for widget in self.ancestors_with_self):
            self._clock.pause()
            return
        self._clock.resume()
        palette, now = palette_of(self), int(time.time() * 1000)
        here = self._here() if self._here is not None else None

        def rows(width: int) -> list[tuple[str, Content]]:
            return [
                (agent.id, agent_row(asking(agent, self._view), prefix, width, palette, now, here=agent.id == here))
                for agent, prefix in tree_of(self._view)
            ]

        self.query_one(RowList).show(rows)
        self._detail(now)

    def _detail(self, now: int) -> None:
        agent = self._chosen
        if agent is None:
            return
        palette = palette_of(self)
        parts: list[Piece] = [
            (one_line(agent.name, 40), agent_style(agent.color, palette)),
            (f"  {one_line(agent.kind, 40)}" if agent.kind != agent.name else "", palette.dim),
        ]
        parts += [(f"  {one_line(agent.model, 60)}", palette.dim)] if agent.model else []
        running = [job.description for job in self._view.jobs.values() if job.owner == agent.id and not job.ended]
        parts += [(f"\n{one_line(why(agent, now, ', '.join(running)), 300)}", palette.text)]
        price = money(agent.usd) if agent.usd is not None else "price unknown"
        used = f"{tokens(agent.tokens)} tokens · {price} · {took(agent, now) or 'not started'}"
        parts += [(f"\n{used}", palette.dim)]
        if self._budget is not None and (left := self._budget()):
            parts += [(f"\nbudget left: {left}", palette.dim)]
        parts += [(f"\n{_KEYS}", palette.dim)]
        self.query_one(".panel--detail", Static).update(Content.assemble(*parts))

    @property
    def _chosen(self) -> AgentView | None:
        found = self._view.agents.get(AgentId(self.query_one(RowList).chosen or ""))
        return asking(found, self._view) if found is not None else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._detail(int(time.time() * 1000))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(OpenAgent(AgentId(event.option_id)))

    def action_stop(self) -> None:
        if (agent := self._chosen) is not None and agent.state not in _ENDED:
            self.post_message(StopAgent(agent.id))

    def action_stop_all(self) -> None:
        self.post_message(StopEverything())

    def action_background(self) -> None:
        self.post_message(Background())


def neighbour(view: SessionFold, here: AgentId, step: int) -> AgentId:
    """The agent above or below in the panel, for Shift+Up and Shift+Down."""
    order = [agent.id for agent, _ in tree_of(view)]
    if here not in order:
        return view.main
    return order[(order.index(here) + step) % len(order)]
