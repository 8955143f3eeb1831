"""A team whose store is damaged or removed."""

import json

import pytest

from place_kit import CREATE, FREE, mate, roster, say
from program import Program, bash

SCRIPT = {
    "main": [CREATE, mate("ada"), "on"],
    "ada": [bash("echo worked >> log"), "ready"],
    "again": [CREATE, mate("ada"), "on"],
    "write": [say("ada", "hello"), "on"],
}


@pytest.mark.spec("X7", "T6")
@pytest.mark.parametrize("damage", ["rubbish", "cut", "gone"])
def test_a_damaged_store_is_set_aside_said_and_the_session_makes_its_team_anew(program: Program, damage: str) -> None:
    assert program.prompt(SCRIPT, FREE).rc == 0
    store = program.state / "state.db"
    for side in ("state.db-wal", "state.db-shm"):
        (program.state / side).unlink(missing_ok=True)
    match damage:
        case "rubbish":
            store.write_bytes(b"\0rubbish" * 4000)
        case "cut":
            store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])
        case _:
            store.unlink()
    id = program.transcript().stem
    lost = program.prompt(SCRIPT, FREE, "--resume", id, text="SCRIPT:write")
    assert lost.rc == 0, lost.err
    assert any("ada" in text for text, is_error in lost.tool_results if is_error), lost.tool_results
    if damage != "gone":
        assert "state.db was damaged" in lost.err and "Teams, mail, tasks" in lost.err
    ran = program.prompt(SCRIPT, FREE, "--resume", id, text="SCRIPT:again")
    assert ran.rc == 0 and (program.project / "log").read_text() == "worked\nworked\n", ran.err
    assert set(roster(program)) == {"team-lead", "ada"}
    assert [t["name"] for t in json.loads(program.run("teams", "--json").out)] == ["crew"]
