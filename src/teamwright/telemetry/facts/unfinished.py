"""Unfinished parts of one agent while its log is folded: its run, its calls, the request that is out."""

from itertools import islice

from msgspec import Struct, field

from teamwright.core.data.message import ToolCall, Usage
from teamwright.core.ids import CallId, JobId
from teamwright.telemetry.facts.ids import Spot
from teamwright.telemetry.facts.shapes import Retry, Trigger, Who


class Place(Struct, frozen=True):
    """Where a span lies: its own ids, and the root beneath which later turns of the same trace are put."""

    spot: Spot
    root: str


class OpenRun(Struct):
    place: Place
    parent: str
    start: int
    trigger: Trigger
    links: list[Spot]
    usage: Usage = Usage()
    usd: float | None = 0.0
    waited: int = 0

    @property
    def spot(self) -> Spot:
        return self.place.spot

    def add(self, usage: Usage, usd: float | None) -> None:
        self.usage += usage
        self.usd = None if self.usd is None or usd is None else self.usd + usd


class OpenCall(Struct):
    call: ToolCall
    place: Place
    parent: str
    start: int
    begun: bool = False  # it has effects, and ran alone
    denied: bool = False


class OpenRequest(Struct):
    """One that is out, or will be next; only those who watch know of its attempts."""

    sent: int
    first_chunk: int | None = None
    retries: list[Retry] = field(default_factory=list[Retry])


MOST_PLACES = 512  # calls of one agent that later messages and notices may come from


class AgentState(Struct):
    who: Who
    line: int  # of its log, that is known
    at: int  # when that was written
    model: str = ""
    run: OpenRun | None = None
    cut: OpenRun | None = None  # a process was killed in it
    resumed: int = 0  # the line at which another process took over
    last: Spot | None = None  # its last run
    request: OpenRequest | None = None
    free_at: int = 0  # when the last call that ran alone had ended
    calls: dict[CallId, OpenCall] = field(default_factory=dict[CallId, OpenCall])
    places: dict[CallId, Place] = field(default_factory=dict[CallId, Place])  # of its calls, the last ones
    began: set[CallId] = field(default_factory=set[CallId])  # those that began a job or an agent: they stay known
    jobs: dict[JobId, CallId] = field(default_factory=dict[JobId, CallId])  # commands in the background

    def put(self, call: CallId, place: Place) -> None:
        """Where a call lies. The oldest is forgotten, unless something that it began may still tell of itself."""
        self.places[call] = place
        for old in list(islice(self.places, max(0, len(self.places) - MOST_PLACES))):
            found = self.places.pop(old)
            if old in self.began or old in self.calls:
                self.places[old] = found
