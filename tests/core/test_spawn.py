"""What a spawn becomes: every combination that matters, against an independent reading of the specification."""

from itertools import product
from typing import Any

import pytest

from teamwright.core.data.definition import BUILT_IN, AgentDefinition, Isolation
from teamwright.core.errors import ToolError
from teamwright.core.policies.spawn import Ask, Features, Plan, SpawnCaller, find_kind, plan_spawn

KINDS = {d.name: d for d in BUILT_IN} | {
    "sleeper": AgentDefinition(name="sleeper", description="works in the background", background=True),
    "islander": AgentDefinition(name="islander", description="has a tree of its own", isolation="worktree"),
    "afar": AgentDefinition(name="afar", description="runs elsewhere", isolation="remote"),
}
TEAM = "builders"

ASKS = [
    {"kind": kind, "background": background, "name": name, "isolation": isolation}
    for kind, background, name, isolation in product(
        [None, "explore", "sleeper", "islander", "fork", "nobody"], [None, False, True], [None, "ann"],
        [None, "worktree", "remote"],
    )
]  # fmt: skip
CALLERS = [
    SpawnCaller(is_teammate=teammate, is_fork=fork, depth=depth, team=team, may_start=may_start)
    for teammate, fork, depth, team, may_start in product(
        [False, True], [False, True], [0, 3], [None, TEAM], [None, ("explore", "sleeper")]
    )
]
FEATURES = [
    Features(fork=fork, background=background, teams=frozenset({TEAM}), **({mode: True} if mode else {}))
    for fork, background, mode in product([False, True], [False, True], ["", "coordinator", "assistant", "proactive"])
]


def oracle(ask: dict[str, Any], caller: SpawnCaller, features: Features) -> tuple[Any, ...] | None:
    """(kind, context, life, report, owner, room), or None for a refusal, section by section in the order of R11."""
    fork_gate = features.fork and not features.coordinator and features.background  # F3, G1, G4
    forced = features.background and (features.coordinator or features.fork or features.assistant or features.proactive)
    startable = {"explore", "sleeper"} if caller.may_start else set(KINDS)  # D6
    if caller.depth >= 3:  # B8
        return None
    if ask["name"] and caller.team:  # R5, before all others
        kind = "general-purpose" if ask["kind"] in (None, "fork") else ask["kind"]
        if caller.is_teammate or kind not in startable:  # P10, R9
            return None
        room = ask["isolation"] or KINDS[kind].isolation or "shared"  # P6
        return None if room == "remote" else (kind, "fresh", "resident", "letter", "team", room)
    if ask["isolation"] == "remote":  # R6: no engine
        return None
    if ask["kind"] == "fork" or (ask["kind"] is None and fork_gate):  # R3
        if caller.is_fork or caller.is_teammate or not fork_gate:  # P10, R11
            return None
        return "fork", "inherit", "once", "letter", "session", ask["isolation"] or "shared"
    kind = ask["kind"] or "general-purpose"  # R1, R4
    if kind not in startable:
        return None
    back = features.background and (bool(ask["background"]) or KINDS[kind].background or forced)  # P5, R8, G4
    if caller.is_teammate:  # P10
        if ask["background"] and features.background:
            return None
        back = False
    room = ask["isolation"] or KINDS[kind].isolation or "shared"  # P6
    return kind, "fresh", "once", *(("letter", "session") if back else ("result", "caller")), room


def outcome(ask: dict[str, Any], caller: SpawnCaller, features: Features) -> tuple[Any, ...] | None:
    try:
        plan = plan_spawn(Ask(description="some words", prompt="do it", **ask), caller, KINDS, features)
    except ToolError as error:
        assert str(error).endswith(".")
        return None
    assert plan.team == (TEAM if plan.owner == "team" else None)
    return plan.kind, plan.context, plan.life, plan.report, plan.owner, plan.room


@pytest.mark.spec("R1", "R2", "R4", "R8", "R9", "R11", "R12", "P5", "P6", "G1", "G2", "G3", "G4", "D6", "B8")
@pytest.mark.parametrize("features", FEATURES, ids=lambda f: "-".join(
    n for n in ("fork", "background", "coordinator", "assistant", "proactive") if getattr(f, n)
) or "none")  # fmt: skip
def test_every_combination_takes_the_road_that_the_specification_names(features: Features) -> None:
    for ask, caller in product(ASKS, CALLERS):
        assert outcome(ask, caller, features) == oracle(ask, caller, features), (ask, caller)


def ask(**more: Any) -> Ask:
    return Ask(**{"description": "some words", "prompt": "do it"} | more)


def refusal(asked: Ask, caller: SpawnCaller) -> str:
    with pytest.raises(ToolError) as caught:
        plan_spawn(asked, caller, KINDS, Features())
    return str(caught.value)


@pytest.mark.spec("R1", "R2", "R4")
def test_the_plain_rows_of_the_table() -> None:
    plain = Plan(kind="general-purpose")
    assert plan_spawn(ask(), SpawnCaller(), KINDS, Features()) == plain
    assert plan_spawn(ask(kind="GENERAL-purpose"), SpawnCaller(), KINDS, Features()) == plain
    launched = Plan(kind="explore", report="letter", owner="session")
    assert plan_spawn(ask(kind="Explore", background=True), SpawnCaller(), KINDS, Features()) == launched
    assert plan_spawn(ask(kind="sleeper", background=False), SpawnCaller(), KINDS, Features()).report == "letter"


@pytest.mark.spec("P1", "P9", "R9", "R12", "B8")
@pytest.mark.parametrize(
    ("asked", "caller", "words"),
    [
        (ask(prompt=" \n"), SpawnCaller(), "prompt is empty"),
        (ask(description=""), SpawnCaller(), "description is empty"),
        (ask(cwd="sub", isolation="worktree"), SpawnCaller(), "exclude each other"),
        (ask(team=TEAM), SpawnCaller(), "needs a name"),
        (ask(team="none", name="ann"), SpawnCaller(), "no team 'none'"),
        (ask(kind="nobody"), SpawnCaller(), "explore"),
        (ask(kind="plan"), SpawnCaller(may_start=("explore",)), "There are: explore."),
        (ask(kind="plan"), SpawnCaller(may_start=()), "There are: none."),
        (ask(), SpawnCaller(depth=3), "the limit"),
        (ask(kind="fork"), SpawnCaller(), "Forks are off"),
        (ask(kind="fork"), SpawnCaller(may_start=("explore",)), "There are: explore."),
        (ask(isolation="remote"), SpawnCaller(), "no engine"),
        (ask(kind="afar"), SpawnCaller(), "no engine"),
        (ask(mode="bubble"), SpawnCaller(), "no mode 'bubble'"),
        (ask(kind="explore", background=True), SpawnCaller(is_teammate=True), "cannot start background agents"),
    ],
)
def test_a_refusal_says_what_is_wrong(asked: Ask, caller: SpawnCaller, words: str) -> None:
    assert words in refusal(asked, caller)


@pytest.mark.spec("P12", "P4")
def test_parameters_without_effect_are_ignored_and_said_so() -> None:
    off = plan_spawn(ask(background=True, cwd="x", kind="explore"), SpawnCaller(), KINDS, Features(background=False))
    assert [note.split()[0] for note in off.notes] == ["run_in_background", "cwd"]
    worker = plan_spawn(ask(model="opus"), SpawnCaller(), KINDS, Features(coordinator=True))
    assert [note.split()[0] for note in worker.notes] == ["model"]
    fork = plan_spawn(ask(model="opus"), SpawnCaller(), KINDS, Features(fork=True))
    assert fork.kind == "fork" and [note.split()[0] for note in fork.notes] == ["model"]
    assert plan_spawn(ask(cwd="x"), SpawnCaller(), KINDS, Features(assistant=True)).notes == ()


@pytest.mark.spec("P6")
def test_the_calls_isolation_wins_over_the_definitions() -> None:
    assert plan_spawn(ask(kind="afar", isolation="worktree"), SpawnCaller(), KINDS, Features()).room == "worktree"


@pytest.mark.spec("R9")
def test_a_kind_is_found_without_regard_to_case_and_never_replaced_by_another() -> None:
    assert find_kind("EXPLORE", SpawnCaller(), KINDS).name == "explore"
    assert find_kind("explore", SpawnCaller(may_start=("Explore",)), KINDS).name == "explore"
    with pytest.raises(ToolError):
        find_kind("expl", SpawnCaller(), KINDS)


@pytest.mark.spec("Z5", "P6")
@pytest.mark.parametrize("isolation", [None, "worktree", "remote"])
def test_where_all_teammates_run_on_workers_no_call_keeps_one_here(isolation: Isolation | None) -> None:
    features = Features(teams=frozenset({TEAM}), remote=True, remote_teammates=True)
    caller = SpawnCaller(team=TEAM)
    assert plan_spawn(ask(name="ada", isolation=isolation), caller, KINDS, features).room == "remote"
