"""What people and other programs see of a team on disk."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from team_house import House, open_house

from teamwright.core.data.team import LEAD_NAME
from teamwright.core.ids import LetterId

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as house:
        await house.create()
        yield house


def read(house: House, *parts: str) -> Any:
    return json.loads(house.root.joinpath("teams", *parts).read_text())


@pytest.mark.spec("T1", "T2", "O2")
async def test_the_config_is_there_private_and_current(house: House) -> None:
    await house.join("ada")
    await house.mirror.write_config("crew")
    found = read(house, "crew", "config.json")
    assert (found["name"], found["leadAgentId"], found["createdAt"] > 0) == ("crew", "team-lead@crew", True)
    assert [m["agentId"] for m in found["members"]] == ["team-lead@crew", "ada@crew"]
    assert found["members"][1]["prompt"] == "prompt of ada" and found["members"][1]["backendType"] == "in-process"
    modes = {p.name: p.stat().st_mode & 0o777 for p in (house.root / "teams", *(house.root / "teams").rglob("*"))}
    assert modes == {"teams": 0o700, "crew": 0o700, "config.json": 0o600}


@pytest.mark.one_machine
@pytest.mark.spec("X1")
async def test_an_inbox_file_has_the_unread_and_the_last_200_read(house: House) -> None:
    ada = await house.join("ada")
    notes = [house.note(house.lead, ada, f"t{n}") for n in range(230)]
    await house.mail.post_all(notes)
    await house.state.delivered([note.letter.id for note in notes[:220]])
    await house.mirror.write_inbox("crew", "ada", LEAD_NAME, "nobody")
    found = read(house, "crew", "inboxes", "ada.json")
    assert [m["text"] for m in found] == [f"t{n}" for n in range(20, 230)]
    assert [m["read"] for m in found] == [True] * 200 + [False] * 10
    assert set(found[0]) == {"from", "text", "timestamp", "color", "summary", "read"}
    assert (found[0]["from"], found[0]["summary"], found[0]["timestamp"][:10]) == (LEAD_NAME, "a note", "2023-11-14")
    assert read(house, "crew", "inboxes", f"{LEAD_NAME}.json") == []
    assert not (house.root / "teams" / "crew" / "inboxes" / "nobody.json").exists()


@pytest.mark.spec("X1", "K7")
async def test_a_file_edited_by_hand_is_ignored_and_rewritten(house: House) -> None:
    ada = await house.join("ada")
    await house.mail.post_mail(house.note(house.lead, ada, "true words"))
    await house.mirror.write_team("crew")
    folder = house.root / "teams" / "crew"
    before = {p: p.read_bytes() for p in folder.rglob("*.json")}
    assert len(before) == 3
    (folder / "config.json").write_text("{}")
    (folder / "inboxes" / "ada.json").write_bytes(b"\xff not json")
    (folder / "inboxes" / "ghost.json").write_text("[]")
    (folder / "inboxes" / ".ada.json.1234").write_text("half")
    (folder / "notes.txt").write_text("a stranger's")
    (house.root / "teams" / "foreign").mkdir()
    assert await house.mirror.rebuild() == ["foreign"]
    assert {p: p.read_bytes() for p in folder.rglob("*.json")} == before
    assert (folder / "notes.txt").exists() and not (folder / "inboxes" / ".ada.json.1234").exists()
    await house.mirror.write_config("crew")
    assert len(await house.state.waiting(ada.agent)) == 1


@pytest.mark.spec("T1")
async def test_a_deleted_team_leaves_no_directory_also_if_its_program_died_before_it_was_gone(house: House) -> None:
    await house.create("other")
    for name in ("crew", "other"):
        await house.mirror.write_team(name)
        await house.teams.delete_team(name)
    await house.mirror.remove("crew")
    assert not (house.root / "teams" / "crew").exists() and (house.root / "teams" / "other").exists()
    assert await house.mirror.rebuild() == [] and not (house.root / "teams" / "other").exists()
    assert await house.teams.removed() == []
    await house.create()
    await house.mirror.write_team("crew")
    await house.mirror.remove("crew")  # a late clean-up does not touch a team that exists again
    assert read(house, "crew", "config.json")["name"] == "crew"


@pytest.mark.spec("X1")
async def test_after_a_shutdown_and_a_new_start_the_inbox_is_empty(house: House) -> None:
    ada = await house.join("ada")
    await house.mail.post_mail(house.note(house.lead, ada))
    await house.teams.set_state("crew", ada.agent, "shutdown")
    await house.mirror.write_team("crew")
    assert not (house.root / "teams" / "crew" / "inboxes" / "ada.json").exists()
    await house.join("ada")
    await house.mirror.write_team("crew")
    assert read(house, "crew", "inboxes", "ada.json") == []


@pytest.mark.spec("X3")
async def test_many_who_write_at_once_leave_the_latest(house: House) -> None:
    ada = await house.join("ada")

    async def send(n: int) -> None:
        await house.mail.post_mail(house.note(house.lead, ada, f"t{n}", id=f"x{n}"))
        await house.mirror.write_inbox("crew", "ada")

    async with anyio.create_task_group() as group:
        for n in range(40):
            group.start_soon(send, n)
    assert {m["text"] for m in read(house, "crew", "inboxes", "ada.json")} == {f"t{n}" for n in range(40)}
    await house.state.delivered([LetterId("x3")])
    await house.mirror.write_inbox("crew", "ada")
    assert [m["text"] for m in read(house, "crew", "inboxes", "ada.json") if m["read"]] == ["t3"]
