"""Facts reported by telemetry, which the fold makes from records. They are independent of the names used in signals.

Times are milliseconds since 1970, as in the log.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.event import AgentStarted, TurnEnd
from teamwright.core.data.message import Retrying, Stop, Usage
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import Consent
from teamwright.core.policies.spawn import FORK
from teamwright.telemetry.facts.ids import Spot

Trigger = Literal["prompt", "message", "task", "notice", "schedule"]
Price = Callable[[str, Usage], float | None]  # model, usage -> US dollars, None if unknown


class Who(Struct, frozen=True):
    """An agent."""

    id: AgentId
    at: int  # when it began; older lines in its log were copied from another session
    started: AgentStarted

    @property
    def resident(self) -> bool:
        """Does it live on and have many turns, each reported as a run? Other agents have one run."""
        return self.started.parent is None or bool(self.started.team)

    @property
    def route(self) -> str:
        if self.started.parent is None:
            return "main"
        if self.started.team:
            return "teammate"
        return "fork" if self.started.kind == FORK or self.started.source is not None else "subagent"


class Spanned(Struct, frozen=True, kw_only=True):
    """Something with a duration."""

    who: Who
    spot: Spot
    parent: str  # the span above; empty if none
    start: int
    end: int
    error: str = ""  # kind of failure


class Retry(Struct, frozen=True):
    at: int
    delta: Retrying


class Chat(Spanned, frozen=True, kw_only=True):
    """One request to a model, with all its attempts."""

    model: str  # `provider/name`
    answered_by: str = ""
    id: str = ""
    stop: Stop | None = None
    usage: Usage = Usage()
    usd: float | None = None
    first_chunk: int | None = None  # milliseconds from the request to the first piece of the answer
    retries: tuple[Retry, ...] = ()
    status: int | None = None
    text: str = ""


class ToolUse(Spanned, frozen=True, kw_only=True):
    name: str
    call: CallId
    consent: Consent | None = None
    args: Callable[[], Mapping[str, Any]]
    data: Mapping[str, Any] | None = None
    text: str = ""


class Run(Spanned, frozen=True, kw_only=True):
    """One turn of a resident agent, or the one run of another."""

    model: str
    trigger: Trigger
    how: TurnEnd | str  # how it ended
    usage: Usage = Usage()
    usd: float | None = None
    waited: int = 0  # milliseconds spent waiting for an answer to a question
    links: tuple[Spot, ...] = ()


class Happened(Struct, frozen=True, kw_only=True):
    """Something at one point in time."""

    who: Who
    at: int
    spot: Spot | None = None


class Prompted(Happened, frozen=True, kw_only=True):
    text: str


class MailTaken(Happened, frozen=True, kw_only=True):
    letters: int


class Shortened(Happened, frozen=True, kw_only=True):
    why: str
    tokens: int


class TaskChanged(Happened, frozen=True, kw_only=True):
    team: str
    task: str
    change: Literal["claim", "completed"]


class AgentDied(Happened, frozen=True, kw_only=True):
    team: str


Fact = Chat | ToolUse | Run | Prompted | MailTaken | Shortened | TaskChanged | AgentDied
