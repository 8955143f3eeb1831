"""Going back to an earlier prompt: in the conversation, in the files, or both."""

import os
import subprocess
from pathlib import Path

import pytest
from rewind_kit import BOTH, FILES, repository, run, staged, write

from conftest import Walker
from teamwright.core.data.op import Compact
from teamwright.core.errors import UsageError
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio


@pytest.mark.spec("RW1")
async def test_the_conversation_ends_before_the_prompt_and_stays_so_after_a_resume(walker: Walker) -> None:
    async with staged(walker, ["one", "two"]) as stage:
        for prompt in ("first", "second"):
            await stage.session.ask(prompt)
        used = stage.session.main.history.usage
        await stage.rewind("second")
        assert stage.conversation == ["first", "one"]
        assert stage.session.main.history.usage == used
        await stage.session.ask("instead")
        assert [m.text for m in stage.model.requests[-1].messages] == ["first", "one", "instead"]
        id = stage.session.id
    async with staged(walker, ["four"], origin=Origin(id)) as stage:
        assert stage.conversation == ["first", "one", "instead", "two"]
        assert [p.text for p in await stage.points() if p.kind == "prompt"] == ["first", "instead"]


@pytest.mark.spec("RW2")
async def test_files_that_tools_changed_come_back(walker: Walker) -> None:
    old, new = walker.project / "old.txt", walker.project / "sub" / "new.txt"
    old.write_text("before\n")
    old.chmod(0o640)
    script = [[call("Read", file_path=str(old))], [write(old, "a\nb\n")], [write(new, "made\n")], "end"]
    async with staged(walker, script) as stage:
        await stage.session.ask("change them")
        (point,) = await stage.points()
        assert (point.files, point.plus, point.minus, point.gaps) == (2, 3, 1, ())
        await stage.rewind("change them", **FILES)
        assert old.read_text() == "before\n" and old.stat().st_mode & 0o777 == 0o640 and not new.exists()
        assert "put files back" in stage.conversation[-1]
        await stage.undo(**FILES)
        assert old.read_text() == "a\nb\n" and new.read_text() == "made\n"


@pytest.mark.spec("RW2")
async def test_what_a_command_did_in_a_git_work_tree_comes_back(walker: Walker) -> None:
    project = walker.project
    for name in ("kept.txt", "gone.txt", "turned", "script.sh"):
        (project / name).write_text(f"{name}\n")
    (project / "folder").mkdir()
    (project / "folder" / "inside").write_text("inside\n")
    (project / "link").symlink_to("kept.txt")
    (project / "script.sh").chmod(0o755)
    (project / ".gitignore").write_text("built\n")
    repository(project)
    (project / "untracked").write_text("mine\n")
    script = [
        [
            run(
                "echo more >> kept.txt; echo x >> untracked; rm gone.txt turned; mkdir turned; echo y > turned/new; "
                "rm -r folder; echo z > folder; rm link; echo w > link; chmod -x script.sh; echo v > built; git add -A"
            )
        ],
        "end",
    ]
    async with staged(walker, script) as stage:
        await stage.session.ask("ruin it")
        (point,) = await stage.points()
        assert point.gaps == () and point.files == 9
        preview = await stage.port.preview(point.line)
        assert not preview.others and not preview.left
        await stage.rewind("ruin it", **FILES)
        assert (project / "kept.txt").read_text() == "kept.txt\n" and (project / "untracked").read_text() == "mine\n"
        assert (project / "gone.txt").exists() and (project / "turned").read_text() == "turned\n"
        assert (project / "folder" / "inside").read_text() == "inside\n"
        assert (project / "link").is_symlink() and os.access(project / "script.sh", os.X_OK)
        assert (project / "built").exists()  # ignored files are nobody's work
        await stage.undo(**FILES)
        assert (project / "turned" / "new").read_text() == "y\n" and (project / "folder").read_text() == "z\n"
        assert not (project / "gone.txt").exists() and (project / "link").read_text() == "w\n"


@pytest.mark.spec("RW3")
async def test_no_filter_or_hook_of_the_directory_runs(walker: Walker, tmp_path: Path) -> None:
    project, ran = walker.project, tmp_path / "ran"
    (project / ".gitattributes").write_text("*.txt text eol=crlf filter=bad\n")
    (project / "a.txt").write_bytes(b"one\r\n")
    repository(project)
    for name, value in (("filter.bad.clean", f"touch {ran}; cat"), ("core.fsmonitor", f"touch {ran}")):
        subprocess.run(["git", "config", name, value], cwd=project, check=True, timeout=30)
    async with staged(walker, [[run("printf two > a.txt")], "end"]) as stage:
        await stage.session.ask("go")
        await stage.rewind("go", **FILES)
    assert (project / "a.txt").read_bytes() == b"one\r\n" and not ran.exists()


@pytest.mark.spec("RW4")
async def test_a_file_that_somebody_else_changed_is_asked_about(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, [[write(file, "agent\n")], "end"]) as stage:
        await stage.session.ask("go")
        file.write_text("person\n")
        (point,) = await stage.points()
        assert (await stage.port.preview(point.line)).others == (str(file),)
        with pytest.raises(UsageError, match=r"changed by somebody else since: .*a\.txt; nothing was done"):
            await stage.rewind("go", **BOTH)
        assert file.read_text() == "person\n" and len(await stage.points()) == 1
        await stage.rewind("go", **BOTH, force=True)
        assert not file.exists() and stage.conversation == []
        await stage.undo(**BOTH)
        assert file.read_text() == "person\n" and stage.conversation[0] == "go"


@pytest.mark.spec("RW3")
@pytest.mark.parametrize("background", [False, True])
async def test_what_is_not_covered_is_said(walker: Walker, background: bool) -> None:
    if background:
        (walker.project / "a").write_text("1")
        repository(walker.project)
    script = [[run("echo 2 > a", run_in_background=background)], "end"]
    async with staged(walker, script) as stage:
        await stage.session.ask("go")
        await stage.session.idle()
        (point,) = [point for point in await stage.points() if point.text == "go"]
        words = "in the background" if background else "outside of a git work tree"
        assert any(words in gap for gap in point.gaps)
        assert any(words in note for note in (await stage.port.preview(point.line)).notes)


@pytest.mark.spec("RW3")
async def test_a_command_that_only_reads_is_not_looked_at(walker: Walker) -> None:
    async with staged(walker, [[run("ls -la && cat /dev/null | head -3")], "end"]) as stage:
        await stage.session.ask("go")
        (point,) = await stage.points()
        assert point.gaps == () and not (stage.session.services.agents.files.dir / "checkpoints").exists()


@pytest.mark.spec("RW2")
async def test_what_sub_agents_changed_comes_back_but_their_own_trees_stay(walker: Walker) -> None:
    (walker.project / "a").write_text("1")
    repository(walker.project)
    shared, apart = walker.project / "shared.txt", "own.txt"
    here = call("Agent", description="d", prompt="SCRIPT:here", subagent_type="general-purpose")
    away = call("Agent", description="d", prompt="SCRIPT:away", subagent_type="general-purpose", isolation="worktree")
    script = {
        "main": [[here], [away], "end"],
        "here": [[write(shared, "s\n")], "done"],
        "away": [[run(f"echo o > {apart}")], "done"],
    }
    async with staged(walker, script) as stage:
        await stage.session.ask("SCRIPT:main")
        (own,) = list(walker.project.glob(f".teamwright/worktrees/*/{apart}"))
        await stage.rewind("SCRIPT:main", **FILES)
        assert not shared.exists() and own.read_text() == "o\n"


@pytest.mark.spec("RW1")
async def test_back_to_before_a_compaction_and_forward_again(walker: Walker) -> None:
    script = ["one", "two", "the summary", "three", "four"]
    async with staged(walker, script) as stage:
        await stage.session.ask("first")
        await stage.session.ask("second")
        before = list(stage.session.main.history.messages)
        await stage.port.submit(Compact())
        await stage.session.ask("third")
        shortened = list(stage.session.main.history.messages)
        await stage.rewind("second")
        assert stage.conversation == ["first", "one"]
        await stage.undo(conversation=True)
        assert stage.session.main.history.messages == shortened
        await stage.rewind("third")
        id, now = stage.session.id, list(stage.session.main.history.messages)
        assert len(now) < len(shortened) and now != before
    async with staged(walker, ["x"], origin=Origin(id)) as stage:
        assert stage.session.main.history.messages == now
