"""Paths are resolved as the kernel does, and opened exactly as they were judged."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.core.errors import ToolError
from teamwright.host.files.paths import (
    _openat2,
    _walk,
    beneath,
    has_openat2,
    is_directory,
    open_directory,
    open_judged,
    resolve,
)

WAYS = [_walk, *([_openat2()] if has_openat2() else [])]


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.mark.spec("M8")
def test_resolve_follows_what_exists_and_keeps_the_rest(tmp: Path) -> None:
    (tmp / "real/deep").mkdir(parents=True)
    (tmp / "link").symlink_to("real/deep")
    (tmp / "dangling").symlink_to("real/not-yet.txt")
    assert resolve("link/../x", tmp) == tmp / "real/x"  # the kernel's `..`, not the text's
    assert resolve("link/new/file", tmp) == tmp / "real/deep/new/file"
    assert resolve("dangling", tmp) == tmp / "real/not-yet.txt"
    assert resolve("./real//deep/.", tmp) == tmp / "real/deep"
    assert resolve("/..", tmp) == Path("/")
    assert resolve("~", tmp) == Path(os.path.realpath(Path.home()))


NOWHERE = [("loop", "loop"), ("loop/x", "loop"), ("a\0b", "NUL"), ("", "empty"), ("\ud800", "text"), ("odd", "text")]


@pytest.mark.parametrize(("path", "words"), NOWHERE)
def test_resolve_refuses_what_leads_nowhere(tmp: Path, path: str, words: str) -> None:
    (tmp / "loop").symlink_to("pool")
    (tmp / "pool").symlink_to("loop")
    (tmp / "odd").symlink_to(os.fsdecode(b"\xff\xfe"))
    with pytest.raises(ToolError, match=words):
        resolve(path, tmp)


LONG = [("chain", "too many symbolic links"), ("n" * 300, "longer than"), ("d/" * 3_000 + "x", "longer than")]


@pytest.mark.spec("M8")
@pytest.mark.parametrize(("path", "words"), LONG)
def test_a_path_that_the_system_cannot_follow_is_refused_in_words(tmp: Path, path: str, words: str) -> None:
    (tmp / "link0").write_text("x")
    for number in range(2_000):
        (tmp / f"link{number + 1}").symlink_to(f"link{number}")
    (tmp / "chain").symlink_to("link2000")
    with pytest.raises(ToolError, match=words):
        resolve(path, tmp)


@pytest.mark.spec("M8")
def test_a_link_that_is_swapped_while_it_is_followed_is_never_another_error(tmp: Path) -> None:
    (tmp / "other").mkdir()
    swaps = """if 1:
        import os
        while True:
            os.symlink("other", "n"); os.rename("n", "spot"); open("n", "w").close(); os.rename("n", "spot")
        """
    swapper = subprocess.Popen([sys.executable, "-c", swaps], cwd=tmp)
    refused, end = 0, time.monotonic() + 20
    try:
        while not refused and time.monotonic() < end:
            try:
                resolve("spot/x", tmp)
            except ToolError as error:
                refused += "could not be resolved" in str(error)
    finally:
        swapper.kill()
        swapper.wait()
    assert refused or sys.version_info >= (3, 13)  # newer Pythons look at such a path anew


@pytest.mark.spec("A5")
def test_directories_are_made_however_deep(tmp: Path) -> None:
    deep = tmp.joinpath(*["d"] * 1_500)
    os.close(open_directory(deep, create=True))
    assert is_directory(deep) and not is_directory(tmp / ("n" * 300))
    subprocess.run(["rm", "-r", tmp / "d"], check=True)  # deeper than Python itself can remove


def test_beneath_compares_whole_names(tmp: Path) -> None:
    assert beneath(tmp / "a/b", [tmp / "x", tmp / "a"])
    assert beneath(tmp, [tmp])
    assert not beneath(tmp / "ab", [tmp / "a"])


@pytest.mark.spec("A5")
def test_only_regular_files_are_opened_and_nothing_hangs(tmp: Path) -> None:
    os.mkfifo(tmp / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp / "s"))
        kinds = {tmp / "fifo": "FIFO", tmp / "s": "socket", Path("/dev/zero"): "device", tmp: "directory"}
        for path, kind in (kinds | {Path("/"): "directory"}).items():
            for flags in (os.O_RDONLY, os.O_WRONLY):
                with pytest.raises(ToolError, match=kind):
                    open_judged(path, flags)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_files_of_the_kernel_are_refused() -> None:
    for name in ("/proc/self/environ", "/proc/self/mem", "/proc/cpuinfo"):
        with pytest.raises(ToolError, match="kernel"):
            open_judged(resolve(name, Path("/")))


def test_a_missing_file_is_the_callers_business(tmp: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_judged(tmp / "none")
    with pytest.raises(FileNotFoundError):
        open_judged(tmp / "none/none")


@pytest.mark.spec("A5", "M8")
def test_a_path_swapped_for_a_link_after_judging_is_not_followed(tmp: Path) -> None:
    (tmp / "in").mkdir()
    (tmp / "out").mkdir()
    for place in ("in", "out"):
        (tmp / place / "f").write_text(place)
    judged = resolve("in/f", tmp)
    os.close(open_judged(judged))
    (tmp / "in/f").unlink()
    (tmp / "in/f").symlink_to("../out/f")
    with pytest.raises(ToolError, match="link"):
        open_judged(judged)
    (tmp / "in").rename(tmp / "moved")
    (tmp / "in").symlink_to("out")
    with pytest.raises(ToolError, match="link"):
        open_judged(judged)
    with pytest.raises(ToolError, match="link"):
        open_directory(tmp / "in/new", create=True)
    assert not (tmp / "out/new").exists()


@pytest.mark.parametrize("way", WAYS)
def test_both_ways_of_opening_a_directory_refuse_links(tmp: Path, way: Callable[[Path], int]) -> None:
    (tmp / "d/e").mkdir(parents=True)
    (tmp / "link").symlink_to("d")
    (tmp / "f").touch()
    handle = way(tmp / "d/e")
    assert os.fstat(handle).st_ino == (tmp / "d/e").stat().st_ino
    os.close(handle)
    for wrong in ("link/e", "link", "f", "none"):
        before = len(list(Path("/dev/fd").iterdir()))
        with pytest.raises(OSError, match=r"link|directory"):
            way(tmp / wrong)
        assert len(list(Path("/dev/fd").iterdir())) == before


def test_missing_directories_are_made(tmp: Path) -> None:
    handle = open_directory(tmp / "a/b/c", create=True)
    assert os.fstat(handle).st_ino == (tmp / "a/b/c").stat().st_ino
    os.close(handle)
    (tmp / "file").touch()
    with pytest.raises(ToolError, match="not a directory"):
        open_directory(tmp / "file/x", create=True)
