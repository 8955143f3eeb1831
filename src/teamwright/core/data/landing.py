"""The landing queue as values: branches that are ready, and what happened to each."""

from typing import Literal, NewType

from msgspec import Struct

from teamwright.core.ids import AgentId, SessionId

LandId = NewType("LandId", int)
LandState = Literal["waiting", "trying", "landed", "sent_back", "given_up"]
OPEN: tuple[LandState, ...] = ("waiting", "trying")
MOST_REASON = 500  # characters, on one line


class LandDraft(Struct, frozen=True):
    """A branch that is ready to land, at one commit. `repo` is the git directory shared by all worktrees.

    If it is sent back, `agent` hears of it, else the lead of `team`, else the main agent of `session`. A person's
    branch has none of them.
    """

    repo: str
    target: str  # the branch to land on, without refs/heads/
    branch: str
    tip: str
    base: str  # where it branched off the target
    owner: str = ""  # display name
    agent: AgentId | None = None
    session: SessionId | None = None
    team: str = ""
    list: str = ""  # the list that `task` belongs to
    task: int | None = None
    priority: int = 0  # higher lands sooner


class LandEntry(Struct, frozen=True):
    """A branch in the queue. `commit` is the result of putting it on top of the target; after landing, the target's
    commit."""

    id: LandId
    draft: LandDraft
    state: LandState = "waiting"
    reason: str = ""  # why it is in that state, on one line
    commit: str = ""
    tries: int = 0
    queued: int = 0  # milliseconds since 1970
    changed: int = 0
    place: int = 0  # in its queue, when it was queued

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


def task_words(draft: LandDraft) -> str:
    return "" if draft.task is None else f"#{draft.task}"
