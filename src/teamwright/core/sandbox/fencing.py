"""Decides on which side of the fence a command runs, and who has to agree to that."""

from msgspec import Struct

from teamwright.core.permissions.consent import Fence
from teamwright.core.permissions.facts import Facts, Runs
from teamwright.core.sandbox.rules import SandboxRules, excluded


class Fencing(Struct, frozen=True):
    """What holds for the commands of one agent. `unheld`: what the tier cannot hold for it, so that they ask."""

    rules: SandboxRules
    auto_allow: bool = False
    may_leave: bool = True
    unheld: str = ""


def fence_for(facts: Facts | None, fencing: Fencing | None, *, leaves: bool) -> Fence:
    """`leaves`: the call wishes to run outside, which is a question and never a switch."""
    if fencing is None or not isinstance(facts, Runs):
        return "none"
    if excluded(facts, fencing.rules):
        return "outside"  # whether it wishes to or not: a person has said so before
    if leaves and fencing.may_leave:
        return "leaving"
    return "unasked" if fencing.auto_allow and not fencing.unheld else "inside"
