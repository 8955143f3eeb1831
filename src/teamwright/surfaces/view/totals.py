"""Totals of a session as its events tell them: time of the model, tokens, changed lines."""

from msgspec import Struct

from teamwright.core.data.event import Event, Replied, ToolEnded
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId
from teamwright.surfaces.view.patches import patch_of


class Totals(Struct):
    """Of all agents; `last` is what the newest reply to the main agent used."""

    usage: Usage = Usage()
    last: Usage = Usage()
    api_ms: int = 0
    added: int = 0  # lines
    removed: int = 0

    def apply(self, agent: AgentId, main: AgentId, event: Event) -> None:
        match event:
            case Replied():
                self.usage += event.usage
                self.api_ms += event.ms
                if agent == main:
                    self.last = event.usage
            case ToolEnded(data=data) if data and not event.is_error:
                lines = [line for hunk in patch_of(data) for line in hunk.lines]
                self.added += sum(line.startswith("+") for line in lines)
                self.removed += sum(line.startswith("-") for line in lines)
            case _:
                pass
