"""The reader of server-sent events: the same bytes give the same events, however they are cut."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import ANTHROPIC, OPENAI

from teamwright.models.wires.sse import EventReader, EventTooLong, ServerEvent

WILD = (
    b"\xef\xbb\xbf: hello\r\n\r\nevent: one\rdata: a\rdata:b\r\rid: 7\nretry: 10\nnonsense\nunknown: x\n"
    b"data:  two spaces\r\n\r\nevent: empty\n\ndata\n\ndata:\xff\xc3\xa9\n\n:\ndata: last\n\ndata: never ended\n"
)
FOUND = [
    ServerEvent("one", b"a\nb"),
    ServerEvent("message", b" two spaces"),
    ServerEvent("message", b""),
    ServerEvent("message", b"\xff\xc3\xa9"),
    ServerEvent("message", b"last"),
]


def read(chunks: list[bytes]) -> list[ServerEvent]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


def test_fields_comments_line_ends_and_byte_order_mark() -> None:
    assert read([WILD]) == FOUND


def test_a_byte_order_mark_hides_nothing() -> None:
    data = b"\xef\xbb\xbfdata: first\n\n\xef\xbb\xbfdata: later it is part of a name\n\n"
    assert read([data]) == read([bytes([b]) for b in data]) == [ServerEvent("message", b"first")]


def test_every_split_in_two() -> None:
    for at in range(len(WILD) + 1):
        assert read([WILD[:at], WILD[at:]]) == FOUND


def test_byte_by_byte() -> None:
    assert read([bytes([b]) for b in WILD]) == FOUND


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("stream", [ANTHROPIC, OPENAI])
def test_recorded_streams_with_every_line_end(stream: bytes, line: bytes) -> None:
    whole = read([stream])
    assert len(whole) > 10
    other = stream.replace(b"\n", line)
    assert read([other]) == whole
    assert read([bytes([b]) for b in other]) == whole


@settings(deadline=None)
@given(st.lists(st.integers(0, len(WILD)), max_size=12))
def test_any_split(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(WILD)]
    assert read([WILD[a:b] for a, b in itertools.pairwise(places)]) == FOUND


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_never_a_crash(data: bytes) -> None:
    assert read([data]) == read([bytes([b]) for b in data])


@pytest.mark.spec("A5")
@pytest.mark.parametrize("line", [b"data: x\n", b"x", b": note\n"])
def test_an_event_is_bounded(line: bytes) -> None:
    reader = EventReader(most=1000)
    with pytest.raises(EventTooLong):
        for _ in range(1001):
            reader.feed(line)


def test_many_events_are_not_one_long_one() -> None:
    reader = EventReader(most=100)
    assert sum(len(reader.feed(b"data: 12345\n\n")) for _ in range(1000)) == 1000


def test_a_long_line_in_small_pieces_is_read_in_one_pass() -> None:
    reader = EventReader()
    reader.feed(b"data: ")
    for _ in range(20_000):
        assert reader.feed(b"x" * 100) == []
    assert len(reader.feed(b"\n\n")[0].data) == 2_000_000
