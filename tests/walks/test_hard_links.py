"""A file with a second name may be anywhere: even where edits run unasked, editing one needs approval."""

import os
from pathlib import Path

import pytest

from conftest import Walker
from teamwright.core.data.message import ToolCall
from teamwright.models.scripted import call

pytestmark = pytest.mark.anyio


@pytest.fixture
def outside(walker: Walker) -> Path:
    file = walker.home / ".bashrc"
    file.write_text("mine\n")
    os.link(file, walker.project / "notes.txt")
    return file


@pytest.mark.spec("M2")
@pytest.mark.parametrize(
    "change",
    [
        call("Edit", file_path="notes.txt", old_string="mine", new_string="theirs"),
        call("Write", file_path="notes.txt", content="theirs\n"),
        call("Bash", command="cp evil notes.txt"),
        call("Bash", command="sed -i s/mine/theirs/ notes.txt"),
        call("Bash", command="echo theirs > notes.txt"),
    ],
)
async def test_a_change_through_a_hard_link_is_asked(walker: Walker, outside: Path, change: ToolCall):
    (walker.project / "evil").write_text("theirs\n")
    walk = await walker.walk([call("Read", file_path="notes.txt"), change, "end"], mode="acceptEdits")
    assert not walk.results[0][1]
    text, wrong = walk.results[1]
    assert wrong and ("hard link" in text or "no allow rule covers" in text)
    assert change.name == "Bash" or "hard link" in text
    assert outside.read_text() == "mine\n"


@pytest.mark.spec("M2")
async def test_a_file_with_one_name_is_not(walker: Walker):
    (walker.project / "notes.txt").write_text("mine\n")
    edit = call("Edit", file_path="notes.txt", old_string="mine", new_string="theirs")
    walk = await walker.walk([call("Read", file_path="notes.txt"), edit, "end"], mode="acceptEdits")
    assert not any(wrong for _, wrong in walk.results)
    assert (walker.project / "notes.txt").read_text() == "theirs\n"


@pytest.mark.spec("M8", "M11")
@pytest.mark.parametrize(
    "reading",
    [
        call("Read", file_path="src/twin"),
        call("Edit", file_path="src/twin", old_string="the", new_string="a"),
        call("Grep", pattern="KEY", path="src/twin", output_mode="content"),
        call("Bash", command="cat src/twin"),
        call("Monitor", command="cat src/twin", description="look"),
    ],
)
async def test_a_hard_link_of_a_file_that_may_not_be_read_is_not_read(walker: Walker, reading: ToolCall):
    (walker.project / "src").mkdir()
    (walker.project / ".env").write_text("KEY=the-key\n")
    os.link(walker.project / ".env", walker.project / "src/twin")
    walk = await walker.walk([reading, "end"], mode="bypassPermissions", disallowed_tools=["Read(.env)"])
    text, wrong = walk.results[0]
    assert wrong and "Read(.env)" in text and "the-key" not in text


@pytest.mark.spec("M8", "M11")
async def test_a_search_leaves_out_a_hard_link_of_a_file_that_may_not_be_read(walker: Walker):
    (walker.project / "src").mkdir()
    (walker.project / ".env").write_text("KEY=the-key\n")
    (walker.project / "a.txt").write_text("KEY=none\n")
    os.link(walker.project / ".env", walker.project / "src/twin")
    os.link(walker.project / "a.txt", walker.project / "src/b.txt")
    search = [call("Grep", pattern="KEY", output_mode=mode) for mode in ("content", "files_with_matches", "count")]
    walk = await walker.walk([*search, "end"], mode="bypassPermissions", disallowed_tools=["Read(.env)"])
    for text, wrong in walk.results:
        assert not wrong and "src/b.txt" in text and "twin" not in text and "the-key" not in text
    walk = await walker.walk([search[0], "end"], mode="bypassPermissions")
    assert "the-key" in walk.results[0][0]
