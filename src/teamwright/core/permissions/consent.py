"""Questions about what may be done, and their answers. Consent is a record, never a model's text."""

from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.content.patch import Hunk
from teamwright.core.ids import AgentId, CallId, QuestionId

Mode = Literal["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions", "bubble"]
NETWORK_ACCESS = "SandboxNetworkAccess"  # asked by the sandbox: may a program reach this host?
MODES: tuple[Mode, ...] = ("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions")  # narrow to wide
_RANK = {mode: n for n, mode in enumerate(MODES)} | {"bubble": MODES.index("default")}


def mode_allowed(parent: Mode, child: Mode) -> Mode:
    """The narrower of two modes. `bubble` only decides who answers questions: it permits what the parent's mode
    does."""
    if child == "bubble":
        return parent
    return child if _RANK[child] <= _RANK[parent] else parent


# Where a command runs. `none`: there is no sandbox. `inside`: sandboxed, asking as usual. `unasked`: sandboxed, and so
# without asking. `outside`: the settings exclude it from the sandbox. `leaving`: it asks to run outside.
Fence = Literal["none", "inside", "unasked", "outside", "leaving"]


Behaviour = Literal["allow", "ask", "deny", "outside"]  # effect of a rule; `outside`: of the sandbox
Answerer = Literal["person", "code", "nobody"]
QuestionKind = Literal["permission", "plan", "ask"]


class Consent(Struct, frozen=True, omit_defaults=True):
    """How a question about a call was answered, for the record; times are milliseconds since 1970.

    `code` is a program that drives the session; `nobody`: the time ran out, or there was nobody left to ask.
    """

    by: Answerer
    via: str  # the surface: `terminal`, `web`, `acp`, `door`, `stdio`, or `library`
    verdict: Literal["allow", "deny", "expired"]
    asked: int
    answered: int
    kind: QuestionKind = "permission"


class Allow(Struct, frozen=True, tag="allow"):
    """Yes, perhaps with arguments that the person or a hook changed.

    `paths` maps each path argument to the resolved path that was judged. The tool opens that path without following
    links, so it touches exactly what was judged. `fence`: on which side of the sandbox the command was judged to run.
    """

    args: dict[str, Any] | None = None
    paths: dict[str, str] = {}
    fence: Fence = "none"
    consent: Consent | None = None  # if somebody was asked


class Deny(Struct, frozen=True, tag="deny"):
    """No, with a reason for the model."""

    reason: str
    interrupt: bool = False  # the person wants the whole turn to stop
    words: str = ""  # the person's own words
    consent: Consent | None = None  # if somebody was asked


Decision = Allow | Deny


class Question(Struct, frozen=True):
    """A call that waits for approval."""

    id: QuestionId
    agent: AgentId
    agent_name: str
    call_id: CallId
    tool: str
    args: dict[str, Any]
    reason: str  # why it needs approval
    suggestions: tuple[str, ...] = ()  # rules that would answer it for good, e.g. `Bash(git log *)`
    blocked_path: str | None = None
    color: str = ""  # of the teammate that asks or for which it works, else of its kind
    wider: tuple[str, ...] = ()  # broader rules, e.g. `Bash(npm run *)`
    is_edit: bool = False  # a file change that acceptEdits mode would allow
    patch: tuple[Hunk, ...] = ()  # what the call would change in the current file
    kind: QuestionKind = "permission"  # what is being asked for
    outside: tuple[str, ...] = ()  # for a command that would leave the sandbox: rules that would always let it
