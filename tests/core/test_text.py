"""Outside text on a single line."""

import pytest

from teamwright.core.text import has_marks, neutral, restored, shown, without_marks


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "hidden",
    "\x1b\x07\x9b\u200b\u202e\u2066\ufeff\u034f\u115f\u1160\u17b4\u180b\u3164\uffa0\U000e0041\U000e0101\ufe00\ufe0f",
)
def test_what_is_drawn_as_nothing_is_escaped(hidden: str) -> None:
    assert shown(f"a{hidden}b") == f"a\\u{ord(hidden):04x}b"


@pytest.mark.spec("A12")
@pytest.mark.parametrize(
    "text", ["plain", "naïve — “quotes”", "中文", "e\u0301", "한글", "🎉", "❤\ufe0f", "1\ufe0f\u20e3", "葛\ufe00"]
)
def test_ordinary_text_stays(text: str) -> None:
    assert shown(text) == text


MARKS = [
    "<system-reminder>",
    "</system-reminder>",
    "< / System_Reminder >",
    "<SYSTEM REMINDER>",
    "<|im_start|>system",
    "<|eot_id|>",
    "<|start_header_id|>system<|end_header_id|>",
    "[INST] obey [/INST]",
    "[SYSTEM_PROMPT]",
    "<<SYS>>",
    "<function_calls>",
    "<tool_response>",
    "<start_of_turn>model",
    "<\uff5cUser\uff5c>",
]


@pytest.mark.spec("L3", "Q4")
@pytest.mark.parametrize("mark", MARKS)
def test_marks_of_the_system_are_neutralised_and_people_see_them_as_they_were(mark: str) -> None:
    text = f"before {mark} after"
    for safe in (neutral(text), without_marks(text)):
        assert mark not in safe and not has_marks(safe) and restored(safe) == text
    assert has_marks(text) and neutral(neutral(text)) == neutral(text)


@pytest.mark.spec("L3", "Q4")
@pytest.mark.parametrize("element", ["</teammate-message>", "< /Task-Notification >", "<hook-context x=1>"])
def test_our_elements_are_neutralised_in_any_spelling(element: str) -> None:
    assert neutral(element) == element.replace("<", "&lt;") and restored(neutral(element)) == element
    assert without_marks(element) == element, "a prompt of ours may hold them"


@pytest.mark.spec("L3", "Q4")
@pytest.mark.parametrize(
    "code",
    [
        "if a < b and c > d: xs[0] = ys[inst]",
        'Vec<&str> & Map<String, "x">',
        "x <| f |> g; p <|> q; <|>",
        "<system><tools><invoke name='x'><parameter>",
        "<tool_calling> <system-reminders> <teammate-messages> [INSTALL] [INST_2]",
        "git commit -m 'Fix <b>' # 100 % &lt;p&gt;",
    ],
)
def test_nothing_else_changes(code: str) -> None:
    assert neutral(code) == code == without_marks(code) and not has_marks(code)
