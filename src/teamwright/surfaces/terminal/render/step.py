"""Draws a tool call: as one line, or completely with its output or diff."""

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from teamwright.surfaces.terminal.render.cells import fit
from teamwright.surfaces.terminal.render.diff_lines import SIGNS, draw_line, lay_out
from teamwright.surfaces.terminal.render.paint import draw, draw_text
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.view.diff import DiffRow, count, count_lines, hunk_rows, rows_of
from teamwright.surfaces.view.shapes import AgentView, Step
from teamwright.surfaces.view.text import duration, is_plan, money, one_line, safe, tokens
from teamwright.tools.bash import NAME as BASH
from teamwright.tools.catalog import traits_of

MOST_LINES = 300  # of an unfolded result
MOST_OWN = 12  # output lines of the person's own shell line
MOST_PLAN = 40  # lines of a folded plan
MOST_FOLDED = 20  # lines of a diff shown while it is folded
PEEK = 3  # lines of an error shown while it is folded
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARKS = {"ok": "✓", "error": "✗", "denied": "⊘", "running": "•"}


def draw_step(
    step: Step, width: int, palette: Palette, *, opened: bool, now: int, agent: AgentView | None = None
) -> list[Strip]:
    lines = draw(_head(step, width, palette, now=now, agent=agent), width, palette)
    if is_plan(step.tool):
        return [*lines, *_plan(step, width, palette, opened=opened)]
    if opened:
        return [*lines, *_body(step, width, palette)]
    return [*lines, *_folded(step, width, palette)]


def _last_progress(step: Step, width: int, palette: Palette) -> list[Strip]:
    if step.status != "running" or not step.progress.strip():
        return []
    last = one_line(step.progress.rstrip().rpartition("\n")[2])
    return draw(Text(f"    {fit(last, width - 5)}", style=palette.dim, no_wrap=True), width, palette)


def _folded(step: Step, width: int, palette: Palette) -> list[Strip]:
    if step.answers:
        return _answers(step, width, palette)
    if step.tool == "!" and step.result.strip():
        return _own_output(step, width, palette)
    if step.status in ("error", "denied") and step.result.strip():
        return _peek(step, width, palette)
    if step.status == "ok" and 0 < sum(len(hunk.lines) for hunk in step.patch) <= MOST_FOLDED:
        return _draw_rows(hunk_rows(step.patch, step.title), width, palette)
    return _last_progress(step, width, palette)


def _head(step: Step, width: int, palette: Palette, *, now: int, agent: AgentView | None) -> Text:
    runs = step.status == "running" and not step.asked and not step.queued
    mark = SPINNER[now // 100 % len(SPINNER)] if runs else MARKS[step.status]
    style = {"ok": palette.good, "error": palette.bad, "denied": palette.warn, "running": palette.accent}[step.status]
    mark, style = ("?", palette.warn) if step.asked else (mark, style)
    right = _right(step, now, agent)
    left = Text.assemble(("  ", ""), (mark, style), (" ", ""), (one_line(step.tool, 60), _name_style(palette, agent)))
    room = width - left.cell_len - len(right) - 5
    left.append(f"  {fit(step.title, room)}", palette.dim if step.status != "running" else palette.text)
    left.append(" " * max(2, width - left.cell_len - len(right) - 1) + right, palette.dim)
    left.no_wrap, left.overflow = True, "crop"
    return left


def _name_style(palette: Palette, agent: AgentView | None) -> str:
    return agent_style(agent.color, palette) if agent is not None and agent.color else palette.text


def _right(step: Step, now: int, agent: AgentView | None) -> str:
    """The end of the line: the size of a change, what an agent has used, the time taken."""
    parts: list[str] = []
    if step.asked:
        return "waits for your answer"
    if step.status == "denied":
        return "refused"
    if step.status == "running" and step.queued:
        return ""
    if _changes(step) and step.status == "ok":
        parts.append(count_lines(step.patch) or count(rows_of(step.tool, step.args)))
    parts += _used(agent)
    took = (step.ended or now) - (step.begun or step.at)  # waiting for the person does not count
    if step.at and took >= 1_000:
        parts.append(duration(took))
    return " · ".join(filter(None, parts))


def _used(agent: AgentView | None) -> list[str]:
    if agent is None or not agent.tokens:
        return []
    return [f"{tokens(agent.tokens)} tokens", *([money(agent.usd)] if agent.usd else [])]


def _changes(step: Step) -> bool:
    path = traits_of(step.tool).path
    return path is not None and path.access == "write"


def _peek(step: Step, width: int, palette: Palette) -> list[Strip]:
    """The end of an error, where programs say what is wrong."""
    lines = [line for line in safe(step.result).split("\n") if line.strip()]
    shown = lines[-PEEK:] if step.status == "error" else lines[:PEEK]
    style = palette.bad if step.status == "error" else palette.warn
    return [s for line in shown for s in draw(_inside(fit(line, width - 6), style, palette), width, palette)]


def _answers(step: Step, width: int, palette: Palette) -> list[Strip]:
    """The person's answers, one below the other; with the questions if there are several."""
    drawn: list[Strip] = []
    for asked, said in step.answers:
        question = f"{fit(one_line(asked), max(10, width // 2))}  " if len(step.answers) > 1 else ""
        text = Text.assemble(("    │ ", palette.dim), (question, palette.dim))
        text.append(fit(one_line(said, 400), width - text.cell_len - 1), f"bold {palette.text}".strip())
        drawn += draw(text, width, palette)
    return drawn


def _plan(step: Step, width: int, palette: Palette, *, opened: bool) -> list[Strip]:
    """A plan can be read even after its approval; a long one only in part."""
    from teamwright.surfaces.terminal.render.markdown import MarkdownPieces  # noqa: PLC0415  # slow to import

    bar = list(draw(Text("    │ ", style=palette.dim, end=""), 8, palette)[0])
    lines = MarkdownPieces().draw(str(step.args.get("plan", "")), width - 7, palette)
    more = 0 if opened else max(0, len(lines) - MOST_PLAN)
    drawn = [Strip([*bar, *line]) for line in lines[: len(lines) - more]]
    if more:
        drawn += draw(_inside(f"… {more:,} more lines: Tab and Enter open it", palette.dim, palette), width, palette)
    if step.status in ("error", "denied") and step.result.strip():
        drawn += _peek(step, width, palette)
    return drawn


def _own_output(step: Step, width: int, palette: Palette) -> list[Strip]:
    """A person who types a shell line wants to see its output."""
    lines = safe(step.result).strip("\n").split("\n")
    more = len(lines) - MOST_OWN
    shown = [*lines[:MOST_OWN], f"… {more:,} more lines: Tab and Enter open it"] if more > 1 else lines
    return [s for line in shown for s in draw(_inside(fit(line, width - 7), palette.dim, palette), width, palette)]


def _inside(line: str, style: str, palette: Palette) -> Text:
    text = Text.assemble(("    │ ", palette.dim), (line, style))
    text.no_wrap = True
    return text


def _body(step: Step, width: int, palette: Palette) -> list[Strip]:
    rows = rows_of(BASH if step.tool == "!" else step.tool, step.args, patch=step.patch)
    if len(rows) > 1 and rows[0].text == step.title:  # it is already shown above
        del rows[0]
    drawn = _draw_rows(rows, width, palette)
    if step.result.strip() and (not _changes(step) or step.status != "ok"):
        style = palette.bad if step.status == "error" else palette.dim
        drawn += _margin("", width, palette, palette.dim)
        drawn += _margin(_bound(safe(step.result).strip("\n").split("\n")), width, palette, style)
    return drawn


def _bound(lines: list[str]) -> str:
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    half = MOST_LINES // 2
    gap = f"… {len(lines) - MOST_LINES:,} lines; /export writes the whole conversation …"
    return "\n".join([*lines[:half], gap, *lines[-half:]])


def _margin(text: str, width: int, palette: Palette, style: str) -> list[Strip]:
    bar = draw(Text("    │ ", style=palette.dim, end=""), 8, palette)[0]
    lines = draw_text(text, max(10, width - 7), palette, style) or [Strip([])]
    return [Strip([*bar, *line]) for line in lines]


def _draw_rows(rows: list[DiffRow], width: int, palette: Palette) -> list[Strip]:
    styles = {"add": palette.added, "del": palette.removed, "dim": palette.dim}
    bar = draw(Text("    │ ", style=palette.dim, end=""), 8, palette)[0]
    if len(rows) > MOST_LINES:
        gap = DiffRow("dim", f"… {len(rows) - MOST_LINES:,} lines; /export writes the whole conversation …")
        rows = [*rows[: MOST_LINES // 2], gap, *rows[-MOST_LINES // 2 :]]
    drawn: list[Strip] = []
    for line in lay_out(rows, max(10, width - 7), marked=False):
        style = Style.parse(styles.get(line.row.kind, palette.text) or "none")
        strip = Strip([*bar, *draw_line(line, palette, style)])
        back = style.bgcolor if line.row.kind in SIGNS else None
        drawn.append(strip if back is None else strip.extend_cell_length(width - 1, Style(bgcolor=back)))
    return drawn
