"""Drives the input by the keys of vi, and shows the mode in its border."""

from textual import events
from textual.document._document import Document
from textual.widget import Widget
from textual.widgets import TextArea

from teamwright.surfaces.terminal.prompt.vim import Vim, VimEdit


class VimKeys:
    def __init__(self, area: TextArea) -> None:
        self._area, self._vim = area, Vim()
        self._show_mode()

    def take(self, event: events.Key) -> bool:
        """Whether this key was meant for vi."""
        if event.key == "escape":
            return self._escape()
        if self._vim.mode == "insert":
            return False
        if event.key == "backspace":
            self._press("h")
        elif event.is_printable and event.character:
            self._press(event.character)
        else:
            return False
        return True

    def leave(self) -> None:
        _border(self._area, "")

    def _escape(self) -> bool:
        place = self._vim.escape(self._area.text, self._at)
        if place is not None:
            self._move(place)
        self._show_mode()
        return place is not None

    @property
    def _document(self) -> Document:
        document = self._area.document
        assert isinstance(document, Document)
        return document

    @property
    def _at(self) -> int:
        return self._document.get_index_from_location(self._area.cursor_location)

    def _move(self, index: int) -> None:
        index = max(0, min(index, len(self._area.text)))
        self._area.move_cursor(self._document.get_location_from_index(index))

    def _press(self, key: str) -> None:
        change = self._vim.press(key, self._area.text, self._at)
        if change is not None:
            self._apply(change)
        self._show_mode()

    def _apply(self, change: VimEdit) -> None:
        area = self._area
        if change.action:
            actions = {"undo": area.action_undo, "up": area.action_cursor_up, "down": area.action_cursor_down}
            for _ in range(change.times):
                actions[change.action]()
            return
        if change.text or change.start != change.end:
            area.history.checkpoint()
            where = [self._document.get_location_from_index(place) for place in (change.start, change.end)]
            area.replace(change.text, where[0], where[1], maintain_selection_offset=False)
        self._move(change.cursor)

    def _show_mode(self) -> None:
        _border(self._area, self._vim.mode.upper())


def _border(area: TextArea, words: str) -> None:
    if isinstance(frame := area.parent, Widget):
        frame.border_subtitle = words
