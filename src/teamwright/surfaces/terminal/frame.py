"""What stands where on the screen: the conversation, what is queued, the input, the status, and the side."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static

from teamwright.core.ids import AgentId
from teamwright.surfaces.terminal.completion import Completions
from teamwright.surfaces.terminal.conversation import Conversation
from teamwright.surfaces.terminal.drafts import Drafts
from teamwright.surfaces.terminal.prompt_input import PromptInput
from teamwright.surfaces.terminal.queue_list import QueueList
from teamwright.surfaces.terminal.side import Side
from teamwright.surfaces.terminal.status import StatusLine
from teamwright.surfaces.terminal.view import View

CSS = """
    #main { width: 1fr; }
    #entry { height: auto; border: round $border; padding: 0 1; margin: 0; background: $background; }
    #entry:focus-within { border: round $primary; }
    #mark { width: auto; margin-right: 1; color: $primary; }
    Conversation { height: 1fr; padding: 0; }
"""


def compose(
    view: View, drafts: Drafts, *, here: Callable[[], AgentId], budget: Callable[[], str], coach: Widget | None
) -> ComposeResult:
    completions = Completions(id="completions")
    with Horizontal(id="body"):
        with Vertical(id="main"):
            yield Conversation(view, view.main, id="conversation")
            yield QueueList(id="queue")
            yield completions
            if coach is not None:
                yield coach
            with Horizontal(id="entry"):
                yield Static("›", id="mark", markup=False)
                yield PromptInput(drafts, completions, id="prompt")
            yield StatusLine(id="status")
        yield Side(view, here=here, budget=budget, id="side")
