"""Normalising what a model wrote before it is kept: ids, empty texts and arguments of every kind, as tables."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.core.data.event import Line, Replied
from teamwright.core.data.message import Block, Message, Opaque, Raw, Text, Thinking, ToolCall, Usage
from teamwright.core.ids import CallId
from teamwright.core.policies.normalize import DEEPEST, LONGEST_ID, admit, arguments, fit_id, fit_name


def call(id: str, name: str = "Read") -> ToolCall:
    return ToolCall(CallId(id), name)


def said(*blocks: Block) -> Message:
    return Message("assistant", blocks, "script/x")


def nested(levels: int) -> str:
    """An object with arguments nested `levels` deep."""
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", b"{}"),
        (" \n", b"{}"),
        ("{}", b"{}"),
        ('{ "b" : 1,\n"a":"\\u00e9" }', '{"b":1,"a":"é"}'.encode()),
        (b'{"a":[1,2.5,null,true]}', b'{"a":[1,2.5,null,true]}'),
        ('{"a":1,"a":2}', b'{"a":2}'),
    ],
)
def test_arguments_are_normalised_once(text: str | bytes, kept: bytes) -> None:
    raw, fault = arguments(text)
    assert (bytes(raw), fault) == (kept, "")
    assert arguments(bytes(raw)) == (raw, "")  # what was kept stays as it is


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"command": "ls', "not valid JSON"),
        ("rm -rf x", "not valid JSON"),
        ('{"a":1} {"b":2}', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        (nested(DEEPEST + 1), "nested more than"),
        ('{"a":' + "[" * 100_000, "not valid JSON"),
        (nested(100_000), "not valid JSON"),
    ],
)
def test_arguments_that_cannot_be_read_are_a_fault_in_words(text: str | bytes, words: str) -> None:
    raw, fault = arguments(text)
    assert bytes(raw) == b"{}" and words in fault and len(fault) < 300


@pytest.mark.spec("A9")
def test_the_deepest_arguments_can_be_read_again_from_a_transcript() -> None:
    raw, fault = arguments(nested(DEEPEST))
    assert not fault
    reply = Replied(said(ToolCall(CallId("c"), "Read", raw)), "tool_use", Usage())
    line = msgspec.json.decode(msgspec.json.encode(Line(1, reply)), type=Line)
    assert line.event == reply


@pytest.mark.spec("A5", "A9")
def test_two_megabytes_of_arguments_are_kept_whole() -> None:
    text = json.dumps({"command": "x" * 2_000_000})
    raw, fault = arguments(text)
    assert not fault and len(msgspec.json.decode(raw)["command"]) == 2_000_000


@settings(deadline=None)
@given(st.text() | st.binary())
def test_no_text_at_all_makes_arguments_raise(text: str | bytes) -> None:
    raw, fault = arguments(text)
    assert isinstance(msgspec.json.decode(raw), dict) and (not fault or bytes(raw) == b"{}")


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(max_size=9), st.lists), max_size=4
    )
)
def test_arguments_keep_their_meaning(value: dict[str, Any]) -> None:
    raw, fault = arguments(json.dumps(value))
    if not fault:  # a lone surrogate has no bytes
        assert json.loads(bytes(raw)) == value


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ((), None),
        ((Text(""),), None),
        ((Text(" \n\t"),), None),
        ((Thinking("hm", "s"),), None),
        ((Thinking("hm", "s"), Text("")), None),
        ((Text(""), Text("a")), (Text("a"),)),
        ((Thinking("hm", "s"), Text("a")), (Thinking("hm", "s"), Text("a"))),
        ((Text(" "), call("c")), (call("c"),)),
        ((Opaque(Raw(b'{"type":"new"}')),), (Opaque(Raw(b'{"type":"new"}')),)),
    ],
)
def test_nothing_empty_is_kept(blocks: tuple[Block, ...], kept: tuple[Block, ...] | None) -> None:
    message = admit(said(*blocks), set())
    assert message == (None if kept is None else said(*kept))


def test_a_reply_that_is_fine_is_kept_as_the_same_object() -> None:
    message = said(Text("a"), call("c"))
    assert admit(message, {"other"}) is message


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("ids", "used", "kept"),
    [
        (["a", "b"], set(), ["a", "b"]),
        (["a", "a"], set(), ["a", fit_id("a 2")]),
        (["a"], {"a", fit_id("a 2")}, [fit_id("a 3")]),
        (["", ""], set(), [fit_id(""), fit_id(" 2")]),
        (["functions.Bash:0", "call_1__thought__Q2l+/w=="], set(), ["functions.Bash:0", "call_1__thought__Q2l+/w=="]),
        (["a b", 'a"', "a\\", "\x1b[31m", "ü"], set(), [*map(fit_id, ("a b", 'a"', "a\\", "\x1b[31m", "ü"))]),
        (["x" * 2_000, "x" * (LONGEST_ID + 1)], set(), ["x" * 2_000, fit_id("x" * (LONGEST_ID + 1))]),
    ],
)
def test_ids_are_kept_and_become_unique(ids: list[str], used: set[str], kept: list[str]) -> None:
    message = admit(said(*map(call, ids)), used)
    assert message is not None and [c.id for c in message.calls] == kept


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=8), st.sets(st.text(alphabet="ab_2", max_size=4)))
def test_ids_are_unique_through_a_whole_conversation(ids: list[str], used: set[str]) -> None:
    message = admit(said(*map(call, ids)), used)
    assert message is not None
    kept = [c.id for c in message.calls]
    assert len(set(kept)) == len(ids) and not set(kept) & used
    assert all(json.dumps(id) == f'"{id}"' and id.split() == [id] for id in kept)


@given(st.text(), st.text())
def test_ids_and_names_fit_every_provider(one: str, two: str) -> None:
    for made in (fit_id(one), fit_id(two)):
        assert re.fullmatch(r"[A-Za-z0-9]{9}", made) and fit_id(made) == made
    assert (fit_id(one) == fit_id(two)) == (one == two) or {one, two} & {fit_id(one), fit_id(two)}
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", fit_name(one)) and fit_name(fit_name(one)) == fit_name(one)
