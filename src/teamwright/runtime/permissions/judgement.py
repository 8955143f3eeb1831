"""Applies the pure judge to an agent's calls, and words the outcome."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.data.message import ToolCall
from teamwright.core.ids import AgentId, new_question_id
from teamwright.core.permissions.allowed import allowed_words
from teamwright.core.permissions.consent import Allow, Deny, Fence, Mode, Question
from teamwright.core.permissions.facts import Runs
from teamwright.core.permissions.judge import Verdict, judge
from teamwright.core.permissions.path_rules import from_project
from teamwright.core.permissions.rules import BASH, Rules, parse_rules
from teamwright.core.ports import Desk
from teamwright.runtime.permissions.call_facts import Intent

if TYPE_CHECKING:
    from teamwright.core.sandbox.fencing import Fencing

DO_WITHOUT = "Do without it, or say what you need and why."
NOBODY = "That needs a person's yes, and nobody is attached to give it: go on without it, or report what you need."
_FOR_THE_PERSON = (
    (NOBODY, "Nobody is there to approve it; --allowed-tools or --permission-mode can allow it."),
    (f" {DO_WITHOUT}", ""),
)
_MAIN = "main"


class Standing(Struct, frozen=True):
    """What an agent's calls are judged by, as of now. `readable` and `protected` are resolved paths."""

    name: str
    mode: Mode
    rules: Rules
    desk: Desk
    color: str = ""
    readable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    fencing: "Fencing | None" = None  # if there is a sandbox
    project: str = ""  # where patterns of rules begin


def judge_intent(intent: Intent, standing: Standing) -> Verdict:
    if intent.facts is None:
        return Verdict("allow")  # the tool refuses such arguments in better words
    return judge(
        intent.facts,
        mode=standing.mode,
        rules=standing.rules,
        roots=tuple(map(str, standing.desk.roots)),
        readable=standing.readable,
        protected=standing.protected,
        fence=_fence(intent, standing),
    )


def allowance(intent: Intent, standing: Standing, args: dict[str, Any] | None) -> Allow:
    """Allow what was judged, on the side of the sandbox for which it was judged. `args`: if they were changed."""
    return Allow(args, intent.paths, _fence(intent, standing))


def _fence(intent: Intent, standing: Standing) -> Fence:
    if standing.fencing is None:
        return "none"
    from teamwright.core.sandbox.fencing import fence_for  # noqa: PLC0415  # nothing of it without a sandbox

    return fence_for(intent.facts, standing.fencing, leaves=intent.leaves)


def refusal(standing: Standing, tool: str, reason: str, advice: str = "", path: str | None = None) -> Deny:
    """`advice`: what to do instead, if our own rules refuse. `path`: the one that was in the way."""
    who = "" if standing.name == _MAIN else f" for the agent {standing.name}"
    allowed = allowed_words(tool, standing.mode, standing.rules) if advice else ""
    copy = _copy_of(path, standing.desk) if advice and path else ""
    return Deny(" ".join(part for part in (f"{tool} was not run{who}: {reason}", advice, allowed, copy) if part))


def for_the_person(reason: str) -> str:
    """A refusal that says what a person can do, in place of what the model can."""
    for advice, instead in _FOR_THE_PERSON:
        reason = reason.replace(advice, instead)
    return reason


def _copy_of(path: str, desk: Desk) -> str:
    """The agent's own copy of a path: in a worktree it is often given paths of the tree that this was made from."""
    here = desk.roots[0]
    if here.parts[-3:-1] != (".teamwright", "worktrees"):
        return ""
    there = here.parents[2]
    if not Path(path).is_relative_to(there) or Path(path).is_relative_to(here):
        return ""
    copy = here / Path(path).relative_to(there)
    return f"Your copy of it: {copy}" if copy.exists() else ""


def question_about(
    agent: AgentId, call: ToolCall, args: Mapping[str, Any], standing: Standing, verdict: Verdict, intent: Intent
) -> Question:
    """The question to the person; `args` are those that the call would run with."""
    accepting = replace(standing, mode="acceptEdits")
    is_edit = standing.mode == "default" and judge_intent(intent, accepting).kind == "allow"
    return Question(
        new_question_id(),
        agent,
        standing.name,
        call.id,
        call.name,
        dict(args),
        verdict.reason,
        tuple(from_project(rule, standing.project) for rule in verdict.suggestions),
        verdict.blocked_path,
        standing.color,
        tuple(from_project(rule, standing.project) for rule in verdict.wider),
        is_edit,
        outside=_outside_rules(intent, standing),
    )


def _outside_rules(intent: Intent, standing: Standing) -> tuple[str, ...]:
    """Rules that would let this command leave the sandbox without a question from now on."""
    facts, fencing = intent.facts, standing.fencing
    if fencing is None or not isinstance(facts, Runs) or _fence(intent, standing) != "leaving":
        return ()
    from teamwright.core.sandbox.rules import exclusions  # noqa: PLC0415

    patterns = exclusions(facts)
    texts = tuple(f"{BASH}({pattern})" for pattern in patterns)
    allow, _ = parse_rules(texts, "session", "/", "/")
    outside = replace(fencing.rules, excluded=(*fencing.rules.excluded, *patterns))
    then = replace(standing, rules=standing.rules + Rules(allow=allow), fencing=replace(fencing, rules=outside))
    return texts if patterns and judge_intent(intent, then).kind == "allow" else ()
