"""Teams under kill -9, the short form of `make torture`: nothing accepted is lost, nothing is read or owned twice."""

import shutil
from collections.abc import Iterator

import pytest
from team_brain import Brain
from team_harness import POINTS, Crew, Kill, torment
from team_ledger import Figures

pytestmark = pytest.mark.spec("T6", "X2", "X3", "K3", "K6", "A2", "Q5")
OUTSIDE = [Kill("", "all", 9, 0.01), Kill("", "all", 23, 0.002)]


@pytest.fixture(scope="module")
def brain() -> Iterator[Brain]:
    brain = Brain()
    yield brain
    brain.close()


def play(brain: Brain, mode: str, seed: int, kills: list[Kill]) -> Figures:
    crew = Crew(brain, mode, seed)
    try:
        figures = torment(crew, kills)
    finally:
        crew.close()
    assert not figures.faults, "\n".join(figures.faults)
    assert (figures.lost, figures.doubled, figures.double_owners, figures.failed) == (0, 0, 0, 0), figures
    rounds = len(kills) + 1
    assert figures.accepted >= 9 * rounds - 9 and figures.tasks >= 3 * rounds - 3 and figures.raced, figures
    return figures


def test_killed_at_each_crash_point_and_from_outside_in_one_process(brain: Brain) -> None:
    passes = {"team.member": 2, "team.take_over": 1, "team.state": 4, "mail.post": 6, "state.committed": 31}
    kills = [Kill(f"{point}:{passes.get(point, 37)}") for point in POINTS]
    kills.sort(key=lambda kill: not kill.point.startswith("team.member"))  # after that, nobody joins any more
    figures = play(brain, "in-process", 1, [*kills, *OUTSIDE])
    assert figures.kills >= len(kills) and figures.resumes >= len(kills)


def test_power_cuts_lose_only_what_nobody_was_told_of(brain: Brain) -> None:
    kills = [Kill("", "all", requests, 0.003, power=True) for requests in (4, 11, 18, 25)]
    figures = play(brain, "in-process", 2, [*kills, Kill("transcript.sync:20", power=True)])
    assert figures.kills >= len(kills)


def test_killed_at_its_birth_a_teammate_begins_anew(brain: Brain) -> None:
    play(brain, "in-process", 3, [Kill(f"transcript.append:{n}") for n in (6, 7, 8, 9)])


@pytest.mark.parametrize("mode", ["local", "tmux"])
def test_lead_teammates_and_all_at_once_killed_where_each_has_its_process(brain: Brain, mode: str) -> None:
    if mode == "tmux" and not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    kills = [
        Kill("", "mate", 16, 0.05),
        Kill("", "lead", 20, 0.0),
        Kill("state.committed:30", "mate"),
        Kill("", "all", 12),
    ]
    figures = play(brain, mode, 4, kills)
    assert figures.kills >= len(kills)


def test_killed_around_the_delivery_of_letters(brain: Brain) -> None:
    kills = (
        [Kill(f"letters.taken:{n}") for n in range(3, 9)]
        + [Kill(f"transcript.append:{n}") for n in (21, 24)]
        + [Kill(f"state.committed:{n}") for n in (24, 29)]
    )
    play(brain, "in-process", 5, kills)
