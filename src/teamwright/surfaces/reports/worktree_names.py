"""Finds the owners of worktrees, and the worktree that a name, branch, agent or beginning of a name means."""

from collections.abc import Sequence

from teamwright.core.errors import UsageError
from teamwright.core.text import closest
from teamwright.host.git.worktrees.worktree import FoundTree, Worktree
from teamwright.store.tables.member_worktrees import Houses
from teamwright.tools.bounds import visible

_MISSING = "there is no worktree"


def owner_of(entry: FoundTree, houses: Houses) -> str:
    """`ada@crew`, an agent's name, or the session; empty if unknown."""
    tree = entry.worktree
    member = houses.members.get(tree.path)
    if member is not None:
        return member.address
    if name := houses.names.get(tree.owner):
        return name
    session = tree.session or tree.owner
    return f"session {session[:8]}" if session else ""


def flat(name: str) -> str:
    return name.replace("/", "+")


def pick(name: str, found: Sequence[FoundTree], houses: Houses) -> FoundTree:
    """The worktree that is meant. Raises UsageError if there is none, or more than one."""
    if not name:  # the beginning of every name
        raise UsageError("the name of a worktree is empty; `teamwright worktrees` lists them")
    meant = _matching(name, found, houses)
    if len(meant) == 1:
        return meant[0]
    if meant:
        several = ", ".join(f"{e.worktree.name} ({owner_of(e, houses) or e.worktree.branch})" for e in meant)
        raise UsageError(visible(f"{name} can mean several worktrees: {several}"))
    near = closest(flat(name), [e.worktree.name for e in found])
    hint = f"did you mean {near}?" if near else "`teamwright worktrees` lists them"
    raise UsageError(visible(f"{_MISSING} {flat(name)}; {hint}"))


def is_missing(error: UsageError) -> bool:
    """Whether nothing was found, rather than too much."""
    return str(error).startswith(_MISSING)


def _matching(name: str, found: Sequence[FoundTree], houses: Houses) -> list[FoundTree]:
    if own := [e for e in found if e.worktree.name == flat(name)]:
        return own
    if called := [e for e in found if name in _calls(e, houses)]:
        return called
    return [e for e in found if _begins(e.worktree, name)]


def _begins(tree: Worktree, name: str) -> bool:
    return tree.name.startswith(flat(name)) or tree.branch.startswith(name)


def _calls(entry: FoundTree, houses: Houses) -> tuple[str, ...]:
    tree, owner = entry.worktree, owner_of(entry, houses)
    return (tree.branch, tree.owner, owner, owner.partition("@")[0])
