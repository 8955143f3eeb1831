"""Resolves a name for the landing queue: to one of its entries, or to a branch with its owner and task."""

from collections.abc import Sequence
from pathlib import Path

from teamwright.app.landing.queue import LandingPlace
from teamwright.core.data.landing import LandDraft, LandEntry
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, SessionId
from teamwright.core.text import closest
from teamwright.host.git.run import commit_of, git_text, locate
from teamwright.runtime.landing.queueing import branch_at, task_of
from teamwright.store.tables.tasks import TaskTable
from teamwright.surfaces.port.stored import tell_notes
from teamwright.surfaces.reports.worktree_names import is_missing, owner_of
from teamwright.surfaces.reports.worktrees import look_at
from teamwright.tools.bounds import visible


def find_named(entries: Sequence[LandEntry], name: str) -> LandEntry:
    """Find an entry by number, branch or owner; first those that can still be decided, the newest first."""
    bare = name.removeprefix("#")
    for entry in sorted(entries, key=_openness):
        draft = entry.draft
        if bare == str(entry.id) or name in (draft.branch, draft.owner, draft.branch.removeprefix("worktree-")):
            return entry
    raise UsageError(f"nothing called {name} is in the landing queue; `teamwright land --list` shows it")


def _openness(entry: LandEntry) -> tuple[int, int]:
    order = ("waiting", "sent_back", "trying", "landed", "given_up")
    return order.index(entry.state), -entry.id


async def _no_branch(name: str, top: Path) -> UsageError:
    """The error, with a branch that may have been meant."""
    branches = (await git_text("for-each-ref", "--format=%(refname:short)", "refs/heads/", cwd=top)).split()
    near = closest(name, branches)
    hint = f"did you mean {near}?" if near else "`git branch` and `teamwright worktrees` list them"
    return UsageError(visible(f"there is no branch or worktree {name}; {hint}"))


async def draft_for(place: LandingPlace, name: str, *, target: str, priority: int) -> LandDraft:
    """Draft for an agent's worktree or any branch. Raises UsageError if the name is neither."""
    cwd = place.workspace.cwd
    where = await locate(cwd)
    if await commit_of(f"refs/heads/{name}", cwd=where.top) and not name.startswith("worktree-"):
        return LandDraft("", target, name, "", "", priority=priority)
    try:
        found, houses = await look_at(cwd, name, tell_notes)
    except UsageError as error:
        raise (await _no_branch(name, where.top) if is_missing(error) else error) from None
    tree = found.worktree
    member = houses.members.get(tree.path)
    owner = AgentId(tree.owner) if tree.owner else None
    list = member.team if member else tree.session
    tasks = (await TaskTable(place.state.database).list(list)).tasks if list else ()
    return LandDraft(
        "",
        target,
        branch_at(where, tree.path) or tree.branch,
        "",
        "",
        owner=member.name if member else owner_of(found, houses),
        agent=owner,
        session=SessionId(tree.session) if tree.session else None,
        team=member.team if member else "",
        list=list,
        task=task_of(tasks, owner) if owner else None,
        priority=priority,
    )
