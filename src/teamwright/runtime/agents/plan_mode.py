"""Plan mode of an agent: how it begins and ends, and what the agent is told, depending on who approves its plan."""

from typing import Literal, Protocol

from msgspec import Struct

from teamwright.core.data.event import Event, ModeChanged, Reminded
from teamwright.core.data.message import user
from teamwright.core.permissions.consent import Mode

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


class Planner(Protocol):
    """What plan mode needs of its agent."""

    mode: Mode | None

    def set_mode(self, mode: Mode) -> None: ...

    def emit(self, event: Event) -> None: ...


class PlanMode(Struct, eq=False):
    _agent: Planner
    approver: Approver
    _told: bool = False  # whether the agent knows that it is on
    _before: Mode | None = None

    def enter(self) -> None:
        self._before = self._agent.mode
        self._agent.set_mode("plan")
        self._told = True  # by the result of the call

    def leave(self) -> None:
        """Go back to the mode before, or to `default`, unless the person has chosen another since."""
        before = self._before if self._before != "plan" else None
        if self._agent.mode == "plan":
            self._agent.set_mode(before or "default")
        self._told = False

    def approved(self, mode: Mode | None) -> None:
        """Go on in this mode; None: in the session's."""
        if self._agent.mode == "plan":
            self._agent.mode = mode
            self._agent.emit(ModeChanged(mode or "bubble"))

    def tell(self) -> None:
        """Before a turn: tell the agent if the mode is not the one that it knows."""
        planning = self._agent.mode == "plan"
        if planning != self._told:
            self._agent.emit(Reminded(user(plan_on(self.approver) if planning else PLAN_OFF)))
        self._told = planning

    def forget(self) -> None:
        """What the agent was told may be gone from the conversation."""
        self._told = False
