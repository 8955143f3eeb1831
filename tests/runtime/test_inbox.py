"""An agent's inbox on the real store: every letter is handed over once, whatever happens in between."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from teamwright.core.data.letter import PERSON, SYSTEM, Letter, Notice, Prompt, Said, Sender, Signal
from teamwright.core.data.message import Text
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId, new_letter_id
from teamwright.runtime.agents.inbox import GATHER, AgentInbox
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio
ME = AgentId("main")


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[StateStore]:
    state = await StateStore.open(tmp_path / "state.db")
    await state.register_session(SessionId("s"), "/", 1)
    await state.register_agent(ME, SessionId("s"), None, "main", "main", 0)
    yield state
    await state.close()


def letter(text: str, priority: str = "next", sender: Sender = PERSON) -> Letter:
    return Letter(new_letter_id(), ME, sender, Prompt((Text(text),)), priority)


async def waiting(state: StateStore) -> list[LetterId]:
    await state.flush()
    return [x.id for x in await state.waiting(ME)]


@pytest.mark.spec("X2", "Q5")
async def test_a_letter_is_handed_over_once_and_waits_in_the_store_until_acknowledged(state: StateStore) -> None:
    inbox = AgentInbox(ME, state, set())
    hello = letter("hello")
    await inbox.post(hello)
    assert await inbox.take(at_rest=True) == [hello]
    assert await waiting(state) == [hello.id]  # a kill now would not lose it
    inbox.ring()
    assert await inbox.take(at_rest=True) == []  # but it is not handed over again
    inbox.acknowledge([hello.id])
    assert await waiting(state) == []


@pytest.mark.spec("Q1", "Q2")
async def test_later_letters_are_given_only_at_rest_and_without_another_bell(state: StateStore) -> None:
    inbox = AgentInbox(ME, state, set())
    later, soon = letter("later", "later"), letter("soon")
    await inbox.post(later)
    await inbox.post(soon)
    assert await inbox.take(at_rest=False) == [soon]
    assert await inbox.take(at_rest=False) == [] and not inbox.quiet
    assert await inbox.take(at_rest=True) == [later] and inbox.quiet


@pytest.mark.spec("Q5", "X2")
async def test_a_letter_that_the_transcript_knows_is_marked_and_not_given(state: StateStore) -> None:
    """The process died between the line in the transcript and the mark in the store."""
    known, fresh = letter("known"), letter("fresh")
    await state.post(known)
    await state.post(fresh)
    inbox = AgentInbox(ME, state, {known.id})
    assert await inbox.take(at_rest=True) == [fresh]
    assert await waiting(state) == [fresh.id]


@pytest.mark.spec("Q5")
async def test_a_letter_of_an_earlier_process_waits_behind_the_first_look(state: StateStore) -> None:
    old = letter("typed before the crash")
    await state.post(old)
    inbox = AgentInbox(ME, state, set())
    assert not inbox.quiet
    with anyio.fail_after(5):
        await inbox.wait()
    assert await inbox.take(at_rest=True) == [old]


@pytest.mark.spec("Q5", "X2")
async def test_what_a_broken_off_turn_did_not_deliver_is_given_again(state: StateStore) -> None:
    delivered: set[LetterId] = set()
    inbox = AgentInbox(ME, state, delivered)
    one, two = letter("one"), letter("two")
    await inbox.post(one)
    await inbox.post(two)
    assert await inbox.take(at_rest=True) == [one, two]
    delivered.add(one.id)  # in the transcript but not acknowledged: the interrupt came between the two
    inbox.hand_back()
    assert await inbox.take(at_rest=True) == [two]
    assert await waiting(state) == [two.id]


@pytest.mark.spec("Q2")
async def test_the_order_is_the_same_whichever_came_first(state: StateStore) -> None:
    inbox = AgentInbox(ME, state, set())
    first, person, second = letter("1", sender=Sender("system")), letter("person"), letter("2", sender=Sender("system"))
    for x in (first, person, second):
        await inbox.post(x)
    assert await inbox.take(at_rest=True) == [person, first, second]


@pytest.mark.spec("X2", "X5")
async def test_who_waits_is_woken_by_a_letter_and_no_letter_slips_past_the_bell(state: StateStore) -> None:
    inbox = AgentInbox(ME, state, set())
    assert await inbox.take(at_rest=True) == []
    got: list[Letter] = []

    async def listen() -> None:
        while len(got) < 30:
            await inbox.wait()
            got.extend(await inbox.take(at_rest=True))

    sent = [letter(str(n)) for n in range(30)]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            for x in sent:
                group.start_soon(inbox.post, x)
    assert sorted(x.id for x in got) == sorted(x.id for x in sent)


@pytest.mark.spec("X2")
async def test_the_same_letter_twice_is_one(state: StateStore) -> None:
    inbox = AgentInbox(ME, state, set())
    same = letter("same")
    await inbox.post(same)
    await inbox.post(same)
    assert await inbox.take(at_rest=True) == [same]


def ended(job: str) -> Letter:
    return Letter(new_letter_id(), ME, SYSTEM, Notice(JobId(job), "completed", f"{job} has ended", "", "/o"), "later")


@pytest.mark.spec("Q6")
async def test_notices_wait_a_moment_for_those_that_come_just_now(state: StateStore) -> None:
    inbox, jobs = AgentInbox(ME, state, set()), [ended(f"j{n}") for n in range(3)]
    left = list(jobs)
    inbox.more_comes = lambda: bool(left)
    taken: list[list[Letter]] = []

    async def take() -> None:
        taken.append(await inbox.take(at_rest=True))

    async with anyio.create_task_group() as group:
        for job in jobs:
            await inbox.post(job)
            left.remove(job)
            if job is jobs[0]:
                group.start_soon(take)
        inbox.ring()  # as the end of a job does once it is told
    assert taken == [jobs]


@pytest.mark.spec("Q6")
@pytest.mark.parametrize("letters", [[], [Letter(new_letter_id(), ME, Sender("agent", "ada"), Said("now"))]])
async def test_nothing_else_is_held_up_by_jobs_that_still_run(state: StateStore, letters: list[Letter]) -> None:
    """A message is handed over at once, and a lone notice after a moment, even if a job runs for ever."""
    inbox, notice = AgentInbox(ME, state, set()), ended("j")
    inbox.more_comes = lambda: True
    for x in (notice, *letters):
        await inbox.post(x)
    began = anyio.current_time()
    assert await inbox.take(at_rest=True) == [*letters, notice]
    assert (anyio.current_time() - began < GATHER) == bool(letters)


@pytest.mark.spec("L1")
async def test_what_is_true_no_more_is_read_and_not_shown(state: StateStore) -> None:
    """Nobody is woken for it, and nobody is told; what still holds is shown as it is true now."""
    idle = Signal("idle_notification", '{"type":"idle_notification","idleReason":"available"}')
    false, partly = (Letter(new_letter_id(), ME, Sender("agent", name, AgentId(name)), idle) for name in ("ada", "bob"))
    now = msgspec.structs.replace(partly, body=Signal("idle_notification", "{}"))
    inbox = AgentInbox(ME, state, set())

    async def still_true(letters: Sequence[Letter]) -> dict[LetterId, Letter]:
        return {x.id: now for x in letters if x.id == partly.id}

    inbox.still_true = still_true
    await inbox.post(false)
    assert await inbox.take(at_rest=True) == [] and inbox.quiet and await waiting(state) == []
    await inbox.post(partly)
    assert await inbox.take(at_rest=True) == [now]
