"""When a rewind is refused or incomplete, what continues beside it, and rewinds of rewinds."""

import pytest
from rewind_kit import BOTH, FILES, repository, run, staged, write

from conftest import Walker
from teamwright.core.data.event import FilesRestored, Record, Rewound, Warned
from teamwright.core.data.message import Text
from teamwright.core.data.op import Rewind, Say
from teamwright.core.errors import UsageError
from teamwright.core.ids import line_uuid
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.driven_session import DrivenSession
from teamwright.store.files.paths import home_from
from teamwright.surfaces.headless.mirror import Mirror

pytestmark = pytest.mark.anyio


@pytest.mark.spec("RW5")
async def test_a_rewind_while_the_agent_works_is_refused(walker: Walker) -> None:
    async with staged(walker, ["one", [run("sleep 30")], "two"]) as stage:
        await stage.session.ask("first")
        watch = stage.session.watch()
        await stage.session.submit(Say((Text("second"),)))
        async for record in watch:
            if type(record.event).__name__ == "ToolStarted":
                break
        with pytest.raises(UsageError, match="the agent is working: interrupt it first"):
            await stage.rewind("first")
        watch.close()


@pytest.mark.spec("RW5")
async def test_a_line_that_is_no_point_is_refused(walker: Walker) -> None:
    async with staged(walker, ["one"], keep_files=False) as stage:
        await stage.session.ask("first")
        (point,) = await stage.points()
        for op in (Rewind(1), Rewind(point.line, files=True), Rewind(point.line, conversation=False)):
            with pytest.raises(UsageError):
                await stage.port.submit(op)
        assert stage.conversation == ["first", "one"]


@pytest.mark.spec("RW1")
async def test_the_model_is_told_of_what_runs_on(walker: Walker) -> None:
    script = ["one", [run("sleep 30", run_in_background=True)], "two", "three"]
    async with staged(walker, script) as stage:
        await stage.session.ask("first")
        await stage.session.ask("second")
        await stage.rewind("second")
        assert "Still at work for you" in stage.conversation[-1] and "sleep 30" in stage.conversation[-1]


@pytest.mark.spec("RW4")
async def test_files_that_cannot_be_brought_back_are_named(walker: Walker) -> None:
    project = walker.project
    blocked, linked = project / "blocked", project / "dir" / "file"
    linked.parent.mkdir()
    blocked.write_text("old")
    read = call("Read", file_path=str(blocked))
    script = [[read], [write(blocked, "a")], [write(linked, "b")], [write(project / "fine", "c")], "end"]
    seen: list[Record] = []
    async with staged(walker, script) as stage:
        watch = stage.session.watch()
        await stage.session.ask("go")
        blocked.unlink()
        blocked.mkdir()
        (blocked / "mine").write_text("person")
        linked.unlink()
        linked.parent.rmdir()
        (project / "elsewhere").mkdir()
        (project / "elsewhere" / "file").write_text("person")
        linked.parent.symlink_to("elsewhere")
        await stage.rewind("go", **FILES, force=True)
    async for record in watch:
        seen.append(record)
    (told,) = [record.event for record in seen if isinstance(record.event, FilesRestored)]
    assert told.removed == (str(project / "fine"),) and not told.files
    assert "directory" in "".join(told.left) and "symbolic link" in "".join(told.left)
    assert (blocked / "mine").exists() and (project / "elsewhere" / "file").read_text() == "person"
    assert [r.event.files for r in seen if isinstance(r.event, Rewound)] == [(str(project / "fine"),)]


@pytest.mark.spec("RW2")
async def test_a_forked_session_has_the_checkpoints_of_the_original(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, [[write(file, "agent\n")], "end"]) as stage:
        await stage.session.ask("go")
        id = stage.session.id
    async with staged(walker, ["x"], origin=Origin(id, fork=True)) as stage:
        await stage.rewind("go", **BOTH)
        assert not file.exists() and stage.conversation == []


@pytest.mark.spec("RW4")
async def test_what_is_too_large_is_named_and_stays(walker: Walker) -> None:
    project = walker.project
    (project / "large").write_bytes(b"x" * 21_000_000)
    (project / "grows").write_text("small\n")
    repository(project)
    grow = "head -c 21000000 /dev/zero >> grows; echo y >> large; echo z > other"
    async with staged(walker, [[run(grow)], "end"]) as stage:
        await stage.session.ask("go")
        (point,) = await stage.points()
        preview = await stage.port.preview(point.line)
        assert preview.removes == (str(project / "other"),) and not preview.restores
        assert "no copy was kept" in "".join(preview.left) and "large" in "".join(preview.left)
        assert "grows: it could not be kept as it is now" in "".join(preview.left)
        await stage.rewind("go", **FILES)
        assert not (project / "other").exists() and (project / "large").stat().st_size == 21_000_002


@pytest.mark.spec("RW7")
async def test_work_goes_on_where_nothing_can_be_kept(walker: Walker) -> None:
    file = walker.project / "a.txt"
    seen: list[Record] = []
    async with staged(walker, [[write(file, "1\n")], [run("echo 2 > b.txt")], "end"]) as stage:
        watch = stage.session.watch()
        folder = stage.session.services.agents.files.dir / "checkpoints"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("in the way")
        end = await stage.session.ask("go")
        assert end.reason == "done" and file.read_text() == "1\n" and (walker.project / "b.txt").exists()
    async for record in watch:
        seen.append(record)
    told = [record.event.text for record in seen if isinstance(record.event, Warned)]
    assert len(told) == 1 and "cannot be brought back by /rewind" in told[0]


@pytest.mark.spec("RW2")
async def test_what_teammates_changed_comes_back(walker: Walker) -> None:
    file = walker.project / "mate.txt"
    script = {"main": ["-"], "ada": [[write(file, "ada\n")], "done"]}
    async with staged(walker, script) as stage:
        await stage.session.ask("SCRIPT:main")
        team = await stage.session.team("site")
        await team.spawn("ada", "SCRIPT:ada")
        await stage.session.idle()
        assert file.exists()
        await stage.rewind("SCRIPT:main", **FILES)
        assert not file.exists()


@pytest.mark.spec("RW1")
async def test_a_second_rewind_and_its_undoing_keep_their_order(walker: Walker) -> None:
    async with staged(walker, ["one", "two", "three"]) as stage:
        for prompt in ("a", "b", "c"):
            await stage.session.ask(prompt)
        await stage.rewind("c")
        await stage.rewind("b")
        assert stage.conversation == ["a", "one"]
        await stage.undo(conversation=True)
        assert stage.conversation == ["a", "one", "b", "two"]
        line = next(point.line for point in await stage.points() if point.kind == "rewind")
        await stage.port.submit(Rewind(line))
        assert stage.conversation == ["a", "one", "b", "two", "c", "three"]
        assert stage.session.main.history.prompts == ["a", "b", "c"]


@pytest.mark.spec("RW1")
async def test_a_fork_begins_with_the_conversation_as_it_went_back(walker: Walker) -> None:
    fork = call("Agent", description="d", prompt="look closely", subagent_type="fork")
    async with staged(walker, ["one", [fork], "end"], fork=True) as stage:
        await stage.session.ask("a")
        await stage.session.ask("left behind")
        await stage.session.idle()
        await stage.rewind("left behind")
        before = len(stage.model.requests)
        await stage.session.ask("again")
        await stage.session.idle()
        later = [[m.text for m in request.messages] for request in stage.model.requests[before:]]
        assert any("look closely" in texts[-1] for texts in later)
        assert {tuple(texts[:3]) for texts in later} == {("a", "one", "again")}
        id = stage.session.id
    async with staged(walker, ["x", "y", "z"], origin=Origin(id), fork=True) as stage:
        services = stage.session.services
        histories = [(await services.agents.reopen(child))[1] for child in services.spawner.known]
        assert sorted(h.messages[2].text for h in histories) == ["again", "left behind"]


@pytest.mark.spec("RW4")
async def test_what_a_run_changed_that_kept_nothing_is_named(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, [[write(file, "headless\n")], "end"], keep_files=False) as stage:
        await stage.session.ask("go")
        id = stage.session.id
    async with staged(walker, ["x"], origin=Origin(id)) as stage:
        (point,) = await stage.points()
        preview = await stage.port.preview(point.line)
        assert preview.left == (f"{file}: it was changed in a run that kept nothing",) and not preview.removes


@pytest.mark.spec("RW3")
async def test_names_that_are_no_text_are_a_gap(walker: Walker) -> None:
    (walker.project / "a").write_text("1")
    repository(walker.project)
    async with staged(walker, [[run("touch $'caf\\xe9' ok; ln -s $'\\xff' link")], "end"]) as stage:
        await stage.session.ask("go")
        (point,) = await stage.points()
        assert point.gaps == ("files whose names or targets are no UTF-8",)
        await stage.rewind("go", **FILES)
        assert not (walker.project / "ok").exists()
        trees = stage.session.services.agents.files.dir / "checkpoints" / "trees"
        assert len(list(trees.iterdir())) == 1


@pytest.mark.spec("RW6")
async def test_a_copy_that_a_program_keeps_branches_where_it_went_back(walker: Walker) -> None:
    async with staged(walker, ["one", "two"]) as stage:
        watch = stage.session.watch()
        mirror = Mirror(DrivenSession(stage.session, home_from(walker.env)), walker.env)
        await stage.session.ask("a")
        await stage.session.ask("left")
        await stage.rewind("left")
        await stage.session.ask("instead")
    frames = [frame async for record in watch if (frame := mirror.frame(record)) is not None]
    entries = [entry for frame in frames for entry in frame["entries"]]
    texts = {entry["uuid"]: entry["message"]["content"][0]["text"] for entry in entries}
    parents = {texts[entry["uuid"]]: texts.get(entry["parentUuid"]) for entry in entries}
    assert parents["left"] == parents["instead"] == "one"


@pytest.mark.spec("RW2")
async def test_a_program_may_ask_first_what_would_come_back(walker: Walker) -> None:
    file = walker.project / "a.txt"
    async with staged(walker, [[write(file, "one\ntwo\n")], "end"]) as stage:
        await stage.session.ask("go")
        (point,) = await stage.points()
        driven = DrivenSession(stage.session, home_from(walker.env))
        id = line_uuid(stage.session.main.id, point.line)
        told = await driven.restore_files(id, dry=True)
        assert (told.removed, told.plus, told.minus) == ([str(file)], 0, 2) and file.exists()
        assert (await driven.restore_files(id, dry=False)).removed == [str(file)] and not file.exists()
        assert (await driven.restore_files(id, dry=False)).removed == []
        with pytest.raises(UsageError, match="there is no message nobody"):
            await driven.restore_files("nobody", dry=True)
