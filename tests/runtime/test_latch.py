"""A latch wakes everybody who waits for it, and nobody waits for one that is set."""

import anyio
import pytest

from teamwright.runtime.concurrency.latch import Latch


@pytest.mark.spec("B1")
async def test_all_who_wait_go_on_and_later_ones_do_not_wait():
    latch, passed = Latch(), list[int]()

    async def wait(n: int) -> None:
        await latch.wait()
        passed.append(n)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(wait, n)
            await anyio.wait_all_tasks_blocked()
            assert not latch.is_set() and passed == []
            latch.set()
        await latch.wait()
    assert latch.is_set() and passed == [0, 1, 2]


@pytest.mark.spec("B1")
async def test_one_that_is_set_before_anybody_waits_lets_all_pass():
    latch = Latch()
    latch.set()
    with anyio.fail_after(5):
        await latch.wait()


@pytest.mark.spec("B1")
async def test_a_wait_that_is_cancelled_leaves_the_others_waiting():
    latch, passed = Latch(), list[str]()

    async def wait() -> None:
        await latch.wait()
        passed.append("through")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await latch.wait()
            latch.set()
    assert passed == ["through"]


@pytest.mark.spec("B1")
async def test_waiting_for_one_that_is_set_can_be_cancelled():
    latch = Latch()
    latch.set()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await latch.wait()
    assert scope.cancelled_caught
