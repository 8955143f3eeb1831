"""Questions and answers about what may be done. Consent is a record, never text of a model."""

from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.content.patch import Hunk
from teamwright.core.ids import AgentId, CallId, QuestionId

Mode = Literal["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions", "bubble"]
NETWORK_ACCESS = "SandboxNetworkAccess"  # what the sandbox itself asks: may a program reach this host?
MODES: tuple[Mode, ...] = ("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions")  # narrow to wide


# How a command stands to the sandbox. `none`: there is none. `inside`: it asks as ever. `unasked`: inside, and so
# without a question. `outside`: the settings leave it out. `leaving`: it wishes to run outside.
Fence = Literal["none", "inside", "unasked", "outside", "leaving"]


Behaviour = Literal["allow", "ask", "deny", "outside"]  # what a rule does; `outside`: of the sandbox
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
    """Go ahead; with other arguments if the person or a hook changed them.

    `paths` maps each path argument to the resolved path that was judged: the tool opens that one, without following
    links, so that what was judged is what is touched. `fence`: the side of it on which a command was judged to run.
    """

    args: dict[str, Any] | None = None
    paths: dict[str, str] = {}
    fence: Fence = "none"
    consent: Consent | None = None  # where somebody was asked


class Deny(Struct, frozen=True, tag="deny"):
    """No, with the reason that the model reads."""

    reason: str
    interrupt: bool = False  # the person wants the whole turn to stop
    words: str = ""  # that the person said to it, as they said them
    consent: Consent | None = None  # where somebody was asked


Decision = Allow | Deny


class Question(Struct, frozen=True):
    """One call that waits for somebody's yes."""

    id: QuestionId
    agent: AgentId
    agent_name: str
    call_id: CallId
    tool: str
    args: dict[str, Any]
    reason: str  # why it needs approval
    suggestions: tuple[str, ...] = ()  # rules that would answer it for good, e.g. `Bash(git log *)`
    blocked_path: str | None = None
    color: str = ""  # of the teammate that asks, or that its agent works for
    wider: tuple[str, ...] = ()  # rules that would answer more of its kind besides, e.g. `Bash(npm run *)`
    is_edit: bool = False  # a change of files that the mode acceptEdits would allow
    patch: tuple[Hunk, ...] = ()  # what the call would change in the file as it is now
    kind: QuestionKind = "permission"  # what is asked for
    outside: tuple[str, ...] = ()  # of a command that would leave the sandbox: rules by which it always would
