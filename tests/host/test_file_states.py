"""States of single files: read without waiting, restored in one step, refused if that would do harm."""

import os
from pathlib import Path

import pytest

from teamwright.host.files.snapshot import FileState, NotRestored, count_lines, look_at, put_back

pytestmark = pytest.mark.spec("RW4")
MOST = 1_000


def back(path: Path, then: FileState) -> None:
    put_back(path, then, look_at(str(path), MOST).mark, MOST)


def test_every_kind_of_thing_is_told_from_the_others(tmp_path: Path) -> None:
    file, link, folder, pipe, big = (tmp_path / name for name in ("file", "link", "folder", "pipe", "big"))
    file.write_bytes(b"x")
    link.symlink_to("nowhere")
    folder.mkdir()
    os.mkfifo(pipe)
    big.write_bytes(b"x" * (MOST + 1))
    found = {path.name: look_at(str(path), MOST) for path in (file, link, folder, pipe, big, tmp_path / "none")}
    assert {name: state.kind for name, state in found.items()} == {
        "file": "file", "link": "link", "folder": "folder", "pipe": "lost", "big": "lost", "none": "absent",
    }  # fmt: skip
    assert look_at(str(file / "below"), MOST).kind == "absent" and "1,001 bytes" in found["big"].why
    file.chmod(0o755)
    assert look_at(str(file), MOST).mark not in {state.mark for state in found.values()}


def test_modes_links_and_other_names_stay(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"new")
    os.link(file, other)
    back(file, FileState("file", b"old", 0o750))
    assert other.read_bytes() == b"old" and file.stat().st_mode & 0o777 == 0o750 and file.samefile(other)
    back(file, FileState("link", link="other"))
    assert file.readlink() == Path("other")
    back(file, FileState("file", b"again", 0o600))
    assert not file.is_symlink() and file.read_bytes() == b"again" and other.read_bytes() == b"old"
    back(file, FileState("absent"))
    assert not file.exists()


def test_what_came_meanwhile_is_not_gone_over(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"planned")
    mark = look_at(str(file), MOST).mark
    file.write_bytes(b"just now")
    for then in (FileState("file", b"old"), FileState("absent"), FileState("link", link="x")):
        with pytest.raises(NotRestored, match="changed just now"):
            put_back(file, then, mark, MOST)
    assert file.read_bytes() == b"just now"


def test_folders_in_the_way(tmp_path: Path) -> None:
    place, file = tmp_path / "place", FileState("file", b"old")
    (place / "empty" / "deep").mkdir(parents=True)
    back(place, file)
    assert place.read_bytes() == b"old"
    with pytest.raises(NotRestored, match="not a directory"):
        back(place / "below", file)
    place.unlink()
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "mine").write_bytes(b"x")
    with pytest.raises(NotRestored, match="a directory with files"):
        back(place, file)
    assert (place / "deep" / "mine").exists()


def test_no_link_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to("elsewhere")
    with pytest.raises(NotRestored, match="symbolic link"):
        back(tmp_path / "folder" / "file", FileState("file", b"old"))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    with pytest.raises(NotRestored):
        back(tmp_path / ("x" * 300), FileState("link", link="y"))
    assert not list(tmp_path.iterdir())


def test_lines_are_counted_but_not_those_of_data() -> None:
    assert count_lines(FileState("file", b"a\nb\nb\n"), FileState("file", b"b\nc\n")) == (1, 2)
    assert count_lines(FileState("absent"), FileState("file", b"a\nb")) == (2, 0)
    assert count_lines(FileState("file", b"\0\n\n"), FileState("absent")) == (0, 0)
