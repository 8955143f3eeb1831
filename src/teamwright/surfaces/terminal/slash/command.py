"""A slash command: what it does to the session or the screen, and what it may ask of the app."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct
from textual.screen import Screen

from teamwright.app import Options
from teamwright.core.ids import AgentId
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.terminal.widgets.prompt_input import PromptInput
from teamwright.surfaces.terminal.widgets.side import Page
from teamwright.surfaces.view.shapes import Item


class CommandContext(Protocol):
    """The app, as commands see it."""

    session: SessionPort
    options: Options
    theme: str

    @property
    def prompt(self) -> PromptInput: ...
    @property
    def here(self) -> AgentId: ...
    def open_side(self, page: Page) -> None: ...
    def use_theme(self, name: str) -> None: ...
    def go_on_with(self, origin: Origin) -> None:
        """Leave this session for another one."""
        ...

    def pick_session(self) -> None: ...
    def rewind(self) -> None: ...
    def copy_to_clipboard(self, text: str) -> None: ...
    def push_screen(self, screen: Screen[Any]) -> object: ...
    async def push_screen_wait(self, screen: Screen[str | None]) -> str | None: ...
    def leave(self) -> None: ...
    def suspend(self) -> AbstractContextManager[None]:
        """Give the terminal to another program meanwhile."""
        ...

    async def everything(self) -> list[Item]:
        """The whole open conversation, from its transcript."""
        ...


Run = Callable[[CommandContext, str], Awaitable[str]]  # returns what to show, empty if nothing


class SlashCommand(Struct, frozen=True):
    about: str
    run: Run
    words: str = ""  # what may follow its name
