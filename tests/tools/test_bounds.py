"""Results are bounded, keep their head and tail, and show what would otherwise be hidden."""

import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.tools.bounds import bounded, visible


@pytest.mark.spec("A12")
def test_what_hides_is_shown() -> None:
    assert visible("a\x1b[31mb\x07\x9b\r\nc\rd") == "a\\x1b[31mb\\x07\\x9b\nc\\x0dd"
    assert visible("x\u202ey\u2066z\u200b\ufeff\u00ad\U000e0041") == "x\\u202ey\\u2066z\\u200b\\ufeff\\xad\\U000e0041"
    assert visible("p\u200daypal a\ufe0fb \ufe0f\ufe0f") == "p\\u200daypal a\\ufe0fb \\ufe0f\\ufe0f"
    assert visible(b"\xff".decode(errors="surrogateescape") + "\ud800") == "\\xff\\ud800"


@pytest.mark.spec("A12")
def test_ordinary_text_is_left_alone() -> None:
    ordinary = (
        "tab\there\nżółw 日本語 עברית العربية é e\u0301 👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3 می\u200cخواهم \\x1b"
    )
    assert visible(ordinary) == ordinary


@pytest.mark.spec("A12")
@given(st.text(st.characters(exclude_categories=())))
def test_nothing_visible_can_steer_a_terminal(text: str) -> None:
    shown = visible(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]", shown)
    shown.encode()
    assert visible(shown) == shown


@pytest.mark.spec("A5")
@given(st.text(alphabet="ab\n", min_size=400, max_size=3000), st.integers(200, 500))
def test_head_and_tail_are_kept_within_the_bound(text: str, most: int) -> None:
    shown = bounded(text, most=most)
    assert len(shown) <= most or shown == text
    if shown != text:
        found = re.fullmatch(
            r"(.*)\n\[\.\.\. ([\d,]+) characters \(([\d,]+) lines\) left out here \.\.\.\]\n(.*)", shown, re.S
        )
        assert found
        head, gone, lines, tail = found.groups()
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + int(gone.replace(",", "")) + len(tail) == len(text)
        assert text[len(head) : len(text) - len(tail)].count("\n") == int(lines.replace(",", ""))
        assert min(len(head), len(tail)) > most // 8


@pytest.mark.spec("A5")
def test_the_whole_is_kept_in_a_private_file(tmp_path: Path) -> None:
    whole = "".join(f"line {n}\n" for n in range(10_000)) + "\udcff"
    shown = bounded(whole, most=2_000, spill=tmp_path / "spill", name="../Bash out")
    path = Path(re.search(r"the whole is in (\S+) ", shown)[1])
    assert path.parent == tmp_path / "spill"
    assert path.read_text() == whole.replace("\udcff", "\\udcff")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert shown.startswith("line 0\n")
    assert bounded(whole, most=2_000, spill=tmp_path / "spill") != shown  # another file


@pytest.mark.spec("A5")
@pytest.mark.parametrize("keep", [True, False])
def test_a_long_result_costs_little_if_the_rest_is_in_a_file(tmp_path: Path, keep: bool) -> None:
    lines = [f"line {n}" for n in range(20_000)]
    shown = bounded("\n".join(lines), spill=tmp_path / "spill" if keep else None)
    assert shown.startswith("line 0\n") and shown.endswith("\nline 19999")
    assert (7_500 < len(shown) < 8_400) if keep else (28_000 < len(shown) <= 30_000)
    assert bounded("x" * 30_000, spill=tmp_path / "none") == "x" * 30_000


def test_a_spill_that_fails_costs_only_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "could not be kept" in bounded("x" * 5_000, most=1_000, spill=tmp_path / "file/below")


def test_what_fits_is_not_touched(tmp_path: Path) -> None:
    assert bounded("x" * 1_000, most=1_000, spill=tmp_path / "none") == "x" * 1_000
    assert not (tmp_path / "none").exists()
