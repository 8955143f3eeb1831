"""The fold: every prefix of every agent's life gives a conversation that a provider accepts."""

import msgspec
import pytest
from histories import START, Pen, check_valid, lives
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.core.data.conversation.history import NEVER_BEGUN, NOT_RUN, STOPPED, UNKNOWN, fold
from teamwright.core.data.event import (
    Compacted,
    Denied,
    Durable,
    LettersTaken,
    Line,
    ModeChanged,
    Reminded,
    Replied,
    Resumed,
    Seen,
    ToolEnded,
    TurnEnded,
)
from teamwright.core.data.message import Message, Text, ToolCall, ToolResult, Usage, user
from teamwright.core.ids import CallId, LetterId

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy


def texts(ended: list[ToolEnded]) -> dict[str, str]:
    return {e.call_id: e.content[0].text for e in ended if isinstance(e.content[0], Text)}


@pytest.mark.spec("A1", "A2")
@settings(PATIENT, max_examples=150)
@given(lives(), st.data())
def test_any_beginning_of_a_life_is_a_valid_history_once_it_is_finished(events: list[Durable], data) -> None:
    cut = data.draw(st.integers(0, len(events)))
    history = fold(events[:cut])
    open_before = [call.id for call in history.open_calls]
    owed = history.unfinished(crashed=True)
    assert [e.call_id for e in owed] == open_before and all(e.is_error for e in owed)
    for ended in owed:
        history.apply(ended)
    check_valid(history.messages)
    assert not history.open_calls and history.unfinished(crashed=True) == []
    for event in history.owed_before_request():
        history.apply(event)
    check_valid(history.messages)
    assert not history.speaks_last and history.owed_before_request() == []


@pytest.mark.spec("A11")
@settings(PATIENT, max_examples=60)
@given(lives(), st.data())
def test_more_events_only_extend_what_was_there(events: list[Durable], data) -> None:
    cut = data.draw(st.integers(0, len(events)))
    shorter, whole = fold(events[:cut]), fold(events)
    assert whole.messages[: len(shorter.messages)] == shorter.messages
    assert shorter.letters <= whole.letters and shorter.used <= whole.used and shorter.turns <= whole.turns


@pytest.mark.spec("O1", "O2")
@settings(PATIENT, max_examples=40)
@given(lives())
def test_a_life_survives_being_written_and_read(events: list[Durable]) -> None:
    lines = b"\n".join(msgspec.json.encode(Line(n, event)) for n, event in enumerate(events))
    read = [line.event for line in msgspec.json.Decoder(Line).decode_lines(lines)]
    assert read == events
    assert fold(read).messages == fold(events).messages


@pytest.mark.spec("A1")
def test_results_stand_in_the_order_of_the_calls_whichever_ended_first() -> None:
    pen = Pen()
    pen.letter()
    pen.reply(3)
    calls = pen.history.open_calls
    for call in reversed(calls):
        assert not any(isinstance(b, ToolResult) for b in pen.history.messages[-1].blocks)
        pen.end(call)
    assert [b.call_id for b in pen.history.messages[-1].blocks] == [c.id for c in calls]


@pytest.mark.spec("A2")
@pytest.mark.parametrize(("crashed", "begun", "idle"), [(True, UNKNOWN, NEVER_BEGUN), (False, STOPPED, NOT_RUN)])
def test_what_was_in_flight_is_told_from_what_never_began(crashed: bool, begun: str, idle: str) -> None:
    pen = Pen()
    pen.letter()
    pen.reply(3)
    one, two, three = pen.history.open_calls
    pen.begin(one)
    pen.end(one)
    pen.begin(two)
    assert texts(pen.history.unfinished(crashed=crashed)) == {two.id: begun, three.id: idle}


def test_what_began_in_an_earlier_reply_says_nothing_of_a_later_one() -> None:
    pen = Pen()
    pen.letter()
    pen.reply(1)
    (first,) = pen.history.open_calls
    pen.begin(first)
    pen.end(first)
    pen.reply(1)
    (second,) = pen.history.open_calls
    assert texts(pen.history.unfinished(crashed=True)) == {second.id: NEVER_BEGUN}


@pytest.mark.spec("A2", "T6")
@pytest.mark.parametrize("words", [UNKNOWN, NEVER_BEGUN, STOPPED, NOT_RUN])
def test_after_a_call_of_which_the_model_must_hear_no_other_begins_by_itself(words: str) -> None:
    pen = Pen()
    pen.letter()
    pen.reply(3)
    one, two, _ = pen.history.open_calls
    pen.end(one)
    assert pen.history.may_go_on
    pen.write(ToolEnded(two.id, (Text(words),), is_error=True))
    assert not pen.history.may_go_on


@pytest.mark.spec("A2", "T6")
def test_what_was_to_be_refused_does_not_begin_by_itself() -> None:
    call = ToolCall(CallId("c"), "Bash", msgspec.Raw(b"{}"))
    message = Message("assistant", (call,), "m")
    denied = Denied(call.id, "Bash", {}, "no", interrupt=True)
    assert fold([START, Replied(message, "tool_use", Usage())]).may_go_on
    assert not fold([START, Replied(message, "tool_use", Usage(), report=True)]).may_go_on
    assert not fold([START, Replied(message, "max_tokens", Usage())]).may_go_on
    assert not fold([START, Replied(message, "refusal", Usage())]).may_go_on
    assert not fold([START, Replied(message, "tool_use", Usage()), denied]).may_go_on


@pytest.mark.spec("A9")
def test_an_empty_reply_costs_tokens_and_leaves_no_message() -> None:
    pen = Pen()
    pen.letter()
    pen.write(Replied(Message("assistant", (), "m"), "end_turn", Usage(5, 6)))
    assert len(pen.history.messages) == 1 and pen.history.usage == Usage(5, 6) and pen.history.turns == 1


def test_the_marker_stands_where_the_last_answered_request_ended() -> None:
    pen = Pen()
    pen.letter()
    pen.reply(1)
    assert pen.history.asked == 1
    pen.end(pen.history.open_calls[0])
    assert pen.history.asked == 1 and len(pen.history.messages) == 3
    pen.reply(0)
    assert pen.history.asked == 3


@pytest.mark.spec("A4", "O2")
def test_files_seen_directory_mode_and_denials_come_back() -> None:
    pen = Pen()
    pen.letter()
    pen.reply(2)
    one, two = pen.history.open_calls
    pen.write(ToolEnded(one.id, (Text("x"),), seen=(Seen("/f", 1, 2), Seen("/g", 1, 2)), cwd="/work/sub"))
    denied = Denied(two.id, "Bash", {"command": "x"}, "no")
    pen.write(denied, ToolEnded(two.id, (Text("no"),), is_error=True, seen=(Seen("/f", 9, 9),)), ModeChanged("plan"))
    history = pen.history
    assert history.seen == {"/f": Seen("/f", 9, 9), "/g": Seen("/g", 1, 2)}
    assert (history.cwd, history.mode, history.denials) == ("/work/sub", "plan", [denied])


@pytest.mark.parametrize(
    ("events", "ended"),
    [
        ([], False),
        ([TurnEnded("done")], True),
        ([TurnEnded("done"), LettersTaken((LetterId("l1"),), user("more"))], False),
        ([TurnEnded("done"), LettersTaken((), user("only heard"))], True),
        ([TurnEnded("done"), Reminded(user("plan mode"))], False),
        ([TurnEnded("done"), Resumed("1")], True),
    ],
)
def test_whether_a_turn_is_under_way(events: list[Durable], ended: bool) -> None:
    assert (fold([START, *events]).ended is not None) == ended


def test_a_result_for_a_call_id_is_kept_once_for_each_reply() -> None:
    pen = Pen()
    pen.letter()
    pen.reply(2)
    one, two = pen.history.open_calls
    pen.end(one)
    pen.write(ToolEnded(one.id, (Text("again"),)))  # we never write this; it must not close the other call
    assert [c.id for c in pen.history.open_calls] == [two.id]
    pen.end(two)
    assert [b.call_id for b in pen.history.messages[-1].blocks] == [CallId(one.id), CallId(two.id)]


@pytest.mark.spec("Y4", "I1")
def test_the_last_words_outlive_a_compaction_and_give_way_to_newer_ones() -> None:
    """An agent that fails right after one has still said what it had said."""
    said, later = Message("assistant", (Text("pump 7"),)), Message("assistant", (Text("pump 8"),))
    short = Compacted((user("the gist"),), "auto", 9, Usage())
    history = fold([START, Replied(said, "end_turn", Usage()), short])
    assert history.last_words == "pump 7"
    history.apply(short)
    assert history.last_words == "pump 7" and not history.speaks_last
    history.apply(Replied(later, "end_turn", Usage()))
    assert history.last_words == "pump 8"
