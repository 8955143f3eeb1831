"""Picker that takes a value only after a `y`; any other key keeps everything as it is."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.widgets import Input, Static

from teamwright.surfaces.terminal.dialogs.value_picker import Row, ValuePicker
from teamwright.surfaces.terminal.widgets.rows import RowList


class ConfirmingPicker(ValuePicker):
    def __init__(self, title: str, values: Sequence[str | Row], verb: str) -> None:
        super().__init__(title, values)
        self._verb = verb
        self._asked: str | None = None  # the value that was asked about

    def take(self, value: str | None) -> None:
        self._asked = value
        if value is not None:
            self.query_one(RowList).focus()  # the input would swallow the `y`
            words = f"{self._verb} {self.words_of(value)}?  y: yes · any other key: no"
            self.query_one(".value--note", Static).update(Content(words))

    def on_key(self, event: events.Key) -> None:
        if self._asked is None:
            return
        event.stop()
        if event.key == "y":
            self.dismiss(self._asked)
        else:
            self._withdraw()

    def action_move(self, by: int) -> None:
        super().action_move(by)
        self._withdraw()

    def _withdraw(self) -> None:
        if self._asked is not None:
            self._asked = None
            self.query_one(Input).focus()
            self._draw()
