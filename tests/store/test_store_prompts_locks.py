"""Prompts stored by content, and locks that end with their holder."""

import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.core.data.message import ToolSpec
from teamwright.core.errors import StoreError
from teamwright.osfiles.locks import hold
from teamwright.store.files import prompts

SYSTEM = ("You are …", 'second "part"\n')
TOOLS = (
    ToolSpec("Read", "Reads.", {"type": "object", "properties": {"z": {"type": "string"}, "a": {}}}, parallel=True),
    ToolSpec("Bash", "Runs.", {"type": "object"}),
)
HOLD = """
import sys
from pathlib import Path
from teamwright.osfiles.locks import hold
lock = hold(Path(sys.argv[1]))
print("held" if lock else "taken", flush=True)
sys.stdin.read()
"""


def test_a_prompt_comes_back_as_it_was_also_in_the_order_of_its_keys(tmp_path: Path) -> None:
    hash = prompts.put(tmp_path / "prompts", SYSTEM, TOOLS)
    system, tools = prompts.get(tmp_path / "prompts", hash)
    assert (system, tools) == (SYSTEM, TOOLS)
    assert list(tools[0].schema["properties"]) == ["z", "a"]


def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    first = prompts.put(tmp_path, SYSTEM, TOOLS)
    inode = (tmp_path / first).stat().st_ino
    assert prompts.put(tmp_path, SYSTEM, TOOLS) == first
    assert prompts.put(tmp_path, SYSTEM, TOOLS[:1]) != first
    assert (tmp_path / first).stat().st_ino == inode


def test_a_prompt_that_was_changed_on_disk_is_refused(tmp_path: Path) -> None:
    hash = prompts.put(tmp_path, SYSTEM, TOOLS)
    (tmp_path / hash).write_bytes((tmp_path / hash).read_bytes().replace(b"second", b"SECOND"))
    with pytest.raises(StoreError, match="damaged"):
        prompts.get(tmp_path, hash)


@pytest.mark.parametrize("name", ["../x", "", "A" * 32, "f" * 32])
def test_a_prompt_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        prompts.get(tmp_path, name)


def test_a_lock_has_one_holder_also_within_a_process(tmp_path: Path) -> None:
    path = tmp_path / "run" / "x.lock"
    lock = hold(path)
    assert lock is not None
    assert hold(path) is None
    lock.release()
    lock.release()
    again = hold(path, wait=1)
    assert again is not None
    again.release()
    assert path.exists()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert hold(path) is None
        other.kill()
        other.wait(10)
    lock = hold(path)
    assert lock is not None
    lock.release()


def test_a_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    lock = hold(tmp_path / "x.lock")
    assert lock is not None
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.release()
        again = hold(tmp_path / "x.lock")
        child.kill()
    assert again is not None
    again.release()
