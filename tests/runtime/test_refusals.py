"""What a command prints never ends the turn, whatever paths it names."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teamwright.core.sandbox.policy import Policy
from teamwright.runtime.sandbox.refusals import Refusals, refused_paths

pytestmark = pytest.mark.spec("V15")
POLICY = Policy((("/", "read"), ("/proc", "none"), ("/work", "write")))
ODD = st.sampled_from(["/", "~/", "./", "../", "\0", "\ud800", "\udcff", "\u202e", "x" * 5000, "'", ":", " "])
PATHS = st.lists(ODD | st.text(max_size=8) | st.sampled_from(["proc", "self", "root", "fd", "1"]), max_size=8)
WHY = st.sampled_from(["Permission denied", "No such file or directory", "Read-only file system"])


def told(printed: str, cwd: str = "/work") -> Refusals:
    found = Refusals("bwrap", refused_paths(printed, POLICY, cwd, "/home/x"))
    msgspec.json.encode(found.data())
    found.words("default").encode()
    return found


@given(PATHS.map("".join), WHY, st.booleans(), st.sampled_from(["/work", "/nowhere/\udcff", "/proc/self/fd"]))
@example("/proc/1/root", "Permission denied", True, "/work")
@example("/a\0b", "Permission denied", True, "/work")
def test_no_printed_path_raises(path: str, why: str, before: bool, cwd: str) -> None:
    told(f"cat: {path}: {why}\n" if before else f"[Errno 13] {why}: '{path}'\n", cwd)


@pytest.fixture
def unreadable_link() -> Iterator[str]:
    """A link that is there and cannot be read, by root either: the program of a process that has ended."""
    process = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield f"/proc/{process.pid}/exe"
    finally:
        process.wait()


@pytest.mark.skipif(not Path("/proc/self/exe").exists(), reason="no /proc")
def test_a_link_that_cannot_be_followed_is_told_as_it_was_printed(unreadable_link: str) -> None:
    (refused,) = told(f"ls: {unreadable_link}/x: Permission denied").denied
    assert (refused.kind, refused.path) == ("read", f"{unreadable_link}/x")


def test_coreutils_say_what_for() -> None:
    (refused,) = told("tail: cannot open '/proc/x' for reading: No such file or directory").denied
    assert (refused.kind, refused.path) == ("read", "/proc/x")


def test_a_name_that_is_no_text_is_told_as_text(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to(os.fsdecode(b"/nowhere/\xff"))
    (refused,) = told(f"sh: {tmp_path}/l: Permission denied").denied
    assert refused.path == "/nowhere/?"
    msgspec.json.encode(Refusals("bwrap", undone=("/work/\udcff",)).data())
