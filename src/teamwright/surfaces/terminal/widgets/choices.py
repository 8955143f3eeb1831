"""Short list of answers, chosen by number, letter, Enter or mouse; it ignores keys for a moment after it appears.

A person who is typing when a question comes up must not answer it with the next key.
"""

import time
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from teamwright.surfaces.terminal.widgets.rows import app_of

GRACE = 0.6  # seconds


class Choice(Struct, frozen=True):
    """`text` is safe to draw; `key` is a letter for it, besides its number, which is its place unless given."""

    id: str
    text: str
    key: str = ""
    style: str = ""
    number: int = 0


def no_first(choices: Sequence[Choice], no: str) -> list[Choice]:
    """Put the refusal first, where Enter finds it; each choice keeps its number in the given order."""
    numbered = [replace(choice, number=n) for n, choice in enumerate(choices, 1)]
    return sorted(numbered, key=lambda choice: choice.id != no)


def _prompt(choice: Choice, n: int) -> Content:
    return Content.assemble((f"{choice.key or choice.number or n}  ", "bold"), (choice.text, choice.style))


class Choices(OptionList):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]
    DEFAULT_CSS = """
    Choices { border: none; height: auto; max-height: 10; padding: 0; background: transparent; }
    Choices:focus { border: none; background-tint: transparent; }
    Choices > .option-list--option-highlighted {
        color: $foreground; background: $panel; text-style: $block-cursor-blurred-text-style;
    }
    Choices:focus > .option-list--option-highlighted {
        color: $foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    """

    class Chosen(Message):
        def __init__(self, choices: "Choices", choice: str) -> None:
            super().__init__()
            self.choices, self.choice = choices, choice

        @property
        def control(self) -> "Choices":
            return self.choices

    def __init__(self, choices: Sequence[Choice], *, grace: float = GRACE, id: str | None = None) -> None:
        options = [Option(_prompt(choice, n), id=choice.id) for n, choice in enumerate(choices, 1)]
        super().__init__(*options, id=id, markup=False)
        self._choices, self._grace, self._since = list(choices), grace, time.monotonic()

    def on_mount(self) -> None:
        self._since = time.monotonic()

    def hold(self, ids: Sequence[str], *, held: bool) -> None:
        """Disable answers that cannot be given yet, by key and by mouse."""
        for id in ids:
            if self.get_option(id).disabled != held:
                (self.disable_option if held else self.enable_option)(id)

    def reword(self, choices: Sequence[Choice]) -> None:
        """Show the same answers in other words."""
        self._choices = list(choices)
        for n, choice in enumerate(choices, 1):
            self.replace_option_prompt(choice.id, _prompt(choice, n))

    @property
    def ids(self) -> list[str]:
        return [choice.id for choice in self._choices]

    @property
    def deaf(self) -> bool:
        return time.monotonic() - self._since < self._grace

    def on_key(self, event: events.Key) -> None:
        if self.deaf and event.key not in ("up", "down", "tab", "shift+tab", "escape", "ctrl+c"):
            event.stop()
            event.prevent_default()
            return
        for n, choice in enumerate(self._choices, 1):
            if event.key in (str(choice.number or n), choice.key):
                event.stop()
                event.prevent_default()
                if self.get_option(choice.id).disabled:
                    app_of(self).bell()
                    return
                self.highlighted = n - 1
                self.post_message(self.Chosen(self, choice.id))
                return

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None and not self.deaf and not event.option.disabled:
            self.post_message(self.Chosen(self, event.option_id))
