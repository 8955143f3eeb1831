"""Where a command goes opens nothing to the next one."""

from typing import Any

import pytest
from sandbox_kit import TIERS, need, outside, run, use

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
