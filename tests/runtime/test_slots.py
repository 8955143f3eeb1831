"""Slots for running agents: given out in turn, given up while waiting, and none is lost or created."""

import anyio
import pytest

from teamwright.runtime.agents.limits.slots import Slot

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B8")]
LIMIT = 5.0


def free(slots: anyio.Semaphore, most: int) -> bool:
    """Are exactly that many slots free?"""
    return slots.value == most


async def settle() -> None:
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_a_place_is_not_taken_twice_nor_given_back_twice() -> None:
    slots = anyio.Semaphore(2, fast_acquire=True)
    slot = Slot(slots)
    await slot.take()
    await slot.take()
    assert free(slots, 1)
    slot.give_back()
    slot.give_back()
    assert free(slots, 2)


async def test_one_that_waits_for_its_turn_is_visible_and_can_be_cancelled() -> None:
    slots = anyio.Semaphore(1, fast_acquire=True)
    first, second = Slot(slots), Slot(slots)
    await first.take()
    async with anyio.create_task_group() as group:
        group.start_soon(second.take)
        await settle()
        assert second.queued
        group.cancel_scope.cancel()
    assert not second.queued
    first.give_back()
    assert free(slots, 1)


async def test_inside_waiting_others_run_and_the_last_to_return_takes_the_place_again() -> None:
    slots = anyio.Semaphore(1, fast_acquire=True)
    slot, inside, leave = Slot(slots), anyio.Event(), [anyio.Event(), anyio.Event()]
    await slot.take()

    async def wait(n: int) -> None:
        async with slot.waiting():
            inside.set()
            await leave[n].wait()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(wait, 0)
            group.start_soon(wait, 1)
            await inside.wait()
            await settle()
            assert free(slots, 1)
            leave[0].set()
            await settle()
            assert free(slots, 1)  # the other call still waits
            leave[1].set()
    assert free(slots, 0)
    slot.give_back()
    assert free(slots, 1)


async def test_one_without_a_place_takes_none_by_waiting() -> None:
    slots = anyio.Semaphore(1, fast_acquire=True)
    async with Slot(slots).waiting():
        pass
    assert free(slots, 1)


async def test_a_call_that_begins_to_wait_while_another_comes_back_keeps_no_place() -> None:
    """Otherwise its agent would hold the only slot while it waits for a child that needs it: for ever."""
    slots = anyio.Semaphore(1, fast_acquire=True)
    parent, other, child = Slot(slots), Slot(slots), Slot(slots)
    second_waits, second_leaves = anyio.Event(), anyio.Event()
    await parent.take()

    async def second() -> None:
        async with parent.waiting():
            second_waits.set()
            await second_leaves.wait()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            async with parent.waiting():
                await other.take()
                group.start_soon(_come_back_while, parent, other, second, second_waits, group)
            # the first call is back, the second still waits: a child can run
            await second_waits.wait()
            await child.take()
            child.give_back()
            second_leaves.set()
    assert parent._held


async def _come_back_while(parent: Slot, other: Slot, second, second_waits: anyio.Event, group) -> None:
    while not parent.queued:
        await anyio.lowlevel.checkpoint()
    group.start_soon(second)
    await second_waits.wait()
    other.give_back()


async def test_a_cancelled_wait_leaves_the_places_right() -> None:
    slots = anyio.Semaphore(1, fast_acquire=True)
    slot = Slot(slots)
    await slot.take()
    with anyio.move_on_after(0.01):
        async with slot.waiting():
            await anyio.sleep(LIMIT)
    slot.give_back()
    assert free(slots, 1)


async def test_two_calls_that_come_back_at_once_take_one_place() -> None:
    slots = anyio.Semaphore(2, fast_acquire=True)
    slot, others = Slot(slots), [Slot(slots), Slot(slots)]
    await slot.take()

    async def briefly() -> None:
        async with slot.waiting():
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group, slot.waiting():
            for other in others:
                await other.take()
            group.start_soon(_when_queued, slot, others, briefly, group)
    assert free(slots, 1)
    slot.give_back()
    assert free(slots, 2)


async def _when_queued(slot: Slot, others: list[Slot], briefly, group) -> None:
    while not slot.queued:
        await anyio.lowlevel.checkpoint()
    group.start_soon(briefly)
    await settle()
    for other in others:
        other.give_back()
