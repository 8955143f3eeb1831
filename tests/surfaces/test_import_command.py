"""`teamwright import claude`: sessions of another program become ours, once."""

import json
from pathlib import Path

import pytest

from claude_kit import ID, Sheet, use
from program import Program

OTHER = "aaaaaaaa-0000-4000-8000-000000000001"


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def brought(program: Program) -> Program:
    sheet = Sheet(program.project)
    sheet.say("What is in the till?")
    sheet.reply({"type": "thinking", "thinking": "unsigned"}, use("t1", command="cat till"))
    sheet.result("t1", "42 coins")
    sheet.reply("There are 42 coins.")
    sheet.lines.append({"type": "custom-title", "customTitle": "The till", "sessionId": ID})
    sheet.lines.append({"type": "riddle"})
    sheet.write(program.home)
    other = Sheet("/srv/elsewhere", OTHER)
    other.say("Hello.")
    other.reply("Hi.")
    other.write(program.home)
    return program


@pytest.mark.spec("BR8")
def test_listed_imported_shown_and_resumed(brought: Program) -> None:
    before = contents(brought.home / ".claude")
    listed = brought.run("import", "claude")
    assert ID in listed.out and "The till" in listed.out and OTHER not in listed.out
    ran = brought.run("import", "claude", ID[:6])
    assert ran.rc == 0 and f"{ID}  imported, 3 messages  The till" in ran.out
    assert "left out: " in ran.out and "lines: riddle (1)" in ran.out and "thinking without a signature (1)" in ran.out
    again = brought.run("import", "claude", ID)
    assert again.rc == 0 and "already here" in again.out
    (row,) = json.loads(brought.run("sessions", "--json").out)
    assert (row["id"], row["prompt"], row["imported"]) == (ID, "The till", "claude")
    assert row["modified"] == next(at for path, (_, at) in before.items() if ID in path.name) // 1_000_000
    assert "(imported) The till" in brought.run("sessions").out
    resumed = brought.prompt(["", "", "Still 42."], "--resume", ID[:8], text="And now?")
    assert resumed.rc == 0 and resumed.result["result"] == "Still 42." and resumed.result["session_id"] == ID
    assert contents(brought.home / ".claude") == before


@pytest.mark.spec("BR8")
def test_all_of_one_directory_or_of_every_one(brought: Program) -> None:
    some = json.loads(brought.run("import", "claude", "--all", "--project", str(brought.project), "--json").out)
    assert [(one["id"], one["status"]) for one in some] == [(ID, "imported")]
    every = json.loads(brought.run("import", "claude", "--all", "--json").out)
    assert {(one["id"], one["status"]) for one in every} == {(ID, "already here"), (OTHER, "imported")}
    assert "/srv/elsewhere" in brought.run("sessions", "--all").out
    assert "DIRECTORY" in brought.run("import", "claude", "--list", "--all").out


def test_wrong_use_and_nothing_to_import(program: Program) -> None:
    assert "no sessions of" in program.run("import", "claude").out
    assert "nothing to import" in program.run("import", "claude", "--all").out
    missing = program.run("import", "claude", "abcd")
    assert missing.rc == 2 and "there is no session abcd" in missing.err
    assert program.run("import", "codex").rc == 2 and program.run("import", "claude", "abcd", "--all").rc == 2
    assert "examples:" in program.run("import", "--help").out


@pytest.mark.spec("BR8")
def test_a_file_without_a_conversation_leaves_nothing(program: Program) -> None:
    sheet = Sheet(program.project)
    sheet.lines = ["", "{}", "\x00\x1b[2J"]
    sheet.write(program.home)
    ran = program.run("import", "claude", ID)
    assert ran.rc == 0 and "empty" in ran.out and json.loads(program.run("sessions", "--json").out) == []


def test_a_command_without_a_program_asks_for_one(program: Program) -> None:
    ran = program.run("import")
    assert ran.rc == 2 and ran.err.strip() == "teamwright: import: name the program whose sessions you mean: claude"
