"""What the model sees of letters: their order, their frames, which nothing can forge, and their share of the window."""

import html
import itertools
import json
import re

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from teamwright.core.data.letter import (
    PERSON,
    SYSTEM,
    Body,
    Figures,
    Letter,
    Lines,
    Notice,
    Prompt,
    Said,
    Sender,
    Signal,
    due,
)
from teamwright.core.data.letters.text import ROOM, added, as_message, finished_tasks, with_tasks
from teamwright.core.data.message import Text, user
from teamwright.core.ids import AgentId, CallId, JobId, LetterId
from teamwright.core.text import OWN_ELEMENTS, neutral, quoted, restored, unquoted

ME = AgentId("me")
PEER = Sender("agent", "peer", AgentId("a1"))
numbers = itertools.count()
CHILDREN = ("task-id", "tool-use-id", "output-file", "status", "summary", "result", "usage")
CODE = 'pytest -q && git commit -m "Fix x < y" # Vec<&str>, it\'s 100 %, <div>&amp;</div> <tasks>'
tags = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["<", "</", "< ", "&lt;", "<\n/"]),
    st.sampled_from([*OWN_ELEMENTS, *CHILDREN, "div", "x"]),
    st.sampled_from(["", "s", "-2", ' teammate_id="team-lead"']),
    st.sampled_from([">", "/>", "", "\n"]),
)
cased = st.builds(lambda text, upper: text.upper() if upper else text, tags, st.booleans())
nasty = st.lists(cased | st.text("<>/&\"';=\n\x00 ab", max_size=8), max_size=8).map("".join)
OWN_TAG = re.compile(f"</?(?:{'|'.join(OWN_ELEMENTS)})(?![\\w-])", re.IGNORECASE)


def letter(body: Body, sender: Sender = SYSTEM, priority: str = "next") -> Letter:
    return Letter(LetterId(f"l{next(numbers)}"), ME, sender, body, priority)


def notice(result: str = "fine", **more: object) -> Notice:
    fields = {"job": JobId("j1"), "status": "completed", "summary": "it ended", "output": "/out"} | more
    return Notice(result=result, **fields)


def shown(*letters: Letter, room: int = ROOM) -> list[str]:
    return [block.text for block in as_message(letters, room).blocks if isinstance(block, Text)]


@pytest.mark.spec("Q2")
def test_person_records_peers_notices_whatever_the_order_of_arrival() -> None:
    letters = [
        letter(Prompt((Text("typed"),)), PERSON),
        letter(Prompt((Text("by a schedule"),)), SYSTEM),
        letter(Said("words", "a summary"), PEER),
        letter(notice(), priority="later"),
    ]
    for order in itertools.permutations(letters):
        assert due(order, at_rest=True) == letters
        assert due(order, at_rest=False) == letters[:3]


@pytest.mark.spec("Q4")
def test_a_notice_has_all_its_elements_in_their_order() -> None:
    body = notice("two\nlines", call_id=CallId("c1"), usage=Figures(12, 3, 456))
    (text,) = shown(letter(body))
    assert text == (
        "<task-notification>\n<task-id>j1</task-id>\n<tool-use-id>c1</tool-use-id>\n<output-file>/out</output-file>\n"
        "<status>completed</status>\n<summary>it ended</summary>\n<result>\ntwo\nlines\n</result>\n"
        "<usage>total_tokens: 12\ntool_uses: 3\nduration_ms: 456</usage>\n</task-notification>"
    )


@pytest.mark.spec("Q4")
def test_what_is_empty_is_left_out() -> None:
    (text,) = shown(letter(notice("", usage=Figures(duration_ms=40))))
    assert text == (
        "<task-notification>\n<task-id>j1</task-id>\n<output-file>/out</output-file>\n<status>completed</status>\n"
        "<summary>it ended</summary>\n<usage>duration_ms: 40</usage>\n</task-notification>"
    )


@pytest.mark.spec("Q4", "L3")
def test_text_arrives_as_it_was_said() -> None:
    (said,) = shown(letter(Said(CODE, "a summary", "green"), PEER))
    opening = '<teammate-message teammate_id="peer" summary="a summary" color="green">'
    assert said == f"{opening}\n{CODE}\n</teammate-message>"
    assert f"<result>\n{CODE}\n</result>" in shown(letter(notice(CODE)))[0]
    assert f"\n{CODE}\n</monitor-lines>" in shown(letter(Lines(JobId("j"), "d", CODE)))[0]
    assert f"\n{CODE}\n</hook-context>" in added(user("x"), [CODE]).text


@pytest.mark.spec("L3", "Q4")
@settings(deadline=None)
@given(nasty, st.sampled_from([(), ("result",), ("summary",)]))
def test_only_our_own_tags_are_changed_and_none_is_left(text: str, inside: tuple[str, ...]) -> None:
    made = neutral(text, *inside)
    own = re.compile(f"<(?=\\s*/?\\s*(?:{'|'.join((*OWN_ELEMENTS, *inside))})(?![\\w-]))", re.IGNORECASE)
    assert not own.search(made) and neutral(made, *inside) == made
    kept = own.split(text)
    assert made == "&lt;".join(kept)  # every other character stands where it stood
    if "&lt;" not in text:
        assert restored(made, *inside) == text


@pytest.mark.spec("Q4", "L3", "Q6", "X11")
@example(";;;;;;;;</still-trues>;;;;;;;;<teammate-message><status><status-2/>", "", "", 2_000)
@settings(deadline=None)
@given(nasty, nasty, nasty, st.sampled_from([ROOM, 2_000]))
def test_no_text_can_forge_an_element_or_end_an_attribute(one: str, two: str, three: str, room: int) -> None:
    (text,) = shown(letter(notice(one * 40, summary=two, output=three or "/out")), room=room)
    assert OWN_TAG.findall(text) == ["<task-notification", "</task-notification"]
    names = dict(
        re.findall(r"<([\w-]+)>(.*?)</\1>", text[len("<task-notification>") : -len("</task-notification>")], re.S)
    )
    assert names["task-id"] == "j1" and names["status"] == "completed"
    assert restored(names.get("summary", ""), "summary") == restored(two, "summary")
    said = Said(one * 40, two or "x", three or "y")
    (text,) = shown(letter(said, Sender("agent", one, AgentId("a"))), room=room)
    assert OWN_TAG.findall(text) == ["<teammate-message", "</teammate-message"]
    opening = re.match(r'<teammate-message teammate_id="[^"<]*" summary="[^"<]*" color="[^"<]*">\n', text)
    assert opening and "\n" not in opening[0][:-1] and text.endswith("\n</teammate-message>")
    (text,) = shown(letter(Lines(JobId("j"), two, one * 40)), room=room)
    assert OWN_TAG.findall(text) == ["<monitor-lines", "</monitor-lines"]
    (text,) = shown(letter(idle(PEER, lastMessage=one)))
    assert OWN_TAG.findall(text) == ["<teammate-message", "</teammate-message"]
    assert OWN_TAG.findall(added(user("x"), [one]).text) == ["<hook-context", "</hook-context"]


@given(st.text())
def test_an_attribute_is_one_quoted_line(text: str) -> None:
    value = quoted(text)
    assert value[0] == value[-1] == '"' and not set('"<\n\r') & set(value[1:-1])
    assert html.unescape(value[1:-1]) == " ".join(text.splitlines())
    assert unquoted(value[1:-1]) == " ".join(text.splitlines())


# --- records


def idle(sender: Sender, *, quiet: bool = False, **more: object) -> Signal:
    line = {"type": "idle_notification", "from": sender.name, "timestamp": "2026-01-01T00:00:00Z"}
    return Signal("idle_notification", json.dumps(line | {"idleReason": "available"} | more), quiet=quiet)


def record(text: str) -> dict[str, object]:
    return json.loads(text.splitlines()[1])


@pytest.mark.spec("L1")
def test_a_record_is_plain_json_without_what_its_frame_says() -> None:
    (text,) = shown(
        letter(idle(PEER, lastMessage='say "hi" & <go>', completedTaskId="2", completedStatus="resolved"), PEER)
    )
    assert text == (
        '<teammate-message teammate_id="peer">\n{"type":"idle_notification","idleReason":"available",'
        '"completedTaskId":"2","lastMessage":"say \\"hi\\" & <go>"}\n</teammate-message>'
    )


@pytest.mark.spec("L1", "Q6")
def test_of_several_idle_notices_of_one_member_the_newest_is_shown_with_all_news() -> None:
    other = Sender("agent", "other", AgentId("a2"))
    letters = [
        letter(idle(PEER, lastMessage="#1 is done: ab4d95c", completedTaskId="1"), PEER, "later"),
        letter(idle(other, lastMessage="and I"), other, "later"),
        letter(idle(PEER, quiet=True, lastMessage="nothing new"), PEER, "later"),
        letter(idle(PEER, completedTaskId="2, 3"), PEER, "later"),
    ]
    first, second = map(record, shown(*due(letters, at_rest=True)))
    assert first == {"type": "idle_notification", "idleReason": "available", "lastMessage": "and I"}
    assert second["completedTaskId"] == "1, 2, 3"
    assert second["lastMessage"] == "#1 is done: ab4d95c"


@pytest.mark.spec("L1")
def test_one_that_has_shut_down_is_not_called_available() -> None:
    gone = Signal("shutdown_approved", '{"type":"shutdown_approved","requestId":"r1","from":"peer"}')
    letters = [letter(gone, PEER), letter(idle(PEER, quiet=True, lastMessage="bye"), PEER, "later")]
    (only,) = map(record, shown(*due(letters, at_rest=False)))
    assert only == {"type": "shutdown_approved", "request_id": "r1"}
    news = letter(idle(PEER, completedTaskId="1"), PEER, "later")
    first, second = map(record, shown(*due([*letters, news], at_rest=False)))
    assert first["type"] == "shutdown_approved" and second == {"type": "idle_notification", "completedTaskId": "1"}


@pytest.mark.spec("L1")
def test_that_somebody_is_idle_waits_for_rest_or_for_company() -> None:
    news, quiet = letter(idle(PEER), PEER, "later"), letter(idle(PEER, quiet=True), PEER, "later")
    words = letter(Said("words"), PEER)
    assert due([news, quiet], at_rest=False) == [] and due([quiet], at_rest=True) == []
    assert due([news, quiet], at_rest=True) == [news, quiet]
    assert due([news, words], at_rest=False) == [news, words]


@pytest.mark.spec("L1")
def test_a_notice_names_only_tasks_that_are_still_completed() -> None:
    both, failed = letter(idle(PEER, completedTaskId="1, 2"), PEER), letter(idle(PEER, completedTaskId="1"), PEER)
    failed = msgspec.structs.replace(failed, body=Signal("idle_notification", '{"idleReason":"failed"}'))
    assert finished_tasks(both) == ["1", "2"] and with_tasks(both, []) is None
    assert (some := with_tasks(both, ["2"])) is not None and finished_tasks(some) == ["2"]
    assert with_tasks(failed, []) == failed


@pytest.mark.spec("H1", "H2")
@pytest.mark.parametrize(
    ("kind", "answer"),
    [("shutdown_request", "shutdown_response"), ("plan_approval_request", "plan_approval_response")],
)
def test_a_request_says_in_one_line_how_it_is_answered(kind: str, answer: str) -> None:
    body = Signal(kind, json.dumps({"type": kind, "requestId": "r-1", "from": "peer", "reason": ""}))
    (text,) = shown(letter(body, PEER))
    assert record(text) == {"type": kind, "request_id": "r-1"}
    hint = text.splitlines()[2]
    assert "SendMessage to peer" in hint and f'{{"type":"{answer}","request_id":"r-1","approve":true}}' in hint


@pytest.mark.spec("Q4")
def test_the_end_of_a_monitor_wakes_nobody() -> None:
    quiet, loud = letter(notice(quiet=True), priority="later"), letter(notice(), priority="later")
    assert due([quiet], at_rest=True) == [] and due([quiet, loud], at_rest=True) == [quiet, loud]


@pytest.mark.spec("Q6")
@pytest.mark.parametrize("many", [2, 10, 40])
@pytest.mark.parametrize("fill", ["x", '"', "<"])
def test_many_share_the_room_and_each_names_where_the_whole_is(many: int, fill: str) -> None:
    room = 100_000
    letters = [letter(notice(f"head{n}" + fill * room + f"tail{n}", output=f"/out/{n}")) for n in range(many)]
    texts = shown(*letters, room=room)
    assert len(texts) == many and sum(map(len, texts)) <= room + 600 * many
    for n, text in enumerate(texts):
        assert f"head{n}" in text and f"tail{n}" in text and f"the whole is in /out/{n}" in text
        assert text.endswith("</task-notification>") and "characters left out" in text


@pytest.mark.spec("Q6")
def test_what_fits_is_whole() -> None:
    texts = shown(*(letter(notice("y" * 900)) for _ in range(10)), room=10_000)
    assert all("y" * 900 in text for text in texts)


@pytest.mark.spec("Q6")
def test_a_short_one_among_long_ones_is_whole() -> None:
    short, long = letter(notice("short")), letter(notice("z" * 50_000))
    first, second = shown(short, long, room=10_000)
    assert "<result>\nshort\n</result>" in first and len(second) < 12_000


@pytest.mark.spec("Q6")
def test_a_persons_words_are_never_cut() -> None:
    typed = "w" * 300_000
    letters = [letter(Prompt((Text(typed),)), PERSON), letter(notice("n" * 50_000)), letter(Said("m" * 50_000), PEER)]
    first, second, third = shown(*letters, room=10_000)
    assert first == typed and len(second) + len(third) < 12_000 and "its sender" in third


@pytest.mark.spec("Q6")
@pytest.mark.parametrize("count", [400, 5000])
def test_too_many_notices_are_told_in_a_line_each_and_never_fill_the_window(count: int) -> None:
    letters = [
        Letter(
            LetterId(f"n{i}"),
            AgentId("main"),
            SYSTEM,
            Notice(JobId(f"a{i:016x}"), "completed", "done", "x" * 5000, f"/jobs/a{i:016x}.output"),
            "later",
        )
        for i in range(count)
    ]
    text = as_message(letters, 200_000).text
    assert len(text) <= 210_000 and text.count("<task-notification>") >= 1
    assert f"{count - text.count('<task-notification>')} further jobs have ended" in text
    assert "/jobs/ID.output" in text
