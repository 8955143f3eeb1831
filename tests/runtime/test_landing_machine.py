"""A state machine over the landing queue: owners that commit and queue, checks that fail, targets that move, runs
that are killed. Everything on the target was checked as a whole, and nothing is lost.
"""

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from landing_kit import Yard, branch, commit_on, left_trees, open_yard
from teamwright.core.data.landing import LandEntry
from teamwright.core.errors import ToolError
from teamwright.host.git.run import locate
from teamwright.runtime.landing.plan import Checked
from worktree_kit import git

NAMES = st.sampled_from(["a", "b", "c"])
WORK = st.sampled_from(["good", "bad", "clash"])


class Killed(Exception):
    """Cancels the run in the middle of a check, as when the program ends."""


class LandingMachine(RuleBasedStateMachine):
    """The check never lets `bad.txt` pass; `clash` edits the one line that others edit, too."""

    def __init__(self) -> None:
        super().__init__()
        self.room = tempfile.TemporaryDirectory()
        self.portal_manager = start_blocking_portal()
        self.portal = self.portal_manager.__enter__()
        self.opened = self.portal.wrap_async_context_manager(open_yard(Path(self.room.name)))
        self.yard: Yard = self.opened.__enter__()
        git(self.yard.repo, "checkout", "-q", "--detach")
        self.tips: set[str] = set()  # everything ever queued
        self.checked: set[str] = set()  # trees that passed a check
        self.commits = self.others = 0  # by owners, and by somebody else on the target
        self.seen = [self.yard.head()]  # of the target, oldest first

    def teardown(self) -> None:
        self.opened.__exit__(None, None, None)
        self.portal_manager.__exit__(None, None, None)
        self.room.cleanup()

    def do(self, work: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        async def limited() -> Any:
            with anyio.fail_after(120):
                return await work(*args)

        return self.portal.call(limited)

    @initialize()
    def begin(self) -> None:
        self.checked.add(self._tree("main"))

    def _tree(self, name: str) -> str:
        return git(self.yard.repo, "rev-parse", f"{name}^{{tree}}").strip()

    @rule(name=NAMES, work=WORK)
    def an_owner_commits(self, name: str, work: str) -> None:
        self.commits += 1
        files = {
            "good": {f"{name}-{self.commits}.txt": "fine\n"},
            "bad": {"bad.txt": f"{name} {self.commits}\n"},
            "clash": {"README.md": f"{name} {self.commits}\n"},
        }[work]
        known = name in git(self.yard.repo, "branch", "--format=%(refname:short)").split()
        (commit_on if known else branch)(self.yard.repo, name, files)

    @rule(name=NAMES, priority=st.integers(0, 2))
    def an_owner_says_ready(self, name: str, priority: int) -> None:
        async def queue() -> LandEntry | None:
            try:
                return await self.yard.queue(name, priority=priority)
            except ToolError:
                return None

        if (entry := self.do(queue)) is not None:
            self.tips.add(entry.draft.tip)

    @rule(name=NAMES)
    def somebody_gives_up(self, name: str) -> None:
        async def give_up() -> None:
            for entry in await self._entries():
                if entry.draft.branch == name and entry.state == "waiting":
                    await self.yard.table.change(entry.id, "waiting", "given_up", "not wanted")

        self.do(give_up)

    @rule()
    def the_target_moves(self) -> None:
        self.others += 1
        self.seen.append(commit_on(self.yard.repo, "main", {f"other{self.others}.txt": "x\n"}))
        self.checked.add(self._tree("main"))

    @precondition(lambda self: self.tips)
    @rule(moves=st.booleans(), method=st.sampled_from(["merge", "rebase"]), ahead=st.integers(0, 2))
    def the_queue_runs(self, moves: bool, method: str, ahead: int) -> None:
        self.yard.method, self.yard.ahead = method, ahead
        moved: list[bool] = [not moves]

        async def check(tree: Path, entry: LandEntry) -> Checked:
            if not moved[0]:
                moved[0] = True
                self.the_target_moves()
            if (tree / "bad.txt").exists():
                return Checked("red")
            self.checked.add(git(tree, "rev-parse", "HEAD^{tree}").strip())
            return Checked()

        self.yard.check = check
        end = self.do(self.yard.run)
        assert not end.blocked and not end.held
        assert not any(entry.is_open for entry in self.do(self._entries)), "everything is decided"

    @precondition(lambda self: self.tips)
    @rule(after=st.integers(0, 1))
    def the_queue_is_cut_short(self, after: int) -> None:
        passed: list[None] = []

        async def check(tree: Path, entry: LandEntry) -> Checked:
            if len(passed) == after:
                raise Killed
            passed.append(None)
            if (tree / "bad.txt").exists():
                return Checked("red")
            self.checked.add(git(tree, "rev-parse", "HEAD^{tree}").strip())
            return Checked()

        async def run() -> None:
            try:
                await self.yard.run()
            except* Killed:
                pass

        self.yard.check = check
        self.do(run)

    async def _entries(self) -> list[LandEntry]:
        return await self.yard.table.entries(str((await locate(self.yard.repo)).common))

    @invariant()
    def the_target_only_grows_and_was_checked_as_it_is(self) -> None:
        head = self.yard.head()
        assert git(self.yard.repo, "merge-base", "--is-ancestor", self.seen[-1], head) == ""
        if head != self.seen[-1]:
            self.seen.append(head)
        assert "bad.txt" not in self.yard.files()
        assert self._tree("main") in self.checked

    @invariant()
    def nothing_is_lost(self) -> None:
        kept = git(self.yard.repo, "for-each-ref", "--format=%(objectname)", "refs/teamwright/landing").split()
        assert self.tips <= set(kept) and not left_trees(self.yard.repo)

    @invariant()
    def what_landed_is_in_the_target(self) -> None:
        for entry in self.do(self._entries):
            assert entry.state != "trying"
            if entry.state == "landed" and entry.commit:
                assert git(self.yard.repo, "merge-base", "--is-ancestor", entry.commit, "main") == ""


@pytest.mark.spec("LQ2", "LQ5", "LQ9", "LQ10")
def test_whatever_owners_checks_and_targets_do() -> None:
    run_state_machine_as_test(
        LandingMachine,
        settings=settings(
            max_examples=6,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )
