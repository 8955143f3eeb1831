"""Unfinished parts of an agent while its log is folded: its run, its calls, and the pending request."""

from itertools import islice

from msgspec import Struct, field

from teamwright.core.data.message import ToolCall, Usage
from teamwright.core.ids import CallId, JobId
from teamwright.telemetry.facts.ids import Spot
from teamwright.telemetry.facts.shapes import Retry, Trigger, Who


class Place(Struct, frozen=True):
    """A span's own ids, and the root under which later turns of the same trace go."""

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
    """The pending or next request; only live watchers know its attempts."""

    sent: int
    first_chunk: int | None = None
    retries: list[Retry] = field(default_factory=list[Retry])


MOST_PLACES = 512  # calls per agent kept because later messages and notices may refer to them


class AgentState(Struct):
    who: Who
    line: int  # last known line of its log
    at: int  # when that was written
    model: str = ""
    run: OpenRun | None = None
    cut: OpenRun | None = None  # a run during which the process was killed
    resumed: int = 0  # the line at which another process took over
    last: Spot | None = None  # its last run
    request: OpenRequest | None = None
    free_at: int = 0  # when the last call that ran alone had ended
    calls: dict[CallId, OpenCall] = field(default_factory=dict[CallId, OpenCall])
    places: dict[CallId, Place] = field(default_factory=dict[CallId, Place])  # its latest calls
    began: set[CallId] = field(default_factory=set[CallId])  # calls that started a job or an agent; they are kept
    jobs: dict[JobId, CallId] = field(default_factory=dict[JobId, CallId])  # background commands

    def put(self, call: CallId, place: Place) -> None:
        """Records the span of a call. The oldest is dropped, unless it is still open or has started something."""
        self.places[call] = place
        for old in list(islice(self.places, max(0, len(self.places) - MOST_PLACES))):
            found = self.places.pop(old)
            if old in self.began or old in self.calls:
                self.places[old] = found
