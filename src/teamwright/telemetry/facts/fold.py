"""Folds agents' records into facts. Pure: the same log gives the same facts in every process."""

from collections.abc import Callable, Mapping
from typing import Any

from teamwright.core.data.conversation.history import NEVER_BEGUN, NOT_RUN, STOPPED, UNKNOWN
from teamwright.core.data.event import (
    AgentEnded,
    AgentStarted,
    Compacted,
    Denied,
    Durable,
    LettersTaken,
    Mended,
    Record,
    Reminded,
    Rendered,
    Replied,
    Resumed,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    is_durable,
)
from teamwright.core.data.message import Delta, PromptRead, Retrying, Usage, words_of
from teamwright.core.ids import AgentId, CallId, JobId
from teamwright.telemetry.facts.ids import Spot, span_id, trace_id
from teamwright.telemetry.facts.letters import call_of, trigger_of
from teamwright.telemetry.facts.places import Places
from teamwright.telemetry.facts.shapes import (
    Chat,
    Fact,
    MailTaken,
    Price,
    Prompted,
    Retry,
    Run,
    Shortened,
    ToolUse,
    Who,
)
from teamwright.telemetry.facts.unfinished import AgentState, OpenCall, OpenRequest, OpenRun, Place

INTERRUPTED = "interrupted"
_NONE = Usage()
_BAD_ENDS = {"failed": "failed", "refused": "refused", "interrupted": INTERRUPTED, "killed": INTERRUPTED}
_LOST = {UNKNOWN: "unknown_outcome", STOPPED: "unknown_outcome", NOT_RUN: INTERRUPTED, NEVER_BEGUN: INTERRUPTED}


class Fold:
    """All known agents of a session. `elsewhere` loads what another process wrote about an agent."""

    def __init__(
        self, tell: Callable[[Fact], None], price: Price, elsewhere: Callable[[AgentId], None] | None = None
    ) -> None:
        self.agents: dict[AgentId, AgentState] = {}
        self._places = Places(self.agents, elsewhere)
        self.silent = False  # facts folded now were reported before, or by other processes
        self._tell_it, self._price = tell, price

    def _tell(self, fact: Fact) -> None:
        began = getattr(fact, "start", None) or getattr(fact, "at", 0)
        if not self.silent and began >= fact.who.at:
            self._tell_it(fact)

    # --- the log

    def feed(self, record: Record) -> None:
        """Takes the next line of an agent's log."""
        event = record.event
        assert is_durable(event)
        state = self.agents.get(record.agent)
        if isinstance(event, AgentStarted):
            who = Who(record.agent, record.at, event)
            self.agents[record.agent] = AgentState(who, record.n, record.at)
            if event.call_id is not None and (parent := self.agents.get(event.parent or AgentId(""))) is not None:
                parent.began.add(event.call_id)
            return
        if state is None:
            return
        self._apply(state, record.n, record.at, event)
        state.line, state.at = record.n, record.at

    def _apply(self, state: AgentState, n: int, at: int, event: Durable) -> None:  # noqa: C901 one case for each kind
        match event:
            case LettersTaken():
                self._letters(state, n, at, event)
            case Replied():
                self._reply(state, n, at, event)
            case ToolStarted():
                if (call := state.calls.get(event.call_id)) is not None:
                    call.begun, call.start = True, max(call.start, state.free_at)
            case Denied():
                if (call := state.calls.get(event.call_id)) is not None:
                    call.denied = True
            case ToolEnded():
                self._end_call(state, at, event)
            case Compacted():
                self._compacted(state, n, at, event)
            case Rendered():
                state.model = event.model
            case Reminded() | Mended():
                state.request = OpenRequest(at)
            case TurnEnded():
                self._end_turn(state, n, at, event)
            case AgentEnded():
                self._end_run(state, at, event.status, _BAD_ENDS.get(event.status, ""))
            case Resumed():
                state.cut = state.run or state.cut
                self._end_run(state, state.at, INTERRUPTED, INTERRUPTED)
                state.resumed, state.request = n, None
            case _:
                pass

    def finish(self, state: AgentState) -> None:
        """Ends an agent of which nothing more will come: whatever is open was cut off."""
        for call in tuple(state.calls.values()):
            self._tell_call(state, call, state.at, INTERRUPTED)
        state.calls.clear()
        state.cut = state.run or state.cut
        self._end_run(state, state.at, INTERRUPTED, INTERRUPTED)

    # --- runs

    def _letters(self, state: AgentState, n: int, at: int, event: LettersTaken) -> None:
        if event.letters:
            if state.run is None:
                state.run = self._begin(state, n, at, event)
            else:
                state.run.links += self._places.links(event)
            self._tell_letters(state, state.run, at, event)
        state.request = OpenRequest(at)

    def _tell_letters(self, state: AgentState, run: OpenRun, at: int, event: LettersTaken) -> None:
        who, spot = state.who, run.spot
        if who.resident and any(letter.startswith("l") for letter in event.letters):
            self._tell(Prompted(who=who, at=at, spot=spot, text=event.message.text))
        if mail := sum(call_of(letter) is not None for letter in event.letters):
            self._tell(MailTaken(who=who, at=at, spot=spot, letters=mail))

    def _begin(self, state: AgentState, n: int, at: int, event: LettersTaken) -> OpenRun:
        who, trigger = state.who, trigger_of(event.letters)
        own = span_id(who.id, n, "invoke_agent")
        above = self._places.above(state, event)
        links = [*self._places.links(event), *self._places.source(who)]
        if state.cut is not None:
            links.append(state.cut.spot)
            state.cut = None
        if above is not None:
            place = Place(Spot(above.spot.trace, own), above.root or own)
            return OpenRun(place, above.spot.span, at, trigger, links)
        return OpenRun(Place(Spot(trace_id(who.id, n), own), own), "", at, trigger, links)

    def _running(self, state: AgentState, at: int) -> OpenRun:
        """The open run; one that another process began goes on in its trace."""
        if state.run is None:
            who, cut = state.who, state.cut
            own = span_id(who.id, state.resumed or state.line, "invoke_agent")
            if cut is None:
                place, parent, links = Place(Spot(trace_id(who.id, state.line), own), own), "", []
            else:
                place = Place(Spot(cut.spot.trace, own), cut.place.root if cut.parent else own)
                parent, links = cut.parent, [cut.spot]
            state.run, state.cut = OpenRun(place, parent, at, cut.trigger if cut else "prompt", links), None
        return state.run

    def _end_turn(self, state: AgentState, n: int, at: int, event: TurnEnded) -> None:
        if event.fault or event.status is not None:
            self._tell_chat(state, n, at, error=str(event.status or event.fault), status=event.status)
        if state.who.resident:
            error = str(event.status or event.fault or _BAD_ENDS.get(event.reason, ""))
            self._end_run(state, at, event.reason, error)

    def _end_run(self, state: AgentState, at: int, how: str, error: str) -> None:
        run, state.run = state.run, None
        if run is None:
            return
        state.last = run.spot
        self._tell(
            Run(
                who=state.who,
                spot=run.spot,
                parent=run.parent,
                start=run.start,
                end=max(run.start, at),
                error=error,
                model=state.model,
                trigger=run.trigger,
                how=how,
                usage=run.usage,
                usd=run.usd,
                waited=run.waited,
                links=tuple(dict.fromkeys(run.links)),
            )
        )

    # --- requests to models

    def _reply(self, state: AgentState, n: int, at: int, event: Replied) -> None:
        usd = self._price(event.message.model or state.model, event.usage)
        run = self._running(state, at - event.ms)
        run.add(event.usage, usd)
        self._tell_chat(state, n, at, event=event, usage=event.usage, usd=usd)
        state.free_at = at
        spot = run.place.spot
        for call in event.message.calls:
            place = Place(Spot(spot.trace, span_id(state.who.id, call.id, "execute_tool")), run.place.root)
            state.put(call.id, place)
            state.calls[call.id] = OpenCall(call, place, spot.span, at)

    def _compacted(self, state: AgentState, n: int, at: int, event: Compacted) -> None:
        usd = self._price(state.model, event.usage)
        if state.run is not None:
            state.run.add(event.usage, usd)
        if event.usage.total:
            self._tell_chat(state, n, at, usage=event.usage, usd=usd)
        spot = state.run.spot if state.run is not None else None
        self._tell(Shortened(who=state.who, at=at, spot=spot, why=event.why, tokens=event.tokens))
        state.request = OpenRequest(at)

    def _tell_chat(
        self,
        state: AgentState,
        n: int,
        at: int,
        *,
        event: Replied | None = None,
        usage: Usage = _NONE,
        usd: float | None = None,
        error: str = "",
        status: int | None = None,
    ) -> None:
        who, request = state.who, state.request
        place = None if state.run is None else state.run.place
        trace = trace_id(who.id, n) if place is None else place.spot.trace
        sent = at if request is None else request.sent
        self._tell(
            Chat(
                who=who,
                spot=Spot(trace, span_id(who.id, n, "chat")),
                parent="" if place is None else place.spot.span,
                start=min(sent, at - event.ms) if event is not None else min(sent, at),
                end=at,
                error=error,
                model=state.model,
                answered_by=event.message.model if event is not None else "",
                id=event.id if event is not None else "",
                stop=event.stop if event is not None else None,
                usage=usage,
                usd=usd,
                first_chunk=request.first_chunk if request is not None else None,
                retries=tuple(request.retries) if request is not None else (),
                status=status,
                text=event.message.text if event is not None else "",
            )
        )
        state.request = None

    def heard(self, agent: AgentId, delta: Delta, at: int) -> None:
        """Takes streamed pieces, which no log contains."""
        state = self.agents.get(agent)
        request = state.request if state is not None else None
        if request is None or isinstance(delta, PromptRead):
            return
        if isinstance(delta, Retrying):
            request.retries.append(Retry(at, delta))
            request.first_chunk = None
        elif request.first_chunk is None:
            request.first_chunk = max(0, at - request.sent)

    # --- calls

    def _end_call(self, state: AgentState, at: int, event: ToolEnded) -> None:
        call = state.calls.pop(event.call_id, None)
        state.request = OpenRequest(at)
        if call is None:
            return
        if job := (event.data or {}).get("backgroundTaskId"):
            state.jobs[JobId(str(job))] = event.call_id
            state.began.add(event.call_id)
        if not call.begun:
            call.start = max(call.start, state.free_at)
        else:
            state.free_at = at
        if state.run is not None and event.consent is not None:
            state.run.waited += event.consent.answered - event.consent.asked
        self._tell_call(state, call, at, _failure(call, event), event)

    def _tell_call(
        self, state: AgentState, call: OpenCall, at: int, error: str, event: ToolEnded | None = None
    ) -> None:
        self._tell(
            ToolUse(
                who=state.who,
                spot=call.place.spot,
                parent=call.parent,
                start=min(call.start, at),
                end=at,
                error=error,
                name=call.call.name,
                call=call.call.id,
                consent=event.consent if event is not None else None,
                args=_args(call, event),
                data=event.data if event is not None else None,
                text=words_of(event.content) if event is not None else "",
            )
        )

    def spot(self, agent: AgentId, call: CallId | None) -> Spot | None:
        """The span of a call, or else of the open run."""
        state = self.agents.get(agent)
        if state is None:
            return None
        place = state.places.get(call) if call is not None else None
        if place is not None:
            return place.spot
        return state.run.spot if state.run is not None else None


def _failure(call: OpenCall, event: ToolEnded) -> str:
    if call.denied:
        return "denied"
    return _LOST.get(words_of(event.content), "tool_error") if event.is_error else ""


def _args(call: OpenCall, event: ToolEnded | None) -> Callable[[], Mapping[str, Any]]:
    """Decodes the arguments only on demand."""

    def args() -> Mapping[str, Any]:
        changed = event.args if event is not None else None
        return call.call.args if changed is None else changed

    return args
