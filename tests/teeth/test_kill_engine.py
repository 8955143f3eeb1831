"""A team over an engine under kill -9, the short form of `make torture STORE=engine`: nothing is lost or doubled, no
call runs twice, and every machine has the same rows."""

from collections.abc import Iterator

import pytest
from engine_harness import EngineCrew
from team_brain import Brain

from long_form import long_form

pytestmark = [long_form, pytest.mark.spec("Z1", "Z8", "Z9", "Z12", "Z13", "Z14", "Z16", "Z22")]


@pytest.fixture
def crew() -> Iterator[EngineCrew]:
    brain = Brain()
    crew = EngineCrew(brain, 7)
    yield crew
    crew.close()
    brain.close()


def test_leads_workers_and_the_server_are_killed(crew: EngineCrew) -> None:
    figures = crew.torment(12)
    assert not figures.faults, "\n".join(figures.faults)
    assert figures.kills >= 12 and all(crew.by_victim.values()), crew.by_victim
    assert (figures.lost, figures.doubled, figures.double_owners, figures.failed) == (0, 0, 0, 0), figures
    assert figures.accepted and figures.tasks and figures.raced, figures
