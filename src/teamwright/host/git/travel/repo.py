"""A repository that code travels from or to, and how git is run there.

In our own repositories (a cache, an agent's clone) only our settings apply: an agent may have changed its clone's
configuration, and a person's filters would produce file contents that exist nowhere else.
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
LONG = 600.0  # seconds for work on all objects or files

_PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": "/dev/null", "GIT_NO_LAZY_FETCH": "1"}
_ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
# Override what a clone's own configuration may say.
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

# after a power cut, an agent's clone is recreated from the engine
_UNSYNCED = {"core.fsync": "none"}


class Repo(Struct, frozen=True):
    """Where git runs, and with which settings."""

    cwd: Path
    extra: Mapping[str, str]
    front: tuple[str, ...] = ()

    async def run(self, *args: str, extra: Mapping[str, str] | None = None, **how: Any) -> Ran:
        """Runs git to its end, whatever its status."""
        return await git(*self.front, *args, cwd=self.cwd, extra={**self.extra, **(extra or {})}, **how)

    async def text(self, *args: str, extra: Mapping[str, str] | None = None, **how: Any) -> str:
        """Git's output; raises ToolError with git's own words if it fails."""
        ran = await self.run(*args, extra=extra, **how)
        if ran.status or ran.cut:
            why = f"more than {MOST_OUT:,} bytes of output" if ran.cut else ran.complaint
            raise ToolError(f"git {args[0]} failed in {shown(str(self.cwd))}: {why}")
        return ran.out

    async def has(self, *commits: str) -> bool:
        """Are all of these commits here?"""
        return len(await self.commits_of(commits)) == len(commits)

    async def commits_of(self, names: Sequence[str]) -> list[str]:
        """Those names that are commits present here."""
        told = await self.text("cat-file", "--batch-check", input="".join(f"{name}\n" for name in names).encode())
        return [line.split()[0] for line in told.splitlines() if line.split()[1:2] == ["commit"]]

    async def commit(self, name: str) -> str:
        """The commit that a name refers to; empty if none."""
        ran = await self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return ran.out.strip() if ran.status == 0 else ""

    async def tree(self, commit: str) -> str:
        return (await self.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")).strip()


async def together(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Runs both at once: git takes longer to start than to answer most questions."""
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
    """A person's repository: guarded as usual, its history read as stored, without replacement objects."""
    return Repo(cwd, _PLAIN)


def ours(git_dir: Path, tree: Path | None = None) -> Repo:
    """A repository that we made, bare or with a tree."""
    where = {"GIT_DIR": str(git_dir)} | ({"GIT_WORK_TREE": str(tree)} if tree is not None else {})
    settings = _SETTINGS if tree is None else _SETTINGS | _UNSYNCED
    front = tuple(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))
    return Repo(git_dir if tree is None else tree, _PLAIN | _ALONE | where, front)


async def init(repo: Repo, like: str, *how: str) -> None:
    """Creates an empty repository of ours, without templates, with the object format of the id `like`."""
    kind = "sha256" if len(like) == 64 else "sha1"
    await repo.text("init", "--quiet", "--template=", f"--object-format={kind}", *how)


def check_commits(*commits: str) -> None:
    """Validates commit ids from elsewhere before git sees them."""
    for commit in commits:
        if not COMMIT.fullmatch(commit):
            raise ToolError(f"`{shown(commit, 80)}` is not the name of a commit.")
