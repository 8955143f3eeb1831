"""Encode once: the same bytes objects are reused and freed with their message; prefix and markers."""

import gc
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import SYSTEM, TOOLS

from teamwright.core.data.message import (
    Block,
    Image,
    Message,
    Opaque,
    Raw,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from teamwright.core.ids import CallId
from teamwright.models.wires import anthropic, openai
from teamwright.models.wires.pieces import Once, Piece, Pieces, encode

MODEL = "anthropic/claude-x"


@pytest.mark.spec("A11")
def test_a_message_is_encoded_once_and_its_bytes_are_the_same_object() -> None:
    made: list[Message] = []

    def make(message: Message, _own: bool) -> Piece:
        made.append(message)
        return Piece(b"," + encode(message.text))

    pieces = Pieces(make)
    one, equal = user("x"), user("x")
    assert pieces.of(one).data is pieces.of(one).data
    assert pieces.of(equal) == pieces.of(one) and pieces.of(equal) is not pieces.of(one)
    assert pieces.of(one, own=False) is not pieces.of(one)
    assert len(made) == len(pieces) == 3


@pytest.mark.spec("A1", "A11")
@given(
    turns=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.integers(1, 3)), min_size=1, max_size=100),
    data=st.data(),
)
def test_adjacent_messages_of_a_user_are_sent_as_one(turns: list[tuple[Any, int]], data: st.DataObject) -> None:
    messages = tuple(
        Message(role, tuple(Text(f"{n}.{block}") for block in range(blocks)), MODEL if role == "assistant" else "")
        for n, (role, blocks) in enumerate(turns)
    )
    previous = data.draw(st.integers(0, len(messages)))
    wire = anthropic.AnthropicWire()
    for known in (messages[:previous], messages, messages):  # what is encoded once serves again
        body = json.loads(b"".join(wire.body(Request(MODEL, (), (), known, previous=previous), {"model": "x"})))
        want: list[tuple[str, list[str]]] = []
        for message in known:
            texts = [block.text for block in message.blocks if isinstance(block, Text)]
            if want and want[-1][0] == message.role == "user":
                want[-1][1].extend(texts)
            else:
                want.append((message.role, texts))
        assert [(sent["role"], [b["text"] for b in sent["content"]]) for sent in body["messages"]] == want
        assert sum("cache_control" in b for sent in body["messages"] for b in sent["content"]) <= 2


def test_an_entry_dies_with_its_message() -> None:
    pieces = Pieces(lambda message, _: Piece(message.text.encode()))
    kept = user("kept")
    for n in range(100):
        assert pieces.of(user(f"{n}")).data == b"%d" % n  # ids of freed objects are reused
        pieces.of(kept)
    gc.collect()
    assert len(pieces) == 1


@pytest.mark.spec("A11")
def test_long_conversations_are_looked_up_in_stretches() -> None:
    """The pieces are the same as message by message, for every model and marker, and are freed with its messages."""
    made = list[Message]()
    pieces = Pieces(lambda m, own: made.append(m) or Piece(b",%d%b" % (own, encode(m.text)), (3,)))
    history = tuple(Message("assistant", (Text(f"{n}"),), MODEL if n % 3 else "other") for n in range(300))
    for model in (MODEL, "other"):
        for marks in ((), (299,), (0, 70), (128, 299)):
            plain = [pieces.of(m, own=m.model == model) for m in history]
            want = b"".join(b"".join(p.marked({0})) if n in marks else p.data for n, p in enumerate(plain))
            assert b"".join(pieces.row(history, model, {n: {0} for n in marks})) == want
    count = len(made)
    before, again = pieces.row(history, MODEL), pieces.row((*history, user("x")), MODEL)
    assert all(a is b for a, b in zip(before, again, strict=False)) and len(made) == count + 1
    other = (*history[:10], user("instead"), *history[11:])
    assert b'"instead"' in b"".join(pieces.row(other, MODEL))
    del history, other, plain, made[:]
    gc.collect()
    assert len(pieces) == 0 and not pieces._stretches


def test_tuples_are_kept_by_identity_and_the_oldest_go() -> None:
    made: list[tuple[str, ...]] = []
    once = Once[tuple[str, ...], bytes](lambda t: made.append(t) or encode(t), most=2)
    things = [("a", str(n)) for n in range(3)]
    assert once.of(things[0]) is once.of(things[0])
    for thing in things:
        once.of(thing)
    assert made == things
    assert json.loads(once.of(things[0])) == ["a", "0"]


def test_broken_text_is_sent_all_the_same() -> None:
    assert json.loads(encode({"a\ud800": ["b\udcff", ("c",), 1]})) == {"a?": ["b?", ["c"], 1]}


# --- random conversations

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
texts = st.text(min_size=1, max_size=8).filter(lambda t: t.strip())
args = st.dictionaries(st.text(max_size=3), st.integers(), max_size=2).map(lambda d: Raw(encode(d)))
odd = st.sampled_from(["t", "functions.Bash:", "call_1__thought__Q2l+/w==" * 9, "x" * 60])
ids = st.builds(lambda start, end: CallId(f"{start}{end.hex}"), odd, st.uuids())
names = st.sampled_from(["Bash", "functions.Bash", "", "B" * 200, "Bash\ud800<|end|>\n"])
call = st.builds(ToolCall, ids, names, args)
thinking = st.builds(Thinking, st.text(max_size=5), st.text(min_size=1, max_size=5))
opaque = st.just(Opaque(Raw(b'{"type":"redacted_thinking","data":"x"}')))
content = st.one_of(st.builds(Text, texts), st.just(Image("image/png", "aGk=")))


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[Message, Message]]:
    """Pairs of a reply and what followed it."""
    out: list[tuple[Message, Message]] = []
    for _ in range(draw(st.integers(1, 5))):
        calls = draw(st.lists(call, max_size=30, unique_by=lambda c: c.id))
        before = draw(
            st.lists(st.one_of(thinking, opaque, st.builds(Text, texts)), min_size=0 if calls else 1, max_size=3)
        )
        model = draw(st.sampled_from([MODEL, "anthropic/other", "openai/m"]))
        results: list[Block] = [ToolResult(c.id, tuple(draw(st.lists(content, max_size=2)))) for c in calls]
        after = Message("user", tuple(results)) if calls else user(draw(texts))
        out.append((Message("assistant", (*before, *calls), model), after))
    return out


def bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k != "cache_control"}
    return [bare(v) for v in value] if isinstance(value, list) else value


def body_of(wire: anthropic.AnthropicWire | openai.OpenAIWire, request: Request) -> bytes:
    return b"".join(wire.body(request, {"model": "claude-x"}))


def requests_of(pairs: list[tuple[Message, Message]]) -> list[Request]:
    """The requests that lead to such a conversation, as the loop makes them."""
    messages = (user("begin"),)
    out = [Request(MODEL, SYSTEM, TOOLS, messages)]
    for pair in pairs:
        out.append(Request(MODEL, SYSTEM, TOOLS, messages + pair, previous=len(messages)))
        messages += pair
    return out


def marked(body: dict[str, Any]) -> tuple[list[str], list[int]]:
    """All blocks in cache order, and which of them carry a marker."""
    blocks = [*body["tools"], *body["system"], *(b for m in body["messages"] for b in m["content"])]
    return [json.dumps(bare(b)) for b in blocks], [n for n, b in enumerate(blocks) if "cache_control" in b]


@pytest.mark.spec("A11")
@few
@given(turns())
def test_each_request_extends_the_one_before_and_finds_its_cache(pairs: list[tuple[Message, Message]]) -> None:
    wire = anthropic.AnthropicWire()
    bodies = [json.loads(body_of(wire, request)) for request in requests_of(pairs)]
    for earlier, later in itertools.pairwise(bodies):
        assert bare(later["messages"])[: len(earlier["messages"])] == bare(earlier["messages"])
        (was, stored), (now, marks) = marked(earlier), marked(later)
        assert now[: len(was)] == was
        assert stored[-1] in marks  # exactly there, not within 20 blocks of it, however long the turn was
        assert len(marks) <= 4 and marks[-1] == len(now) - 1
        assert all(json.loads(now[n])["type"] not in ("thinking", "redacted_thinking") for n in marks if n >= 2)


@pytest.mark.spec("A11")
@few
@given(turns())
def test_chat_requests_extend_each_other_byte_for_byte(pairs: list[tuple[Message, Message]]) -> None:
    wire = openai.OpenAIWire()
    bodies = [body_of(wire, request) for request in requests_of(pairs)]
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier[:-2])
        json.loads(later)


@pytest.mark.spec("A11")
@few
@given(turns())
def test_two_programs_write_the_same_bytes(pairs: list[tuple[Message, Message]]) -> None:
    """Nothing depends on what was sent before, so a resumed session or a fork hits the same cache."""
    for kind in (anthropic.AnthropicWire, openai.OpenAIWire):
        warm = kind()
        for request in requests_of(pairs):
            assert body_of(warm, request) == body_of(kind(), request)


def calls_and_answers(body: Any) -> Iterator[tuple[str, str]]:
    """(id, name) of each call in a request's body, then (id, "") of each result, in either wire."""
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            yield call["id"], call["function"]["name"]
        if message["role"] == "tool":
            yield message["tool_call_id"], ""
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] in ("tool_use", "tool_result"):
                yield block.get("id") or block["tool_use_id"], block.get("name", "")


@pytest.mark.spec("A9", "A11")
@pytest.mark.parametrize("kind", [anthropic.AnthropicWire, openai.OpenAIWire])
@few
@given(turns())
def test_every_provider_takes_every_id_and_name(
    kind: type[anthropic.AnthropicWire] | type[openai.OpenAIWire], pairs: list[tuple[Message, Message]]
) -> None:
    """An id goes back byte for byte to the model that made it; every other model gets one that all of them take."""
    sent = iter(calls_and_answers(json.loads(body_of(kind(), requests_of(pairs)[-1]))))
    for reply, _ in pairs:
        asked = [next(sent) for _ in reply.calls]
        answered = [next(sent)[0] for _ in reply.calls]
        assert [id for id, _ in asked] == answered and len(set(answered)) == len(answered)
        for call, (id, name) in zip(reply.calls, asked, strict=True):
            assert id == call.id if reply.model == MODEL else re.fullmatch(r"[A-Za-z0-9]{9}", id)
            assert name == call.name if call.name == "Bash" else re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert not [*sent]


@pytest.mark.spec("A11")
@pytest.mark.parametrize("kind", [anthropic.AnthropicWire, openai.OpenAIWire])
def test_pieces_are_reused_between_requests(kind: type[anthropic.AnthropicWire] | type[openai.OpenAIWire]) -> None:
    wire = kind()
    messages = tuple(m for n in range(50) for m in (user(f"q{n}"), Message("assistant", (Text(f"a{n}"),), MODEL)))
    first = wire.body(Request(MODEL, SYSTEM, TOOLS, messages), {})
    second = wire.body(Request(MODEL, SYSTEM, TOOLS, (*messages, user("more")), previous=100), {})
    again = {id(piece) for piece in first if isinstance(piece, bytes)}
    assert sum(id(piece) in again for piece in second) >= 99
