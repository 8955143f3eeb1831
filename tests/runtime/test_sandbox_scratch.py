"""Temporary directories of boxes: one for each root, even with concurrent threads; nothing stays behind."""

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from teamwright.runtime.sandbox.scratch import PREFIX, Scratch

pytestmark = pytest.mark.spec("V20")


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    made = Scratch()
    yield made
    made.close()


def test_threads_that_come_together_get_one_place_for_a_root(scratch: Scratch) -> None:
    together = Barrier(8)

    def ask(number: int) -> str:
        together.wait(10)
        return scratch.of(f"/root{number % 2}")

    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(ask, range(8)))
    assert len(set(places)) == 2 and len({Path(place).parent for place in places}) == 1
    scratch.close()
    assert not any(Path(place).exists() for place in places)


def test_what_a_killed_process_left_is_swept_and_what_lives_is_not(scratch: Scratch) -> None:
    left = Path(tempfile.mkdtemp(prefix=PREFIX))
    (left / "lock").touch()
    living = scratch.of("/root")
    other = Scratch()
    try:
        other.of("/root")
        assert not left.exists() and Path(living).exists()
    finally:
        other.close()


def test_a_directory_that_is_not_ours_is_left_alone(scratch: Scratch) -> None:
    strange = Path(tempfile.mkdtemp(prefix=PREFIX))  # without a lock
    try:
        scratch.of("/root")
        assert strange.exists()
    finally:
        strange.rmdir()


def test_a_lock_that_cannot_be_opened_is_passed_over(scratch: Scratch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    strange = Path(tempfile.mkdtemp(prefix=PREFIX))
    (strange / "lock").symlink_to(tmp_path / "elsewhere")
    try:
        assert Path(scratch.of("/root")).is_dir() and strange.exists()
    finally:
        shutil.rmtree(strange)


def test_processes_that_begin_together_do_not_sweep_each_other(tmp_path: Path) -> None:
    """Each sweeps while others are between making a directory and locking it."""

    def begin(_: int) -> bool:
        one = Scratch()
        place = Path(one.of("/root"))
        stood = place.exists()
        one.close()
        return stood and not place.exists()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(begin, range(120)))
