"""EnterWorktree and ExitWorktree: an agent moves into a worktree and back by itself, and nothing is lost."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walk, Walker
from crew import ID, after, agent, bash, crew, ended_calls, marking, results
from teamwright.core.data.event import ToolEnded
from teamwright.core.data.message import Request
from teamwright.core.permissions.consent import Allow, Decision, Question
from teamwright.host.git.worktrees.worktree import find, make
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from worktree_kit import branches, git, kept_refs, known, new_repo, nothing_left, save, untouched

pytestmark = pytest.mark.anyio
WHERE = bash("pwd -P")


@pytest.fixture
def repo(walker: Walker) -> Path:
    walker.project.rmdir()
    return new_repo(walker.project)


def enter(name: str = "") -> Any:
    return call("EnterWorktree", **({"name": name} if name else {}))


def leave(action: str = "keep", **more: Any) -> Any:
    return call("ExitWorktree", action=action, **more)


async def play(walker: Walker, *steps: Any, **more: Any) -> Walk:
    """Play the steps one after the other, even in a session that had others before."""
    script = iter([*steps, "end"])
    return await walker.walk(lambda _: next(script), **{"mode": "bypassPermissions"} | more)


def place(repo: Path, name: str = "work") -> Path:
    return repo / ".teamwright" / "worktrees" / name


# --- in, and out again


@pytest.mark.spec("W1", "W2", "W3")
async def test_the_session_moves_in_and_out(walker: Walker, repo: Path) -> None:
    note = call("Write", file_path="new.txt", content="x\n")
    walk = await play(walker, enter("fix/it"), WHERE, note, leave(), WHERE)
    tree = place(repo, "fix+it")
    texts = [text for text, _ in walk.results]
    assert not any(failed for _, failed in walk.results)
    assert texts[1].strip() == str(tree) and texts[4].strip() == str(repo)
    assert (tree / "new.txt").exists() and untouched(repo)
    assert "new.txt | +1 -0" in texts[3] and "worktree-fix+it" in texts[3]
    data = [e.data for e in walk.of(ToolEnded)]
    assert data[0] == {
        "worktreeName": "fix+it", "worktreePath": str(tree), "worktreeBranch": "worktree-fix+it", "created": True,
    }  # fmt: skip
    assert data[3]["removed"] is False
    assert [f.use for f in await find(repo)] == ["changed"]


@pytest.mark.spec("W1")
async def test_it_is_in_use_while_the_session_lives_and_says_whose_it_is(walker: Walker, repo: Path) -> None:
    async with crew(walker, {"main": [enter(), "in it", leave(), "out"]}) as made:
        await made.play()
        (found,) = await find(repo)
        assert (found.use, found.worktree.owner, found.worktree.session) == ("in_use", made.id, made.session.id)
        assert found.worktree.name.startswith(f"{made.id}-")
        await made.play()
        assert [f.use for f in await find(repo)] == ["clean"]


@pytest.mark.spec("W3")
async def test_it_stays_after_the_session_though_nothing_was_changed(walker: Walker, repo: Path) -> None:
    await play(walker, enter("work"))
    assert [f.use for f in await find(repo)] == ["clean"]
    walk = await play(walker, enter("work"), leave("remove"))
    assert "there already" in walk.results[0][0] and not walk.results[1][1]
    assert nothing_left(repo) and kept_refs(repo) == []


@pytest.mark.spec("W3", "W8")
async def test_removing_names_what_would_be_lost_and_then_keeps_it_under_a_ref(walker: Walker, repo: Path) -> None:
    walk = await play(
        walker, enter("work"), bash("echo mine > new.txt"), leave("remove"), WHERE,
        leave("remove", discard_changes=True), WHERE,
    )  # fmt: skip
    (_, _, (refusal, refused), (inside, _), (told, failed), (outside, _)) = walk.results
    assert refused and "new.txt | +1 -0" in refusal and inside.strip() == str(place(repo))
    (ref,) = kept_refs(repo)
    assert not failed and ref in told and outside.strip() == str(repo)
    assert git(repo, "show", f"{ref}:new.txt") == "mine\n" and nothing_left(repo)


@pytest.mark.spec("W3")
async def test_it_goes_back_to_the_very_directory_that_it_came_from(walker: Walker, repo: Path) -> None:
    (repo / "sub").mkdir()
    walk = await play(walker, bash("cd sub"), enter("work"), bash("mkdir deep; cd deep"), leave(), WHERE)
    assert walk.results[-1][0].strip() == str(repo / "sub")
    assert walk.session.main.desk.roots[0] == repo


@pytest.mark.spec("W3")
async def test_deleted_under_the_agent(walker: Walker, repo: Path) -> None:
    """It leaves cleanly and is told; commits on the branch stay unless it may discard them."""
    rm = bash(f"rm -rf '{place(repo)}'")
    walk = await play(walker, enter("work"), rm, leave("remove"), WHERE)
    assert not walk.results[2][1] and "somebody had deleted" in walk.results[2][0]
    assert walk.results[3][0].strip() == str(repo) and nothing_left(repo)
    commit = bash("echo x > new.txt; git add -A; git commit -qm more")
    walk = await play(walker, enter("work"), commit, rm, leave("remove"), WHERE)
    assert not walk.results[3][1] and "worktree-work has commits and was kept" in walk.results[3][0]
    assert "worktree-work" in branches(repo) and walk.results[4][0].strip() == str(repo)


async def test_a_whole_repository_deleted_under_the_agent(walker: Walker, repo: Path) -> None:
    walk = await play(walker, enter("work"), bash(f"rm -rf '{repo}/.git' '{place(repo)}'"), leave("remove"))
    assert not walk.results[2][1] and walk.session.main.desk.cwd == repo


# --- what cannot be


@pytest.mark.spec("W2")
async def test_calls_that_make_no_sense_are_told_and_change_nothing(walker: Walker, repo: Path) -> None:
    calls = [
        leave(), leave("remove"), leave("burn"), enter("-b"), enter("a\nb"), enter("a\u202eb"), enter("../up"),
        enter("x" * 65), call("EnterWorktree", name=7), enter("work"), enter("other"),
    ]  # fmt: skip
    walk = await play(walker, *calls)
    assert [failed for _, failed in walk.results] == [True] * 9 + [False, True]
    assert "not entered" in walk.results[0][0] and "already" in walk.results[-1][0]
    assert known(repo) == ["work"] and all(text.replace("\n", "").isprintable() for text, _ in walk.results)


@pytest.mark.parametrize("state", ["none", "bare", "empty"])
async def test_where_there_is_no_repository_to_branch_from(walker: Walker, state: str) -> None:
    if state != "none":
        git(walker.project, "init", "-q", *(["--bare"] if state == "bare" else []))
    walk = await play(walker, enter("work"), WHERE)
    words = {"none": "not in a git working tree", "bare": "bare repository", "empty": "Make a first commit"}[state]
    assert walk.results[0][1] and words in walk.results[0][0]
    assert walk.results[1][0].strip() == str(walker.project)


async def test_from_a_detached_head_a_dirty_tree_and_beside_a_lock(walker: Walker, repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    (repo / "README.md").write_text("dirty\n")
    (repo / ".git" / "index.lock").write_text("")
    walk = await play(walker, enter("work"), bash("cat README.md"))
    assert walk.results[1][0].strip() == "hello" and (repo / "README.md").read_text() == "dirty\n"
    assert (repo / ".git" / "index.lock").exists()


async def test_with_a_submodule(walker: Walker, repo: Path, tmp_path: Path) -> None:
    git(repo, "submodule", "add", "-q", str(new_repo(tmp_path / "inner")), "inner")
    save(repo)
    walk = await play(walker, enter("work"), leave("remove"))
    assert "Submodules are not checked out" in walk.results[0][0] and not walk.results[1][1] and nothing_left(repo)


async def test_one_that_another_process_has(walker: Walker, repo: Path) -> None:
    tree = await make(repo, "work", owner="somebody")
    walk = await play(walker, enter("work"))
    assert walk.results[0][1] and "in use by somebody" in walk.results[0][0] and tree.path.exists()


# --- permissions


@pytest.mark.spec("A4")
async def test_they_pass_unasked_but_throwing_work_away_does_not(walker: Walker, repo: Path) -> None:
    asked: list[str] = []

    async def answer(question: Question) -> Decision:
        asked.append(question.reason)
        return Allow()

    new = call("Write", file_path="new.txt", content="x")
    steps = (enter("work"), new, leave("remove"), leave("remove", discard_changes=True))
    walk = await play(walker, *steps, mode="acceptEdits", answer=answer)
    assert [failed for _, failed in walk.results] == [False, False, True, False]
    assert len(asked) == 1 and "ExitWorktree(discard)" in asked[0] and len(kept_refs(repo)) == 1
    walk = await play(walker, enter("work"), leave("remove", discard_changes=True), leave("remove"), mode="plan")
    assert [failed for _, failed in walk.results] == [False, True, False]


@pytest.mark.spec("W1", "A6")
async def test_edits_pass_inside_and_not_in_the_tree_it_came_from(walker: Walker, repo: Path) -> None:
    inside, outside = (call("Write", file_path=str(p), content="x") for p in (place(repo) / "n", repo / "n"))
    walk = await play(walker, enter("work"), inside, outside, leave(), outside, mode="acceptEdits")
    assert [failed for _, failed in walk.results] == [False, False, True, False, False]


# --- across the end of a process


@pytest.mark.spec("W3", "W5")
async def test_a_resumed_session_is_in_its_worktree_again(walker: Walker, repo: Path) -> None:
    first = await play(walker, enter("work"), bash("mkdir deep; cd deep"))
    origin = Origin(resume=first.session.id)
    write = call("Write", file_path="more.txt", content="x")
    again = await play(walker, WHERE, write, leave(), WHERE, mode="acceptEdits", origin=origin)
    texts = [text for text, _ in again.results][-4:]
    assert texts[0].strip() == str(place(repo) / "deep") and (place(repo) / "deep" / "more.txt").exists()
    assert texts[3].strip() == str(repo) and again.session.notes == ()
    last = await play(walker, WHERE, leave(), origin=origin)
    assert last.results[-2][0].strip() == str(repo) and last.results[-1][1]


@pytest.mark.spec("W8")
async def test_a_resumed_session_whose_worktree_is_gone_is_told_so(walker: Walker, repo: Path) -> None:
    first = await play(walker, enter("work"))
    shutil.rmtree(place(repo))
    again = await play(walker, WHERE, origin=Origin(resume=first.session.id))
    (note,) = again.session.notes
    assert "work cannot be used any more" in note and again.results[-1][0].strip() == str(repo)
    assert any(note in message.text for message in again.model.requests[0].messages)


async def test_a_resumed_session_whose_worktree_somebody_else_has(walker: Walker, repo: Path) -> None:
    first = await play(walker, enter("work"))
    await make(repo, "work", owner="somebody")
    again = await play(walker, WHERE, origin=Origin(resume=first.session.id))
    assert "in use by somebody" in again.session.notes[0] and again.results[-1][0].strip() == str(repo)


# --- agents among themselves


@pytest.mark.spec("W3", "O3")
async def test_a_sub_agent_enters_one_and_its_report_names_it(walker: Walker, repo: Path) -> None:
    scripts = {
        "main": [agent("child"), call("SendMessage", to=ID, message="SCRIPT:x", summary="go on with it"), "end"],
        "child": [enter("work"), bash("echo x > new.txt"), "report", WHERE, leave(), WHERE, "second"],
    }
    async with crew(walker, scripts) as made:
        await made.play()
        (child,) = made.children
    report, where, out, after_it = (
        ended_calls(made, who)[n] for who, n in ((made.id, 0), (child, 2), (child, 3), (child, 4))
    )
    assert report.data and report.data["worktreePath"] == str(place(repo)) and (place(repo) / "new.txt").exists()
    assert str(place(repo)) in str(where.content) and not out.is_error and str(repo) in str(after_it.content)
    assert made.session.main.desk.cwd == repo and [f.use for f in await find(repo)] == ["changed"]


@pytest.mark.spec("W1")
async def test_an_agent_with_a_worktree_of_its_own_stays_there(walker: Walker, repo: Path) -> None:
    scripts = {"main": [agent("child", isolation="worktree"), "end"], "child": [enter("work"), leave("remove"), "r"]}
    async with crew(walker, scripts) as made:
        await made.play()
        (child,) = made.children
    told = [(e.is_error, str(e.content)) for e in ended_calls(made, child)]
    assert told[0][0] and "of your own already" in told[0][1]
    assert told[1][0] and "for the whole run" in told[1][1] and nothing_left(repo)


@pytest.mark.spec("W5")
async def test_two_agents_ask_for_the_same_name_at_once(walker: Walker, repo: Path) -> None:
    """One has it, the other is told."""
    both, seen = anyio.Event(), list[Request]()

    async def rest(request: Request) -> str:
        seen.append(request)
        if len(seen) == 2:
            both.set()
        with anyio.fail_after(20):
            await both.wait()
        return "done"

    scripts = {
        "main": [[agent("one"), agent("two")], "end"],
        "one": [enter("same"), rest],
        "two": [enter("same"), rest],
    }
    async with crew(walker, scripts) as made:
        await made.play()
    told = sorted(results(request.messages[-1])[0][::-1] for request in seen)
    assert [failed for failed, _ in told] == [False, True] and "in use by" in told[1][1] and known(repo) == ["same"]


async def test_it_is_not_removed_while_others_work_in_it(walker: Walker, repo: Path) -> None:
    inside, go = anyio.Event(), anyio.Event()
    scripts = {
        "main": [
            enter("work"), agent("child", run_in_background=True), after(inside, leave("remove")),
            marking(go, leave()), "end",
        ],
        "child": [marking(inside, WHERE), after(go, WHERE), "report"],
    }  # fmt: skip
    async with crew(walker, scripts) as made:
        await made.play()
    refusal = ended_calls(made)[2]
    assert refusal.is_error and "works in it" in str(refusal.content) and place(repo).is_dir()
