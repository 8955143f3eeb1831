"""Protocol between an attached app and its session: control requests, records, facts."""

from msgspec import Raw, Struct

from teamwright.core.data.event import Record
from teamwright.core.data.op import Op, Say
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.runtime.port import SessionFacts

PREFIX = "app_"
SETTLE_SECONDS = 60.0  # after which a host answers a guest that waits for a settled session with None


def _tag(name: str) -> str:
    return PREFIX + name.removeprefix("Ask").lower()


class ControlBody(Struct, frozen=True, tag_field="subtype", tag=_tag):
    """The body of a control request."""


class AskWatch(ControlBody, frozen=True):
    """Asks for records from now on, instead of other lines. The answer is a `Welcome`.

    With `every_ms`, text that is being written comes in pieces of so many milliseconds instead of token by token.
    """

    every_ms: int = 0


class AskSubmit(ControlBody, frozen=True):
    op: Op


class AskSay(ControlBody, frozen=True):
    op: Say


class AskWithdraw(ControlBody, frozen=True):
    letter: LetterId
    agent: AgentId | None = None


class AskStop(ControlBody, frozen=True):
    agent: AgentId | None = None


class AskExpand(ControlBody, frozen=True):
    text: str


class AskSkills(ControlBody, frozen=True):
    pass


class AskRules(ControlBody, frozen=True):
    pass


class AskCrew(ControlBody, frozen=True):
    pass


class AskStatus(ControlBody, frozen=True):
    pass


class AskSettled(ControlBody, frozen=True):
    """Answered when nobody works any more, or after a while with None: then ask again."""


class AskPoints(ControlBody, frozen=True):
    pass


class AskPreview(ControlBody, frozen=True):
    line: int


class AskPast(ControlBody, frozen=True):
    agent: AgentId


AnyControlBody = (
    AskWatch
    | AskSubmit
    | AskSay
    | AskWithdraw
    | AskStop
    | AskExpand
    | AskSkills
    | AskRules
    | AskCrew
    | AskStatus
    | AskSettled
    | AskPoints
    | AskPreview
    | AskPast
)


class Welcome(Struct, frozen=True):
    """All that never changes, and the state at this moment."""

    session: SessionId
    main: AgentId
    cwd: str
    models: tuple[str, ...]
    kind_colors: dict[str, str]
    facts: SessionFacts
    cursor: dict[AgentId, int]  # last line of each transcript
    now: tuple[Record, ...]  # current state that no transcript holds


class Told(Struct):
    """A line with a record or with facts."""

    type: str = "system"
    subtype: str = ""
    record: Record | None = None
    facts: SessionFacts | None = None


class ControlAnswer(Struct):
    """The body of a control response."""

    request_id: str
    subtype: str = ""
    error: str = ""
    response: Raw = Raw(b"null")


class Heard(Told):
    response: ControlAnswer | None = None
