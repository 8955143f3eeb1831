"""Status line at the bottom: what the agent does, and its model, mode, budget and branch."""

import time

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from teamwright.core.data.job import JobKind
from teamwright.core.text import plural
from teamwright.runtime.port import SessionFacts
from teamwright.surfaces.terminal.render.step import SPINNER
from teamwright.surfaces.terminal.render.themes import Palette
from teamwright.surfaces.terminal.widgets.rows import Piece, palette_of, row
from teamwright.surfaces.view.checklist import activity
from teamwright.surfaces.view.shapes import AgentView
from teamwright.surfaces.view.text import duration, one_line, rounded, spent, tokens
from teamwright.surfaces.view.view import SessionFold

MODES = {
    "default": "ask",
    "acceptEdits": "accept edits",
    "plan": "plan",
    "dontAsk": "don't ask",
    "bypassPermissions": "bypass permissions",
    "bubble": "ask",
}


JOBS: tuple[tuple[JobKind, str], ...] = (
    ("agent", "agent"),
    ("remote", "remote agent"),
    ("shell", "command"),
    ("monitor", "monitor"),
)
FULL = 80  # percent of a window from which on it has another colour


def running(facts: SessionFacts, agent: AgentView, view: SessionFold) -> str:
    """`1 agent, 2 commands`: what runs in the background, including teammates at work."""
    mates = sum(bool(one.team) and one.state == "running" and one.id != agent.id for one in view.agents.values())
    counts = facts.jobs | {"agent": facts.jobs.get("agent", 0) + mates}
    return ", ".join(plural(count, word) for kind, word in JOBS if (count := counts.get(kind, 0)))


def left_side(facts: SessionFacts, agent: AgentView, view: SessionFold, palette: Palette) -> list[Piece]:
    """What the agent does, with a spinner while it runs."""
    if view.questions:
        count = len(view.questions)
        return [(f" ? {plural(count, 'question')} for you: Enter opens", f"bold {palette.warn}".strip())]
    if agent.state in ("running", "waiting"):
        return _at_work(agent, activity(view.tasks, agent.id), palette)
    if busy := running(facts, agent, view):
        where = "F2 shows them" if "agent" in busy else "/jobs shows more"
        return [(f" {busy} running", palette.accent), (f"  {where}", palette.dim)]
    if view.suggestion:
        return [(f" Tab: {one_line(view.suggestion, 80)}", palette.dim)]
    return [(" /help  F2 team", palette.dim)]


def _doing(agent: AgentView) -> str:
    return f"waits for {agent.waiting_for}" if agent.state == "waiting" and agent.waiting_for else agent.doing


def _at_work(agent: AgentView, task: str, palette: Palette) -> list[Piece]:
    now = time.time_ns() // 1_000_000
    words = _doing(agent)
    took = f"  {duration(now - agent.turn)}" if agent.turn and now - agent.turn >= 1_000 else ""
    at_task = task if agent.state == "running" else ""
    words = "" if at_task and words == "thinking" else words
    return [
        (f" {SPINNER[now // 100 % len(SPINNER)]} ", palette.accent),
        (f"{at_task}  " if at_task and words else at_task, palette.text),
        (one_line(words, 80), palette.dim if at_task else palette.text),
        (f"{took}  Esc interrupts", palette.dim),
    ]


def _facts(facts: SessionFacts, branch: str, palette: Palette) -> list[Piece]:
    """Model, window, money and branch, as far as they are known."""
    cost = spent(facts.usd, unpriced=facts.unpriced)
    used = f"{cost} · {facts.left} left" if facts.left else cost if facts.usd else ""
    on = f"on {one_line(branch, 30)}" if branch else ""
    share = 100 * facts.window // facts.room if facts.room else 0
    window = f"{share} % of {rounded(facts.room)}" if facts.room else f"{tokens(facts.window)} context"
    parts: list[Piece] = [(one_line(facts.model, 40), palette.dim)]
    parts += [(window, palette.warn if share >= FULL else palette.dim)] if facts.window else []
    return parts + [(text, palette.dim) for text in (used, on) if text]


def _sandbox(tier: str, palette: Palette) -> Piece:
    if tier == "none":
        return ("SANDBOX NONE: every command asks", palette.warn)
    return (f"sandbox {tier}{' (no network)' if tier == 'landlock' else ''}", palette.dim)


def right_side(facts: SessionFacts, busy: str, branch: str | None, palette: Palette, room: int) -> list[Piece]:
    """As much as fits, the most important first. `branch` None: only what no other line shows."""
    mode_style = palette.warn if facts.mode in ("bypassPermissions", "dontAsk") else palette.dim
    mode_style = palette.accent if facts.mode in ("plan", "acceptEdits") else mode_style
    parts: list[Piece] = [("Ctrl+B: to the background", palette.dim)] if facts.waited_for else []
    parts += [(busy, palette.accent)] if busy else []
    parts.append((MODES.get(facts.mode, facts.mode), mode_style))
    parts += [_sandbox(facts.sandbox, palette)] if facts.sandbox else []
    parts += [] if branch is None else _facts(facts, branch, palette)
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

    def show(self, facts: SessionFacts, agent: AgentView, view: SessionFold, *, branch: str | None, hint: str) -> bool:
        """Draw the line if it has changed; `hint` replaces the activity for a moment. `branch` as in `right_side`."""
        palette, width = palette_of(self), self.size.width
        left = left_side(facts, agent, view, palette)
        busy = running(facts, agent, view) if hint or agent.state in ("running", "waiting") else ""
        if hint:
            left = [(f" {hint}", palette.warn)]
        right = right_side(
            facts, busy, branch, palette, width - min(sum(cell_len(text) for text, _ in left), width // 2)
        )
        line = row(left, right, width)
        if self._drawn is not None and line.is_same(self._drawn):
            return False
        self._drawn = line
        self.update(line, layout=False)  # it stays one line, so nothing else needs a new layout
        return True
