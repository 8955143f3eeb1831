"""Totals of a session from its events: model time, tokens, changed lines."""

from msgspec import Struct

from teamwright.core.data.content.patch import count_lines, patch_of
from teamwright.core.data.event import Event, Replied, ToolEnded
from teamwright.core.data.message import Usage
from teamwright.core.ids import AgentId
from teamwright.runtime.past.skim import Skimmed


class Totals(Struct):
    """Totals of all agents; `last` is the usage of the newest reply to the main agent."""

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
                added, removed = count_lines(patch_of(data))
                self.added, self.removed = self.added + added, self.removed + removed
            case _:
                pass

    def add(self, skimmed: Skimmed) -> None:
        """Add lines that are not folded."""
        for usage in skimmed.used.values():
            self.usage += usage
        self.api_ms += skimmed.api_ms
        self.added += skimmed.added
        self.removed += skimmed.removed
