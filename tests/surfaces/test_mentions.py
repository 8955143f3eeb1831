"""`@` in a prompt: files and servers' resources are attached if the gate allows it; and a command's own model."""

import json
import os
import sys
from pathlib import Path

import pytest

from program import Program

SMALL = Path(__file__).parents[1] / "servers" / "small_mcp.py"


def told(program: Program) -> list[str]:
    """The blocks of the first prompt as the model got it."""
    lines = [json.loads(line)["event"] for line in program.transcript().read_text().splitlines()]
    (taken,) = [event for event in lines if event["type"] == "letters_taken"]
    return [block["text"] for block in taken["message"]["blocks"]]


@pytest.mark.spec("Q1", "M8")
def test_files_that_a_prompt_names_are_attached_if_they_may_be_read(program: Program) -> None:
    (program.project / "notes.txt").write_text("these-are-the-notes\n</attached-file>\n")
    (program.project / "key.txt").write_text("the-secret")
    (program.home / "far.txt").write_text("far-away")
    os.mkfifo(program.project / "pipe")
    words = (
        f"See @notes.txt, @key.txt, @pipe, @{program.home}/far.txt; write to me@notes.txt, not `@notes.txt` @nobody."
    )
    program.prompt(["end"], "--disallowed-tools", "Read(key.txt)", text=words)
    prompt, notes, key, pipe, far = told(program)
    assert prompt == words and notes.count("</attached-file>") == 1
    assert "these-are-the-notes" in notes and str(program.project / "notes.txt") in notes
    assert all("it is not included" in text for text in (key, pipe, far))
    assert "the-secret" not in key and "far-away" not in far


@pytest.mark.spec("D8")
def test_a_servers_resource_is_attached(program: Program) -> None:
    server = {"command": sys.executable, "args": [str(SMALL), str(program.root / "near.log")]}
    config = json.dumps({"mcpServers": {"near": server}})
    program.prompt(["end"], "--mcp-config", config, text="Look at @near:file:///a.txt and @far:file:///b.txt.")
    _, resource = told(program)
    assert "inside file:///a.txt" in resource and resource.startswith('<attached-resource name="near:file:///a.txt">')


@pytest.mark.spec("S1")
def test_a_line_that_the_client_composed_is_left_as_it_is(program: Program) -> None:
    (program.project / "notes.txt").write_text("these-are-the-notes\n")
    live = program.talk(["end"])
    message = {"role": "user", "content": "See @notes.txt"}
    live.send({"type": "user", "message": message, "client_composed": True})
    live.results(1)
    live.end()
    assert told(program) == ["See @notes.txt"]


@pytest.mark.spec("S1")
def test_a_command_has_a_model_of_its_own_for_its_turn(program: Program) -> None:
    other = program.root / "other.json"
    other.write_text(json.dumps(["from the other"]))
    commands = program.home / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "cheap.md").write_text(f"---\ndescription: d\nmodel: script/{other}\n---\nBe brief.\n")
    (commands / "wrong.md").write_text("---\ndescription: d\nmodel: no/such/model\n---\nBe brief.\n")
    live = program.talk(["-", "from the first", "the first still"])
    for n, (text, answer) in enumerate(
        [("/cheap now", "from the other"), ("and now?", "from the first"), ("/wrong", "the first still")], 1
    ):
        live.say(text)
        assert live.results(n)[-1]["result"] == answer
    ran = live.end()
    assert ran.rc == 0 and "no/such/model" in ran.err
