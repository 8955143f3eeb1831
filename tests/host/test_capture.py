"""Output of any size in little memory: whole in a file, and readable wherever it is cut."""

import os
import re
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import is_linear
from teamwright.host.process.capture import HEAD, MOST_SPILLED, TAIL, Capture, plain

NOTE = re.compile(r"\[\.\.\. ([\d,]+) bytes \(([\d,]+) lines\) left out(?:; (.*))? \.\.\.\]")


def fed(data: bytes, capture: Capture, step: int = 1000) -> Capture:
    for start in range(0, len(data), step):
        capture.add(data[start : start + step])
    return capture


def test_little_output_is_kept_as_it_is_and_makes_no_file(tmp_path: Path) -> None:
    capture = fed(b"one\ntwo", Capture(tmp_path / "out.txt"))
    assert (capture.text(), capture.total, capture.lines, capture.path) == ("one\ntwo", 7, 1, None)
    assert list(tmp_path.iterdir()) == []
    assert Capture().text() == ""


@pytest.mark.spec("A5")
def test_much_output_keeps_head_and_tail_and_the_whole_in_a_private_file(tmp_path: Path) -> None:
    lines = [f"line {i}\n" for i in range(20_000)]
    data = "".join(lines).encode()
    path = tmp_path / "deep" / "er" / "out.txt"
    capture = fed(data, Capture(path), 777)
    capture.close()
    text = capture.text()
    head, tail = NOTE.sub("\0", text).split("\0\n")
    gone, gone_lines, where = NOTE.search(text).groups()  # type: ignore[union-attr]
    assert head == "".join(lines[: head.count("\n")]), "whole lines from the start"
    assert tail == "".join(lines[-tail.count("\n") :]), "whole lines to the end"
    assert len(head) + len(tail) + int(gone.replace(",", "")) == len(data)
    assert head.count("\n") + tail.count("\n") + int(gone_lines.replace(",", "")) == 20_000
    assert where == f"the whole output is in {path}"
    assert len(text) < HEAD + TAIL + 300
    assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.spec("A5")
def test_exactly_at_the_bound_nothing_is_left_out(tmp_path: Path) -> None:
    data = b"x" * (HEAD + TAIL)
    capture = fed(data, Capture(tmp_path / "out.txt"))
    assert capture.text() == data.decode()
    assert not capture.shortened
    capture.add(b"y")
    assert capture.shortened
    capture.close()
    assert (tmp_path / "out.txt").read_bytes() == data + b"y"


def test_without_a_file_it_says_only_that_something_is_missing() -> None:
    text = fed(b"a" * 100_000, Capture()).text()
    assert "[... 70,000 bytes (0 lines) left out ...]" in text


@pytest.mark.parametrize("step", [1, 7, 64, 5000])
@pytest.mark.parametrize("letter", ["é", "€", "🎉"])
def test_no_cut_breaks_a_character(letter: str, step: int) -> None:
    for shift in range(4):
        capture = fed(b"-" * shift + letter.encode() * 60, Capture(head=50, tail=50), step)
        assert "�" not in capture.text()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=12))
def test_how_the_bytes_arrive_makes_no_difference(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    by_parts, at_once = Capture(head=40, tail=30), Capture(head=40, tail=30)
    for part in parts:
        by_parts.add(part)
    at_once.add(whole)
    assert by_parts.text() == at_once.text()
    assert (by_parts.total, by_parts.lines) == (len(whole), whole.count(b"\n"))
    if len(whole) <= 70:
        assert by_parts.text() == whole.decode(errors="replace")


@pytest.mark.spec("A5")
def test_memory_does_not_grow(tmp_path: Path) -> None:
    capture, chunk = Capture(tmp_path / "out.txt"), os.urandom(1 << 16)
    tracemalloc.start()
    try:
        for _ in range(400):
            capture.add(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    capture.close()
    assert peak < 500_000
    assert (tmp_path / "out.txt").stat().st_size == capture.total == 400 << 16


def test_the_file_is_bounded_too_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    capture = fed(b"0123456789" * 100, Capture(path, head=20, tail=20, most=333), 7)
    capture.close()
    assert path.read_bytes() == (b"0123456789" * 100)[:333]
    assert f"; the first 333 bytes of the output are in {path} (no more is kept) ..." in capture.text()


def test_a_file_that_is_already_there_is_not_touched(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    for path in (target, link):
        capture = fed(b"x" * 100, Capture(path, head=10, tail=10))
        assert "80 bytes (0 lines) left out; they could not be kept: File exists" in capture.text()
        assert capture.path is None
    assert target.read_text() == "mine"


FULL_DISK = """
import resource, sys
from pathlib import Path
from teamwright.host.process.capture import MOST_SPILLED, Capture
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
capture = Capture(Path(sys.argv[1]), head=100, tail=100)
for _ in range(100):
    capture.add(b"x" * 99 + b"\\n")
capture.close()
print(capture.text())
"""


def test_a_disk_that_is_full_costs_the_file_not_the_output(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", FULL_DISK, str(tmp_path / "out.txt")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "the first 5,000 bytes of the output are in" in done.stdout
    assert "(then: File too large)" in done.stdout
    assert done.stdout.count("x" * 99) == 2


def test_a_file_can_be_written_from_the_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "job.output"
    capture = Capture(path, at_once=True)
    assert path.read_bytes() == b""
    assert capture.touches_disk(1)
    capture.add(b"soon")
    assert path.read_bytes() == b"soon"
    assert capture.path == path
    capture.close()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\n", "plain\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r20%\r100%\ndone\n", "100%\ndone\n"),
        ("dos\r\nline\r\n", "dos\nline\n"),
        ("50%\r\x1b[K60%\r", "60%"),
        ("\x1b[2K\x1b(Bok", "ok"),
        ("cut \x1b[3", "cut \x1b[3"),
    ],
)
def test_plain(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@pytest.mark.parametrize("piece", ["\x1b]", "\x1b[", "a", "\r", "a\r"])
def test_hostile_text_is_made_plain_in_time_that_grows_with_it(piece: str) -> None:
    assert is_linear(lambda text: plain(text + "\r"), piece)


def test_last_line() -> None:
    assert Capture().last_line() == ""
    assert fed(b"one\ntwo\n\n", Capture()).last_line() == "two"
    assert fed(b"get\n 10%\r 20%\r", Capture()).last_line() == "20%"
    assert fed(b"x" * 100_000, Capture()).last_line() == "x" * 200


@pytest.mark.spec("A5")
def test_the_file_of_an_endless_output_stops_growing_and_says_so(tmp_path: Path) -> None:
    assert MOST_SPILLED == 64 << 20
    path = tmp_path / "out"
    capture = Capture(path, head=20, tail=20, most=100, at_once=True)
    for _ in range(50):
        capture.add(b"0123456789")
    assert not capture.touches_disk(10) and capture.total == 500
    capture.close()
    assert path.read_bytes() == b"0123456789" * 10 + b"\n[the output continues, but no more of it is kept]\n"
    assert "the first 100 bytes of the output" in capture.text()
