"""Judges a call from facts, mode and rules alone. Deny beats ask beats allow, in every mode."""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import Struct, structs

from teamwright.core.permissions.consent import Fence, Mode
from teamwright.core.permissions.facts import Edits, Facts, Fetches, Reads, Runs, Uses
from teamwright.core.permissions.path_rules import (
    FINE,
    Finding,
    Scene,
    judge_edit,
    judge_read,
    restricted_tool,
    said_by,
)
from teamwright.core.permissions.rules import Rules, detail_rule, domain_rule, whole_rule
from teamwright.core.text import shown

_LEAVES = Finding("ask", "it would run outside of the sandbox, which needs a person's yes.", firm=True)


class Verdict(Struct, frozen=True):
    """`reason` is a sentence; `suggestions` are rules that would answer it for good; `final`: no yes can change it."""

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    suggestions: tuple[str, ...] = ()
    blocked_path: str | None = None
    final: bool = False
    guarded: bool = False  # of an ask: a rule or protection requires a person's approval; a hook's is not enough
    wider: tuple[str, ...] = ()  # broader rules that would settle it too: `npm run *`


def judge(
    facts: Facts,
    *,
    mode: Mode,
    rules: Rules,
    roots: Sequence[str],
    readable: Sequence[str] = (),
    protected: Sequence[str] = (),
    fence: Fence = "none",
) -> Verdict:
    """Decides: allow, ask or deny. All paths are resolved."""
    scene = Scene(mode, rules, tuple(roots), tuple(readable), tuple(protected))
    match facts:
        case Reads():
            findings = [judge_read(place, facts.tool, scene) for place in facts.places]
        case Edits():
            findings = [judge_edit(place, facts.tool, scene) for place in facts.places]
        case Runs():
            from teamwright.core.permissions.shell_rules import judge_runs  # noqa: PLC0415  # other calls need none of it

            findings = judge_runs(facts, scene)
        case Fetches():
            findings = [_judge_fetch(facts, scene)]
        case Uses():
            findings = [_judge_use(facts, scene)]
        case _:
            assert_never(facts)
    if fence == "leaving":  # no rule can approve leaving the sandbox, so none is suggested
        return structs.replace(_conclude([*findings, _LEAVES], mode), suggestions=(), wider=())
    return _conclude(findings, "bypassPermissions" if fence == "unasked" else mode)


def _conclude(findings: Sequence[Finding], mode: Mode) -> Verdict:
    denied = next((f for f in findings if f.kind == "deny"), None)
    if denied:
        return Verdict("deny", denied.reason, blocked_path=denied.path, final=True)
    asked = [f for f in findings if f.kind == "ask" and (f.firm or mode != "bypassPermissions")]
    return _refused_by_mode(asked, mode) or _question(asked) if asked else Verdict("allow")


def _refused_by_mode(asked: Sequence[Finding], mode: Mode) -> Verdict | None:
    """Denies what needs approval if the mode allows no questions."""
    if mode == "dontAsk":
        reason = f"{_first(asked).reason} The mode dontAsk denies calls that need approval."
        return Verdict("deny", reason, blocked_path=_blocked(asked))
    changing = next((f for f in asked if not f.reading), None)
    if mode != "plan" or changing is None:
        return None
    until = "In plan mode only reading is allowed until your plan is approved: hand it in with ExitPlanMode."
    return Verdict("deny", f"{changing.reason} {until}", blocked_path=_blocked(asked))


def _question(asked: Sequence[Finding]) -> Verdict:
    suggestions = dict.fromkeys(s for f in asked for s in f.suggestions)
    wider = dict.fromkeys(s for f in asked for s in f.wider or f.suggestions)
    guarded = any(f.firm or f.guarded for f in asked)
    more = () if wider == suggestions else tuple(wider)[:8]
    return Verdict("ask", _first(asked).reason, tuple(suggestions)[:8], _blocked(asked), guarded=guarded, wider=more)


def _first(asked: Sequence[Finding]) -> Finding:
    return next((f for f in asked if f.firm), asked[0])


def _blocked(asked: Sequence[Finding]) -> str | None:
    return next((f.path for f in asked if f.path), None)


def _judge_fetch(facts: Fetches, scene: Scene) -> Finding:
    if found := restricted_tool(facts.tool, scene.rules):
        return found
    where = shown(facts.domain, 100)
    if rule := domain_rule(scene.rules.deny, facts.domain, wide=True):
        return Finding("deny", f"{said_by(rule)} denies fetching from {where}.")
    if rule := domain_rule(scene.rules.ask, facts.domain, wide=True):
        return Finding(
            "ask", f"{said_by(rule)} requires approval for every fetch from {where}.", firm=True, reading=True
        )
    if whole_rule(scene.rules.allow, facts.tool) or domain_rule(scene.rules.allow, facts.domain, wide=False):
        return FINE
    reason = f"no allow rule covers fetching from {where}."
    return Finding("ask", reason, (f"WebFetch(domain:{where})",), reading=True)


def _judge_use(facts: Uses, scene: Scene) -> Finding:
    tool, rules = facts.tool, scene.rules
    if found := restricted_tool(tool, rules):
        return found
    what = shown(facts.detail, 100) or "this"
    if rule := detail_rule(rules.deny, tool, facts.detail, wide=True):
        return Finding("deny", f"{said_by(rule)} denies {what}.")
    if rule := detail_rule(rules.ask, tool, facts.detail, wide=True):
        return Finding("ask", f"{said_by(rule)} requires approval for {what}.", firm=True)
    if facts.own and not facts.weighty:
        return FINE
    allowed = whole_rule(rules.allow, tool) or detail_rule(rules.allow, tool, facts.detail, wide=False)
    if allowed and (facts.reading or scene.mode != "plan"):
        return FINE
    use = f"{tool}({facts.detail})" if facts.weighty else tool
    return Finding("ask", f"no allow rule covers {shown(use, 100)}.", (use,), reading=facts.reading)
