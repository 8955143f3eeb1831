"""Puts branches into the landing queue, as committed at this moment; the commit is kept for good before it is noted."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from teamwright.core.crashpoint import crashpoint
from teamwright.core.data.landing import LandDraft, LandEntry
from teamwright.core.data.tasks import Task, TaskId
from teamwright.core.data.team import Member
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.core.text import plural, shown
from teamwright.host.git.landing import keep_commit
from teamwright.host.git.run import Checkout, commit_of, count_commits, git
from teamwright.host.git.target import checked_out, target_commit
from teamwright.host.git.worktrees.listing import branch_here
from teamwright.host.git.worktrees.record import Worktree, registered
from teamwright.host.git.worktrees.status import UNDER_WAY, own_links, read_status
from teamwright.runtime.landing.plan import repo_key
from teamwright.store.tables.landing import LandTable

_SHOWN = 5  # paths named in an error


def task_of(tasks: Iterable[Task], agent: AgentId) -> TaskId | None:
    """The task that an agent most probably did on its branch: its own task that changed last."""
    own = [task for task in tasks if task.agent == agent and task.status != "pending"]
    return max(own, key=attrgetter("updated")).id if own else None


async def choose_target(place: Checkout, wanted: str) -> str:
    """The branch of the settings, or else the one checked out in the main tree."""
    target = wanted or await branch_here(place.top)
    if not target:
        raise ToolError(
            f"HEAD is detached in {shown(str(place.top))}, so there is no branch to land on. Check one out, or set "
            "teamwright.land.target."
        )
    await target_commit(place, target)
    return target


async def queue_branch(table: LandTable, place: Checkout, draft: LandDraft, *, told: bool = True) -> LandEntry:
    """Queue a branch. `draft` has no commits and no repository: they are looked up. Raises ToolError if it is not
    ready."""
    if draft.branch == draft.target:
        raise ToolError(f"{shown(draft.branch)} is the branch that work lands on: work on another one.")
    tip = await commit_of(f"refs/heads/{draft.branch}", cwd=place.top)
    if tip is None:
        raise ToolError(f"There is no branch {shown(draft.branch)}. `git branch` lists those that there are.")
    onto = await target_commit(place, draft.target)
    if not await count_commits([tip], onto, cwd=place.top):
        raise ToolError(
            f"{shown(draft.target)} has everything that {shown(draft.branch)} has: there is nothing to land."
        )
    await _require_committed(place, draft.branch)
    base = (await git("merge-base", onto, tip, cwd=place.top)).out.strip() or onto
    await keep_commit(place, draft.branch, tip)
    crashpoint("land.kept")
    entry = await table.queue(replace(draft, repo=repo_key(place.common), tip=tip, base=base), told=told)
    crashpoint("land.queued")
    return entry


async def _require_committed(place: Checkout, branch: str) -> None:
    """Raise ToolError if the branch is checked out somewhere with work that is not committed."""
    found = checked_out(place, branch)
    if found is None:
        return
    path, private = found
    where = shown(str(path))
    if under_way := next((words for name, words in UNDER_WAY.items() if (private / name).exists()), ""):
        raise ToolError(f"{under_way} is under way in {where}. End it first.")
    status = await read_status(path)
    own = own_links(Worktree(path.name, path, branch, "", place.top, place.common))
    loose = [*status.changed, *(name for name in status.untracked if name not in own)]
    if loose:
        more = f" and {plural(len(loose) - _SHOWN, 'other path')}" if len(loose) > _SHOWN else ""
        names = ", ".join(shown(path, 80) for path in loose[:_SHOWN])
        raise ToolError(f"{where} has changes that are not committed: {names}{more}. Commit them, then try again.")


def owner_of(members: Sequence[Member], place: Checkout, branch: str) -> Member | None:
    """The member in whose worktree a branch is checked out; of one elsewhere, the branch has its name."""
    found = checked_out(place, branch)
    tree = found[0] if found and found[0] != place.top else None
    here = (m for m in members if tree and m.backend != "remote" and Path(m.cwd).is_relative_to(tree))
    return next(here, next((m for m in members if m.backend == "remote" and branch == f"worktree-{m.name}"), None))


def branch_at(place: Checkout, tree: Path) -> str:
    """The branch that is now checked out in the worktree at this path; empty if there is none."""
    for path, private in registered(place.common):
        if path == tree:
            head = (private / "HEAD").read_text(errors="replace").strip()
            return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""
    return ""
