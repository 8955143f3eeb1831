"""Moves an agent's desk into a worktree, and words what the agent is told there.

Separate from `worktrees`, which makes them with git: most agents have none and need not wait for that import.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.core.ports import Desk
from teamwright.host.files.mounts import is_near
from teamwright.host.files.paths import is_directory
from teamwright.host.git import PLACE

if TYPE_CHECKING:
    from teamwright.host.git.worktrees.worktree import Worktree

_MOVED = """\
You work in a git worktree of your own{branch}: a path {there}/x means {here}/x for you, and nothing outside is yours \
to change. What was not committed there is not here; read files here before you edit them. Commit what is to be \
merged."""


def worktree_words(tree: "Worktree", stood: Path) -> str:
    """What an agent in a worktree is told. `stood` is the directory of its starter, whose paths it is given."""
    branch = f", on the branch {tree.branch} from {tree.base[:7]}" if tree.branch else ""
    return _MOVED.format(here=tree.path, branch=branch, there=_tree_around(stood, tree))


def _tree_around(stood: Path, tree: "Worktree") -> Path:
    """The main tree, or the worktree of it, that contains `stood`."""
    if tree.kind != "git" or not stood.is_relative_to(tree.repo):
        return stood
    inner = stood.relative_to(tree.repo).parts
    return tree.repo.joinpath(*inner[:3]) if inner[:2] == PLACE and len(inner) > 2 else tree.repo


def move_to(desk: Desk, tree: "Worktree") -> None:
    """Replace the project by the worktree."""
    desk.cwd = tree.path
    desk.roots = (tree.path, *desk.roots[1:])
    if tree.kind == "hook":  # its directory may be anywhere
        desk.near = desk.near and is_near(tree.path)


def move_in(desk: Desk, tree: "Worktree") -> None:
    """Move an agent into its worktree, to the place that it had in the repository. It has read no files there.

    An agent that continues in its worktree stays where it was.
    """
    stood = desk.cwd
    move_to(desk, tree)
    if tree.kind == "git" and not stood.is_relative_to(tree.path) and stood.is_relative_to(tree.repo):
        stood = tree.path / stood.relative_to(tree.repo)
    if stood.is_relative_to(tree.path) and is_directory(stood):
        desk.cwd = stood
    desk.seen = {}
