"""`state.db`: letters, agents, sessions and the ledger."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from teamwright.core.data.letter import PERSON, Letter, Prompt, Sender
from teamwright.core.data.message import Image, Text, Usage
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId, LetterId, SessionId, new_letter_id, new_session_id
from teamwright.store.tables.state import Spending, StateStore

pytestmark = pytest.mark.anyio
S1, S2 = new_session_id(), new_session_id()
MAIN, CHILD, OTHER = AgentId(S1), AgentId("a01"), AgentId(S2)


def letter(to: AgentId = MAIN, text: str = "hello") -> Letter:
    return Letter(new_letter_id(), to, PERSON, Prompt((Text(text),)))


async def open_state(path: Path) -> StateStore:
    ticks = iter(range(1000, 100_000))
    state = await StateStore.open(path, now=lambda: next(ticks))
    await state.register_session(S1, "/one", 1)
    await state.register_agent(MAIN, S1, None, "main", "main", 0)
    await state.register_agent(CHILD, S1, MAIN, "explore", "kid", 1)
    await state.register_session(S2, "/two", 2)
    await state.register_agent(OTHER, S2, None, "main", "main", 0)
    return state


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[StateStore]:
    state = await open_state(tmp_path / "state.db")
    yield state
    await state.close()


# --- letters


@pytest.mark.spec("Q1", "X2")
async def test_letters_come_back_whole_in_the_order_of_arrival(state: StateStore) -> None:
    first = Letter(new_letter_id(), MAIN, PERSON, Prompt((Text("ä\n"), Image("image/png", "AAAA"))), "now")
    second = Letter(new_letter_id(), MAIN, Sender("agent", "kid"), Prompt((Text("b"),)), "later")
    await state.post(first)
    await state.post(second)
    await state.post(letter(CHILD))
    assert await state.waiting(MAIN) == [first, second]
    assert await state.waiting(AgentId("nobody")) == []


@pytest.mark.spec("X2")
async def test_a_letter_with_the_same_id_is_stored_once(state: StateStore) -> None:
    same = letter()
    await state.post(same)
    await state.post(same)
    assert await state.waiting(MAIN) == [same]
    await state.delivered([same.id])
    await state.post(same)
    assert await state.waiting(MAIN) == []


@pytest.mark.spec("Q5")
async def test_what_was_not_delivered_waits_for_the_next_process(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "s.db")
    given, kept = letter(), letter()
    await state.post(given)
    await state.post(kept)
    await state.delivered([given.id])
    await state.close()
    again = await open_state(tmp_path / "s.db")
    assert await again.waiting(MAIN) == [kept]
    await again.close()


async def test_a_queued_delivery_is_seen_at_once_and_kept_at_close(tmp_path: Path) -> None:
    state = await open_state(tmp_path / "s.db")
    one, two = letter(), letter()
    await state.post(one)
    await state.post(two)
    state.delivered_soon([one.id])
    assert await state.waiting(MAIN) == [two]
    state.delivered_soon([two.id, LetterId("unknown")])
    await state.close()
    again = await open_state(tmp_path / "s.db")
    assert await again.waiting(MAIN) == []
    await again.close()


async def test_a_letter_to_nobody_is_an_error(state: StateStore) -> None:
    with pytest.raises(StoreError, match="There is no agent nobody"):
        await state.post(letter(AgentId("nobody")))


async def test_registering_again_changes_nothing(state: StateStore) -> None:
    await state.post(letter())
    await state.register_session(S1, "/elsewhere", 99)
    await state.register_agent(MAIN, S2, None, "main", "other", 5)
    assert len(await state.waiting(MAIN)) == 1
    with pytest.raises(StoreError, match="no session"):
        await state.register_agent(AgentId("new"), SessionId("unknown"), None, "main", "main", 0)


# --- the ledger


@pytest.mark.spec("O5")
async def test_the_ledger_adds_up(state: StateStore) -> None:
    for agent, model, usd in ((MAIN, "m1", 0.5), (MAIN, "m1", 0.25), (MAIN, "m2", None), (CHILD, "m1", 0.125)):
        row = await state.open_call(S1, agent, model, 10)
        state.settle_soon(row, Usage(1, 20, 300, 4000), usd, 1500, "ok")
    row = await state.open_call(S1, MAIN, "m1", 10)
    state.settle_soon(row, Usage(), 0.0, 0, "failed")
    row = await state.open_call(S2, OTHER, "m1", 10)
    state.settle_soon(row, Usage(7), 0.0625, 10, "ok")

    assert await state.spent(S1) == Spending(Usage(4, 80, 1200, 16000), 0.875, unknown_cost=True)
    assert await state.spent(S2) == (Usage(7), 0.0625, False)
    costs = await state.costs(S1)
    assert [(c.agent, c.name, c.parent, c.model, c.usd, c.unknown_cost, c.seconds, c.turns) for c in costs] == [
        (MAIN, "main", None, "m1", 0.75, False, 3.0, 2),
        (MAIN, "main", None, "m2", 0.0, True, 1.5, 1),
        (CHILD, "kid", MAIN, "m1", 0.125, False, 1.5, 1),
    ]
    assert costs[0].usage == Usage(2, 40, 600, 8000)
    assert [c.session for c in await state.costs()] == [S1, S1, S1, S2]


@pytest.mark.spec("O5")
async def test_open_calls_of_a_dead_process_are_settled_at_their_estimate_once(state: StateStore) -> None:
    row = await state.open_call(S1, MAIN, "m", 1000)
    await state.open_call(S2, OTHER, "m", 5)
    assert await state.spent(S1) == (Usage(), 0.0, False)
    assert await state.settle_orphans(S1, lambda model, usage: usage.input / 1000 if model == "m" else None) == 1
    assert await state.settle_orphans(S1) == 0
    state.settle_soon(row, Usage(9, 9), 9.0, 9, "ok")  # too late
    assert await state.spent(S1) == (Usage(1000), 1.0, False)
    assert [c.turns for c in await state.costs(S1)] == [0]
    assert await state.settle_orphans(S2) == 1
    assert await state.spent(S2) == (Usage(5), 0.0, True)


async def test_an_absurd_count_of_a_provider_breaks_nothing(state: StateStore) -> None:
    for _ in range(3):
        row = await state.open_call(S1, MAIN, "m", 10**40)
        state.settle_soon(row, Usage(10**40, -5), 0.0, 1, "ok")
    assert (await state.spent(S1)).usage == Usage(3 * 2**40, 0)
    assert state.notes == []


async def test_a_call_needs_its_session_and_agent(state: StateStore) -> None:
    with pytest.raises(StoreError, match="no session"):
        await state.open_call(SessionId("x"), MAIN, "m", 1)
    with pytest.raises(StoreError, match="no agent"):
        await state.open_call(S1, AgentId("x"), "m", 1)


async def test_a_row_of_the_ledger_is_small(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await open_state(path)
    await state.close()
    before = path.stat().st_size
    state = await open_state(path)

    async def call(state: StateStore) -> None:
        row = await state.open_call(S1, MAIN, "anthropic/some-long-name-of-a-model", 123_456)
        state.settle_soon(row, Usage(123, 4567, 123_456, 7890), 0.123456, 12_345, "ok")

    async with anyio.create_task_group() as group:
        for _ in range(2000):
            group.start_soon(call, state)
    await state.close()
    assert (path.stat().st_size - before) / 2000 < 100


# --- deleting


async def test_deleting_a_session_takes_its_agents_letters_and_ledger_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await open_state(path)
    await state.post(letter(MAIN, "a secret of the first"))
    await state.post(letter(CHILD, "a secret of its child"))
    kept = letter(OTHER, "words of the second")
    await state.post(kept)
    for session, agent in ((S1, MAIN), (S1, CHILD), (S2, OTHER)):
        state.settle_soon(await state.open_call(session, agent, "m", 1), Usage(1), 1.0, 1, "ok")

    assert await state.delete_session(S1)
    assert not await state.delete_session(S1)
    assert await state.waiting(MAIN) == await state.waiting(CHILD) == []
    assert await state.waiting(OTHER) == [kept]
    assert [c.session for c in await state.costs()] == [S2]
    await state.close()
    data = path.read_bytes()
    assert b"words of the second" in data
    assert b"a secret" not in data


async def test_the_time_of_sending_and_the_first_delivery_are_kept(tmp_path: Path) -> None:
    import sqlite3

    state = await open_state(tmp_path / "s.db")
    one = letter()
    await state.post(one)
    await state.delivered([one.id])
    await state.delivered([one.id])
    await state.close()
    db = sqlite3.connect(tmp_path / "s.db")
    ((sent, read),) = db.execute("SELECT sent_at, delivered_at FROM letters").fetchall()
    assert read == sent + 1  # the clock ticks once for each change
    db.close()
