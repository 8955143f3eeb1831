"""The order in which branches land, from values alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.data.landing import LandDraft, LandEntry, LandId, LandState
from teamwright.core.policies.landing import land_order

pytestmark = pytest.mark.spec("LQ1")


def entry(id: int, priority: int = 0, state: LandState = "waiting") -> LandEntry:
    return LandEntry(
        LandId(id), LandDraft("r", "main", f"b{id}", "t", "b", task=id, list="l", priority=priority), state
    )


def ids(entries: list[LandEntry], blockers: dict[int, set[int]], only: set[int] | None = None) -> list[int]:
    return [found.id for found in land_order(entries, blockers, only).ready]  # pyright: ignore[reportArgumentType]


def test_priority_then_age() -> None:
    assert ids([entry(1), entry(2, 3), entry(3), entry(4, 3)], {}) == [2, 4, 1, 3]


def test_what_another_one_needs_goes_first_whatever_its_priority() -> None:
    assert ids([entry(1), entry(2), entry(3, 9)], {3: {2}}) == [2, 3, 1]


def test_what_came_back_holds_what_needs_it() -> None:
    entries = [entry(1, state="sent_back"), entry(2), entry(3), entry(4)]
    found = land_order(entries, {LandId(2): {LandId(1)}, LandId(3): {LandId(1), LandId(2)}})
    assert [one.id for one in found.ready] == [4]
    assert found.held[LandId(2)] == "its task needs #1 first, and b1 was sent back"
    assert set(found.held) == {2, 3}


def test_what_is_not_chosen_holds_what_needs_it() -> None:
    found = land_order([entry(1), entry(2)], {LandId(2): {LandId(1)}}, {LandId(2)})
    assert not found.ready and found.held == {2: "its task needs #1 first, and b1 waits"}


def test_what_is_tried_now_holds_nobody() -> None:
    assert ids([entry(1, state="trying"), entry(2)], {2: {1}}) == [2]


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(1, 12), max_size=3)), max_size=12))
def test_nothing_is_lost_and_nothing_overtakes_what_it_needs(drawn: list[tuple[int, set[int]]]) -> None:
    entries = [entry(n, priority) for n, (priority, _) in enumerate(drawn, 1)]
    direct = {n: {id for id in before if id < n} for n, (_, before) in enumerate(drawn, 1)}
    closed: dict[int, set[int]] = {}
    for n in sorted(direct):
        closed[n] = direct[n].union(*(closed[id] for id in direct[n]))
    found = ids(entries, closed)
    assert sorted(found) == [one.id for one in entries]
    for place, id in enumerate(found):
        assert closed[id] <= set(found[:place])
