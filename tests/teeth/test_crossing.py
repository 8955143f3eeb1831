"""The short form of `crossing.py`: random lives in which features meet, killed and resumed; what must hold holds."""

from collections.abc import Iterator

import pytest
from crossing import Chaos, play

pytestmark = pytest.mark.spec("T5", "T6", "T10", "X2", "Q5", "B4", "A2", "H3", "C3", "F1", "I1")


@pytest.fixture(scope="module")
def chaos() -> Iterator[Chaos]:
    chaos = Chaos(1)
    yield chaos
    chaos.close()


@pytest.mark.parametrize(("mode", "seed"), [("in-process", 1), ("in-process", 2), ("local", 3)])
def test_whatever_meets_nothing_is_lost_doubled_or_left(chaos: Chaos, mode: str, seed: int) -> None:
    played = play(chaos, mode, seed, lives=4)
    assert not played.faults, "\n".join(played.faults)
    assert played.lives == 5 and played.kinds["Resumed"] and played.kinds["ToolEnded"]
