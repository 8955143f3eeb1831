"""Output styles: found by name; the nearest one wins."""

from pathlib import Path

import pytest

from teamwright.library.claude.output_styles import MOST_CHARACTERS, OutputStyle, StyleFault, find_style


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.spec("BR4")
def test_a_style_is_found_by_the_name_in_it_or_of_its_file(tmp_path: Path) -> None:
    write(tmp_path / "far/pirate.md", "---\nname: Sea Dog\ndescription: d\n---\n\nTalk like one.\n")
    write(tmp_path / "near/pirate.md", "---\nkeep-coding-instructions: true\n---\nNearer.")
    assert find_style("sea dog", [tmp_path / "far"]) == OutputStyle("Sea Dog", "Talk like one.", keeps=False)
    folders = [tmp_path / "near", tmp_path / "far"]
    assert find_style("Pirate", folders) == OutputStyle("pirate", "Nearer.", keeps=True)
    write(tmp_path / "near/learning.md", "My own.")
    assert find_style("Learning", folders) == OutputStyle("learning", "My own.", keeps=False)


@pytest.mark.spec("BR4")
def test_names_that_need_no_file(tmp_path: Path) -> None:
    for name in ("Explanatory", "Learning"):
        style = find_style(name, [tmp_path])
        assert style is not None and style.keeps and len(style.text) < 600
    assert find_style("default", [tmp_path]) is None and find_style(" ", [tmp_path]) is None


@pytest.mark.spec("BR4")
def test_a_style_that_is_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path / "pirate.md", "x")
    with pytest.raises(StyleFault, match="no style `pirat`, did you mean pirate"):
        find_style("pirat", [tmp_path])
    write(tmp_path / "broken.md", "---\nname: x")
    with pytest.raises(StyleFault, match=r"broken\.md, line 1"):
        find_style("pirat", [tmp_path])


def test_a_style_is_bounded(tmp_path: Path) -> None:
    write(tmp_path / "long.md", "x" * 1_000_000)
    style = find_style("long", [tmp_path])
    assert style is not None and len(style.text) == MOST_CHARACTERS
