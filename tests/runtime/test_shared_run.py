"""Work that several callers request at once."""

import anyio
import pytest

from teamwright.core.errors import ToolError
from teamwright.runtime.concurrency.shared_run import SharedRun

pytestmark = pytest.mark.anyio


async def test_whoever_asks_while_a_run_is_under_way_gets_the_next_one() -> None:
    """A run that began before they asked may not know what they know."""
    shared, gate, runs, got = SharedRun[int](), anyio.Event(), list[int](), dict[str, int]()

    async def run() -> int:
        runs.append(len(runs) + 1)
        if len(runs) == 1:
            await gate.wait()
        return runs[-1]

    async def ask(name: str) -> None:
        got[name] = await shared.get(run)

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "first")
        await anyio.wait_all_tasks_blocked()
        for n in range(100):
            group.start_soon(ask, f"later {n}")
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert got.pop("first") == 1 and set(got.values()) == {2} and len(got) == 100 and runs == [1, 2]
    await ask("much later")
    assert got["much later"] == 3


async def test_a_refusal_is_shared_and_a_cancelled_run_is_not() -> None:
    shared, gate, errors, begun = SharedRun[int](), anyio.Event(), list[str](), list[int]()

    async def refuse() -> int:
        begun.append(1)
        await gate.wait()
        raise ToolError("no")

    async def ask() -> None:
        with pytest.raises(ToolError, match="no"):
            await shared.get(refuse)
        errors.append("no")

    async with anyio.create_task_group() as group:
        with anyio.move_on_after(0):
            await shared.get(refuse)
        for _ in range(5):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert len(errors) == 5 and len(begun) <= 3
