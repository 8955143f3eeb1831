"""Ids of spans are derived from the log; what comes from outside is validated strictly."""

import pytest

from teamwright.core.data.event import AgentStarted
from teamwright.core.ids import AgentId, CallId, JobId, LetterId, SessionId
from teamwright.telemetry.facts.ids import Spot, read_traceparent, span_id, trace_id, traceparent
from teamwright.telemetry.facts.letters import call_of, job_of, trigger_of
from teamwright.telemetry.facts.shapes import Who
from teamwright.telemetry.facts.unfinished import MOST_PLACES, AgentState, Place

AGENT = AgentId("a0123456789abcdef")
SESSION = AgentId("0f0e0d0c-0b0a-4908-8706-050403020100")


@pytest.mark.spec("U5")
def test_the_same_place_in_the_log_has_the_same_ids() -> None:
    assert trace_id(AGENT, 4) == trace_id(AGENT, 4) != trace_id(AGENT, 5)
    assert len(trace_id(AGENT, 4)) == 32 and len(span_id(AGENT, 4, "chat")) == 16
    assert len({span_id(AGENT, 4, kind) for kind in ("chat", "invoke_agent", "execute_tool", "wait")}) == 4
    assert span_id(AGENT, "toolu_1", "wait") != span_id(SESSION, "toolu_1", "wait")


@pytest.mark.spec("U9")
def test_a_trace_from_outside_is_read_as_the_standard_writes_it() -> None:
    spot = Spot("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert read_traceparent(traceparent(spot)) == spot
    assert read_traceparent(f"cc-{spot.trace}-{spot.span}-00-what-a-later-version-adds") == spot
    bad = [
        "",
        "00-1-2-01",
        f"ff-{spot.trace}-{spot.span}-01",
        f"00-{'0' * 32}-{spot.span}-01",
        traceparent(spot).upper(),
    ]
    assert [read_traceparent(text) for text in bad] == [None] * 5


@pytest.mark.spec("U5")
def test_letters_tell_where_they_came_from() -> None:
    sent = call_of(LetterId(f"m-{SESSION}-toolu_1"))
    assert sent is not None and (sent.agent, sent.calls) == (SESSION, (CallId("toolu_1"),))
    part = call_of(LetterId(f"m-{AGENT}-call-2-1"))
    assert part is not None and part.calls == (CallId("call-2-1"), CallId("call-2"))
    assert job_of(LetterId(f"n-{AGENT}-0")) == JobId(AGENT) and call_of(LetterId("l00")) is None
    assert trigger_of((LetterId(f"n-{AGENT}-0"), LetterId("l0011"))) == "prompt"
    kinds = {"c-1-5": "schedule", "k-team-3-1": "task", f"n-{AGENT}-2": "notice", f"m-{AGENT}-x": "message"}
    assert {letter: trigger_of((LetterId(letter),)) for letter in kinds} == kinds


@pytest.mark.spec("U4", "U5")
def test_places_of_old_calls_are_forgotten_unless_something_they_began_may_tell_of_itself() -> None:
    who = Who(AgentId("a" * 17), 0, AgentStarted(SessionId("s"), "/p", "1"))
    state = AgentState(who, 1, 0)
    state.began.add(CallId("c0"))
    for n in range(3 * MOST_PLACES):
        state.put(CallId(f"c{n}"), Place(Spot("t", f"{n}"), "r"))
    assert len(state.places) == MOST_PLACES and state.places[CallId("c0")].spot.span == "0"
    assert CallId("c1") not in state.places and CallId(f"c{3 * MOST_PLACES - 1}") in state.places
