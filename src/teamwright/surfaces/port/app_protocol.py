"""Protocol between an attached app and its session: control requests, records, facts."""

from msgspec import Raw, Struct

from teamwright.core.data.event import Record
from teamwright.core.data.op import Op, Say
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.runtime.port import SessionFacts

PREFIX = "app_"


def _tag(name: str) -> str:
    return PREFIX + name.removeprefix("Ask").lower()


class Wanted(Struct, frozen=True, tag_field="subtype", tag=_tag):
    """The body of a control request."""


class AskWatch(Wanted, frozen=True):
    """Records from now on, instead of other lines. It is answered by a `Welcome`."""


class AskSubmit(Wanted, frozen=True):
    op: Op


class AskSay(Wanted, frozen=True):
    op: Say


class AskWithdraw(Wanted, frozen=True):
    letter: LetterId
    agent: AgentId | None = None


class AskStop(Wanted, frozen=True):
    agent: AgentId | None = None


class AskExpand(Wanted, frozen=True):
    text: str


class AskSkills(Wanted, frozen=True):
    pass


class AskRules(Wanted, frozen=True):
    pass


class AskCrew(Wanted, frozen=True):
    pass


class AskPast(Wanted, frozen=True):
    agent: AgentId


AnyWanted = AskWatch | AskSubmit | AskSay | AskWithdraw | AskStop | AskExpand | AskSkills | AskRules | AskCrew | AskPast


class Welcome(Struct, frozen=True):
    """All that stays as it is, and how things are at this moment."""

    session: SessionId
    main: AgentId
    cwd: str
    models: tuple[str, ...]
    kind_colors: dict[str, str]
    facts: SessionFacts
    cursor: dict[AgentId, int]  # how far each transcript is
    now: tuple[Record, ...]  # what is so and stands in none of them


class Told(Struct):
    """A line with a record or with facts."""

    type: str = "system"
    subtype: str = ""
    record: Record | None = None
    facts: SessionFacts | None = None


class AnswerQuestion(Struct):
    """Of a control response."""

    request_id: str
    subtype: str = ""
    error: str = ""
    response: Raw = Raw(b"null")


class Heard(Told):
    response: AnswerQuestion | None = None
