"""A tree is saved after each call, restored on another machine, and comes back as a branch."""

import os
import subprocess
from pathlib import Path

import pytest

from teamwright.core.data.code import SavedTree
from teamwright.core.errors import ToolError
from teamwright.host.git.travel.rooms.room import Room
from teamwright.host.git.travel.trees import saving
from travel_kit import Machines
from worktree_kit import git, new_repo, save


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path, new_repo(tmp_path / "repo"))


def look(top: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file and link."""
    found = dict[str, tuple[int, bytes]]()
    for place, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = Path(place, name)
            link = path.is_symlink()
            data = os.fsencode(path.readlink()) if link else path.read_bytes()
            found[str(path.relative_to(top))] = (0 if link else path.stat().st_mode & 0o111, data)
    return found


async def saved_of(room: Room, path: Path | None = None) -> SavedTree:
    saved = await room.save(path)
    assert saved is not None
    return saved


@pytest.mark.spec("Z9")
async def test_a_tree_is_as_it_was_on_another_machine(machines: Machines):
    """Commits, branches, links, modes, odd names; changed, deleted, new and renamed files; staged becomes unstaged."""
    journey = await machines.depart()
    room = await machines.room(journey)
    tree, chain = room.path, list[SavedTree]()
    (tree / "made").write_text("made")
    save(tree, "made")
    chain.append(await saved_of(room))
    git(tree, "branch", "side")
    (tree / "README.md").write_text("edited\n")
    (tree / "old.txt").unlink()
    chain.append(await saved_of(room))
    for name in ("a b", "new\nline", "новый", os.fsdecode(b"bytes\xff"), "-dash"):
        (tree / name).write_text("x")
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "er" / "file").write_text("deep")
    (tree / "ignored").mkdir()
    (tree / "ignored" / "x").write_text("x")
    git(tree, "add", "run")
    chain.append(await saved_of(room))
    assert await room.save() is None
    wanted = {name: seen for name, seen in look(tree).items() if not name.startswith("ignored")}
    again = await machines.room(journey, "w2", saved=chain)
    assert look(again.path) == wanted
    for words in (("rev-parse", "HEAD", "side"), ("branch", "--show-current"), ("log", "--format=%H %an %s")):
        assert git(again.path, *words) == git(tree, *words)
    staged = git(again.path, "diff", "--cached", "--name-only")
    assert staged == "" and " M README.md" in git(again.path, "status", "--porcelain")
    assert await again.save() is None  # moving changed nothing


@pytest.mark.spec("Z9")
async def test_whoever_goes_on_saves_on_top_and_can_be_lost_again(machines: Machines):
    journey = await machines.depart()
    room, chain = await machines.room(journey), list[SavedTree]()
    for n in range(40):  # more than fit into one chain
        worker = f"w{n // 15}"
        if n % 15 == 0 and n:
            room = await machines.room(journey, worker, saved=chain)
        (room.path / f"f{n}").write_text(str(n))
        if n % 7 == 0:
            save(room.path, f"commit {n}")
        chain.append(await saved_of(room))
    last = await machines.room(journey, "w9", saved=chain)
    assert look(last.path) == look(room.path) and sum(tree.whole for tree in chain) == 2
    assert git(last.path, "status", "--porcelain") == git(room.path, "status", "--porcelain")
    short = await machines.room(journey, "w10", saved=chain[32:])  # nothing before the last whole tree is needed
    assert look(short.path) == look(room.path)


@pytest.mark.spec("Z9")
async def test_only_the_path_that_a_tool_wrote_is_looked_at(machines: Machines):
    room = await machines.start()
    (room.path / "by-hand").write_text("unseen")
    (room.path / "README.md").write_text("edited\n")
    saved = await saved_of(room, room.path / "README.md")
    names = git(room.path, "ls-tree", "--name-only", saved.commit).split()
    assert "by-hand" not in names and git(room.path, "show", f"{saved.commit}:README.md") == "edited\n"
    assert await room.save(room.path / "README.md") is None
    (room.path / "ignored").mkdir()
    (room.path / "ignored" / "x").write_text("x")
    assert await room.save(room.path / "ignored" / "x") is None and await room.save(Path("/etc/passwd")) is None
    full = await saved_of(room)
    assert "by-hand" in git(room.path, "ls-tree", "--name-only", full.commit).split()


@pytest.mark.spec("Z9")
async def test_refs_alone_are_told_without_an_object(machines: Machines):
    journey = await machines.depart()
    room = await machines.room(journey)
    (room.path / "x").write_text("x")
    save(room.path)
    first = await saved_of(room)
    git(room.path, "branch", "copy")
    second = await saved_of(room)
    assert "refs/heads/copy" in second.refs
    git(room.path, "checkout", "-q", "--detach")
    git(room.path, "branch", "-D", "worktree-far")
    third = await saved_of(room)
    assert third.head == git(room.path, "rev-parse", "HEAD").strip()
    again = await machines.room(journey, "w2", saved=[first, second, third])
    assert git(again.path, "branch", "--show-current") == ""
    assert git(again.path, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/copy\n"


@pytest.mark.spec("Z9")
async def test_a_branch_without_a_commit_and_a_merge_half_way(machines: Machines):
    journey = await machines.depart()
    room = await machines.room(journey)
    git(room.path, "checkout", "-q", "--orphan", "fresh")
    (room.path / "x").write_text("x")
    saved = await saved_of(room)
    again = await machines.room(journey, "w2", saved=[saved])
    assert look(again.path) == look(room.path) and saved.head == "refs/heads/fresh"
    git(room.path, "checkout", "-q", "-f", "worktree-far")
    for branch, text in (("one", "one\n"), ("two", "two\n")):
        git(room.path, "checkout", "-q", "-b", branch, journey.base)
        (room.path / "README.md").write_text(text)
        save(room.path, branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(room.path, "merge", "one")
    half = await saved_of(room)
    again = await machines.room(journey, "w3", saved=[saved, half])
    assert (again.path / "README.md").read_text() == (room.path / "README.md").read_text()
    assert "<<<<<<<" in (again.path / "README.md").read_text()
    assert git(again.path, "branch", "--show-current") == "two\n"


@pytest.mark.spec("Z9")
async def test_what_is_too_large_or_another_repository_is_named_once(machines: Machines):
    room = await machines.start()
    with (room.path / "huge").open("wb") as file:
        file.truncate(saving.MOST_FILE + 1)
    for inner, message in (("nested", "with a commit"), ("bare-nested", "")):
        (room.path / inner).mkdir()
        git(room.path / inner, "init", "-q")
        (room.path / inner / "x").write_text("x")
        if message:
            git(room.path / inner, "add", "x")
            git(room.path / inner, "commit", "-qm", message)
    os.mkfifo(room.path / "pipe")
    (room.path / "fine").write_text("fine")
    saved = await saved_of(room)
    told = " ".join(saved.notes)
    assert "huge" in told and "64 MB" in told and "nested" in told and "repository of its own" in told
    names = git(room.path, "ls-tree", "-r", "--name-only", saved.commit).split()
    assert "fine" in names and not {"huge", "nested", "pipe"} & set(names)
    (room.path / "fine").write_text("finer")
    assert (await saved_of(room)).notes == ()


@pytest.mark.spec("Z9")
async def test_an_unreadable_file_does_not_keep_others_from_being_saved(machines: Machines):
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    room = await machines.start()
    (room.path / "closed").write_text("x")
    (room.path / "closed").chmod(0)
    (room.path / "fine").write_text("x")
    saved = await saved_of(room)
    assert "closed" in " ".join(saved.notes)
    assert "fine" in git(room.path, "ls-tree", "--name-only", saved.commit).split()


@pytest.mark.spec("Z9")
async def test_file_and_directory_change_places(machines: Machines):
    journey = await machines.depart()
    room = await machines.room(journey)
    (room.path / "README.md").unlink()
    (room.path / "README.md").mkdir()
    (room.path / "README.md" / "x").write_text("x")
    first = await saved_of(room)
    assert "README.md/x" in git(room.path, "ls-tree", "-r", "--name-only", first.commit)
    (room.path / "README.md" / "x").unlink()
    (room.path / "README.md").rmdir()
    (room.path / "README.md").symlink_to("old.txt")
    second = await saved_of(room)
    again = await machines.room(journey, "w2", saved=[first, second])
    assert look(again.path) == look(room.path)


@pytest.mark.spec("Z9")
async def test_an_agent_that_hides_changes_or_collects_garbage_loses_nothing(machines: Machines):
    """An agent may set what it likes in its clone; saving does not depend on it."""
    journey = await machines.depart()
    room = await machines.room(journey)
    git(room.path, "update-index", "--assume-unchanged", "README.md")
    for name, value in (
        ("core.autocrlf", "true"),
        ("core.fileMode", "false"),
        ("core.worktree", "/"),
        ("core.hooksPath", "hooks"),
        ("filter.evil.clean", f"touch {machines.top}/ran; cat"),
        ("filter.evil.smudge", f"touch {machines.top}/ran; cat"),
        ("core.fsmonitor", f"touch {machines.top}/ran"),
    ):
        git(room.path, "config", name, value)
    (room.path / ".gitattributes").write_text("* filter=evil\n")
    (room.path / "README.md").write_bytes(b"crlf\r\n")
    (room.path / "old.txt").chmod(0o755)
    first = await saved_of(room)
    git(room.path, "--git-dir=.git", "--work-tree=.", "-c", "core.fsmonitor=false", "gc", "-q", "--prune=now")
    (room.path / "more").write_text("more")
    second = await saved_of(room)
    again = await machines.room(journey, "w2", saved=[first, second])
    assert look(again.path) == look(room.path) and not (machines.top / "ran").exists()


# --- the branch back


@pytest.mark.spec("Z12")
async def test_commits_and_what_was_left_uncommitted_come_back_as_a_branch(machines: Machines):
    room = await machines.start()
    (room.path / "made").write_text("made")
    save(room.path, "made it")
    (room.path / "README.md").write_text("changed\n")
    (room.path / "loose").write_text("loose")
    (room.path / "old.txt").unlink()
    (machines.repo / "README.md").write_text("mine, uncommitted\n")
    before = (look(machines.repo), git(machines.repo, "status", "--porcelain"), git(machines.repo, "rev-parse", "HEAD"))
    landed = await machines.land(await room.back())
    assert landed.branch == "worktree-far" and not landed.others
    assert git(machines.repo, "log", "--format=%s", "-2", landed.branch) == "left uncommitted by far\nmade it\n"
    assert git(machines.repo, "log", "--format=%an <%ae>", "-1", landed.branch) == "Ada <ada@localhost>\n"
    assert git(machines.repo, "show", "worktree-far:README.md") == "changed\n"
    assert "old.txt" not in git(machines.repo, "ls-tree", "--name-only", "worktree-far").split()
    assert "README.md | +1 -1" in landed.words and "4 files changed" in landed.words and "2 commits" in landed.words
    assert "left uncommitted" in landed.words and "worktrees merge far" in landed.words
    after = (look(machines.repo), git(machines.repo, "status", "--porcelain"), git(machines.repo, "rev-parse", "HEAD"))
    assert after == before


@pytest.mark.spec("Z12")
async def test_nothing_changed_no_branch(machines: Machines):
    room = await machines.start()
    (room.path / "ignored").mkdir()
    (room.path / "ignored" / "x").write_text("x")
    assert await room.save() is None and await room.back() is None
    git(room.path, "branch", "only-a-name")
    assert await room.back() is None


@pytest.mark.spec("Z12")
async def test_a_teammates_branch_is_brought_up_to_date(machines: Machines):
    """Its last commit of loose files is replaced, not stacked; a turn without a change brings nothing."""
    room = await machines.start()
    (room.path / "one").write_text("1")
    first = await machines.land(await room.back())
    assert await room.back() is None
    (room.path / "two").write_text("2")
    save(room.path, "both")
    second = await machines.land(await room.back())
    assert first.branch == second.branch == "worktree-far"
    assert git(machines.repo, "log", "--format=%s", "-1", "worktree-far") == "both\n"
    git(room.path, "reset", "-q", "--hard", "HEAD~1")  # the agent undoes everything
    third = await machines.land(await room.back())
    assert third.tip == git(machines.repo, "rev-parse", "HEAD").strip()


@pytest.mark.spec("Z12")
async def test_a_name_that_is_taken_by_other_work_gets_a_number(machines: Machines):
    git(machines.repo, "branch", "worktree-far")
    room = await machines.start()
    (room.path / "x").write_text("x")
    back = await room.back()
    landed = await machines.land(back)
    assert landed.branch == "worktree-far-2" and (await machines.land(back)).branch == "worktree-far-2"
    git(machines.repo, "checkout", "-q", "worktree-far-2")  # a person has it checked out, so it is theirs now
    (room.path / "y").write_text("y")
    assert (await machines.land(await room.back())).branch == "worktree-far-3"
    assert git(machines.repo, "status", "--porcelain") == ""
    git(machines.repo, "checkout", "-q", "worktree-far-3")
    (machines.repo / "mine").write_text("mine")
    save(machines.repo)
    git(machines.repo, "checkout", "-q", "main")
    (room.path / "z").write_text("z")
    assert (await machines.land(await room.back())).branch == "worktree-far-2"  # as it was left, and free again
    assert git(machines.repo, "log", "-1", "--format=%s", "worktree-far-3") == "more\n"


@pytest.mark.spec("Z12")
async def test_other_branches_come_under_its_name(machines: Machines):
    room = await machines.start()
    git(room.path, "checkout", "-q", "-b", "feature/x@y")
    (room.path / "f").write_text("f")
    save(room.path, "feature")
    git(room.path, "checkout", "-q", "worktree-far")
    (room.path / "m").write_text("m")
    save(room.path, "main work")
    landed = await machines.land(await room.back())
    assert landed.others == ("worktree-far+feature+x-y",) and landed.others[0] in landed.words
    assert git(machines.repo, "log", "-1", "--format=%s", landed.others[0]) == "feature\n"


@pytest.mark.spec("Z12")
async def test_it_lands_in_a_clone_on_another_machine(machines: Machines):
    other = machines.top / "other"
    git(machines.repo, "clone", "-q", str(machines.repo), str(other))
    room = await machines.start()
    (room.path / "x").write_text("x")
    back = await room.back()
    assert (await machines.land(back, repo=other)).branch == "worktree-far"
    stranger = machines.top / "stranger"
    stranger.mkdir()
    git(stranger, "init", "-q", "-b", "main")
    git(stranger, "commit", "-q", "--allow-empty", "-m", "another first commit")
    with pytest.raises(ToolError, match="does not have"):
        await machines.land(back, repo=stranger)


@pytest.mark.spec("Z12")
async def test_the_work_of_the_team_is_there_as_branches(machines: Machines):
    one, two = await machines.start("one", "w1"), await machines.start("two", "w2")
    (one.path / "from-one").write_text("1")
    back = await one.back()
    assert back is not None
    await two.team({"one": back})
    assert git(two.path, "show", "team/one:from-one") == "1"
    git(two.path, "merge", "-q", "team/one")
    landed = await machines.land(await two.back(), "two")
    assert git(machines.repo, "show", f"{landed.branch}:from-one") == "1"
    await two.team({})
    assert git(two.path, "for-each-ref", "refs/remotes") == ""


@pytest.mark.spec("Z12")
async def test_agents_share_objects_and_nothing_else(machines: Machines):
    one, two = await machines.start("one"), await machines.start("two")
    (one.path / "x").write_text("x")
    tip = save(one.path)
    git(one.path, "config", "user.name", "Somebody else")
    with pytest.raises(subprocess.CalledProcessError):
        git(two.path, "cat-file", "-e", tip)
    assert git(two.path, "branch", "--format=%(refname:short)") == "worktree-two\n"
    assert "Somebody" not in (two.path / ".git" / "config").read_text()
    size = sum(path.stat().st_size for path in (two.path / ".git" / "objects").rglob("*") if path.is_file())
    assert size < 1000
    await one.close()
    assert not one.path.exists() and git(two.path, "log", "--oneline")
