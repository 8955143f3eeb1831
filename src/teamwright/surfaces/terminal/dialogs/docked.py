"""Dialogs docked below the conversation, which stays visible above them and can be scrolled."""

from typing import Any, ClassVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from teamwright.surfaces.terminal.widgets.conversation import Conversation
from teamwright.surfaces.terminal.widgets.rows import app_of
from teamwright.surfaces.terminal.widgets.sheet import Sheet

SMALL = 26  # height of a screen below which a dialog has no blank lines
ABOVE = 5  # lines left to the conversation and the status line on such a screen
WHEEL = 2  # lines


def most_rows(screen: Screen[Any]) -> int:
    """Maximal height of a dialog; a docked one leaves room to the conversation."""
    height = screen.size.height
    if isinstance(screen, DockedScreen):
        return max(8, height - ABOVE) if height < SMALL else height * 3 // 4
    return height if height < SMALL else height * 9 // 10


class DockBox(Vertical):
    DEFAULT_CSS = """
    DockBox {
        height: auto; width: 100%; margin-bottom: 1; padding: 0 1; background: $surface; border: round $warning;
    }
    """

    def on_resize(self) -> None:
        fit_dock(app_of(self))


class Dock(Static):
    """The room for a dialog in the screen below it, between the conversation and the status line."""

    DEFAULT_CSS = "Dock { display: none; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self._focused: Widget | None = None

    def fit(self, height: int) -> None:
        """Make it as high as the open dialog, 0 if there is none; the input is hidden meanwhile."""
        opens, closes = height > 0 and not self.display, self.display and not height
        self.display = height > 0
        self.styles.height = height
        if opens:
            self._focused = self.screen.focused
            self.screen.set_focus(None)  # Textual would give it to the conversation, which would then choose a step
        for node in self.screen.query("#completions, #queue, Coach"):
            node.set_class(height > 0, "-behind")
        self.screen.query_one("#entry").display = not height
        if closes:
            self.screen.set_focus(self._focused)


def dock_of(app: App[Any]) -> Dock | None:
    """None if the dialog stands alone, or the app is being left."""
    return next(iter(app.screen_stack[0].query(Dock)), None) if app.screen_stack else None


def fit_dock(app: App[Any]) -> None:
    if (dock := dock_of(app)) is not None:
        top = app.screen
        boxes = list(top.query(DockBox)) if isinstance(top, DockedScreen) else []
        dock.fit(boxes[0].outer_size.height if boxes else 0)


class DockedScreen(ModalScreen[None]):
    """Esc refuses, perhaps with a reason; Ctrl+L leaves the question waiting."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "say_no", "No"),
        Binding("ctrl+l", "dismiss", "Later", priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("shift+pageup", "behind(-1)", show=False, priority=True),
        Binding("shift+pagedown", "behind(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = "DockedScreen { align: left bottom; background: transparent; }"

    def on_resize(self) -> None:
        """Fit into the column of the conversation; the side stays visible."""
        box = self.query_one(DockBox)
        columns = [node for node in app_of(self).screen_stack[0].query("#main") if node.display]
        box.styles.width = columns[0].outer_size.width if columns and columns[0].outer_size.width else "100%"
        box.styles.max_height = most_rows(self)
        self.set_class(self.size.height < SMALL, "-small")

    def on_screen_resume(self) -> None:
        fit_dock(app_of(self))

    def on_unmount(self) -> None:
        fit_dock(app_of(self))

    def action_page(self, by: int) -> None:
        """Scroll the request if it is longer than its room, else the conversation."""
        sheet = next(iter(self.query(Sheet)), None)
        if sheet is None or sheet.max_scroll_y <= 0:
            self.action_behind(by)
        else:
            turn_page(sheet, by)

    def action_behind(self, by: int) -> None:
        for talk in self._behind():
            talk.page(by)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        for talk in self._behind():
            talk.scroll_relative(y=-WHEEL, animate=False)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        for talk in self._behind():
            talk.scroll_relative(y=WHEEL, animate=False)

    def _behind(self) -> list[Conversation]:
        return list(app_of(self).screen_stack[0].query(Conversation))


def turn_page(sheet: Sheet, by: int) -> None:
    sheet.scroll_page_down(animate=False) if by > 0 else sheet.scroll_page_up(animate=False)
