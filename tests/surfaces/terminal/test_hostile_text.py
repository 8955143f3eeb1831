"""Untrusted words on the screen: nothing in them moves the cursor, is hidden, or becomes markup."""

import time
import unicodedata

import pytest
from rich.segment import Segment

from teamwright.core.ids import AgentId, CallId
from teamwright.surfaces.terminal.render.cells import fit
from teamwright.surfaces.terminal.render.drawing import DrawnBlock
from teamwright.surfaces.terminal.render.markdown import MarkdownPieces, split
from teamwright.surfaces.terminal.render.themes import DARK, NONE, PALETTES
from teamwright.surfaces.view.letters import MOST_RESULT
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Thought
from teamwright.surfaces.view.talk import bounded_args
from teamwright.surfaces.view.text import one_line, safe, title
from teamwright.surfaces.view.view import SessionFold
from teamwright.tools.bounds import bounded

HOSTILE = {
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;pwned\x07",
    "clipboard": "\x1b]52;c;aGk=\x07",
    "link": "\x1b]8;;http://x\x1b\\",
    "c1": "\x9b2J",
    "bidi": "a\u202eb\u2066c",
    "zero width": "a\u200bb\u2060c\ufeffd",
    "tags": "a\U000e0041b",
    "del": "a\x7fb",
    "return": "rm -rf /\rls",
    "backspace": "abc\b\b\bxyz",
    "surrogate": "a\udc1bb",
    "vertical": "a\x0bb\x0cc",
    "line sep": "a\u2028b",
    "entity": "&#x1b;[31m &#8238; &ZeroWidthSpace;",
    "markup": "[bold]x[/bold] [@click=app.quit]y[/]",
}


def drawn(item: Item, palette: str = "dark", width: int = 80) -> list[Segment]:
    block = DrawnBlock(item)
    view = SessionFold(AgentId("main"))
    found: list[Segment] = []
    for opened in (False, True):
        block.opened = opened
        block.update(width, PALETTES[palette], view, everything=False, now=0)
        found += [segment for line in block.lines for segment in line]
    return found


def everywhere(text: str) -> list[Item]:
    return [
        Spoken("person", text),
        Spoken("agent", text),
        Spoken("agent", f"```\n{text}\n```\n- {text}\n\n| a |\n|---|\n| {text} |\n\n# {text}"),
        Thought(text),
        Note("message", text, text),
        Note("error", text),
        Note("output", text),
        Step(CallId("c"), text, title("Bash", {"command": text}), {"command": text}, "error", text),
        Step(
            CallId("c"),
            "Edit",
            text[:5],
            {"file_path": text, "old_string": text, "new_string": text + text},
            "ok",
            text,
        ),
        Step(CallId("c"), "Bash", title("Bash", {"command": text}), {"command": text, text: text}, progress=text),
    ]


@pytest.mark.spec("A12")
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("palette", ["dark", "none"])
def test_no_item_brings_a_hidden_character_to_the_screen(name: str, palette: str) -> None:
    for item in everywhere(HOSTILE[name]):
        for segment in drawn(item, palette):
            assert not segment.control
            assert segment.style is None or not segment.style.link
            for letter in segment.text:
                kind = unicodedata.category(letter)
                assert kind not in ("Cc", "Cf", "Cs", "Zl", "Zp"), (item, segment)


@pytest.mark.spec("A12")
def test_what_is_hostile_can_be_seen() -> None:
    shown = "".join(s.text for s in drawn(Step(CallId("c"), "Bash", "x", {"command": "ls \x1b[2K\u202e; rm x"}, "ok")))
    assert "\\x1b[2K\\u202e; rm x" in shown


@pytest.mark.spec("A12")
def test_markdown_hides_nothing() -> None:
    text = "a <script>b</script> <!-- c --> ![d](http://e) [f](http://g 'h') &#8238; [x]: http://hidden"
    shown = "".join(segment.text for line in MarkdownPieces().draw(text, 200, DARK) for segment in line)
    for part in ("<script>", "</script>", "<!-- c -->", "http://e", "http://g", "&#8238;", "http://hidden"):
        assert part in shown


@pytest.mark.spec("A12")
def test_a_definition_of_a_link_is_not_swallowed() -> None:
    shown = "".join(
        s.text for line in MarkdownPieces().draw("see\n\n[x]: http://hidden 'title'", 80, DARK) for s in line
    )
    assert "http://hidden" in shown


@pytest.mark.spec("A12")
@pytest.mark.parametrize("line", ["x" * 1_000_000, "字" * 1_000_000, "\x1b" * 1_000_000, "a " * 500_000])
def test_a_line_of_a_million_characters_is_bounded_and_quick(line: str) -> None:
    began = time.process_time()
    for item in everywhere(line):
        if isinstance(item, Step):  # as the fold makes them
            item.tool, item.args, item.result = "Bash", bounded_args(item.args), bounded(item.result, most=MOST_RESULT)
            item.title, item.progress = one_line(line), item.progress[-MOST_RESULT:]
        assert sum(len(segment.text) for segment in drawn(item)) < 2_000_000
    assert time.process_time() - began < 40  # seconds, on a busy machine
    assert len(safe(line)) < 500_000 and "left out" in safe(line)


@pytest.mark.parametrize(
    ("text", "cells", "fitted"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("字字字", 5, "字字…"),
        ("字字字", 4, "字…"),
        ("abc", 0, ""),
        ("é", 1, "é"),
    ],
)
def test_fit_counts_cells(text: str, cells: int, fitted: str) -> None:
    assert fit(text, cells) == fitted


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    view = SessionFold(AgentId("main"))
    for text in ("word " * 100, "字" * 300, "x" * 500, "| a | b |\n|---|---|\n| " + "c" * 300 + " | d |"):
        for item in everywhere(text):
            block = DrawnBlock(item)
            block.opened = True
            for palette in (DARK, NONE):
                block.update(width, palette, view, everything=False, now=0)
                assert all(line.cell_length <= width for line in block.lines), (item, width)


def test_pieces_are_cut_only_outside_of_code() -> None:
    text = "intro " * 120 + "\n\n```\n" + "code\n\n" * 300 + "```\n\n" + "end " * 200 + "\n\nlast"
    pieces = split(text)
    assert len(pieces) > 2 and "\n\n".join(pieces) == text
    assert all(piece.count("```") % 2 == 0 for piece in pieces)


def test_growing_text_draws_only_its_last_piece_anew() -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "word " * 100 for n in range(200))
    pieces = MarkdownPieces()
    before = pieces.draw(text, 80, DARK)
    after = pieces.draw(text + " more", 80, DARK)
    anew = {id(line) for line in after if line.text} - {id(line) for line in before}
    assert len(after) > 1_000 and 0 < len(anew) < 30
