"""Read: what a model sees of files of every kind."""

import base64
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from file_desk import context, refused, text, use

from teamwright.core.data.event import Seen
from teamwright.core.data.message import Image
from teamwright.core.ports import ToolContext
from teamwright.tools.files.read import READ

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return context(Path(os.path.realpath(tmp_path)))


def put(ctx: ToolContext, name: str, content: bytes) -> Path:
    path = ctx.desk.cwd / name
    path.write_bytes(content)
    return path


def test_lines_are_numbered_and_the_file_is_remembered(ctx: ToolContext) -> None:
    path = put(ctx, "f", b"one\n\ttwo\nthree")
    outcome = use(READ, ctx, file_path="f")
    assert outcome.content[0].text == "     1\tone\n     2\t\ttwo\n     3\tthree"
    assert outcome.data == {
        "type": "text",
        "file": {"filePath": str(path), "numLines": 3, "startLine": 1, "totalLines": 3},
    }
    seen = Seen(str(path), path.stat().st_mtime_ns, 14)
    assert outcome.seen == (seen,)
    assert ctx.desk.seen == {str(path): seen}


def test_a_part_and_the_way_on(ctx: ToolContext) -> None:
    put(ctx, "f", b"".join(b"line %d\n" % n for n in range(1, 5001)))
    assert text(READ, ctx, file_path="f", offset=50, limit=2) == ("    50\tline 50\n    51\tline 51\n[50-51 of 5,000]")
    assert text(READ, ctx, file_path="f").endswith("[1-2,000 of 5,000; offset=2001 shows more]")
    assert text(READ, ctx, file_path="f", offset=5000) == "  5000\tline 5000"
    assert "only 5,000 lines" in refused(READ, ctx, file_path="f", offset=5001)
    assert text(READ, ctx, file_path="f", offset="3", limit="1").startswith("     3\tline 3")


@pytest.mark.spec("A5")
def test_the_page_is_bounded_in_size_and_lines_are_cut(ctx: ToolContext) -> None:
    put(ctx, "wide", b"\n".join([b"\xc3\xa9" * 5_000] * 500))
    shown = text(READ, ctx, file_path="wide")
    assert len(shown.encode()) < 110_000
    assert "é [... line cut; it has 10,000 bytes]" in shown
    assert "of 500; offset=" in shown
    assert "not valid UTF-8" not in shown


@pytest.mark.spec("A5")
def test_a_huge_sparse_file_is_read_by_its_beginning(ctx: ToolContext) -> None:
    zeros = put(ctx, "zeros", b"")
    os.truncate(zeros, 20 << 30)
    assert "21,474,836,480 bytes, not text" in refused(READ, ctx, file_path="zeros")
    log = put(ctx, "log", b"entry\n" * 3000)
    os.truncate(log, 20 << 30)
    tracemalloc.start()
    assert "too big to count its lines; offset=2001" in text(READ, ctx, file_path="log")
    assert "its end was not looked for" in text(READ, ctx, file_path="log", offset=2990)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_encodings(ctx: ToolContext) -> None:
    put(ctx, "bad", b"caf\xe9\nok\n")
    assert text(READ, ctx, file_path="bad").startswith("     1\tcaf\ufffd\n     2\tok\n[Some bytes are not valid UTF-8")
    put(ctx, "real", "\ufffd\n".encode())
    assert "valid" not in text(READ, ctx, file_path="real")
    for codec in ("utf-16-le", "utf-16-be"):
        put(ctx, "wide", "\ufeffżółw\r\nzwei\r\n".encode(codec))
        assert text(READ, ctx, file_path="wide").startswith("     1\tżółw\n     2\tzwei\n[Line ends are CRLF")
    put(ctx, "bom", b"\xef\xbb\xbfone\n")
    assert text(READ, ctx, file_path="bom") == "     1\tone"
    put(ctx, "empty", b"")
    assert "is empty" in text(READ, ctx, file_path="empty")


def test_line_ends(ctx: ToolContext) -> None:
    put(ctx, "dos", b"a\r\nb\r\n")
    assert (
        text(READ, ctx, file_path="dos")
        == "     1\ta\n     2\tb\n[Line ends are CRLF; Edit takes them as plain newlines.]"
    )
    put(ctx, "mixed", b"a\r\nb\n")
    assert text(READ, ctx, file_path="mixed").startswith("     1\ta\\x0d\n     2\tb\n[Control")


@pytest.mark.spec("A12")
def test_control_characters_are_shown_and_said_once(ctx: ToolContext) -> None:
    put(ctx, "f", "a\x1b[2Jb\n\u202ec\nplain\n".encode())
    shown = text(READ, ctx, file_path="f")
    assert shown.startswith("     1\ta\\x1b[2Jb\n     2\t\\u202ec\n     3\tplain\n[Control or invisible")
    assert shown.count("[Control") == 1


@pytest.mark.spec("A5")
def test_what_is_no_regular_file_is_refused(ctx: ToolContext) -> None:
    os.mkfifo(ctx.desk.cwd / "fifo")
    assert "FIFO" in refused(READ, ctx, file_path="fifo")
    assert "device" in refused(READ, ctx, file_path="/dev/zero")
    assert "Glob" in refused(READ, ctx, file_path=".")
    put(ctx, "elf", b"\x7fELF\x02\x01\0\0")
    assert "an ELF program or library of 8 bytes" in refused(READ, ctx, file_path="elf")


def test_a_missing_file_names_its_like(ctx: ToolContext) -> None:
    put(ctx, "config.yaml", b"")
    put(ctx, "config-secret.yml", b"")
    ctx.desk.hidden = lambda path: "secret" in path
    words = refused(READ, ctx, file_path="config.yml")
    assert "config.yaml" in words
    assert "secret" not in words
    assert "directory does not exist either" in refused(READ, ctx, file_path="nowhere/x")


def test_links_are_followed_before_judging_only(ctx: ToolContext) -> None:
    put(ctx, "target", b"inside\n")
    link = ctx.desk.cwd / "link"
    link.symlink_to("target")
    assert "inside" in text(READ, ctx, file_path="link")
    assert list(ctx.desk.seen) == [str(ctx.desk.cwd / "target")]
    ctx.paths = {"link": str(link)}  # as if the gate had judged a file that has since become a link
    assert "link" in refused(READ, ctx, file_path="link")


def test_images_are_shown_as_images(ctx: ToolContext) -> None:
    put(ctx, "p.dat", PNG)
    outcome = use(READ, ctx, file_path="p.dat")
    assert outcome.content[-1] == Image("image/png", base64.b64encode(PNG).decode())
    put(ctx, "big.png", PNG + b"\0" * 4_000_000)
    assert "smaller copy" in refused(READ, ctx, file_path="big.png")


def pdf(*pages: str) -> bytes:
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]  # fmt: skip
    for n, words in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R"
                       " /Resources << /Font << /F1 3 0 R >> >> >>")  # fmt: skip
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, places = "%PDF-1.4\n", list[int]()
    for n, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{at:010} 00000 n \n" for at in places)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return f"{out}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{out.index('xref')}\n%%EOF\n".encode()


def test_the_text_of_a_pdf(ctx: ToolContext) -> None:
    path = put(ctx, "doc.pdf", pdf("Hello first", "Hello second", "Hello third"))
    assert text(READ, ctx, file_path="doc.pdf", offset=2, limit=1) == (
        "--- page 2 ---\nHello second\n[Pages 2-2 of 3; offset=3 shows more (offset and limit count pages)]"
    )
    assert str(path) in ctx.desk.seen
    assert "only 3 pages" in refused(READ, ctx, file_path="doc.pdf", offset=9)
    put(ctx, "broken.pdf", b"%PDF-1.7\nthis is no pdf")
    assert "could not be taken out" in refused(READ, ctx, file_path="broken.pdf")


def test_a_notebook_is_shown_by_cells(ctx: ToolContext) -> None:
    stream = {"output_type": "stream", "text": ["4\n", "\x1b[31m" + "x" * 9_000]}
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}}
    cells = [
        {"cell_type": "markdown", "id": "intro", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "2 + 2", "outputs": [stream, picture]},
    ]
    put(ctx, "n.ipynb", json.dumps({"cells": cells, "nbformat": 4}).encode())
    shown = text(READ, ctx, file_path="n.ipynb")
    assert shown.startswith(
        "--- cell 1 · markdown · id intro ---\n# Title\nwords\n--- cell 2 · code · id cell-1 ---\n2 + 2\n"
    )
    assert "\\x1b[31m" in shown
    assert "<Figure>\n[image/png is not shown]" in shown
    assert len(shown) < 3_000
    put(ctx, "broken.ipynb", b'{"cells": [')
    assert text(READ, ctx, file_path="broken.ipynb") == '     1\t{"cells": ['
