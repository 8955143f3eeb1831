"""Outside text on a single line."""

import pytest

from teamwright.core.text import shown


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
