"""When a conversation is shortened, and what is left of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from crew import check_valid
from teamwright.core.data.message import EMPTY_INPUT, Message, Text, ToolCall, ToolResult, user
from teamwright.core.ids import CallId
from teamwright.core.policies.compaction import (
    GO_ON,
    LEFT_OUT,
    PROMPTS,
    asking,
    cut_down,
    fitting_summary,
    is_due,
    read_window,
    shortened,
    size,
    unanswered,
)


def tokens(text: str) -> float:
    """Outside ASCII, each character counts as about one token."""
    return sum(0.25 if c.isascii() else 1 for c in text)


def turn(n: int, result: str = "out") -> list[Message]:
    call = ToolCall(f"c{n}", "Bash")
    return [Message("assistant", (Text(f"step {n}"), call)), Message("user", (ToolResult(f"c{n}", (Text(result),)),))]


@pytest.mark.spec("I1")
@pytest.mark.parametrize(
    ("tokens", "window", "due"), [(90, 100, False), (91, 100, True), (10**9, None, False), (0, 100, False)]
)
def test_it_begins_at_nine_tenths_of_a_known_window(tokens: int, window: int | None, due: bool) -> None:
    assert is_due(tokens, window) is due


@pytest.mark.spec("I1")
def test_only_what_was_said_and_not_answered_stays_as_it_is() -> None:
    talk = [user("go"), *turn(1)]
    assert unanswered(talk) == 0  # the results are part of what is summarised, with their calls
    assert unanswered([*talk, user("more")]) == 1 and unanswered([*talk, user("a"), user("b")]) == 2
    assert unanswered([user("only")]) == 1 and unanswered([]) == 0


@pytest.mark.spec("I1")
def test_the_rest_is_what_was_asked_our_records_and_the_summary() -> None:
    text = shortened("the gist", ["make it blue", "and round"], ["Plan mode is on"], go_on=True).text
    places = [text.index(part) for part in ("make it blue", "and round", "Plan mode is on", "the gist", GO_ON)]
    assert places == sorted(places)
    assert GO_ON not in shortened("the gist", [], [], go_on=False).text


@pytest.mark.spec("I1")
def test_what_was_asked_is_kept_word_for_word_within_a_bound() -> None:
    prompts = ["first " + "x" * PROMPTS, *(f"prompt {n} " + "y" * 3000 for n in range(20)), "the last"]
    text = shortened("s", prompts, [], go_on=True).text
    assert "first " in text and "the last" in text and "prompt 0 " not in text and "others are left out" in text
    assert len(text) < PROMPTS + 2_000


@pytest.mark.spec("I1")
def test_instructions_of_the_person_go_along() -> None:
    assert "keep the colours" in asking("keep the colours").text and asking("  ").text == asking().text


@pytest.mark.spec("A7", "I1")
@pytest.mark.parametrize(
    ("complaint", "window"),
    [
        ("prompt is too long: 215000 tokens > 200000 maximum", 200_000),
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 8192),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("request (9034 tokens) exceeds the available context size (8192 tokens)", 8192),
        ("input length and `max_tokens` exceed context limit: 199,000 + 32,000 > 200,000", 199_000),
        ("the prompt does not fit", None),
        ("error 400", None),
    ],
)
def test_the_window_is_learnt_from_a_refusal(complaint: str, window: int | None) -> None:
    assert read_window(complaint) == window


@pytest.mark.spec("I1")
@given(st.lists(st.integers(0, 9000), max_size=12), st.integers(0, 60_000), st.booleans())
def test_cutting_never_parts_a_call_from_its_result(sizes: list[int], most: int, late: bool) -> None:
    talk = [user("go")]
    for n, length in enumerate(sizes):
        talk += turn(n, "r" * length)
    talk += [user("more")] if late else []
    kept = cut_down(talk, most)
    check_valid(kept)
    assert kept[0].role == "user" and (len(kept) == len(talk) or most < 400 or sum(map(size, kept[1:])) <= most)
    if len(kept) < len(talk):
        assert kept[0].text == LEFT_OUT
    last = max((n for n, message in enumerate(talk) if message.role == "assistant"), default=0)
    assert [m.role for m in kept[-len(talk[last:]) :]] == [m.role for m in talk[last:]]  # the last exchange stays


@pytest.mark.spec("I1")
@pytest.mark.parametrize("where", ["results", "words", "arguments"])
def test_one_exchange_that_is_larger_than_the_window_is_cut_and_not_left_out(where: str) -> None:
    """Eight Reads at a time, a very long reply, a Write of a large file: something is left to be summarised."""
    text = "a" * 30_000 if where == "words" else "look"
    arguments = Raw(msgspec.json.encode({"content": "a" * 30_000})) if where == "arguments" else EMPTY_INPUT
    calls = [ToolCall(CallId(f"c{n}"), "Read", arguments) for n in range(8)]
    results = [ToolResult(call.id, (Text("a" * 30_000 if where == "results" else "ok"),)) for call in calls]
    talk = [user("go"), Message("assistant", (Text(text), *calls)), Message("user", tuple(results))]
    kept = cut_down(talk, 14_400)
    check_valid(kept)
    assert sum(map(size, kept)) <= 14_400 and len(kept[-1].blocks) == 8
    assert "aaa" in str(kept) + "".join(str(call.args) for call in kept[-2].calls)


@pytest.mark.spec("I1")
def test_long_results_lose_their_middle_before_anything_goes() -> None:
    talk = [user("go"), *turn(1, "a" * 5000 + "z" * 5000)]
    (_, _, result) = cut_down(talk, 4000)
    text = result.blocks[0].content[0].text
    assert text.startswith("aaa") and text.endswith("zzz") and "left out" in text and len(text) < 2200


@pytest.mark.spec("I1")
@pytest.mark.parametrize("word", ["word ", "漢字", "かな", "слово ", "ab漢"])
def test_a_summary_has_at_most_a_quarter_of_the_window_in_any_script(word: str) -> None:
    text = word * 20_000
    kept = fitting_summary(text, 8_000)
    assert 1_900 <= tokens(kept) <= 2_020 and kept.startswith(word * 100) and kept.endswith((word * 100).rstrip())
    assert fitting_summary(word * 200, 8_000) == (word * 200).strip()


@pytest.mark.spec("I1")
def test_what_was_asked_and_what_is_cut_down_count_tokens_in_any_script() -> None:
    asked = shortened("s", ["漢" * 30_000, *["字" * 3_000] * 9], [], go_on=False)
    assert tokens(asked.text) <= PROMPTS / 4 * 1.1
    cut = cut_down([user("字" * 30_000), Message("assistant", (Text("好" * 1_000),))], 10_000)
    assert sum(tokens(message.text) for message in cut) <= 10_000 / 4
