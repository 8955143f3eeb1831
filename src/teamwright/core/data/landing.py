"""The landing queue as values: branches that are ready, and what became of each."""

from typing import Literal, NewType

from msgspec import Struct

from teamwright.core.ids import AgentId, SessionId

LandId = NewType("LandId", int)
LandState = Literal["waiting", "trying", "landed", "sent_back", "given_up"]
OPEN: tuple[LandState, ...] = ("waiting", "trying")
MOST_REASON = 500  # characters of a reason, which is one line


class LandDraft(Struct, frozen=True):
    """A branch that is ready, at one commit. `repo` is the git directory that all worktrees of the repository share.

    `agent` gets what is sent back, or the lead of `team`, or the main agent of `session`; a person's has none of them.
    """

    repo: str
    target: str  # the branch that it is for, without refs/heads/
    branch: str
    tip: str
    base: str  # where it parted from the target
    owner: str = ""  # the name that people read
    agent: AgentId | None = None
    session: SessionId | None = None
    team: str = ""
    list: str = ""  # the task list that `task` is in
    task: int | None = None
    priority: int = 0  # the higher the sooner


class LandEntry(Struct, frozen=True):
    """A branch in the queue. `commit` is what was made of it on top of the target; once landed, what the target has."""

    id: LandId
    draft: LandDraft
    state: LandState = "waiting"
    reason: str = ""  # why it is in that state, in a line
    commit: str = ""
    tries: int = 0
    queued: int = 0  # milliseconds since 1970
    changed: int = 0

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


def task_words(draft: LandDraft) -> str:
    return "" if draft.task is None else f"#{draft.task}"
