"""The files that show a task list: written from the store, private, never read back."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from teamwright.core.data.tasks import Actor, Change, Done, Draft, TaskId
from teamwright.core.errors import StoreError
from teamwright.core.ids import AgentId
from teamwright.osfiles.locks import hold
from teamwright.store.mirrors.task import TaskMirror
from teamwright.store.tables.state import StateStore
from teamwright.store.tables.tasks import TaskTable

pytestmark = pytest.mark.anyio
LEAD = Actor(AgentId("L"), "lead", lead=True)


class House:
    def __init__(self, state: StateStore, root: Path) -> None:
        self.root, self.dir = root, root / "tasks/crew"
        self.table = TaskTable(state.database)
        self.mirror = TaskMirror(root, self.table)

    async def make(self, subject: str, **more: Any) -> None:
        done = await self.table.create("crew", Draft(subject, **more), LEAD)
        assert isinstance(done, Done)
        await self.mirror.write("crew", done.touched)

    async def change(self, id: int, **more: Any) -> Done:
        done = await self.table.update("crew", TaskId(id), Change(**more), LEAD)
        assert isinstance(done, Done)
        return done

    def files(self) -> dict[str, Any]:
        return {path.name: json.loads(path.read_text()) for path in self.dir.glob("*.json")}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    state = await StateStore.open(tmp_path / "state.db")
    yield House(state, tmp_path)
    await state.close()


@pytest.mark.spec("K1")
async def test_a_task_is_one_private_file(house: House) -> None:
    before = os.umask(0)
    try:
        await house.make("wash", description="all of it", active_form="Washing", metadata={"room": "kitchen"})
        await house.make("dry", blocked_by=(TaskId(1),))
    finally:
        os.umask(before)
    one, two = house.files()["1.json"], house.files()["2.json"]
    assert set(one) == {"id", "subject", "description", "status", "owner", "activeForm", "blockedBy", "blocks",
                        "createdAt", "updatedAt", "metadata"}  # fmt: skip
    assert (one["id"], one["status"], one["owner"], one["blocks"]) == ("1", "pending", None, ["2"])
    assert two["blockedBy"] == ["1"] and one["metadata"] == {"room": "kitchen"}
    assert two["updatedAt"] == two["createdAt"] > 1_700_000_000_000
    assert stat.S_IMODE((house.dir / "1.json").stat().st_mode) == 0o600
    assert [stat.S_IMODE(path.stat().st_mode) for path in (house.dir, house.dir.parent)] == [0o700, 0o700]
    done = await house.change(1, status="deleted")
    await house.mirror.write("crew", done.touched)
    assert list(house.files()) == ["2.json"] and house.files()["2.json"]["blockedBy"] == []


@pytest.mark.spec("K7")
async def test_what_others_wrote_is_reported_and_ours_is_written_anew(house: House) -> None:
    for subject in ("one", "two", "three", "four"):
        await house.make(subject)
    good = house.files()
    (house.dir / "1.json").write_text("{ not json")
    (house.dir / "2.json").write_text(json.dumps(good["2.json"] | {"status": "completed"}))
    (house.dir / "3.json").unlink()
    (house.dir / "3.json").symlink_to(house.root / "state.db")
    (house.dir / "77.json").write_text("{ not json")
    (house.dir / "notes\x1b[2J.txt").write_text("mine")
    (house.dir / "5").mkdir()
    notes = await house.mirror.rebuild("crew")
    (house.dir / "77.json").unlink()
    assert house.files() == good
    for name in ("1.json", "2.json", "3.json"):
        assert any(name in note and "rewritten" in note for note in notes), notes
    for name in ("77.json", "notes", "/5 "):
        assert any(name in note and "ignored" in note for note in notes), notes
    assert len(notes) == 6 and not any("\x1b" in note for note in notes)
    assert (house.dir / "notes\x1b[2J.txt").read_text() == "mine" and not (house.dir / "3.json").is_symlink()
    assert (await house.table.list("crew")).tasks[1].status == "pending"  # never read back


@pytest.mark.spec("K7", "T6")
async def test_what_a_crash_left_behind_is_put_right_without_a_word(house: House) -> None:
    await house.make("one")
    await house.make("two")
    await house.make("three")
    await house.change(1, subject="uno")  # killed before the files followed
    await house.change(2, status="deleted")
    await house.table.create("crew", Draft("four"), LEAD)
    (house.dir / ".3.json.0a1b2c3d").write_text("half")
    assert await house.mirror.rebuild("crew") == []
    assert {name: task["subject"] for name, task in house.files().items()} == {
        "1.json": "uno", "3.json": "three", "4.json": "four",
    }  # fmt: skip
    assert sorted(path.name for path in house.dir.iterdir()) == ["1.json", "3.json", "4.json"]


@pytest.mark.spec("K7")
async def test_many_strange_files_are_told_of_in_a_few_lines(house: House) -> None:
    await house.make("one")
    for n in range(50):
        (house.dir / f"x{n}").touch()
    notes = await house.mirror.rebuild("crew")
    assert len(notes) == 21 and "30 more" in notes[-1]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\0b", "a\nb", "x" * 201])
async def test_a_name_that_leads_elsewhere_is_refused(house: House, name: str) -> None:
    with pytest.raises(StoreError, match="cannot be the name of a task list"):
        await house.mirror.write(name, [TaskId(1)])


async def test_writers_take_turns_and_the_newest_state_stays(house: House) -> None:
    """Another writer holds the lock; what is written afterwards is read after it was acquired."""
    await house.make("one")
    lock = hold(house.root / "run/tasks-crew.lock")
    assert lock is not None
    async with anyio.create_task_group() as group:
        group.start_soon(house.mirror.write, "crew", [TaskId(1)])
        await house.change(1, subject="two")
        await anyio.wait_all_tasks_blocked()
        assert house.files()["1.json"]["subject"] == "one"
        lock.release()
    assert house.files()["1.json"]["subject"] == "two"


async def test_a_directory_that_cannot_be_written_is_one_clear_error(house: House) -> None:
    (house.root / "tasks").write_text("in the way")
    with pytest.raises(StoreError, match="in the way"):
        await house.make("one")
    assert len((await house.table.list("crew")).tasks) == 1


async def test_a_list_that_goes_takes_its_directory_along(house: House) -> None:
    await house.make("one")
    await house.mirror.remove("crew")
    await house.mirror.remove("crew")
    assert not house.dir.exists()
    outside = house.root / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    house.dir.symlink_to(outside)
    await house.mirror.remove("crew")
    assert (outside / "kept").exists() and not house.dir.is_symlink()
