"""What the model sees of letters: their order, their frames, which nothing can forge, and their share of the window."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.core.data.letter import (
    PERSON,
    ROOM,
    SYSTEM,
    Body,
    Figures,
    Letter,
    Lines,
    Notice,
    Prompt,
    Said,
    Sender,
    as_message,
    due,
)
from teamwright.core.data.message import Text
from teamwright.core.ids import AgentId, CallId, JobId, LetterId

ME = AgentId("me")
PEER = Sender("agent", "peer", AgentId("a1"))
numbers = itertools.count()
nasty = st.text(st.sampled_from("<>/&\"'=;task-notification result teammate_id\n\x00"), max_size=80)


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


@pytest.mark.spec("Q4", "L3")
@settings(deadline=None)
@given(nasty, nasty, nasty)
def test_no_text_can_forge_an_element_or_end_an_attribute(one: str, two: str, three: str) -> None:
    frame = re.sub(r"[^<>\"]", "", shown(letter(notice("", summary="", output="")))[0])
    (text,) = shown(letter(notice(one, summary=two, output=three)))
    assert re.sub(r"[^<>\"]", "", text) == frame
    (said,) = shown(letter(Said(one, two or "x", three or "y"), Sender("agent", one, AgentId("a"))))
    assert re.sub(r"[^<>\"]", "", said) == '<"""""">' + "<>"
    assert said.startswith('<teammate-message teammate_id="') and said.endswith("\n</teammate-message>")
    (lines,) = shown(letter(Lines(JobId("j"), two, one)))
    assert lines.count("<") == 6 and lines.endswith("\n</monitor-lines>")


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
