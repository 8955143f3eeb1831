"""Edit and Write change what was named, and nothing that somebody else changed."""

import os
import stat
from pathlib import Path

import msgspec
import pytest
from file_desk import context, refused, text, use
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.ports import ToolContext
from teamwright.tools.files.edit import EDIT
from teamwright.tools.files.matching import decode, find_places, replacement
from teamwright.tools.files.read import READ
from teamwright.tools.files.search import GREP
from teamwright.tools.files.write import WRITE


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return context(Path(os.path.realpath(tmp_path)))


def known(ctx: ToolContext, content: bytes, name: str = "f") -> Path:
    """A file that the agent has read."""
    path = ctx.desk.cwd / name
    path.write_bytes(content)
    use(READ, ctx, file_path=name)
    return path


@pytest.mark.spec("A4")
def test_a_unique_text_is_replaced_and_shown(ctx: ToolContext) -> None:
    path = known(ctx, b"one\ntwo\nthree\n")
    outcome = use(EDIT, ctx, file_path="f", old_string="two", new_string="2\n2b")
    assert path.read_bytes() == b"one\n2\n2b\nthree\n"
    assert "     2\t2\n     3\t2b\n" in outcome.content[0].text
    assert outcome.data == {
        "filePath": str(path), "oldString": "two", "newString": "2\n2b", "replaceAll": False,
        "structuredPatch": [{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 4,
                             "lines": [" one", "-two", "+2", "+2b", " three"]}],
    }  # fmt: skip
    use(EDIT, ctx, file_path="f", old_string="three", new_string="3")  # no need to read again: it was our own change
    assert path.read_bytes() == b"one\n2\n2b\n3\n"


def test_what_is_shown_of_a_change_is_short_and_counts_its_lines(ctx: ToolContext) -> None:
    path = known(ctx, b"".join(b"line %d\n" % n for n in range(1, 10)))
    shown = text(EDIT, ctx, file_path="f", old_string="line 5\n", new_string="a\nb\n")
    assert shown == (
        f"Changed {path}. It now reads at line 5 to 6:\n"
        "     3\tline 3\n     4\tline 4\n     5\ta\n     6\tb\n     7\tline 6\n     8\tline 7"
    )
    end = text(EDIT, ctx, file_path="f", old_string="line 9\n", new_string="the end\n")
    assert end.endswith("at line 10:\n     8\tline 7\n     9\tline 8\n    10\tthe end")
    gone = text(EDIT, ctx, file_path="f", old_string="a\nb\n", new_string="")
    assert gone.endswith("at line 5:\n     3\tline 3\n     4\tline 4\n     5\tline 6\n     6\tline 7\n     7\tline 8")
    long = text(EDIT, ctx, file_path="f", old_string="line 1\n", new_string="new\n" * 90)
    assert "at line 1 to 90" in long and len(long.split("\n")) == 22 and "72 lines not shown" in long


@pytest.mark.spec("A4")
def test_an_ambiguous_text_is_refused_with_its_lines(ctx: ToolContext) -> None:
    path = known(ctx, b"x = 1\ny = 1\nx = 1\n")
    words = refused(EDIT, ctx, file_path="f", old_string="x = 1", new_string="x = 2")
    assert "2 times" in words
    assert "lines 1, 3" in words
    assert path.read_bytes() == b"x = 1\ny = 1\nx = 1\n"
    assert "2 places" in text(EDIT, ctx, file_path="f", old_string="x = 1", new_string="x = 2", replace_all=True)
    assert path.read_bytes() == b"x = 2\ny = 1\nx = 2\n"
    known(ctx, b"aaa")
    assert "2 times" in refused(EDIT, ctx, file_path="f", old_string="aa", new_string="b")  # they overlap


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("absent", "not found"),
        ("def f():\n  return 1", "Line 1 has it with other white space"),
        ("     2\t    return 1", "without the line numbers"),
        ("a\\x1b[m", "escaped"),
        ("return", "equal"),
    ],
)
def test_why_a_text_cannot_be_replaced(ctx: ToolContext, old: str, words: str) -> None:
    path = known(ctx, b"def f():\n    return 1\na\x1b[m\n")
    assert words in refused(EDIT, ctx, file_path="f", old_string=old, new_string="return")
    assert path.read_bytes() == b"def f():\n    return 1\na\x1b[m\n"


CASES = [
    (b"a\r\nb\r\nc\r\n", "a\nb", "a\nX\nb", b"a\r\nX\r\nb\r\nc\r\n"),  # CRLF
    (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
    (b"a\r\nb", "b", "x\ny", b"a\r\nx\r\ny"),
    (b"a\r\nb\nc\r\nd\n", "b\nc\nd", "B\nC\nD", b"a\r\nB\nC\r\nD\n"),  # mixed: each as it was
    (b"a\r\nb\nc\r\nd\n", "a\nb\nc", "a\nb\nnew\nc", b"a\r\nb\nnew\r\nc\r\nd\n"),
    (b"a\r\nb\nc\r\nd\n", "a\r\nb", "a\nb", b"a\nb\nc\r\nd\n"),  # by the letter where a return is named
    (b"\xef\xbb\xbfone\ntwo", "one", "1", b"\xef\xbb\xbf1\ntwo"),  # BOM
    ("\ufeffeins\r\nzwei".encode("utf-16-le"), "eins\nzwei", "1\nż", "\ufeff1\r\nż".encode("utf-16-le")),
    ("\ufeffeins".encode("utf-16-be"), "eins", "𝄞", "\ufeff𝄞".encode("utf-16-be")),
    (b"caf\xe9 \xff\nname = 1", "name", "Name", b"caf\xe9 \xff\nName = 1"),  # latin-1
    (b"a\x00b\x1bc", "b", "B", b"a\x00B\x1bc"),
    (b"no newline at end", "end", "END", b"no newline at END"),
]


@pytest.mark.spec("A4")
@pytest.mark.parametrize(("before", "old", "new", "after"), CASES)
def test_encoding_and_line_ends_stay(ctx: ToolContext, before: bytes, old: str, new: str, after: bytes) -> None:
    path = ctx.desk.cwd / "f"
    path.write_bytes(b"text")
    use(READ, ctx, file_path="f")
    stat_before = path.stat()
    path.write_bytes(before)
    seen = ctx.desk.seen[str(path)]
    now = path.stat()
    ctx.desk.seen[str(path)] = msgspec.structs.replace(seen, mtime_ns=now.st_mtime_ns, size=now.st_size)
    outcome = use(EDIT, ctx, file_path="f", old_string=old, new_string=new)
    assert path.read_bytes() == after
    assert path.stat().st_mode == stat_before.st_mode
    msgspec.json.encode(outcome)  # whatever the file holds, the result can be stored


@pytest.mark.spec("A4")
@pytest.mark.parametrize(
    ("before", "words"),
    [(b"caf\xe9 = 1", "not UTF-8"), (b"\x83e\x83X\x83g = 1", "not UTF-8"), ("café \xff= 1".encode() + b"\xff", "")],
)
def test_no_file_gets_two_encodings(ctx: ToolContext, before: bytes, words: str) -> None:
    """A file of UTF-8 with a broken byte in it stays one of UTF-8."""
    path = known(ctx, before)
    if words:
        assert words in refused(EDIT, ctx, file_path="f", old_string="1", new_string="ö")
    else:
        use(EDIT, ctx, file_path="f", old_string="1", new_string="ö")
    assert path.read_bytes() == (before if words else before.replace(b"1", "ö".encode()))


BYTES = st.binary(max_size=40) | st.text(alphabet="ab\r\nż", max_size=40).map(str.encode)


@pytest.mark.spec("A4")
@given(BYTES, st.text(alphabet="ab\r\nż", min_size=1, max_size=6), BYTES, st.text(max_size=12))
def test_only_the_named_bytes_change(head: bytes, old: str, tail: bytes, new: str) -> None:
    content = head + old.encode() + tail
    coded = decode(content, "f") if not content.startswith((b"\xff\xfe", b"\xfe\xff")) else None
    if coded is None:
        return
    assert coded.encode(coded.text) == content
    places = find_places(coded.text, old)
    assert places
    start, end = places[0]
    piece = replacement(coded.text, (start, end), old, new)
    assert coded.text[start:end].replace("\r\n", "\n") == old.replace("\r\n", "\n")
    assert piece.replace("\r\n", "\n") == new.replace("\r\n", "\n")
    if "\r\n" not in coded.text:
        assert (coded.text[start:end], piece) == (old, new)
    result = coded.encode(coded.text[:start] + piece + coded.text[end:])
    before, after = coded.encode(coded.text[:start]), coded.text[end:].encode("utf-8", "surrogateescape")
    assert result == before + piece.encode() + after
    assert content.startswith(before)
    assert content.endswith(after)


CHANGES = [
    (EDIT, {"old_string": "old", "new_string": "new"}),
    (EDIT, {"old_string": "o", "new_string": "0", "replace_all": True}),
    (WRITE, {"content": "new"}),
]


@pytest.mark.spec("A4")
@pytest.mark.parametrize(("tool", "args"), CHANGES)
def test_what_has_changed_is_refused(ctx: ToolContext, tool: object, args: dict[str, str]) -> None:
    path = ctx.desk.cwd / "f"
    path.write_text("old ox")
    use(READ, ctx, file_path="f")
    path.write_text("old ox and theirs")
    assert "changed since" in refused(tool, ctx, file_path="f", **args)
    assert path.read_text() == "old ox and theirs"
    use(READ, ctx, file_path="f")
    use(tool, ctx, file_path="f", **args)
    assert "theirs" not in path.read_text() or "old" not in path.read_text()


@pytest.mark.spec("A4")
@pytest.mark.parametrize(("tool", "args"), CHANGES)
@pytest.mark.parametrize("search", [None, "content", "files_with_matches"])
def test_a_text_that_occurs_once_is_proof_enough(
    ctx: ToolContext, tool: object, args: dict[str, str], search: str | None
) -> None:
    """Nobody reads a file again of which a search has just shown the line; to replace it, all of it must be known."""
    path = ctx.desk.cwd / "f"
    path.write_text("old ox")
    if search:
        use(GREP, ctx, pattern="old", output_mode=search)
    if tool is EDIT and "replace_all" not in args:
        use(tool, ctx, file_path="f", **args)
        assert path.read_text() == "new ox"
    else:
        assert "has not been read" in refused(tool, ctx, file_path="f", **args) and path.read_text() == "old ox"


@pytest.mark.spec("A4")
@pytest.mark.parametrize("where", [{}, {"path": "f"}])
def test_a_search_shows_the_state_that_an_edit_relies_on(ctx: ToolContext, where: dict[str, str]) -> None:
    path, edit = ctx.desk.cwd / "f", {"old_string": "old", "new_string": "new"}
    path.write_text("old ox")
    use(READ, ctx, file_path="f")
    path.write_text("old ox, formatted")
    assert "changed since" in refused(EDIT, ctx, file_path="f", **edit)
    assert use(GREP, ctx, pattern="old", output_mode="content", **where).seen
    assert "has not been read" in refused(WRITE, ctx, file_path="f", content="x")
    path.write_text("old ox, formatted twice")
    assert "changed since" in refused(EDIT, ctx, file_path="f", **edit)
    use(GREP, ctx, pattern="old", output_mode="content", **where)
    use(EDIT, ctx, file_path="f", **edit)
    assert use(GREP, ctx, pattern="new", output_mode="content", **where).seen == (), "all of it is known already"
    use(WRITE, ctx, file_path="f", content="x")
    assert path.read_text() == "x"


@pytest.mark.spec("A4")
def test_editing_through_a_link_changes_its_target(ctx: ToolContext) -> None:
    path = known(ctx, b"old", "target")
    path.chmod(0o750)
    (ctx.desk.cwd / "link").symlink_to("target")
    use(EDIT, ctx, file_path="link", old_string="old", new_string="new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o750)
    assert (ctx.desk.cwd / "link").is_symlink()


@pytest.mark.spec("A5")
def test_a_judged_path_that_became_a_link_is_not_written(ctx: ToolContext) -> None:
    outside = ctx.desk.cwd / "outside"
    outside.write_text("precious")
    (ctx.desk.cwd / "f").symlink_to("outside")
    ctx.paths = {"f": str(ctx.desk.cwd / "f")}
    assert "link" in refused(WRITE, ctx, file_path="f", content="x")
    assert "link" in refused(EDIT, ctx, file_path="f", old_string="precious", new_string="x")
    assert outside.read_text() == "precious"


def test_write_makes_files_and_directories_byte_for_byte(ctx: ToolContext) -> None:
    outcome = use(WRITE, ctx, file_path="new/deep/f.txt", content="żółw\r\nno newline")
    path = ctx.desk.cwd / "new/deep/f.txt"
    assert path.read_bytes() == "żółw\r\nno newline".encode()
    assert outcome.data == {"type": "create", "filePath": str(path), "bytes": 19}
    use(WRITE, ctx, file_path="new/deep/f.txt", content="")
    assert path.read_bytes() == b""
    assert "directory" in refused(WRITE, ctx, file_path="new", content="")
    assert "surrogate" in refused(WRITE, ctx, file_path="g", content="\ud800")
    os.mkfifo(ctx.desk.cwd / "fifo")
    assert "FIFO" in refused(WRITE, ctx, file_path="fifo", content="")


def test_an_empty_old_string_makes_a_file(ctx: ToolContext) -> None:
    use(EDIT, ctx, file_path="f", old_string="", new_string="made\n")
    assert (ctx.desk.cwd / "f").read_text() == "made\n"
    assert "not empty" in refused(EDIT, ctx, file_path="f", old_string="", new_string="x")
    assert "does not exist" in refused(EDIT, ctx, file_path="g", old_string="x", new_string="y")
    known(ctx, b"", "empty")
    use(EDIT, ctx, file_path="empty", old_string="", new_string="filled")
    assert (ctx.desk.cwd / "empty").read_text() == "filled"


def test_a_change_that_would_swell_the_file_is_refused(ctx: ToolContext) -> None:
    path = known(ctx, b"x" * 100_000)
    assert "at least 1,000 times" in refused(EDIT, ctx, file_path="f", old_string="x", new_string="y")
    assert "too many" in refused(EDIT, ctx, file_path="f", old_string="x", new_string="y" * 9_000, replace_all=True)
    assert path.stat().st_size == 100_000


def test_a_file_too_big_to_edit_is_refused(ctx: ToolContext) -> None:
    path = ctx.desk.cwd / "big"
    path.touch()
    os.truncate(path, (64 << 20) + 1)
    assert "Use Bash" in refused(EDIT, ctx, file_path="big", old_string="x", new_string="y")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_write_protected_file_is_left_alone(ctx: ToolContext) -> None:
    path = known(ctx, b"old")
    path.chmod(0o444)
    assert "write-protected" in refused(WRITE, ctx, file_path="f", content="new")
    assert path.read_bytes() == b"old"
