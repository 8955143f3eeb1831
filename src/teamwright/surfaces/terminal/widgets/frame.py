"""Layout of the screen: conversation, queue, input, status line and side."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from teamwright.core.ids import AgentId
from teamwright.surfaces.terminal.dialogs.docked import Dock
from teamwright.surfaces.terminal.margins.checklist import TaskChecklist
from teamwright.surfaces.terminal.margins.own_status import OwnStatus
from teamwright.surfaces.terminal.prompt.completion import Completions
from teamwright.surfaces.terminal.prompt.drafts import Drafts
from teamwright.surfaces.terminal.widgets.conversation import Conversation
from teamwright.surfaces.terminal.widgets.prompt_input import PromptInput
from teamwright.surfaces.terminal.widgets.queue_list import QueueList
from teamwright.surfaces.terminal.widgets.side import Side
from teamwright.surfaces.terminal.widgets.status import StatusLine
from teamwright.surfaces.view.view import SessionFold

CSS = """
    #main { width: 1fr; }
    #entry { height: auto; border: round $border; padding: 0 1; margin: 0; background: $background; }
    #entry:focus-within { border: round $primary; }
    #mark { width: auto; margin-right: 1; color: $primary; }
    #main > .-behind { display: none; }
    Conversation { height: 1fr; padding: 0; }
    .text-area--placeholder, .input--placeholder { color: $border; }
"""


class FrameScreen(Screen[None]):
    """Keeps the keyboard from the conversation: Textual would give it to the first widget when a dialog closes before
    the input is back, and the conversation would then choose a step and stop following."""

    AUTO_FOCUS: ClassVar[str | None] = "PromptInput"


class FrameBody(Horizontal):
    """Text typed or pasted outside of the input belongs in it, unless the key means something there."""

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and event.key not in self.screen.active_bindings:
            prompt = self._prompt()
            if prompt is not None:
                event.stop()
                prompt.insert(event.character)

    def on_paste(self, event: events.Paste) -> None:
        if (prompt := self._prompt()) is not None:
            event.stop()
            prompt.post_message(events.Paste(event.text))

    def _prompt(self) -> PromptInput | None:
        """The input, now with the keyboard; None if it is not visible."""
        if not self.query_one("#main").display:
            return None
        return self.query_one(PromptInput).focus()


def compose(
    view: SessionFold, drafts: Drafts, *, here: Callable[[], AgentId], budget: Callable[[], str], coach: Widget | None
) -> ComposeResult:
    completions = Completions(id="completions")
    with FrameBody(id="body"):
        with Vertical(id="main"):
            yield Conversation(view, view.main, id="conversation")
            yield TaskChecklist(id="checklist")
            yield QueueList(id="queue")
            yield completions
            if coach is not None:
                yield coach
            with Horizontal(id="entry"):
                yield Static("›", id="mark", markup=False)
                yield PromptInput(drafts, completions, id="prompt")
            yield OwnStatus(id="own-status")
            yield Dock(id="dock")
            yield StatusLine(id="status")
        yield Side(view, here=here, budget=budget, id="side")
