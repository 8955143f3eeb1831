"""A repository with finished branches, a queue for it, and the check that every tree must pass."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from teamwright.core.data.landing import LandDraft, LandEntry, LandId
from teamwright.core.ids import AgentId
from teamwright.host.git.run import locate
from teamwright.host.process.environment import tool_environment
from teamwright.runtime.landing.check import CheckRun
from teamwright.runtime.landing.plan import Check, LandEnd, LandPlan
from teamwright.runtime.landing.queueing import queue_branch
from teamwright.runtime.landing.runner import LandRunner, queue_lock
from teamwright.store.acts.landing import SentBack
from teamwright.store.tables.landing import LandTable
from teamwright.store.tables.state import StateStore
from teamwright.tools.bounds import visible
from worktree_kit import git, new_repo, save

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def branch(repo: Path, name: str, files: dict[str, str], base: str = "main") -> str:
    """A branch with one commit, made without touching the tree."""
    tree = repo.parent / f"tree-{name.replace('/', '-')}"
    git(repo, "worktree", "add", "-q", "-b", name, str(tree), base)
    for file, text in files.items():
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text(text)
    tip = save(tree, f"work of {name}")
    git(repo, "worktree", "remove", str(tree))
    return tip


def commit_on(repo: Path, name: str, files: dict[str, str]) -> str:
    """One more commit on a branch that is not checked out."""
    tree = repo.parent / f"more-{name.replace('/', '-')}"
    git(repo, "worktree", "add", "-q", str(tree), name)
    for file, text in files.items():
        (tree / file).write_text(text)
    tip = save(tree, f"more of {name}")
    git(repo, "worktree", "remove", str(tree))
    return tip


class Yard(Struct):
    """Where branches land in a test. `told` lists every state of every entry, in order."""

    repo: Path
    state: StateStore
    table: LandTable
    told: list[LandEntry]
    sent: list[SentBack]
    target: str = "main"
    command: str = "true"
    method: str = "merge"
    ahead: int = 1
    limit: float = 30.0
    check: Check | None = None

    async def queue(self, name: str, **more: object) -> LandEntry:
        draft = LandDraft("", self.target, name, "", "", **more)  # pyright: ignore[reportArgumentType]
        return await queue_branch(self.table, await locate(self.repo), draft)

    async def ready(self, name: str, files: dict[str, str] | None = None, **more: object) -> LandEntry:
        branch(self.repo, name, files or {f"{name}.txt": f"{name}\n"})
        return await self.queue(name, **more)

    async def run(self, only: Collection[LandId] | None = None) -> LandEnd:
        place = await locate(self.repo)
        plan = LandPlan(place, self.target, self.method, self.ahead)  # pyright: ignore[reportArgumentType]
        check = self.check or CheckRun(
            self.command, tool_environment(PATH, {}), None, AgentId("main"), visible, self.limit
        )

        async def ring(sent: SentBack) -> None:
            self.sent.append(sent)

        async with queue_lock(place):
            return await LandRunner(self.table, plan, check, self.told.append, ring).run(only)

    async def states(self) -> dict[str, str]:
        """The last entry of each branch."""
        entries = await self.table.entries(str((await locate(self.repo)).common))
        return {entry.draft.branch: entry.state for entry in entries}

    def head(self, name: str = "main") -> str:
        return git(self.repo, "rev-parse", name).strip()

    def files(self, name: str = "main") -> set[str]:
        return set(git(self.repo, "ls-tree", "-r", "--name-only", name).split())


@asynccontextmanager
async def open_yard(root: Path) -> AsyncGenerator[Yard]:
    repo = new_repo(root / "repo")
    state = await StateStore.open(root / "home" / "state.db")
    try:
        yield Yard(repo, state, LandTable(state.database), [], [])
    finally:
        await state.close()


def left_trees(repo: Path) -> list[str]:
    """Trees of the queue that still exist, on disk or in git's list."""
    listed = [line for line in git(repo, "worktree", "list", "--porcelain").splitlines() if "/.landing-" in line]
    folder = repo / ".teamwright" / "worktrees"
    return listed + [
        one.name for one in (folder.iterdir() if folder.is_dir() else ()) if one.name.startswith(".landing")
    ]
