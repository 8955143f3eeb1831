"""Who may change a task in which way, and which tasks wait for which."""

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.core.data.tasks import (
    NOBODY,
    Actor,
    Change,
    Done,
    Edge,
    Hold,
    Owner,
    Refusal,
    Task,
    TaskId,
    decide,
    find_cycle,
    refuse_edges,
    refuse_size,
)
from teamwright.core.ids import AgentId

LEAD, ADA, BOB = (
    Actor(AgentId(id), name, lead=name == "lead") for id, name in [("L", "lead"), ("A", "ada"), ("B", "bob")]
)
ME, HIM = Owner("ada", ADA.agent), Owner("bob", BOB.agent)

FREE = Task(TaskId(1), "one")
WAITING = Task(TaskId(1), "one", blocked_by=(TaskId(7), TaskId(8)))
MINE = Task(TaskId(1), "one", status="in_progress", owner="ada", agent=ADA.agent, epoch=3)
GIVEN = Task(TaskId(1), "one", owner="ada", agent=ADA.agent, epoch=3)
GIVEN_LATER = Task(TaskId(1), "one", owner="ada", agent=ADA.agent, epoch=3, blocked_by=(TaskId(7),))
HIS = Task(TaskId(1), "one", status="in_progress", owner="bob", agent=BOB.agent, epoch=4)
LOST = Task(TaskId(1), "one", epoch=4, former=(ADA.agent,))
TAKEN = Task(TaskId(1), "one", status="in_progress", owner="bob", agent=BOB.agent, epoch=5, former=(ADA.agent,))
DONE = Task(TaskId(1), "one", status="completed")
MY_DONE = Task(TaskId(1), "one", status="completed", owner="ada", agent=ADA.agent, epoch=3)

CLAIM, BEGIN, COMPLETE = Change(owner=ME), Change(status="in_progress"), Change(status="completed")
GIVE_BACK, PUT_BACK, ASSIGN, DELETE = (
    Change(owner=NOBODY),
    Change(status="pending"),
    Change(owner=HIM),
    Change(status="deleted"),
)

WORKS = ("in_progress", "ada")
CASES = [
    # claims
    (FREE, CLAIM, ADA, WORKS),
    (FREE, BEGIN, ADA, WORKS),
    (FREE, Change(owner=ME, status="in_progress"), ADA, WORKS),
    (FREE, Change(owner=ME, status="completed"), ADA, ("completed", "ada")),
    (FREE, Change(owner=ME, status="pending"), ADA, ("pending", "ada")),
    (GIVEN, CLAIM, ADA, WORKS),
    (GIVEN, BEGIN, ADA, WORKS),
    (MINE, CLAIM, ADA, WORKS),
    (MINE, BEGIN, ADA, WORKS),
    (WAITING, CLAIM, ADA, "blocked"),
    (WAITING, BEGIN, ADA, "blocked"),
    (WAITING, BEGIN, LEAD, "blocked"),
    (GIVEN_LATER, BEGIN, ADA, "blocked"),
    (HIS, CLAIM, ADA, "already_claimed"),
    (HIS, BEGIN, ADA, "already_claimed"),
    (HIS, Change(owner=Owner("lead", LEAD.agent)), LEAD, "already_claimed"),
    (DONE, CLAIM, ADA, "already_resolved"),
    (MY_DONE, CLAIM, ADA, "already_resolved"),
    (MY_DONE, Change(owner=HIM), BOB, "already_resolved"),
    (LOST, CLAIM, ADA, WORKS),
    # results
    (MINE, COMPLETE, ADA, ("completed", "ada")),
    (MINE, COMPLETE, LEAD, ("completed", "ada")),
    (FREE, COMPLETE, ADA, ("completed", "ada")),
    (MY_DONE, COMPLETE, ADA, ("completed", "ada")),
    (WAITING, COMPLETE, ADA, "blocked"),
    (WAITING, COMPLETE, LEAD, ("completed", "lead")),
    (HIS, COMPLETE, ADA, "already_claimed"),
    (LOST, COMPLETE, ADA, "already_claimed"),
    (TAKEN, COMPLETE, ADA, "already_claimed"),
    (MY_DONE, COMPLETE, BOB, "already_resolved"),
    # giving back and taking up again
    (MINE, GIVE_BACK, ADA, ("pending", None)),
    (MINE, PUT_BACK, ADA, ("pending", None)),
    (MINE, GIVE_BACK, LEAD, ("pending", None)),
    (GIVEN, PUT_BACK, ADA, ("pending", None)),  # the task was meant for her, and she gives it back
    (HIS, GIVE_BACK, ADA, "already_claimed"),
    (HIS, PUT_BACK, ADA, "already_claimed"),
    (MY_DONE, PUT_BACK, ADA, ("pending", None)),
    (MY_DONE, PUT_BACK, LEAD, ("pending", None)),
    (MY_DONE, PUT_BACK, BOB, "already_resolved"),
    (MY_DONE, BEGIN, ADA, WORKS),
    (MY_DONE, BEGIN, LEAD, WORKS),
    (MY_DONE, BEGIN, BOB, "already_resolved"),
    (DONE, BEGIN, ADA, "already_resolved"),
    # assignments
    (FREE, ASSIGN, ADA, ("pending", "bob")),
    (FREE, Change(owner=HIM, status="in_progress"), LEAD, ("pending", "bob")),
    (WAITING, ASSIGN, LEAD, ("pending", "bob")),
    (MINE, ASSIGN, ADA, ("pending", "bob")),
    (MINE, ASSIGN, LEAD, ("pending", "bob")),
    (HIS, ASSIGN, LEAD, ("in_progress", "bob")),
    (HIS, Change(owner=ME), LEAD, ("pending", "ada")),
    (HIS, Change(owner=Owner("eve", AgentId("E"))), ADA, "already_claimed"),
    (DONE, ASSIGN, LEAD, "already_resolved"),
    # deletion, and changes of words alone
    (HIS, DELETE, ADA, "already_claimed"),
    (HIS, DELETE, LEAD, ("in_progress", "bob")),
    (FREE, DELETE, ADA, ("pending", None)),
    (HIS, Change(subject="other words"), ADA, ("in_progress", "bob")),
]  # fmt: skip


@pytest.mark.spec("K3", "K6", "K8")
@pytest.mark.parametrize(("task", "ask", "by", "wanted"), CASES)
def test_what_becomes_of_a_task(task: Task, ask: Change, by: Actor, wanted: object) -> None:
    found = decide(task, ask, by)
    assert (found.code if isinstance(found, Refusal) else (found.status, found.owner)) == wanted


@pytest.mark.spec("K6")
def test_a_result_under_an_epoch_that_has_passed_is_refused_also_to_the_same_id() -> None:
    late = decide(MINE, COMPLETE, ADA, held=1)
    assert isinstance(late, Refusal) and late.code == "already_claimed" and "anew" in late.words
    assert decide(MINE, COMPLETE, ADA, held=3) == Hold("completed", "ada", ADA.agent)
    assert decide(MINE, CLAIM, ADA, held=1) == Hold("in_progress", "ada", ADA.agent)  # a new claim is in order
    assert decide(GIVEN, COMPLETE, ADA, held=1) == Hold("completed", "ada", ADA.agent)  # given to it since


@pytest.mark.spec("K3")
def test_a_refusal_names_its_reason_and_what_stands_in_the_way() -> None:
    refusals = [str(decide(task, CLAIM, ADA)) for task in (HIS, WAITING, DONE, TAKEN)]
    for words, parts in zip(
        refusals,
        (("already_claimed", "bob"), ("blocked", "#7, #8"), ("already_resolved",), ("late result",)),
        strict=True,
    ):
        assert all(part in words for part in parts), words


holders = st.sampled_from([None, ADA.agent, BOB.agent, LEAD.agent])
tasks = st.builds(
    lambda status, agent, waits, former: Task(
        TaskId(1), "x", status=status, agent=agent, owner=agent, epoch=2, former=former,
        blocked_by=(TaskId(9),) if waits else (),
    ),
    st.sampled_from(["pending", "in_progress", "completed"]), holders, st.booleans(),
    st.lists(st.sampled_from([ADA.agent, BOB.agent]), unique=True).map(tuple),
)  # fmt: skip
owners = st.sampled_from([None, NOBODY, ME, HIM, Owner("lead", LEAD.agent)])
changes = st.builds(
    lambda status, owner: Change(status=status, owner=owner),
    st.sampled_from([None, "pending", "in_progress", "completed", "deleted"]), owners,
)  # fmt: skip


@pytest.mark.spec("K3", "K6")
@given(tasks, changes, st.sampled_from([ADA, BOB, LEAD]), st.sampled_from([None, 1, 2]))
def test_nobody_but_the_lead_takes_or_ends_what_belongs_to_another(
    task: Task, ask: Change, by: Actor, held: int
) -> None:
    found = decide(task, ask, by, held)
    if isinstance(found, Refusal):
        return
    now = (found.status, found.agent)
    if task.agent is not None and task.agent != by.agent and not by.lead:
        assert now == (task.status, task.agent) and ask.status != "deleted"
    if found.status == "in_progress" and found.agent != task.agent:
        assert by.lead or (found.agent == by.agent and not task.blocked_by and task.agent is None)
    if found.agent not in (None, task.agent, by.agent):
        assert found.status == "pending"  # whoever is given a task begins it without being told
    assert (found.owner is None) == (found.agent is None)


@pytest.mark.spec("K4")
@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), max_size=30))
def test_edges_that_are_taken_one_by_one_never_close_a_circle(wanted: list[Edge]) -> None:
    after: dict[int, set[int]] = {n: set() for n in range(1, 8)}
    for blocker, blocked in wanted:
        circle = find_cycle([(blocker, blocked)], lambda at: after[at])
        trial = {n: {b for b in after if n in after[b]} | ({blocker} if n == blocked else set()) for n in after}
        try:
            TopologicalSorter(trial).prepare()
            cyclic = blocker == blocked
        except CycleError:
            cyclic = True
        assert (circle is not None) == cyclic
        if circle is None:
            after[blocker].add(blocked)
        else:
            assert circle[0] == circle[-1] == blocker and circle[1] == blocked
            assert all(b in after[a] for a, b in pairwise(circle[1:]))


@pytest.mark.spec("K4")
def test_edges_that_come_together_are_judged_together() -> None:
    refusal = refuse_edges([(TaskId(1), TaskId(2)), (TaskId(2), TaskId(1))], {1, 2}, lambda _: ())
    assert refusal and refusal.code == "cycle" and "#1 before #2 before #1" in refusal.words
    refusal = refuse_edges([(TaskId(1), TaskId(9))], {1}, lambda _: ())
    assert refusal and refusal.code == "task_not_found" and "#9" in refusal.words
    assert refuse_edges([(TaskId(1), TaskId(2))], {1, 2}, lambda _: ()) is None
    long = {TaskId(n): [TaskId(n + 1)] for n in range(1, 5000)}
    assert len(find_cycle([(TaskId(5000), TaskId(1))], lambda at: long.get(at, ())) or ()) == 5001


def test_what_a_change_means_for_others() -> None:
    freed = (Task(TaskId(2), "two"), Task(TaskId(3), "three", owner="bob", agent=BOB.agent))
    done = Done(TaskId(1), MY_DONE, MINE, freed=freed)
    assert done.completed and done.claimable and not done.claimed and done.to_tell(ADA) == [freed[1]]
    claim = Done(TaskId(1), MINE, FREE)
    assert claim.claimed and claim.changed_hands and not claim.claimable and claim.to_tell(ADA) == []
    given = Done(TaskId(1), GIVEN, FREE)
    assert given.to_tell(LEAD) == [GIVEN] and not given.claimed
    assert Done(TaskId(1), GIVEN_LATER, FREE).to_tell(LEAD) == []  # told once it is free
    assert Done(TaskId(1), FREE, MINE).claimable and Done(TaskId(1), FREE).claimable
    assert not Done(TaskId(1), FREE, FREE).claimable and not Done(TaskId(1), None, FREE).claimable


def test_metadata_has_a_limit() -> None:
    assert refuse_size({"k": "x" * 16_000}) is None
    refusal = refuse_size({"k": "x" * 17_000})
    assert refusal and refusal.code == "too_large" and "16,384" in refusal.words
