"""Questions and answers about what may be done. Consent is a record, never text of a model."""

from typing import Any, Literal

from msgspec import Struct

from teamwright.core.data.patch import Hunk
from teamwright.core.ids import AgentId, CallId, QuestionId

Mode = Literal["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions", "bubble"]
MODES: tuple[Mode, ...] = ("plan", "dontAsk", "default", "acceptEdits", "bypassPermissions")  # narrow to wide


class Allow(Struct, frozen=True, tag="allow"):
    """Go ahead; with other arguments if the person or a hook changed them.

    `paths` maps each path argument to the resolved path that was judged: the tool opens that one, without following
    links, so that what was judged is what is touched.
    """

    args: dict[str, Any] | None = None
    paths: dict[str, str] = {}


class Deny(Struct, frozen=True, tag="deny"):
    """No, with the reason that the model reads."""

    reason: str
    interrupt: bool = False  # the person wants the whole turn to stop
    words: str = ""  # that the person said to it, as they said them


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
