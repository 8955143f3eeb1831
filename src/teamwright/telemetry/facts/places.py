"""Relates runs to each other: the call above a run, and the calls and runs it links to."""

from collections.abc import Callable, Mapping

from teamwright.core.data.event import LettersTaken
from teamwright.core.ids import AgentId, JobId
from teamwright.telemetry.facts.ids import Spot, read_traceparent, span_id
from teamwright.telemetry.facts.letters import CallKey, call_of, job_of, trigger_of
from teamwright.telemetry.facts.shapes import Who
from teamwright.telemetry.facts.unfinished import AgentState, Place


class Places:
    """`elsewhere` loads what another process wrote about an agent."""

    def __init__(self, agents: Mapping[AgentId, AgentState], elsewhere: Callable[[AgentId], None] | None) -> None:
        self._agents, self._elsewhere = agents, elsewhere

    def above(self, state: AgentState, event: LettersTaken) -> Place | None:
        """The span above a run, and the root of its trace; an empty root means the run itself is the root."""
        who, started = state.who, state.who.started
        if (outside := read_traceparent(event.trace)) is not None:
            return Place(outside, "")
        if not who.resident:
            if state.last is None and started.parent is not None and started.call_id is not None:
                return self._place(CallKey(started.parent, (started.call_id,)))
            keys = [key for letter in event.letters if (key := call_of(letter)) is not None]
            return next((place for key in keys if (place := self._place(key)) is not None), None)
        if trigger_of(event.letters) == "notice":
            made = self._maker(state, event)
            return Place(Spot(made.spot.trace, made.root), made.root) if made is not None else None
        return None

    def _maker(self, state: AgentState, event: LettersTaken) -> Place | None:
        """The call that started the job of the first notice."""
        for job in filter(None, map(job_of, event.letters)):
            call = state.jobs.get(job)
            if call is None and (child := self._agents.get(AgentId(job))) is not None:
                started = child.who.started
                call = started.call_id
            if call is not None and (place := state.places.get(call)) is not None:
                return place
        return None

    def links(self, event: LettersTaken) -> list[Spot]:
        """The calls that sent these letters, and the runs of jobs that have ended."""
        found: list[Spot] = []
        for letter in event.letters:
            key, job = call_of(letter), job_of(letter)
            if key is not None and (place := self._place(key)) is not None:
                found.append(place.spot)
            elif job is not None and (spot := self._job(job)) is not None:
                found.append(spot)
        return found

    def _job(self, job: JobId) -> Spot | None:
        child = self._agents.get(AgentId(job))
        return child.last if child is not None else None

    def source(self, who: Who) -> list[Spot]:
        """For a fork: the request whose prefix it shares."""
        source, started = who.started.source, who.started
        if source is None or started.parent is None or started.call_id is None:
            return []
        made = self._place(CallKey(started.parent, (started.call_id,)))
        return [Spot(made.spot.trace, span_id(source.agent, source.line, "chat"))] if made is not None else []

    def _place(self, key: CallKey) -> Place | None:
        found = self._known_place(key)
        if found is None and self._elsewhere is not None:
            self._elsewhere(key.agent)
            found = self._known_place(key)
        return found

    def _known_place(self, key: CallKey) -> Place | None:
        sender = self._agents.get(key.agent)
        if sender is None:
            return None
        return next((sender.places[call] for call in key.calls if call in sender.places), None)
