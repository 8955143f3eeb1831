"""The landing queue with real repositories and real checks."""

import subprocess
from pathlib import Path

import anyio
import pytest

from landing_kit import branch, commit_on, left_trees, open_yard
from teamwright.core.data.landing import LandEntry
from teamwright.core.data.tasks import Actor, Draft, TaskId
from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId
from teamwright.host.git.run import locate
from teamwright.runtime.landing.plan import Checked
from teamwright.runtime.landing.runner import BusyError, queue_lock
from teamwright.store.tables.tasks import TaskTable
from worktree_kit import git, save

pytestmark = pytest.mark.anyio


@pytest.mark.spec("LQ1")
async def test_what_is_green_lands_in_order(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        for name, priority in (("a", 0), ("b", 5), ("c", 0)):
            await yard.ready(name, priority=priority)
        end = await yard.run()
        assert [entry.draft.branch for entry in end.done] == ["b", "a", "c"]
        assert {entry.state for entry in end.done} == {"landed"} and not end.blocked
        assert {"a.txt", "b.txt", "c.txt"} <= yard.files()
        assert end.done[-1].commit == yard.head()
        assert (yard.repo / "c.txt").read_text() == "c\n" and not git(yard.repo, "status", "--porcelain")
        assert not left_trees(yard.repo)


@pytest.mark.spec("LQ2")
async def test_each_is_checked_on_what_it_lands_on(tmp_path: Path) -> None:
    """Each is green alone; together they are red."""
    async with open_yard(tmp_path) as yard:
        yard.command = "! { test -e a.txt && test -e b.txt; }"
        await yard.ready("a")
        await yard.ready("b")
        end = await yard.run()
        assert await yard.states() == {"a": "landed", "b": "sent_back"}
        assert "a.txt" in yard.files() and "b.txt" not in yard.files()
        assert "exit code 1" in end.done[1].reason


@pytest.mark.spec("LQ3")
async def test_a_red_one_goes_back_and_the_next_goes_on(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.command = "echo looking; test ! -e bad.txt || { printf 'it is \\033[31mbad\\n'; exit 3; }"
        for name in ("good", "bad", "fine"):
            await yard.ready(name)
        await yard.run()
        assert await yard.states() == {"good": "landed", "bad": "sent_back", "fine": "landed"}
        assert "bad.txt" not in yard.files() and {"good.txt", "fine.txt"} <= yard.files()
        assert not left_trees(yard.repo)


def record_resolution(repo: Path) -> None:
    """The person has resolved this very conflict before, and git remembers how."""
    git(repo, "config", "rerere.enabled", "true")
    git(repo, "config", "rerere.autoupdate", "true")
    git(repo, "checkout", "-q", "-b", "scratch", "a")
    subprocess.run(["git", "merge", "-q", "b"], cwd=repo, check=False, capture_output=True)
    (repo / "README.md").write_text("both\n")
    git(repo, "commit", "-qam", "settled")
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-q", "-D", "scratch")
    assert any((repo / ".git" / "rr-cache").iterdir())


@pytest.mark.spec("LQ3")
@pytest.mark.parametrize("method", ["merge", "rebase"])
async def test_a_conflict_goes_back_and_is_never_guessed(tmp_path: Path, method: str) -> None:
    async with open_yard(tmp_path) as yard:
        yard.method = method
        for name in ("a", "b"):
            await yard.ready(name, {"README.md": f"hello from {name}\n", f"{name}.txt": name})
        record_resolution(yard.repo)
        end = await yard.run()
        assert await yard.states() == {"a": "landed", "b": "sent_back"}
        assert git(yard.repo, "show", "main:README.md") == "hello from a\n"
        assert "conflicts in README.md" in end.done[1].reason


@pytest.mark.spec("LQ3")
async def test_a_merge_driver_of_the_repository_solves_what_it_knows(tmp_path: Path) -> None:
    from teamwright.host.git.guard import trust_repository

    async with open_yard(tmp_path) as yard:
        (yard.repo / ".gitattributes").write_text("CHANGES merge=union\n")
        (yard.repo / "CHANGES").write_text("first\n")
        save(yard.repo)
        trust_repository(yard.repo, trusted=True)
        for name in ("a", "b"):
            await yard.ready(name, {"CHANGES": f"first\n{name}\n"})
        await yard.run()
        assert await yard.states() == {"a": "landed", "b": "landed"}
        assert git(yard.repo, "show", "main:CHANGES").split() == ["first", "a", "b"]


@pytest.mark.spec("LQ4")
async def test_a_check_that_hangs_ends_at_its_limit_with_all_that_it_started(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.limit, mark = 0.5, tmp_path / "pid"
        yard.command = f"sleep 1000 & echo $! > {mark}; sleep 1000"
        await yard.ready("a")
        end = await yard.run()
        assert end.done[0].state == "sent_back" and "timed out after 0.5 s" in end.done[0].reason
        ended = subprocess.run(
            ["ps", "-o", "stat=", "-p", mark.read_text().strip()], capture_output=True, text=True, check=False
        )
        assert ended.stdout.strip() in ("", "Z")


@pytest.mark.spec("LQ7")
async def test_the_next_one_is_prepared_while_one_is_checked(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        seen: list[int] = []

        async def check(tree: Path, entry: LandEntry) -> Checked:
            if entry.draft.branch == "c":
                return Checked()
            with anyio.fail_after(30):
                while len(left_trees(yard.repo)) < 4:  # two trees, on the disk and in the register
                    await anyio.sleep(0.01)
            seen.append(len(left_trees(yard.repo)))
            return Checked("red") if entry.draft.branch == "a" else Checked()

        yard.check = check
        for name in ("a", "b", "c"):
            await yard.ready(name)
        await yard.run()
        assert await yard.states() == {"a": "sent_back", "b": "landed", "c": "landed"}
        assert len(seen) == 2 and "a.txt" not in yard.files() and not left_trees(yard.repo)


@pytest.mark.spec("LQ7")
async def test_what_conflicts_only_with_an_unproven_one_still_lands(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.command = "test ! -e bad.txt"
        await yard.ready("bad", {"README.md": "bad\n", "bad.txt": "x\n"})
        await yard.ready("good", {"README.md": "good\n"})
        await yard.run()
        assert await yard.states() == {"bad": "sent_back", "good": "landed"}
        assert git(yard.repo, "show", "main:README.md") == "good\n"


@pytest.mark.spec("LQ1")
async def test_only_what_is_named_lands(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        await yard.ready("a")
        b = await yard.ready("b")
        await yard.run([b.id])
        assert await yard.states() == {"a": "waiting", "b": "landed"}


@pytest.mark.spec("LQ1")
async def test_what_a_task_needs_lands_first_and_holds_it_when_it_came_back(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        tasks, lead = TaskTable(yard.state.database), Actor(AgentId("lead"), "lead", lead=True)
        await tasks.create("crew", Draft("first"), lead)
        await tasks.create("crew", Draft("second", blocked_by=(TaskId(1),)), lead)
        yard.command = "test ! -e bad.txt"
        await yard.ready("second", list="crew", task=2, priority=5)
        await yard.ready("first", {"bad.txt": "x\n"}, list="crew", task=1)
        end = await yard.run()
        assert await yard.states() == {"first": "sent_back", "second": "waiting"}
        assert list(end.held.values()) == ["its task needs #1 first, and first was sent back"]
        git(yard.repo, "branch", "-q", "-D", "first")
        await yard.ready("first", {"first.txt": "x\n"}, list="crew", task=1)
        end = await yard.run()
        assert [entry.draft.branch for entry in end.done] == ["first", "second"] and not end.held


@pytest.mark.spec("LQ8")
async def test_what_was_ready_lands_and_not_what_came_later(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        entry = await yard.ready("a")
        commit_on(yard.repo, "a", {"later.txt": "not yet\n"})
        await yard.run()
        assert "a.txt" in yard.files() and "later.txt" not in yard.files()
        again = await yard.queue("a")
        assert again.id != entry.id
        await yard.run()
        assert "later.txt" in yard.files()


@pytest.mark.spec("LQ8")
async def test_a_branch_that_waits_gets_its_new_commit_and_keeps_its_place(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        first = await yard.ready("a")
        await yard.ready("b")
        tip = commit_on(yard.repo, "a", {"later.txt": "ready now\n"})
        again = await yard.queue("a")
        assert again.id == first.id and again.draft.tip == tip
        assert [entry.draft.branch for entry in (await yard.run()).done] == ["a", "b"]


@pytest.mark.spec("LQ8")
async def test_what_is_not_ready_is_refused_in_words(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        with pytest.raises(ToolError, match="There is no branch nope"):
            await yard.queue("nope")
        with pytest.raises(ToolError, match="is the branch that work lands on"):
            await yard.queue("main")
        git(yard.repo, "branch", "empty")
        with pytest.raises(ToolError, match="there is nothing to land"):
            await yard.queue("empty")
        branch(yard.repo, "a", {"a.txt": "a\n"})
        tree = tmp_path / "tree"
        git(yard.repo, "worktree", "add", "-q", str(tree), "a")
        (tree / "new.txt").write_text("not committed\n")
        with pytest.raises(ToolError, match=r"not committed: new\.txt\. Commit them"):
            await yard.queue("a")


@pytest.mark.spec("LQ9")
async def test_commits_of_all_that_was_ever_queued_are_kept(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.command = "test ! -e bad.txt"
        tips = {name: (await yard.ready(name)).draft.tip for name in ("fix/good", "bad", "idle")}
        idle = (await yard.table.entries(str((await locate(yard.repo)).common)))[-1]
        assert await yard.table.change(idle.id, "waiting", "given_up", "not wanted") is not None
        await yard.run()
        for name in tips:
            git(yard.repo, "branch", "-q", "-D", name)
        git(yard.repo, "gc", "-q", "--prune=now")
        kept = git(yard.repo, "for-each-ref", "--format=%(objectname) %(refname)", "refs/teamwright/landing").split(
            "\n"
        )
        assert {line.split()[0] for line in kept if line} == set(tips.values())
        assert f"refs/teamwright/landing/fix+good-{tips['fix/good'][:12]}" in kept[1] + kept[2] + kept[0]


@pytest.mark.spec("LQ1")
async def test_two_never_run_the_same_queue(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        await yard.ready("a")
        async with queue_lock(await locate(yard.repo)):
            with pytest.raises(BusyError, match="Somebody else lands here"):
                await yard.run()


@pytest.mark.spec("LQ10")
async def test_a_cancelled_run_leaves_the_queue_as_it_was(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        begun = anyio.Event()

        async def check(tree: Path, entry: LandEntry) -> Checked:
            begun.set()
            await anyio.sleep_forever()
            raise AssertionError

        yard.check = check
        before = yard.head()
        for name in ("a", "b"):
            await yard.ready(name)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(yard.run)
                await begun.wait()
                group.cancel_scope.cancel()
        assert await yard.states() == {"a": "waiting", "b": "waiting"}
        assert yard.head() == before and not left_trees(yard.repo)


@pytest.mark.spec("LQ11")
async def test_hooks_and_drivers_of_an_untrusted_repository_never_run(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        mark = tmp_path / "ran"
        for name in ("post-checkout", "post-merge", "pre-rebase", "reference-transaction", "prepare-commit-msg"):
            hook = yard.repo / ".git" / "hooks" / name
            hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
            hook.chmod(0o755)
        git(yard.repo, "config", "filter.evil.smudge", f"touch {mark}; cat")
        git(yard.repo, "config", "merge.evil.driver", f"touch {mark}; true")
        (yard.repo / ".git/info/attributes").write_text("* filter=evil merge=evil\n")
        mark.unlink(missing_ok=True)
        tips = [git(yard.repo, "-c", "core.hooksPath=/dev/null", "rev-parse", "HEAD").strip()]
        for name in ("a", "b"):
            tree = git(yard.repo, "-c", "core.hooksPath=/dev/null", "rev-parse", "HEAD^{tree}").strip()
            text = subprocess.run(
                ["git", "hash-object", "-w", "--stdin"],
                cwd=yard.repo,
                input=name,
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
            listed = git(yard.repo, "ls-tree", tree) + f"100644 blob {text}\t{name}.txt\n"
            made = subprocess.run(
                ["git", "mktree"], cwd=yard.repo, input=listed, capture_output=True, text=True, check=False
            )
            tips.append(git(yard.repo, "commit-tree", "-p", tips[0], "-m", name, made.stdout.strip()).strip())
            (yard.repo / ".git/refs/heads" / name).write_text(f"{tips[-1]}\n")
            await yard.queue(name)
        await yard.run()
        assert await yard.states() == {"a": "landed", "b": "landed"} and not mark.exists()


async def test_a_yard_of_nothing_ends_at_once(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        end = await yard.run()
        assert not end.done and not end.blocked
