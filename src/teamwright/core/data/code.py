"""Code in transit between machines, as data: what was sent, the tree an agent had, and what came back.

Commits are named by their ids, packs by the digest of their bytes: `code/SHA256` is an object of the engine.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
OBJECT = re.compile(r"code/[0-9a-f]{64}")


class Parcel(Struct, frozen=True):
    """A commit with everything it needs beyond its prerequisites."""

    project: str  # identifies the repository, the same in every clone
    tip: str
    prerequisites: tuple[str, ...]
    object: str
    bytes: int


class Upstream(Struct, frozen=True):
    """A git remote that workers fetch from themselves."""

    url: str
    branch: str  # a branch that contains the commit: `refs/heads/NAME`


class Journey(Struct, frozen=True):
    """Where an agent that runs elsewhere starts."""

    project: str
    base: str  # the commit to start from
    directory: str  # within the repository; empty: its top
    parcels: tuple[Parcel, ...] = ()  # parcels that the engine did not have yet
    left: int = 0  # number of files with uncommitted changes, which stay behind
    upstream: Upstream | None = None  # set instead of parcels

    @property
    def note(self) -> str:
        if not self.left:
            return ""
        return f"{self.left} file{'' if self.left == 1 else 's'} with uncommitted changes stay here."


class SavedTree(Struct, frozen=True):
    """A working tree as it was after a call: enough to go on with it on another machine."""

    commit: str  # holds the files; it is on no branch
    head: str  # `refs/heads/NAME`, or a commit if HEAD was detached
    refs: Mapping[str, str]  # every local branch
    object: str = ""  # empty: there was nothing new to send
    whole: bool = False  # does not depend on a tree saved earlier
    notes: tuple[str, ...] = ()  # what was not saved; reported once


class BranchBack(Struct, frozen=True):
    """The work an agent brings back. The empty name stands for its HEAD, with uncommitted changes as a last commit;
    other names are further branches that it made."""

    base: str
    refs: Mapping[str, str]
    object: str
    loose: bool = False  # the last commit holds uncommitted changes


class Landed(Struct, frozen=True):
    """The local branch that now holds an agent's work."""

    branch: str
    tip: str
    others: tuple[str, ...] = ()
    words: str = ""  # instructions for the one who must merge it


class Author(Struct, frozen=True):
    """The name and address on commits."""

    name: str = "Teamwright"
    email: str = "teamwright@localhost"


class TreeSaved(Struct, frozen=True, tag="tree_saved", omit_defaults=True):
    """An agent on a worker has stored its files after a call, so that it can resume on another machine."""

    saved: SavedTree
    durable: ClassVar[bool] = True
