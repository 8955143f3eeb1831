"""A repository that code travels from or to, and git as it is run there.

In one of ours (a cache, an agent's clone) nothing counts but what we say: an agent may have changed the configuration
of its clone, and a person's own filters would make bytes of the files that are nowhere else.
"""

from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from teamwright.core.data.code import COMMIT
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.host.git.run import MOST_OUT, Ran, git

T = TypeVar("T")
U = TypeVar("U")
LONG = 600.0  # seconds for what goes through all objects or files

_PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": "/dev/null", "GIT_NO_LAZY_FETCH": "1"}
_ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
# What a clone's own configuration may have been told otherwise.
_SETTINGS = {
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.sparseCheckout": "false",
    "core.checkStat": "default",
    "core.splitIndex": "false",
    "core.logAllRefUpdates": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "commit.gpgSign": "false",
}

# After a power cut an agent's clone is made anew from what the engine has.
_UNSYNCED = {"core.fsync": "none"}


class Repo(Struct, frozen=True):
    """Where git is run, and with what."""

    cwd: Path
    extra: Mapping[str, str]
    front: tuple[str, ...] = ()

    async def run(self, *args: str, extra: Mapping[str, str] | None = None, **how: Any) -> Ran:
        """To its end, whatever its status."""
        return await git(*self.front, *args, cwd=self.cwd, extra={**self.extra, **(extra or {})}, **how)

    async def text(self, *args: str, extra: Mapping[str, str] | None = None, **how: Any) -> str:
        """What it printed; a ToolError with git's own words if it failed."""
        ran = await self.run(*args, extra=extra, **how)
        if ran.status or ran.cut:
            why = f"more than {MOST_OUT:,} bytes of output" if ran.cut else ran.complaint
            raise ToolError(f"git {args[0]} failed in {shown(str(self.cwd))}: {why}")
        return ran.out

    async def has(self, *commits: str) -> bool:
        """All of these commits?"""
        return len(await self.commits_of(commits)) == len(commits)

    async def commits_of(self, names: Sequence[str]) -> list[str]:
        """Those of them that are commits which are here."""
        told = await self.text("cat-file", "--batch-check", input="".join(f"{name}\n" for name in names).encode())
        return [line.split()[0] for line in told.splitlines() if line.split()[1:2] == ["commit"]]

    async def commit(self, name: str) -> str:
        """The commit that a name means; empty if it means none."""
        ran = await self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return ran.out.strip() if ran.status == 0 else ""

    async def tree(self, commit: str) -> str:
        return (await self.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")).strip()


async def together(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Both at the same time: programs of git take longer to start than for most that they are asked."""
    first, second = list[T](), list[U]()

    async def ask() -> None:
        first.append(await one)

    async def ask_other() -> None:
        second.append(await other)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask_other)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return first[0], second[0]


def theirs(cwd: Path) -> Repo:
    """A person's repository: guarded as everywhere, and its history as it is stored, without replacements."""
    return Repo(cwd, _PLAIN)


def ours(git_dir: Path, tree: Path | None = None) -> Repo:
    """A repository that we made, bare or with a tree."""
    where = {"GIT_DIR": str(git_dir)} | ({"GIT_WORK_TREE": str(tree)} if tree is not None else {})
    settings = _SETTINGS if tree is None else _SETTINGS | _UNSYNCED
    front = tuple(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
    return Repo(git_dir if tree is None else tree, _PLAIN | _ALONE | where, front)


async def init(repo: Repo, like: str, *how: str) -> None:
    """An empty repository of ours, without anybody's template, for objects as this one is named."""
    kind = "sha256" if len(like) == 64 else "sha1"
    await repo.text("init", "--quiet", "--template=", f"--object-format={kind}", *how)


def check_commits(*commits: str) -> None:
    """What comes from elsewhere and is called a commit must look like one, before git is given it."""
    for commit in commits:
        if not COMMIT.fullmatch(commit):
            raise ToolError(f"`{shown(commit, 80)}` is not the name of a commit.")
