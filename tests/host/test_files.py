"""A file is replaced whole or not at all, and keeps what is not its content."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.files.read_write import look, read_whole, write_whole


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.spec("A4")
@pytest.mark.parametrize("mode", [0o640, 0o755, 0o600])
def test_the_mode_stays(tmp: Path, mode: int) -> None:
    file = tmp / "f"
    file.write_text("old")
    file.chmod(mode)
    write_whole(file, b"new", basis=look(file))
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert names(tmp) == ["f"]


def test_a_new_file_obeys_the_umask(tmp: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp / "d/f", b"", basis=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp / "d/f").stat().st_mode) == 0o640
    assert names(tmp / "d") == ["f"]


@pytest.mark.spec("A4")
def test_hard_links_stay_linked(tmp: Path) -> None:
    (tmp / "f").write_text("old content, longer than the new one")
    (tmp / "g").hardlink_to(tmp / "f")
    seen = write_whole(tmp / "f", b"new", basis=look(tmp / "f"))
    assert (tmp / "g").read_bytes() == b"new"
    assert (tmp / "f").stat().st_nlink == 2
    assert (seen.size, seen.mtime_ns) == (3, (tmp / "f").stat().st_mtime_ns)


def test_extended_attributes_stay(tmp: Path) -> None:
    (tmp / "f").write_text("old")
    try:
        os.setxattr(tmp / "f", "user.note", b"kept")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes here")
    write_whole(tmp / "f", b"new", basis=look(tmp / "f"))
    assert os.getxattr(tmp / "f", "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp: Path) -> None:
    (tmp / "f").write_text("old")
    os.chown(tmp / "f", 12345, 12345)
    write_whole(tmp / "f", b"new", basis=look(tmp / "f"))
    assert ((tmp / "f").stat().st_uid, (tmp / "f").read_bytes()) == (12345, b"new")


@pytest.mark.spec("A4")
@pytest.mark.parametrize("links", [1, 2])
def test_what_changed_meanwhile_is_not_overwritten(tmp: Path, links: int) -> None:
    file = tmp / "f"
    file.write_text("old")
    if links == 2:
        (tmp / "g").hardlink_to(file)
    basis = look(file)
    file.write_text("theirs")
    with pytest.raises(ToolError, match="changed by somebody"):
        write_whole(file, b"mine", basis=basis)
    assert file.read_text() == "theirs"
    assert not [name for name in names(tmp) if name.startswith(".")]


def test_a_file_made_meanwhile_is_not_covered(tmp: Path) -> None:
    (tmp / "f").write_text("theirs")
    with pytest.raises(ToolError, match="just now"):
        write_whole(tmp / "f", b"mine", basis=None)
    assert (tmp / "f").read_text() == "theirs"
    assert names(tmp) == ["f"]


def test_a_reader_never_sees_half_a_file(tmp: Path) -> None:
    (tmp / "f").write_bytes(b"a" * 100_000)
    with (tmp / "f").open("rb") as reader:
        write_whole(tmp / "f", b"b" * 200_000, basis=look(tmp / "f"))
        assert reader.read() == b"a" * 100_000


WRITE_PAST_LIMIT = """
import resource, sys
from pathlib import Path
from teamwright.core.errors import ToolError
from teamwright.host.files.read_write import look, write_whole
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_whole(path, b"n" * 100_000, basis=look(path))
except ToolError as error:
    print(error)
"""


@pytest.mark.spec("A4")
@pytest.mark.parametrize("links", [1, 2])
def test_where_no_more_can_be_written_the_old_content_stays(tmp: Path, links: int) -> None:
    (tmp / "f").write_bytes(b"old" * 1000)
    if links == 2:
        (tmp / "g").hardlink_to(tmp / "f")
    argv = [sys.executable, "-c", WRITE_PAST_LIMIT, str(tmp / "f")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20)
    assert "was not changed" in done.stdout, done.stderr
    assert (tmp / "f").read_bytes() == b"old" * 1000
    assert names(tmp) == ["f", "g"][:links]


@pytest.mark.spec("A4")
@pytest.mark.parametrize("links", [1, 2])
def test_a_full_disk_leaves_the_old_content(tmp: Path, links: int) -> None:
    argv = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp)]
    if not shutil.which("mount") or subprocess.run(argv, check=False, capture_output=True).returncode:
        pytest.skip("may not mount here")
    try:
        (tmp / "f").write_bytes(b"old" * 1000)
        if links == 2:
            (tmp / "g").hardlink_to(tmp / "f")
        with pytest.raises(ToolError, match="not changed: no space"):
            write_whole(tmp / "f", b"n" * 100_000, basis=look(tmp / "f"))
        assert (tmp / "f").read_bytes() == b"old" * 1000
        assert names(tmp) == ["f", "g"][:links]
    finally:
        subprocess.run(["umount", str(tmp)], check=True)


def test_a_whole_file_is_read_within_a_limit(tmp: Path) -> None:
    (tmp / "f").write_bytes(b"12345")
    assert read_whole(tmp / "f", 5)[0] == b"12345"
    with pytest.raises(ToolError, match="5 bytes"):
        read_whole(tmp / "f", 4)
