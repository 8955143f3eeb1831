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
    "planner": AgentDefinition(name="planner", description="plans first", permission_mode="plan"),
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
ENGINES = {  # without one; with one; where teammates go to workers, too; on a worker
    "": {},
    "engine": {"remote": True},
    "away": {"remote": True, "remote_teammates": True},
    "worker": {"hosted": True},
}
FEATURES = [
    Features(
        fork=fork, background=background, teams=frozenset({TEAM}), **({mode: True} if mode else {}), **ENGINES[engine]
    )
    for fork, background, mode, engine in product(
        [False, True], [False, True], ["", "coordinator", "assistant", "proactive"], ENGINES
    )
]


def oracle(ask: dict[str, Any], caller: SpawnCaller, features: Features) -> tuple[Any, ...] | None:
    """(kind, context, life, report, owner, room), or None for a refusal, section by section in the order of R11."""
    fork_gate = features.fork and not features.coordinator and features.background  # F3, G1, G4
    forced = features.background and (features.coordinator or features.fork or features.assistant or features.proactive)
    startable = {"explore", "sleeper"} if caller.may_start else set(KINDS)  # D6
    if caller.depth >= 3:  # B8
        return None
    engine = features.remote and not features.hosted
    if ask["name"] and caller.team:  # R5, before all others
        kind = "general-purpose" if ask["kind"] in (None, "fork") else ask["kind"]
        if caller.is_teammate or kind not in startable:  # P10, R9
            return None
        room = "remote" if features.remote_teammates else ask["isolation"] or KINDS[kind].isolation or "shared"  # P6
        return None if room == "remote" and not engine else (kind, "fresh", "resident", "letter", "team", room)
    if ask["isolation"] == "remote":  # R6, before forks
        kind = ask["kind"] or "general-purpose"
        if not engine or kind not in startable or caller.is_teammate:
            return None
        return kind, "fresh", "once", "letter", "session", "remote"
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


every_feature = pytest.mark.parametrize("features", FEATURES, ids=lambda f: "-".join(
    n for n in ("fork", "background", "coordinator", "assistant", "proactive", "remote", "remote_teammates", "hosted")
    if getattr(f, n)
) or "none")  # fmt: skip


@pytest.mark.spec("R1", "R2", "R4", "R6", "R8", "R9", "R11", "R12", "P5", "P6", "G1", "G2", "G3", "G4", "D6", "B8")
@every_feature
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
    for asked in (ask(), ask(kind="GENERAL-purpose")):
        assert plan_spawn(asked, SpawnCaller(), KINDS, Features()) == Plan(ask=asked, kind="general-purpose")
    asked = ask(kind="Explore", background=True)
    launched = Plan(ask=asked, kind="explore", report="letter", owner="session")
    assert plan_spawn(asked, SpawnCaller(), KINDS, Features()) == launched
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


FIELDS = {"subagent_type": "kind", "run_in_background": "background"}  # others have the parameter's name
SENT = [
    {"kind": kind, "background": background, "name": name, "isolation": isolation, "mode": mode, **rest}
    for kind, background, name, isolation, mode in product(
        [None, "explore", "sleeper", "islander", "planner", "fork"], [None, False, True], [None, "ann"],
        [None, "worktree", "remote"], ["plan", "acceptEdits"],
    )
    for rest in [{"model": "opus", "effort": "high", **({} if isolation == "worktree" else {"cwd": "sub"})}]
]  # fmt: skip
WHO = [
    SpawnCaller(team=team, is_teammate=teammate, is_fork=fork, mode=mode)
    for team, teammate, fork, mode in [
        (TEAM, False, False, "default"), (None, False, False, "acceptEdits"), (None, True, False, "acceptEdits"),
        (None, False, True, "plan"),
    ]
]  # fmt: skip


def idle_parameters(sent: dict[str, Any], plan: Plan, caller: SpawnCaller, features: Features) -> set[str]:
    """What cannot have an effect on this route, section by section."""
    fork, mate, beside = plan.kind == "fork", plan.life == "resident", plan.report == "letter"
    idle = {"model", "effort"} if fork else set[str]()  # F1
    idle |= {"model"} if features.coordinator else set()  # P4, G1
    idle |= {"subagent_type"} if sent["kind"] == "fork" and mate else set()  # R11
    idle |= {"run_in_background"} if sent["background"] not in (None, beside) else set()  # P5, R8, G4
    idle |= {"isolation"} if sent["isolation"] == "worktree" and plan.room == "remote" else set()  # Z5
    idle |= {"cwd"} if "cwd" in sent and (fork or not features.assistant or plan.room != "shared") else set()  # G2
    own = KINDS[plan.kind].permission_mode if plan.kind in KINDS and not mate else None  # H2: only until it is approved
    if sent["mode"] == "acceptEdits" and (own or caller.mode != "acceptEdits"):  # P7
        idle.add("mode")
    return idle


@pytest.mark.spec("P12", "P4", "P5", "P6", "P7", "P11", "R11", "F1")
@every_feature
def test_every_parameter_has_an_effect_or_is_named(features: Features) -> None:
    seen = set[str]()
    for sent, caller in product(SENT, WHO):
        asked = ask(**sent)
        try:
            plan = plan_spawn(asked, caller, KINDS, features)
        except ToolError:
            continue
        named, expected = {note.split()[0] for note in plan.notes}, idle_parameters(sent, plan, caller, features)
        assert named == expected, (sent, caller, plan)
        for parameter in {FIELDS.get(p, p) for p in (*sent, "description", "prompt")}:
            heeded = getattr(plan.ask, parameter)
            gone = parameter in {FIELDS.get(p, p) for p in named - {"mode"}}  # the mode is kept, for a wider day
            assert heeded == (None if gone else getattr(asked, parameter)), (parameter, sent, plan)
        seen |= named
    assert "cwd" in seen and (not features.fork or features.coordinator or not features.background or "effort" in seen)


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
