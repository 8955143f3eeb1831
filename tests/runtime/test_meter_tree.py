"""Meters form a tree: a child's usage counts all the way up, and a limit above applies to everybody below."""

import pytest

from teamwright.core.data.message import Usage
from teamwright.core.policies.budget import Limits
from teamwright.runtime.agents.limits.meter import AgentMeter

pytestmark = pytest.mark.spec("O5", "O6")
NO_LIMITS = Limits()
ONE = Usage(input=90, output=10)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def tree(session: Limits = NO_LIMITS, child: Limits = NO_LIMITS, clock: Clock | None = None) -> list[AgentMeter]:
    main = AgentMeter(
        session, lambda model, usage: None if model == "unknown" else usage.total / 100, clock or Clock(), 0.0
    )
    one = main.child(child)
    return [main, one, one.child(Limits())]


def test_what_the_deepest_uses_counts_all_the_way_up_and_not_beside() -> None:
    main, one, two = tree()
    other = main.child(Limits())
    assert two.answered("m", ONE, 0.5) == 1.0
    assert [m.usage for m in (main, one, two, other)] == [ONE, ONE, ONE, Usage()]
    assert [m.usd for m in (main, one, two, other)] == [1.0, 1.0, 1.0, 0.0]
    assert [m.turns for m in (main, one, two)] == [0, 0, 1] and main.api_seconds == 0.5


def test_an_unknown_price_is_unknown_in_the_sum_and_the_rest_counts() -> None:
    main, one, _ = tree()
    one.answered("m", ONE, 0)
    assert one.answered("unknown", ONE, 0) is None
    assert main.usd == 1.0 and main.usd_by_model == {"m": 1.0, "unknown": None} and main.usage.total == 200


@pytest.mark.parametrize("limits", [Limits(usd=1.0), Limits(tokens=100), Limits(usd=0.5, tokens=10**9)])
def test_at_the_sessions_limit_only_the_main_agent_may_report(limits: Limits) -> None:
    main, one, two = tree(limits)
    assert [m.reached() for m in (main, one, two)] == [None] * 3
    two.answered("m", ONE, 0)
    reached = [m.reached() for m in (main, one, two)]
    assert [r and r.may_report for r in reached] == [True, False, False]
    assert all(r and "shares" in r.words for r in reached[1:])


def test_at_its_own_limit_an_agent_may_report_and_those_above_go_on() -> None:
    main, one, two = tree(child=Limits(tokens=100))
    two.answered("m", ONE, 0)
    reached = [m.reached() for m in (main, one, two)]
    assert [r and r.may_report for r in reached] == [None, True, False]


def test_turns_are_never_shared() -> None:
    main, one, two = tree(Limits(turns=1), Limits(turns=1))
    two.answered("m", ONE, 0)
    two.answered("m", ONE, 0)
    assert [m.reached() for m in (main, one, two)] == [None] * 3
    one.answered("m", ONE, 0)
    found = one.reached()
    assert found and found.limit == "turns" and not found.may_report and main.reached() is None


def test_a_childs_time_begins_with_it_and_the_sessions_holds_it_too() -> None:
    clock = Clock()
    main = AgentMeter(Limits(seconds=10), lambda *_: 0.0, clock, clock())
    clock.now = 8.0
    child = main.child(Limits(seconds=5))
    assert child.seconds == 0.0 and child.reached() is None
    clock.now = 10.0
    found = child.reached()
    assert found and found.limit == "seconds" and not found.may_report


@pytest.mark.spec("O6")
def test_what_other_processes_have_used_counts_against_a_shared_limit() -> None:
    root = AgentMeter(Limits(usd=1.0, tokens=1000), lambda *_: 0.1, lambda: 0.0, 0.0)
    child = root.child(Limits())
    child.count("m", Usage(100))
    assert child.reached() is None
    root.others_spent(0.5, 400)
    assert child.reached() is None
    root.others_spent(1.0, 400)
    found = child.reached()
    assert found is not None and found.limit == "usd" and not found.may_report
    root.others_spent(0.5, 1000)
    assert root.reached() is not None and root.reached().limit == "tokens"
