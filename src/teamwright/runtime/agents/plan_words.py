"""What an agent is told when plan mode begins and ends, by who approves its plan."""

from typing import Literal

Approver = Literal["lead", "person", "nobody"]
_ON = "Plan mode is on: read and search only, and change nothing. When you know what to do, "
_STEPS = "step by step, with the files that each step changes"
_APPROVED = {
    "lead": f"call ExitPlanMode with the plan, {_STEPS}. It goes to team-lead, whose answer wakes you; a plan that you "
    "merely write cannot be approved.",
    "person": f"call ExitPlanMode with the plan, {_STEPS}: the person approves it, or says what to change.",
    "nobody": f"answer with the plan, {_STEPS}.",
}
PLAN_OFF = "Plan mode is off: you may make changes again, as far as the permission rules allow."


def plan_on(approver: Approver) -> str:
    return _ON + _APPROVED[approver]
