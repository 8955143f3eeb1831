"""Telemetry of a running process: takes every published record without delaying anybody."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from teamwright.core.data.event import Record, Resumed, Streamed, TeamChanged
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, CallId, SessionId
from teamwright.telemetry.facts.fold import Fold
from teamwright.telemetry.facts.ids import traceparent
from teamwright.telemetry.facts.shapes import AgentDied, Fact, Price, TaskChanged
from teamwright.telemetry.sending.channel import Channel
from teamwright.telemetry.settings import CALLER, TelemetryOptions
from teamwright.telemetry.signals.events import Events
from teamwright.telemetry.signals.figures import SessionFigures
from teamwright.telemetry.signals.shapes import LogEvent, Measure, Span
from teamwright.telemetry.signals.spans import Address, spans_of

END_SECONDS = 5.0  # to send what is left when the program ends
MOST_EVENTS, MOST_MEASURES, MEASURES = 2_048, 4_000, 500  # limits of the queues; measures summed up at once
Reread = Callable[[AgentId, int], Iterator[Record]]  # the lines of an agent's log after one


class WatchedProcess(Struct, frozen=True, kw_only=True):
    """What telemetry knows about the process it watches."""

    session: SessionId
    wanted: TelemetryOptions
    env: Mapping[str, str]  # of the program that started this one
    reread: Reread
    price: Price
    now: Callable[[], int]
    warn: Callable[[str], None]  # shows the person one line
    gauges: Callable[[SessionFigures], Sequence[Measure]]
    address: Address | None = None


class Telemetry:
    def __init__(self, ground: WatchedProcess) -> None:
        wanted = ground.wanted
        self._ground, self._content = ground, wanted.content
        self._fold = Fold(self._tell, ground.price, self._look_elsewhere)
        self._figures = SessionFigures(ground.session, compat=wanted.compat)
        self._events = Events(ground.session, wanted.content, compat=wanted.compat)
        self._caller = {name: ground.env[name] for name in CALLER[1:] if ground.env.get(name)}
        self._spans = self._open_spans() if wanted.traces != "none" else None
        self._logs = self._open_logs() if wanted.logs != "none" else None
        self._metrics = self._open_metrics() if wanted.metrics != "none" else None
        self._warned = self._broken = False

    # --- destinations

    def _open_spans(self) -> Channel[Span]:
        def connect() -> Callable[[Sequence[Span]], bool]:
            from teamwright.telemetry.sending.sdk import open_spans  # noqa: PLC0415  # in the thread: it imports the SDK

            return open_spans(wanted)

        wanted = self._ground.wanted
        return Channel("spans", connect, seconds=wanted.span_seconds, most=wanted.most_spans, batch=wanted.batch)

    def _open_logs(self) -> Channel[LogEvent]:
        def connect() -> Callable[[Sequence[LogEvent]], bool]:
            from teamwright.telemetry.sending.sdk import open_logs  # noqa: PLC0415

            return open_logs(wanted)

        wanted = self._ground.wanted
        return Channel("events", connect, seconds=wanted.log_seconds, most=MOST_EVENTS, batch=wanted.batch)

    def _open_metrics(self) -> Channel[Measure]:
        def connect() -> Callable[[Sequence[Measure]], bool]:
            from teamwright.telemetry.sending.sdk import open_metrics  # noqa: PLC0415

            return open_metrics(wanted, self._look)

        wanted = self._ground.wanted
        return Channel("metrics", connect, seconds=wanted.metric_seconds, most=MOST_MEASURES, batch=MEASURES)

    def _look(self) -> Sequence[Measure]:
        return self._ground.gauges(self._figures)

    # --- input

    def began(self, how: str) -> None:
        """A session began in this process: `fresh`, `resume` or `continue`."""
        if self._metrics is not None:
            for one in self._figures.began(how):
                self._metrics.put(one)

    def hear(self, record: Record) -> None:
        """Takes every record of this process. An error in telemetry ends telemetry and nothing else."""
        if self._broken:
            return
        try:
            self._hear(record)
        except Exception as error:  # noqa: BLE001 -- the boundary: an agent must not feel that it is watched
            self._broken = True
            self._ground.warn(f"telemetry stopped by an error of its own: {error!r}")
        self._complain()

    def _hear(self, record: Record) -> None:
        if record.n:
            self._catch_up(record.agent, record.n)
            state = self._fold.agents.get(record.agent)
            if state is None or record.n > state.line:
                self._fold.feed(record)
        elif isinstance(record.event, Streamed):
            self._fold.heard(record.agent, record.event.delta, self._ground.now())
        elif isinstance(record.event, TeamChanged):
            self._team_changed(record, record.event)

    def _catch_up(self, agent: AgentId, until: int) -> None:
        """Reads lines written before anybody watched: the first one of a session, and what a resume adds.

        For an agent that is new here, an earlier process has reported everything up to the resume.
        """
        state = self._fold.agents.get(agent)
        known = state.line if state is not None else 0
        if known + 1 >= until:
            return
        missed = [record for record in self._ground.reread(agent, known) if record.n < until]
        ours = until
        if state is None:
            ours = max((record.n for record in missed if isinstance(record.event, Resumed)), default=until)
        self._take(missed, ours if state is None else 0)

    def _take(self, records: Iterable[Record], ours: int | None) -> None:
        """Folds lines of a log: silently before the line `ours`, or all silently if it is None."""
        for record in records:
            self._fold.silent = ours is None or record.n < ours
            self._fold.feed(record)
        self._fold.silent = False

    def _look_elsewhere(self, agent: AgentId) -> None:
        """Reads the log of an agent in another process, to find the span that a message came from."""
        state, silent = self._fold.agents.get(agent), self._fold.silent
        with suppress(StoreError):  # another session's message gets no link
            records = list(self._ground.reread(agent, state.line if state is not None else 0))
            self._fold.silent = True
            for record in records:
                self._fold.feed(record)
        self._fold.silent = silent

    def take_over(self, agents: Sequence[AgentId]) -> None:
        """Closes what a resumed session's earlier process left open. The main agent comes first."""
        main = agents[0]
        for agent in agents:
            with suppress(StoreError):
                resumed = 0
                if agent == main:
                    lines = (record.n for record in self._ground.reread(agent, 0) if isinstance(record.event, Resumed))
                    resumed = max(lines, default=0)
                self._take(self._ground.reread(agent, 0), resumed or None)
        for agent in agents[1:]:
            if (state := self._fold.agents.get(agent)) is not None and self._is_below(agent, main):
                self._fold.finish(state)

    def _is_below(self, agent: AgentId, main: AgentId) -> bool:
        """Was it started by the main agent, directly or indirectly? Teammates and their agents are reported by
        others."""
        state = self._fold.agents.get(agent)
        if state is None or (started := state.who.started).team:
            return False
        parent = started.parent
        return parent is not None and (parent == main or self._is_below(parent, main))

    def _team_changed(self, record: Record, event: TeamChanged) -> None:
        state = self._fold.agents.get(record.agent)
        if state is None:
            return
        who, at = state.who, record.at or self._ground.now()
        if event.kind in ("claim", "completed"):
            self._tell(TaskChanged(who=who, at=at, team=event.team, task=event.task, change=event.kind))
        elif event.kind == "died":
            self._tell(AgentDied(who=who, at=at, team=event.team))

    def _tell(self, fact: Fact) -> None:
        if self._spans is not None:
            for span in spans_of(fact, self._content, self._ground.address):
                self._spans.put(span)
        if self._logs is not None:
            for event in self._events.events(fact):
                self._logs.put(event)
        if self._metrics is not None:
            for one in self._figures.measures(fact):
                self._metrics.put(one)

    # --- queries

    @property
    def running(self) -> int:
        """Agents with an open turn."""
        return sum(state.run is not None for state in tuple(self._fold.agents.values()))

    def trace_env(self, agent: AgentId, call: str) -> dict[str, str]:
        """Variables by which a program joins the span of a call, or of the open turn."""
        spot = self._fold.spot(agent, CallId(call) if call else None)
        return {CALLER[0]: traceparent(spot)} | self._caller if spot is not None else {}

    # --- problems and shutdown

    @property
    def _channels(self) -> list[Channel[Span] | Channel[LogEvent] | Channel[Measure]]:
        return [one for one in (self._spans, self._logs, self._metrics) if one is not None]

    def _complain(self) -> None:
        """Warns at most once per session."""
        if not self._warned and (words := self.trouble()):
            self._warned = True
            self._ground.warn(words)

    def trouble(self) -> str:
        fault = next((one.fault for one in self._channels if one.fault), "")
        lost = sum(one.lost for one in self._channels)
        if fault:
            return f"telemetry is not sent: {fault}"
        return f"telemetry: the collector does not take what is sent; {lost:,} lost so far" if lost else ""

    def close(self) -> None:
        """Blocks for a few seconds at most."""
        deadline = time.monotonic() + END_SECONDS
        for one in self._channels:
            one.close()
        for one in self._channels:
            one.join(deadline)
        self._complain()
