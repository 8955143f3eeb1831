"""Teams as values: members and their states, safe names, mail and requests."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal, NewType

from msgspec import Struct

from teamwright.core.data.letter import LEAD, Letter
from teamwright.core.data.message import Effort
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.permissions.consent import Mode

ProcessId = NewType("ProcessId", str)
RequestId = NewType("RequestId", str)
State = Literal["created", "running", "idle", "shutdown"]
Backend = Literal["in-process", "tmux", "iterm2", "local", "remote"]
RequestKind = Literal["shutdown", "plan", "permission", "interrupt"]
RequestState = Literal["open", "answered", "expired"]
MailState = Literal["stored", "delivered", "refused", "undeliverable", "dead"]
Code = Literal[
    "no_team",
    "team_exists",
    "no_member",
    "shut_down",
    "not_allowed",  # the state machine forbids it
    "fenced",  # another process runs the agent by now
    "held",  # a live process holds it
    "members_running",
    "inbox_full",
    "too_long",
    "too_many",
    "volley",  # two members only reply to each other
    "unknown_request",
    "answered",
    "expired",
    "not_yours",
]

LEAD_NAME = LEAD
COLORS = ("blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red", "teal", "gold", "lime", "violet")
FOLLOWS: dict[State, frozenset[State]] = {
    "created": frozenset({"running", "shutdown"}),
    "running": frozenset({"idle", "shutdown"}),
    "idle": frozenset({"running", "shutdown"}),
    "shutdown": frozenset(),  # a new life is a new incarnation
}

_LONGEST = 48
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_UNSEEN = frozenset({"Mn", "Me", "Cf"})  # accents and invisible characters
_MARKS = re.compile(r"[._-]{2,}")
_LOOKS = str.maketrans({"0": "o", "1": "l", "3": "e", "4": "a", "5": "s", "i": "l", "-": None, "_": None, ".": None})
# Names that a reader would take for somebody else: the lead, the person, the program, the list of tasks.
_RESERVED = (LEAD_NAME, "lead", "task-list", "user", "person", "human", "system", "assistant", "main", "teamwright")


class Refused(Struct, frozen=True):
    """A change that did not happen, because of a lost race or a rule. `reason` tells the caller what to do."""

    code: Code
    reason: str


class Member(Struct, frozen=True):
    """One incarnation of a name in a team. `session` holds its transcript; `pane` addresses the terminal pane it runs
    in."""

    agent: AgentId
    name: str
    team: str
    kind: str
    model: str = ""
    prompt: str = ""
    color: str = ""
    joined_at: int = 0
    backend: Backend = "in-process"
    cwd: str = ""
    plan_mode_required: bool = False
    state: State = "created"
    since: int = 0
    session: SessionId = SessionId("")
    pane: dict[str, Any] | None = None
    worktree: str = ""
    mode: Mode | None = None  # its own, ignoring plan mode; None: the session's
    effort: Effort | int | None = None
    description: str = ""
    trouble: str = ""  # why the process that was to run it last could not

    @property
    def address(self) -> str:
        return address(self.name, self.team)

    @property
    def is_lead(self) -> bool:
        return self.name == LEAD_NAME


class Team(Struct, frozen=True):
    """`process` holds the lead's lease, if any; every takeover increments `epoch`."""

    name: str
    description: str
    lead: AgentId
    created_at: int
    session: SessionId = SessionId("")
    process: ProcessId | None = None
    epoch: int = 1


class Moved(Struct, frozen=True):
    """A member's state before and after; equal if it was in that state already."""

    before: State
    after: State


class Mail(Struct, frozen=True):
    """A letter between members, with what people see of it. `part` numbers the copies of one broadcast from 0.

    `control`: made by the runtime, so neither rate limits nor a full inbox hold it up.
    """

    letter: Letter
    team: str
    from_name: str
    to_name: str
    text: str
    summary: str = ""
    color: str = ""
    part: int = 0
    control: bool = False


class TeamRequest(Struct, frozen=True):
    """A stored question between agents. Only `answerer` may answer it, once."""

    id: RequestId
    kind: RequestKind
    team: str
    asker: AgentId
    answerer: AgentId
    body: dict[str, Any]
    asked_at: int = 0
    state: RequestState = "open"
    answer: dict[str, Any] | None = None
    answered_at: int | None = None
    handled: bool = False  # the asker has acted on the answer


def new_request_id(kind: RequestKind) -> RequestId:
    return RequestId(f"{kind}-{os.urandom(6).hex()}")


def address(name: str, team: str) -> str:
    return f"{name}@{team}"


def split_address(text: str) -> tuple[str, str]:
    """(name, team); the team is empty if none is named."""
    name, _, team = text.partition("@")
    return name, team


def may_follow(before: State, after: State) -> bool:
    return after in FOLLOWS[before]


def safe_name(wanted: str, taken: Collection[str] = (), *, empty: str = "teammate") -> str:
    """A name for files and addresses: ASCII letters, digits, `.`, `_` and `-`, with `-2`, `-3` added if it is taken.

    A name that becomes empty, or could pass for the lead, the person or the program, turns into `empty`.
    """
    plain = unicodedata.normalize("NFKD", wanted[: 4 * _LONGEST])
    kept = "".join(c for c in plain if unicodedata.category(c) not in _UNSEEN)
    name = _MARKS.sub("-", _UNSAFE.sub("-", kept)).strip("._-")[:_LONGEST].rstrip("._-")
    if not name or _look(name) in map(_look, _RESERVED):
        name = empty
    used = {other.casefold() for other in taken}
    number, given = 1, name
    while given.casefold() in used:
        number += 1
        given = f"{name}-{number}"
    return given


def _look(name: str) -> str:
    """Equal for names that look alike at a glance."""
    return name.casefold().translate(_LOOKS).replace("rn", "m")


def next_color(used: Iterable[str]) -> str:
    """The least used colour; the first of several."""
    counts = Counter(used)
    return min(COLORS, key=counts.__getitem__)


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def config(team: Team, members: Sequence[Member]) -> dict[str, Any]:
    """The team as people and other programs read it in `config.json`: its living members, the lead first."""
    living = sorted((m for m in members if m.state != "shutdown"), key=attrgetter("is_lead"), reverse=True)
    return {
        "name": team.name,
        "description": team.description,
        "leadAgentId": address(LEAD_NAME, team.name),
        "createdAt": team.created_at,
        "members": [_entry(member) for member in living],
    }


def _entry(member: Member) -> dict[str, Any]:
    return {
        "agentId": member.address,
        "name": member.name,
        "agentType": member.kind,
        "model": member.model,
        "prompt": member.prompt,
        "color": member.color,
        "joinedAt": member.joined_at,
        "backendType": member.backend,
        "cwd": member.cwd,
        "planModeRequired": member.plan_mode_required,
        "state": member.state,
    }
