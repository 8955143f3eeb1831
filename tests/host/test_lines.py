"""Pages out of files of any size."""

import io

from hypothesis import given
from hypothesis import strategies as st

from teamwright.host.files.lines import read_page

PARTS = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=12)
PLACES = st.integers(1, 14)


@given(PARTS, st.booleans(), PLACES, PLACES, st.integers(1, 9))
def test_a_page_is_the_lines_asked_for(parts: list[bytes], final: bool, start: int, count: int, chunk: int) -> None:
    content = b"\n".join(parts) + (b"\n" if final else b"")
    lines = content.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    source = io.BytesIO(content)
    page = read_page(lambda _: source.read(chunk), start, count, most=10_000, longest=100)
    assert [line.content for line in page.lines] == lines[start - 1 :][:count]
    assert page.total == len(lines)
    assert page.more == (start - 1 + len(page.lines) < len(lines)) or not page.lines


def test_long_lines_are_cut_and_measured() -> None:
    page = read_page(io.BytesIO(b"x" * 1_000_000 + b"\nshort\n").read, 1, 5, most=10_000, longest=100)
    assert [(len(line.content), line.length) for line in page.lines] == [(100, 1_000_000), (5, 5)]


def test_a_page_ends_at_its_size() -> None:
    page = read_page(io.BytesIO(b"0123456789\n" * 1000).read, 1, 1000, most=100, longest=100)
    assert (len(page.lines), page.total, page.more) == (10, 1000, True)
