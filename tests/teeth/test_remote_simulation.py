"""Agents over workers that are killed: each ends once, wherever it continues. `make long` runs it with 10,000."""

from pathlib import Path

import pytest
from remote_simulation import Offers, Simulation


@pytest.mark.anyio
@pytest.mark.spec("Z7", "Z8", "Z10")
async def test_each_agent_ends_once_whoever_is_killed(tmp_path: Path) -> None:
    found = await Simulation(200, 4, kills=2, offers=Offers(slots=8, lease=3)).run(tmp_path)
    wrong = ("lost", "doubled", "turns twice or missing", "double owners", "replicas differ")
    assert found["killed"] == 2 and found["moved"] and not any(found[name] for name in wrong), found
