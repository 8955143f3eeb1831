"""Plan of a repository's landing queue: its target, its method and its check."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.landing import LandEntry, LandId
from teamwright.host.git.landing import Method
from teamwright.host.git.run import Checkout
from teamwright.store.acts.landing import SentBack

CHECK_SECONDS = 1800.0


def repo_key(common: Path | str) -> str:
    """The store's name for a repository: the git directory that all its trees share."""
    return os.path.realpath(common)


class Checked(Struct, frozen=True):
    """How a check ended: green if `fault` is empty. `output` is bounded and fit to be read."""

    fault: str = ""
    output: str = ""


Check = Callable[[Path, LandEntry], Awaitable[Checked]]  # in this tree, for this entry
Tell = Callable[[LandEntry], None]  # called with each entry that changes
# wakes those who must hear of it: the reader of the letter, and the task list
Ring = Callable[[SentBack], Awaitable[None]]


class LandPlan(Struct, frozen=True):
    """`links`: directories of the main tree that each tree shares; `ahead`: how many entries are merged on top of the
    one that is checked."""

    place: Checkout
    target: str
    method: Method = "merge"
    ahead: int = 1
    links: tuple[str, ...] = ()
    claims: str = ""  # where the sandboxes of all processes see which trees are ours


class LandEnd(Struct, frozen=True):
    """What a run of the queue did. `blocked`: why it stopped with entries still waiting; `held`: entries that wait for
    others."""

    done: tuple[LandEntry, ...] = ()
    blocked: str = ""
    held: dict[LandId, str] = {}
