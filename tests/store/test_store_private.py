"""Private files: modes whatever the umask, atomic replacement, clear errors when the disk fails."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright.core.errors import StoreError
from teamwright.osfiles.private import fault, make_dir, open_file, write_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o777])
def any_umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.spec("O2")
def test_directories_and_files_are_private_under_any_umask(tmp_path: Path, any_umask: int) -> None:
    made = make_dir(tmp_path / "a" / "b" / "c")
    write_file(made / "f", b"x")
    os.close(open_file(made / "g", os.O_WRONLY | os.O_CREAT))

    assert [mode(p) for p in (tmp_path / "a", tmp_path / "a" / "b", made)] == [0o700] * 3
    assert [mode(made / "f"), mode(made / "g")] == [0o600] * 2


def test_a_file_with_loose_bits_is_tightened_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x")
    path.chmod(0o644)
    os.close(open_file(path, os.O_RDONLY))
    assert mode(path) == 0o600


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(0o755)
    make_dir(tmp_path / "mine" / "inner")
    assert mode(tmp_path / "mine") == 0o755


def test_a_replaced_file_is_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_file(path, b"old")
    write_file(path, b"new" * 1000)
    assert path.read_bytes() == b"new" * 1000
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_link_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("keep")
    (tmp_path / "f").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="Cannot open"):
        open_file(tmp_path / "f", os.O_WRONLY | os.O_TRUNC)
    assert (tmp_path / "elsewhere").read_text() == "keep"


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(StoreError, match=r"/a is in the way"):
        make_dir(tmp_path / "a" / "b")


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    fd = open_file(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
    try:
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_said_as_such(code: int) -> None:
    assert str(fault("write", Path("/x"), OSError(code, os.strerror(code)))).startswith(
        "The disk is full: cannot write /x"
    )


def test_another_failure_names_its_cause() -> None:
    words = str(fault("write", Path("/x"), OSError(errno.EIO, os.strerror(errno.EIO))))
    assert words.startswith("Cannot write /x: Input/output error.")
