"""The bell between processes: each ring is heard once, by its owner only, and leaves nothing behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from teamwright.core.errors import StoreError
from teamwright.host.ipc.wakeup import open_bell, ring

pytestmark = pytest.mark.anyio

LISTEN = """
import os, sys, anyio
from teamwright.host.ipc.wakeup import open_bell

async def main():
    bell = open_bell(os.environ)
    print(bell.address, flush=True)
    await bell.wait()
    print("heard", flush=True)
    await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path, because socket paths have a limit."""
    with TemporaryDirectory() as found:
        yield Path(found)


@pytest.fixture
def env(place: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(place)}


@pytest.mark.spec("X5")
async def test_many_rings_are_heard_once_and_the_socket_is_private(env: dict[str, str], place: Path) -> None:
    bell = open_bell(env)
    assert Path(bell.address).parent == place / "teamwright" and len(bell.address) < 107
    assert (place / "teamwright").stat().st_mode & 0o777 == 0o700
    assert Path(bell.address).stat().st_mode & 0o777 == 0o600
    assert {ring(bell.address) for _ in range(2000)} == {"rung"}  # more rings than the queue holds, and none blocks
    with anyio.fail_after(10):
        await bell.wait()
    with anyio.move_on_after(0.02) as scope:
        await bell.wait()
    assert scope.cancelled_caught
    bell.close()
    assert list((place / "teamwright").iterdir()) == [] and ring(bell.address) == "gone"


@pytest.mark.spec("X5")
async def test_another_process_hears_it_and_after_its_kill_it_is_gone_and_swept(env: dict[str, str]) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", LISTEN], env=os.environ | env, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert other.stdout is not None
    address = other.stdout.readline().strip()
    mine = open_bell(env)
    assert Path(address).exists()  # sweeping removes only bells that nobody listens to
    assert ring(address) == "rung" and other.stdout.readline() == "heard\n"
    other.kill()
    other.communicate(timeout=30)
    assert Path(address).exists() and ring(address) == "gone"
    again = open_bell(env)
    assert not Path(address).exists() and ring(mine.address) == "rung"
    mine.close()
    again.close()


@pytest.mark.parametrize("address", ["", "/nowhere/x.bell", "x" * 500, "/etc/passwd", "a\x00b"])
async def test_an_address_that_nobody_has_is_gone(address: str) -> None:
    assert ring(address) == "gone"


async def test_a_place_that_others_could_enter_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "teamwright").mkdir(mode=0o777)
    (tmp_path / "open" / "teamwright").chmod(0o777)
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "teamwright").symlink_to(tmp_path / "target")
    for name in ("open", "linked", "missing", "x" * 120):
        bell = open_bell({"XDG_RUNTIME_DIR": str(tmp_path / name)})
        folder = Path(bell.address).parent
        assert not folder.is_relative_to(tmp_path) and folder.stat().st_mode & 0o777 == 0o700
        assert len(os.fsencode(bell.address)) <= 107
        bell.close()
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_socket_that_cannot_be_made_is_a_clear_error(env: dict[str, str], place: Path) -> None:
    (place / "teamwright").mkdir(mode=0o500)
    with pytest.raises(StoreError, match="Cannot listen at"):
        open_bell(env)


async def test_ringing_leaves_no_socket_open(env: dict[str, str]) -> None:
    bell = open_bell(env)
    handles = Path("/dev/fd")
    before = len(list(handles.iterdir()))
    for _ in range(100):
        ring(bell.address)
    assert len(list(handles.iterdir())) == before
    bell.close()
