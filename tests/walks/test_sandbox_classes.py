"""A command's directory opens nothing to the next command, and what others do meanwhile makes none fail."""

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_kit import TIERS, data, need, outside, run, use

from conftest import Walker

pytestmark = pytest.mark.anyio


@pytest.mark.spec("V17")
@pytest.mark.parametrize("tier", TIERS)
async def test_where_a_command_went_is_no_root(walker: Walker, tier: str) -> None:
    use(walker, need(tier))
    place = outside(walker).parent
    (walker.project / "link").symlink_to(place)
    steps: list[Any] = [
        run(f"cd {place}; pwd > /dev/null"),
        run("echo x > planted; echo x > ./planted; touch planted"),
        run(f"cd {walker.project}/link && echo x > planted"),
        run(f"cd {walker.project}; echo inside > inside"),
    ]
    await walker.walk([*steps, "end"], sandbox=True)
    assert not outside(walker).exists() and (walker.project / "inside").read_text() == "inside\n"


@pytest.mark.spec("V2", "V10")
async def test_sockets_of_others_that_come_and_go_fail_no_command(walker: Walker) -> None:
    use(walker, need("bwrap"))
    many = 20
    with churning_sockets():
        steps: list[Any] = [run(f"echo {n} >> ran; echo ran {n}") for n in range(many)]
        walk = await walker.walk([*steps, "end"], sandbox=True)
    assert [one["exitCode"] for one in data(walk)] == [0] * many
    assert (walker.project / "ran").read_text().split() == [str(n) for n in range(many)]


@contextlib.contextmanager
def churning_sockets() -> Iterator[None]:
    """Sockets that each live for about two boxes."""
    where = next(one for one in ("/srv", str(Path.home())) if os.access(one, os.W_OK))  # not hidden itself
    stop = threading.Event()
    with tempfile.TemporaryDirectory(dir=where) as place:

        def churn() -> None:
            number = 0
            while not stop.is_set():
                path = f"{place}/s{(number := number + 1)}"
                with socket.socket(socket.AF_UNIX) as made:
                    made.bind(path)
                    made.listen()
                    stop.wait(0.03)
                Path(path).unlink()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
