"""Conversation of one agent: draws only the visible part, and fetches older parts when scrolled to."""

import time
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.selection import Selection
from textual.strip import Strip

from teamwright.core.ids import AgentId
from teamwright.surfaces.terminal.render.drawing import DrawnBlock
from teamwright.surfaces.terminal.render.themes import DARK, Palette
from teamwright.surfaces.terminal.widgets.laid_out import LaidOut
from teamwright.surfaces.view.shapes import Item, Step
from teamwright.surfaces.view.view import SessionFold

if TYPE_CHECKING:
    from textual.reactive import Reactive

FIRST, WINDOW = 12, 8  # items laid out at first, and further ones until they fill the screen
MOST_FOLLOWED = 90  # items kept laid out at the end
AHEAD, KEPT = 3, 6  # screens on both sides of the visible one: laid out in advance, and kept
SHARE = 4  # after drawing, nothing is drawn for so many times as long: keys come first on a slow machine
TOP = 60  # items laid out at the very beginning
PAGE, MOST_OLDER = 300, 50_000  # items read again from the transcript at once, and in all


class Conversation(ScrollView, can_focus=True):
    """Lines of the items of one talk. It follows the end unless somebody has scrolled away."""

    DEFAULT_CSS = "Conversation { background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }"
    FOCUS_ON_CLICK: ClassVar[bool] = False  # a click leaves the focus in the input
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)", show=False),
        Binding("down", "choose(1)", show=False),
        Binding("enter,space", "open", show=False),
        Binding("home", "top", show=False),
        Binding("end", "bottom", show=False),
        Binding("escape", "leave", show=False),
    ]

    class Older(Message):
        """Asks for so many items before the first one."""

        def __init__(self, agent: AgentId, before: int, most: int) -> None:
            super().__init__()
            self.agent, self.before, self.most = agent, before, most

    class Left(Message):
        """The keyboard goes back to the input."""

    def __init__(self, view: SessionFold, agent: AgentId, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view, self.agent = view, agent
        self.palette: Palette = DARK
        self.everything = False  # all steps are unfolded
        self.chosen: DrawnBlock | None = None
        self._older: list[Item] = []
        self._asked_older = self._has_all = self._to_top = False
        self._dropped, self._held = 0, list[Item]()  # the talk as last seen
        self._first = 0  # index of the first item laid out
        self._last: int | None = None  # and of the one after the last; None: all others
        self._base = Style()
        self._rests_until = 0.0
        self._laid = LaidOut()
        self._version = -1
        self.following = True  # new lines are scrolled to
        self._scrolling = False
        self._bar_due = False  # the scroll bar must be drawn, once nothing more is laid out
        self._cuts = 0  # number of cuts seen in the talk

    # --- content

    def open(self, agent: AgentId) -> None:
        """Open another agent's conversation."""
        self.agent = agent
        self._older, self._asked_older, self.chosen, self._version = [], False, None, -1
        talk = self.view.talk(agent)
        self._has_all, self._held, self._dropped, self._cuts = False, [], talk.dropped, talk.cuts
        self._first, self._last, self._laid = 0, None, LaidOut()
        self.following = True
        self.update()
        self._scroll(None)

    def use(self, palette: Palette) -> None:
        self.palette = palette
        self.update()

    def add_older(self, agent: AgentId, items: list[Item]) -> None:
        """Add items from the transcript before the first one in memory. An empty list: there are no others."""
        if agent != self.agent or not self._asked_older:
            return
        self._asked_older, self._has_all = False, not items or len(self._older) + len(items) >= MOST_OLDER
        self._older = [*items, *self._older]
        self._first += len(items)
        self._last = None if self._last is None else self._last + len(items)
        if self._to_top:
            self.action_top()
        else:
            self._extend()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._scrolling:  # the person scrolled
            self.following = new_value >= self.max_scroll_y - 1 and self._last is None

    def _scroll(self, line: int | None) -> None:
        """Scroll to a line, or to the end, even if Textual does not know yet that there is something to scroll."""
        self._scrolling = True
        if line is None:
            self.scroll_end(animate=False, immediate=True, force=True)
        else:
            self.scroll_to(y=line, animate=False, immediate=True, force=True)
        self._scrolling = False

    def _items(self) -> list[Item]:
        talk = self.view.talk(self.agent)
        if gone := talk.dropped - self._dropped:  # dropped from memory, but kept while they are being read
            if self._older or not self.following:
                self._older += self._held[:gone]
            else:
                self._first = max(0, self._first - gone)
        if gone or len(self._held) != len(talk.items):
            self._dropped, self._held = talk.dropped, talk.items[:]
        return [*self._older, *talk.items] if self._older else talk.items

    def tick(self) -> bool:
        """Called often: draws what has changed. False if nothing has, and nothing is about to."""
        talk = self.view.talk(self.agent)
        began = time.monotonic()
        if began < self._rests_until:
            return True
        live = any(isinstance(row.item, Step) and row.item.status == "running" for row in self._laid.rows[-20:])
        if talk.cuts != self._cuts:  # a rewind removed items, some of which may have been read again
            self.open(self.agent)
            self._ask_for_older(talk.items, PAGE)
        if changed := talk.version != self._version or live:
            self.update()
        if self._laid.rows and not self.following and self._read_on():
            changed = True
        elif self._bar_due:
            self._bar_due = False
            self.vertical_scrollbar.refresh()
        self._rests_until = time.monotonic() + SHARE * (time.monotonic() - began)
        return changed

    def _read_on(self) -> bool:
        """Near one of its ends, lay out more beyond it. False if there was no need."""
        if self.scroll_y < AHEAD * self.size.height:
            return self._extend()
        if self._last is not None and self.scroll_y > self.max_scroll_y - AHEAD * self.size.height:
            self._descend()
            return True
        return False

    def update(self) -> None:
        """Lay out everything from the first item on, and keep the scroll position if it is above the end."""
        if self.size.width < 10:
            return
        follow, anchor = self.following, self._laid.anchor(round(self.scroll_y))
        items = self._items()
        if follow and (len(items) - self._first > MOST_FOLLOWED or not self._laid.rows):
            self._let_go()
            items = self._items()
            self._first, self._last = max(0, len(items) - FIRST), None
        self._first = min(self._first, max(0, len(items) - 1))
        changed = self._lay_out(items)
        while self._laid.height < self.size.height and self._first > 0:
            self._first = max(0, self._first - WINDOW)
            changed = self._lay_out(items)
        self._version = self.view.talk(self.agent).version
        if not changed:
            return
        self._grow(self._laid.height)
        if follow:
            self._scroll(None)
        elif anchor is not None:
            self._back_to(*anchor)
        self.refresh()

    def _grow(self, height: int) -> None:
        """Avoids Textual's new layout of the whole screen, which is needed only if the scroll bar appears or
        vanishes."""
        size = Size(self.size.width, height)
        if min(height, self.virtual_size.height) > self.size.height and size.width == self.virtual_size.width:
            self.set_reactive(cast("Reactive[Size]", Conversation.virtual_size), size)
            self.vertical_scrollbar.set_reactive(ScrollBar.window_virtual_size, height)
            self._bar_due = True
        else:
            self.virtual_size = size

    def _let_go(self) -> None:
        """At the end, items that were read again are no longer needed."""
        self._first = max(0, self._first - len(self._older))
        self._older, self._has_all = [], False

    def _lay_out(self, items: list[Item]) -> bool:
        shown = items[self._first : self._last]
        return self._laid.lay_out(shown, self.size.width - 1, self.palette, self.view, everything=self.everything)

    def _back_to(self, block: DrawnBlock, inside: int) -> None:
        if (top := self._laid.line_of(block.item)) is not None:
            self._scroll(top + inside)

    def page(self, by: int) -> None:
        """Scroll up or down by so many screens."""
        y = self.scroll_y + by * max(1, self.size.height - 2)
        while (up := y < 0 and self._first > 0) or (y > self.max_scroll_y and self._last is not None):
            before = self.scroll_y
            self._extend() if up else self._descend()
            y += self.scroll_y - before
        self.scroll_to(y=y, animate=False, immediate=True)

    def _extend(self) -> bool:
        """Lay out more above. False if everything in memory is laid out."""
        items, more = self._items(), self._first > 0
        if more:
            kept = self._laid.begun_before(round(self.scroll_y) + (KEPT + 1) * self.size.height)
            self._move(max(0, self._first - WINDOW), self._first + kept, items)
        if self._first < PAGE // 2:
            self._ask_for_older(items, PAGE)
        return more

    def _ask_for_older(self, items: list[Item], most: int) -> bool:
        """Whether there is more, or it is on its way."""
        if not self.view.talk(self.agent).dropped or self._has_all:
            return False
        if not self._asked_older:
            self._asked_older = True
            first = next((item.n for item in items if item.n), 0)
            self.post_message(self.Older(self.agent, first, most))
        return True

    def _descend(self) -> None:
        """Lay out more below."""
        items = self._items()
        gone = self._laid.begun_before(round(self.scroll_y) - KEPT * self.size.height)
        self._move(self._first + max(0, gone - 1), (self._last or 0) + WINDOW, items)

    def _move(self, first: int, last: int, items: list[Item]) -> None:
        """Lay out other items, and stay at the same line."""
        was = round(self.scroll_y)
        anchor, seen = self._laid.anchor(was), self._seen(was)
        self._first, self._last = first, None if last >= len(items) else last
        self._lay_out(items)
        self._grow(self._laid.height)
        top = None if anchor is None else self._laid.line_of(anchor[0].item)
        if anchor is None or top is None:
            self._shift_selection(None)
            self.refresh()
            return
        line = top + anchor[1]
        self._shift_selection(line - was)
        if seen is not None and seen == self._seen(line):
            self._renumber(line)
        else:
            self._scroll(line)
            self.refresh()

    def _shift_selection(self, by: int | None) -> None:
        """The selection moves with its words, or vanishes with them."""
        if by == 0 or (selection := self.text_selection) is None:
            return
        kept = {widget: its for widget, its in self.screen.selections.items() if widget is not self}
        if by is not None:
            start, end = (at and Offset(at.x, at.y + by) for at in selection)
            if (start is None or start.y >= 0) and (end is None or end.y < self._laid.height):
                kept[self] = Selection(start, end)
        self.screen.selections = kept

    def _seen(self, top: int) -> tuple[object, ...] | None:
        """What is at both ends of a screen that begins at this line; None if there is less than a screen."""
        first, last = self._laid.at(top), self._laid.at(top + self.size.height - 1)
        return None if first is None or last is None else (*first, *last)

    def _renumber(self, line: int) -> None:
        """Only the line numbers change, not the lines on the screen: painting costs more than laying out in advance."""
        self.set_reactive(Conversation.scroll_y, float(line))
        self.set_reactive(cast("Reactive[float]", Conversation.scroll_target_y), float(line))
        self.vertical_scrollbar.set_reactive(ScrollBar.position, float(line))
        self._styles_cache.clear()  # they contain their line numbers, which the mouse uses for selecting

    # --- drawing

    def render_line(self, y: int) -> Strip:
        at, width, base = y + round(self.scroll_offset.y), self.size.width, self._base
        found = self._laid.at(at)
        if found is None:
            return Strip.blank(width, base)
        block, line = found
        strip = block.lines[line] if line >= 0 else Strip([])
        if block is self.chosen and line >= 0 and self.has_focus:
            base = base + Style.parse(f"on {self.palette.selected}" if self.palette.name != "none" else "reverse")
        strip = strip.crop_extend(0, width, base).apply_style(base)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(at)) is not None:
            strip = _mark(strip, *span)
        return strip.apply_offsets(0, at)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style  # once for all of them: finding it takes longer than drawing a line
        return super().render_lines(crop)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines: list[str] = []
        for row in self._laid.rows:
            lines += [""] * row.gap + [line.text.rstrip() for line in row.lines]
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        self.update()
        if self.following:
            self._scroll(None)

    # --- choosing and opening

    def on_click(self, event: events.Click) -> None:
        found = self._laid.at(event.y + round(self.scroll_offset.y))
        if found is not None and found[1] >= 0 and found[0].opens and self.text_selection is None:
            self.chosen = found[0]
            self.action_open()

    def action_choose(self, step: int) -> None:
        openable = [row for row in self._laid.rows if row.opens]
        if not openable:
            return
        if self.chosen in openable:
            place = min(max(openable.index(self.chosen) + step, 0), len(openable) - 1)
        else:
            place = len(openable) - 1
        self.chosen = openable[place]
        top = self._laid.line_of(self.chosen.item) or 0
        if not self.scroll_y <= top < self.scroll_y + self.size.height - 1:
            self.following = False
            self._scroll(max(0, top - self.size.height // 3))
        self.refresh()

    def action_open(self) -> None:
        if self.chosen is not None:
            self.chosen.opened, self.chosen.settled = not self.chosen.opened, False
            self.update()

    def toggle_everything(self) -> None:
        self.everything = not self.everything
        for row in self._laid.rows:
            row.opened = False
        self.update()

    def action_top(self) -> None:
        """Go to the very first item, even if nothing in between was looked at."""
        self.following = False
        items = self._items()
        self._to_top = self._ask_for_older(items, MOST_OLDER - len(self._older))
        if not self._to_top:
            self._move(0, min(len(items), TOP), items)
            self._scroll(0)

    def action_bottom(self) -> None:
        self.following = True
        if self._last is not None or self._older:
            self._let_go()
            self._laid.rows = []
            self.update()
        self._scroll(None)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_focus(self) -> None:
        if self.chosen is None:
            self.action_choose(1)
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()


def _mark(strip: Strip, start: int, end: int) -> Strip:
    """Show the selected part in reverse."""
    length = strip.cell_length
    end = length if end == -1 else min(end, length)
    parts = [strip.crop(0, start), strip.crop(start, end).apply_style(Style(reverse=True)), strip.crop(end, length)]
    return Strip.join(parts)
