"""Decides on which side of the sandbox a command runs, and who must agree."""

from msgspec import Struct

from teamwright.core.permissions.consent import Fence
from teamwright.core.permissions.facts import Facts, Runs
from teamwright.core.sandbox.rules import SandboxRules, excluded


class Fencing(Struct, frozen=True):
    """The sandbox settings for one agent's commands. `unheld`: what the tier cannot enforce, so that commands must
    ask."""

    rules: SandboxRules
    auto_allow: bool = False
    may_leave: bool = True
    unheld: str = ""


def fence_for(facts: Facts | None, fencing: Fencing | None, *, leaves: bool) -> Fence:
    """`leaves`: the call asks to run outside, which always needs approval."""
    if fencing is None or not isinstance(facts, Runs):
        return "none"
    if excluded(facts, fencing.rules):
        return "outside"  # with or without the request: a person has already excluded it
    if leaves and fencing.may_leave:
        return "leaving"
    return "unasked" if fencing.auto_allow and not fencing.unheld else "inside"
