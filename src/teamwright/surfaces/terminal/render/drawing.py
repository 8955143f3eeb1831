"""Draws the items of a conversation as lines of the screen."""

from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from teamwright.surfaces.terminal.render.cells import fit, hang
from teamwright.surfaces.terminal.render.paint import draw, draw_text
from teamwright.surfaces.terminal.render.step import draw_step
from teamwright.surfaces.terminal.render.themes import Palette, agent_style
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Thought
from teamwright.surfaces.view.text import one_line, safe
from teamwright.surfaces.view.view import SessionFold

if TYPE_CHECKING:
    from teamwright.surfaces.terminal.render.markdown import MarkdownPieces

NOTES = {"info": "·", "warning": "!", "error": "✗", "message": "✉", "notice": "◆", "aside": "?", "output": " "}
MOST_NOTE = 12  # lines of a folded note
MOST_PROMPT, LONG_PROMPT = 20, 3_000  # lines and characters of a folded prompt


class DrawnBlock:
    """An item as it was last drawn, and what it was drawn from."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.lines: list[Strip] = []
        self.gap = 0  # blank lines before it
        self.opened = False
        self.settled = False  # no event changes it any more
        self._pieces: MarkdownPieces | None = None
        self._drawn: tuple[object, ...] = ()

    @property
    def height(self) -> int:
        return self.gap + len(self.lines)

    @property
    def opens(self) -> bool:
        """Whether it has more than one line."""
        match self.item:
            case Step() | Thought():
                return True
            case Note(text=text):
                return text.count("\n") >= MOST_NOTE
            case Spoken(role=role, text=text):
                return role == "person" and (text.count("\n") >= MOST_PROMPT or len(text) > LONG_PROMPT)

    def update(self, width: int, palette: Palette, view: SessionFold, *, everything: bool, now: int) -> bool:
        """Redraw it if anything about it has changed; True if so."""
        opened = self.opened != everything if self.opens else False
        key = (width, palette.name, opened, *self._state(view, now))
        self.settled = self._is_settled()
        if key == self._drawn:
            return False
        self._drawn = key
        self.lines = self._draw(width, palette, view, opened=opened, now=now)
        return True

    def _is_settled(self) -> bool:
        match self.item:
            case Spoken(streaming=streaming) | Thought(streaming=streaming):
                return not streaming
            case Step(status=status, agent=agent):
                return status != "running" and agent is None
            case Note():
                return True

    def _state(self, view: SessionFold, now: int) -> tuple[object, ...]:
        item = self.item
        match item:
            case Spoken() | Thought():
                return (len(item.text), item.streaming, item.n)
            case Note():
                return (len(item.text),)
            case Step():
                agent = view.agents.get(item.agent) if item.agent else None
                used = (agent.tokens, agent.doing) if agent is not None else ()
                beat = now // 100 if item.status == "running" and not (item.asked or item.queued) else 0
                return (
                    item.status,
                    item.asked,
                    item.queued,
                    item.title,
                    len(item.result),
                    len(item.progress),
                    beat,
                    used,
                )

    def _draw(self, width: int, palette: Palette, view: SessionFold, *, opened: bool, now: int) -> list[Strip]:
        item = self.item
        match item:
            case Spoken(role="person"):
                return _draw_person(item, width, palette, opened=opened)
            case Spoken():
                return self._draw_words(item.text, width, palette)
            case Thought():
                return _draw_thought(item, width, palette, opened=opened)
            case Step():
                agent = view.agents.get(item.agent) if item.agent else None
                return draw_step(item, width, palette, opened=opened, now=now, agent=agent)
            case Note():
                return _draw_note(item, width, palette, view, opened=opened)

    def _draw_words(self, text: str, width: int, palette: Palette) -> list[Strip]:
        from teamwright.surfaces.terminal.render.markdown import MarkdownPieces  # noqa: PLC0415  # slow to import

        self._pieces = self._pieces or MarkdownPieces()
        return _indent(self._pieces.draw(text, width - 4, palette), 2)


def gap_between(before: Item | None, item: Item) -> int:
    """Steps, thoughts and short notes have no gaps between them; everything else has."""
    if before is None:
        return 0
    close = (Step, Thought)
    if isinstance(before, close) and isinstance(item, close):
        return 0
    return 0 if _is_short(before) and _is_short(item) else 1


def _is_short(item: Item) -> bool:
    return isinstance(item, Note) and item.kind != "output" and "\n" not in item.text


def _indent(lines: list[Strip], cells: int) -> list[Strip]:
    pad = list(draw(Text(" " * cells, end=""), cells + 4, _ANY)[0])
    return [Strip([*pad, *line]) if line.text.strip() else Strip([]) for line in lines]


def _draw_person(item: Spoken, width: int, palette: Palette, *, opened: bool) -> list[Strip]:
    back = f" on {palette.person_back}" if palette.person_back else ""
    text = item.text.strip("\n")
    if not opened:
        text = _beginning(text)
    lines = draw_text(text, width - 5, palette, palette.person + back)
    bar = list(draw(Text(" ▌ ", style=palette.accent + back, end=""), 8, palette)[0])
    drawn = [Strip([*bar, *line]) for line in lines]
    if not back:
        return drawn
    fill = Style.parse(back.strip())
    return [line.extend_cell_length(width - 1, fill) for line in drawn]


def _beginning(text: str) -> str:
    """The beginning of a long prompt, such as one with a paste in it."""
    lines = text.split("\n", MOST_PROMPT)
    more = lines.pop().count("\n") + 1 if len(lines) > MOST_PROMPT else 0
    short = "\n".join(lines)
    if len(short) > LONG_PROMPT:
        return f"{short[:LONG_PROMPT]} … {len(text) - LONG_PROMPT:,} more characters"
    return f"{short}\n… {more:,} more lines" if more else short


def _draw_thought(item: Thought, width: int, palette: Palette, *, opened: bool) -> list[Strip]:
    style = f"italic {palette.dim}"
    if opened:
        return _indent(draw_text(item.text.strip(), width - 6, palette, style), 4)
    words = "thinking" if item.streaming else "thought"
    latest = item.text[-300:].rpartition("\n")[2] if item.streaming else item.text
    head = f"  ∴ {words}  "
    text = Text(head + fit(one_line(latest, 400), width - len(head) - 1), style=style, no_wrap=True)
    return draw(text, width, palette)


def _draw_note(item: Note, width: int, palette: Palette, view: SessionFold, *, opened: bool) -> list[Strip]:
    style = {"warning": palette.warn, "error": palette.bad, "output": palette.text, "aside": palette.text}.get(
        item.kind, palette.dim
    )
    lines = safe(item.text.strip("\n")).split("\n")
    hidden = len(lines) - MOST_NOTE
    if hidden > 0 and not opened and item.kind not in ("output", "aside"):
        lines = [*lines[:MOST_NOTE], f"… {hidden} more lines"]
    if item.kind == "output":
        lines = [hang(line, width - 6) for line in lines]
    text = Text()
    if item.who:
        text.append(*_who(item, palette, view))
    text.append("\n".join(lines), style)
    text.overflow = "fold"
    mark = list(draw(Text(f"  {NOTES[item.kind]} ", style=style, end=""), 8, palette)[0])
    first, *rest = _indent(draw(text, width - 5, palette), 4)
    return [Strip([*mark, *list(first)[1:]]), *rest]


def _who(item: Note, palette: Palette, view: SessionFold) -> tuple[str, str]:
    """The sender of a note, and its style."""
    name = one_line(item.who, 60)
    if item.kind == "output":
        return f"{name}\n", f"bold {palette.accent}".replace("bold bold", "bold")
    color = next((a.color for a in view.agents.values() if a.name == item.who), "")
    return f"{name}  ", agent_style(color, palette) if item.kind == "message" else palette.dim


_ANY = Palette(
    "any",
    dark=True,
    text="",
    dim="",
    accent="",
    good="",
    warn="",
    bad="",
    person="",
    person_back="",
    code="",
    added="",
    removed="",
    added_mark="",
    removed_mark="",
    selected="",
    syntax="bw",
)
