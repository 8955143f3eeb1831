"""Latches and locks that are light: who waits for one goes on in time, and nobody else does."""

import anyio
import anyio.lowlevel
import pytest

from teamwright.runtime.concurrency.latch import Latch
from teamwright.runtime.concurrency.lock import LightLock


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


@pytest.mark.spec("B1")
async def test_a_lock_is_held_by_one_at_a_time_and_every_waiter_gets_it():
    lock, inside, most, passed = LightLock(), 0, 0, list[int]()

    async def work(n: int) -> None:
        nonlocal inside, most
        async with lock:
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1
            passed.append(n)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for n in range(10):
                group.start_soon(work, n)
    assert most == 1 and passed == list(range(10)) and not lock.locked()


@pytest.mark.spec("B1")
async def test_a_lock_survives_waiters_and_holders_that_are_cancelled():
    lock = LightLock()

    async def hold() -> None:
        async with lock:
            await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            assert lock.locked()
            group.cancel_scope.cancel()
        assert not lock.locked()
        async with lock:
            assert lock.locked()
    assert not lock.locked()
