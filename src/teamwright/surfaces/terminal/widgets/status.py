"""Status line at the bottom: what the agent does, and its model, mode, budget and branch."""

import time

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from teamwright.core.text import plural
from teamwright.runtime.port import SessionFacts
from teamwright.surfaces.terminal.render.step import SPINNER
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.terminal.widgets.rows import Piece, palette_of, row
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.text import duration, money, one_line, tokens
from teamwright.surfaces.view.view import SessionFold

MODES = {
    "default": "ask",
    "acceptEdits": "accept edits",
    "plan": "plan",
    "dontAsk": "don't ask",
    "bypassPermissions": "bypass permissions",
    "bubble": "ask",
}


def left_side(agent: AgentView, view: SessionFold, palette: Palette) -> list[Piece]:
    """What the agent does, with a spinner while it runs."""
    if view.questions:
        count = len(view.questions)
        return [(f" ? {plural(count, 'question')} for you: Enter opens", f"bold {palette.warn}".strip())]
    if agent.state in ("running", "waiting"):
        return _at_work(agent, palette)
    busy = [other for other in view.agents.values() if other.state == "running" and other.id != agent.id]
    if busy:
        return [
            (f" {plural(len(busy), 'agent')} working", palette.accent),
            ("  F2 shows them", palette.dim),
        ]
    if view.suggestion:
        return [(f" Tab: {one_line(view.suggestion, 80)}", palette.dim)]
    return [(" /help  F2 team", palette.dim)]


def _at_work(agent: AgentView, palette: Palette) -> list[Piece]:
    now = time.time_ns() // 1_000_000
    words = f"waits for {agent.waiting_for}" if agent.state == "waiting" and agent.waiting_for else agent.doing
    took = f"  {duration(now - agent.turn)}" if agent.turn and now - agent.turn >= 1_000 else ""
    return [
        (f" {SPINNER[now // 100 % len(SPINNER)]} ", palette.accent),
        (one_line(words, 80), palette.text),
        (f"{took}  Esc interrupts", palette.dim),
    ]


def right_side(facts: SessionFacts, branch: str, palette: Palette, room: int) -> list[Piece]:
    """As much of it as there is room for, the most important first."""
    mode_style = palette.warn if facts.mode in ("bypassPermissions", "dontAsk") else palette.dim
    mode_style = palette.accent if facts.mode in ("plan", "acceptEdits") else mode_style
    parts: list[Piece] = [(MODES.get(facts.mode, facts.mode), mode_style), (one_line(facts.model, 40), palette.dim)]
    used = f"{money(facts.usd)} · {facts.left} left" if facts.left else money(facts.usd) if facts.usd else ""
    on = f"on {one_line(branch, 30)}" if branch else ""
    window = f"{tokens(facts.window)} context" if facts.window else ""
    parts += [(text, palette.dim) for text in (used, on, window) if text]
    shown: list[Piece] = []
    for text, style in parts:
        room -= cell_len(text) + 3
        if room < 0:
            break
        shown += [(" · ", palette.dim), (text, style)] if shown else [(text, style)]
    return [*shown, (" ", "")]


class StatusLine(Static):
    DEFAULT_CSS = "StatusLine { height: 1; background: $background; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self._drawn: Content | None = None

    def show(self, facts: SessionFacts, agent: AgentView, view: SessionFold, *, branch: str, hint: str) -> bool:
        """Draw the line if it differs; `hint` replaces the activity for a moment."""
        palette, width = palette_of(self), self.size.width
        left = left_side(agent, view, palette)
        if hint:
            left = [(f" {hint}", palette.warn)]
        right = right_side(facts, branch, palette, width - min(sum(cell_len(text) for text, _ in left), width // 2))
        line = row(left, right, width)
        if self._drawn is not None and line.is_same(self._drawn):
            return bool(hint)  # it goes when its moment is over
        self._drawn = line
        self.update(line, layout=False)  # one line it stays: the rest of the screen need not be looked at
        return True
