"""Code on its way between machines, as data: what was sent, what an agent's tree was, and what came back.

Commits are named by their ids, packs by the digest of their bytes: `code/SHA256` is an object of the engine.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
OBJECT = re.compile(r"code/[0-9a-f]{64}")


class Parcel(Struct, frozen=True):
    """A commit with all that it needs, except for what its prerequisites bring."""

    project: str  # names the repository, the same in every clone
    tip: str
    prerequisites: tuple[str, ...]
    object: str
    bytes: int


class Upstream(Struct, frozen=True):
    """A git remote that workers fetch from themselves."""

    url: str
    branch: str  # which has the commit: `refs/heads/NAME`


class Journey(Struct, frozen=True):
    """Where an agent starts that runs elsewhere."""

    project: str
    base: str  # the commit
    directory: str  # within the repository; empty: its top
    parcels: tuple[Parcel, ...] = ()  # that the engine did not have before
    left: int = 0  # files with uncommitted changes, which stay behind
    upstream: Upstream | None = None  # in place of parcels

    @property
    def note(self) -> str:
        if not self.left:
            return ""
        return f"{self.left} file{'' if self.left == 1 else 's'} with uncommitted changes stay here."


class SavedTree(Struct, frozen=True):
    """A working tree as it was after a call: enough to go on with it on another machine."""

    commit: str  # holds the files; it is on no branch
    head: str  # `refs/heads/NAME`, or a commit where HEAD was detached
    refs: Mapping[str, str]  # every local branch
    object: str = ""  # empty: nothing new had to be sent
    whole: bool = False  # needs no tree that was saved before
    notes: tuple[str, ...] = ()  # what was not saved, said once


class BranchBack(Struct, frozen=True):
    """An agent's work. Under the empty name is its HEAD, with what it had not committed as a last commit; other
    branches that it made are under their names."""

    base: str
    refs: Mapping[str, str]
    object: str
    loose: bool = False  # the last commit is what it had left uncommitted


class Landed(Struct, frozen=True):
    """The branch that an agent's work has become here."""

    branch: str
    tip: str
    others: tuple[str, ...] = ()
    words: str = ""  # for whoever must merge it


class Author(Struct, frozen=True):
    """Whose name commits carry."""

    name: str = "Teamwright"
    email: str = "teamwright@localhost"


class TreeSaved(Struct, frozen=True, tag="tree_saved", omit_defaults=True):
    """An event of an agent on a worker: its files after a call are stored, for whoever goes on elsewhere."""

    saved: SavedTree
    durable: ClassVar[bool] = True
