"""Asks a question before any session is open: an app that contains only its dialog."""

from typing import ClassVar, Generic, TypeVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from teamwright.surfaces.terminal.render.themes import themes

T = TypeVar("T")


class StartApp(App[T], Generic[T]):
    """Ends with the answer; with None if the person leaves without one."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+d", "quit", "Leave", priority=True)]

    def __init__(self, asking: ModalScreen[T], theme: str) -> None:
        super().__init__()
        self._asking, self._named = asking, theme

    def on_mount(self) -> None:
        for theme in themes():
            self.register_theme(theme)
        self.theme = f"tw-{self._named}"
        self.push_screen(self._asking, self.exit)
