"""The public client package finds, reads, renames and continues our sessions, on disk and in a store of its own."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from claude_kit import Sheet
from program import Program, bash, tool

sdk = pytest.importorskip("claude_agent_sdk")
pytestmark = pytest.mark.spec("BR13")
Reader = Callable[..., Any]


@pytest.fixture
def reading(program: Program, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let the package and the program use the same directory."""
    place = str(program.home / "config")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", place)
    return {"CLAUDE_CONFIG_DIR": place}


def said(messages: list[Any]) -> list[str]:
    parts = [(m.type, block) for m in messages for block in m.message["content"]]
    return [f"{kind}: {block.get('text') or block.get('name') or block['type']}" for kind, block in parts]


def test_a_session_is_listed_and_read(program: Program, reading: dict[str, str]) -> None:
    first = program.prompt([bash("echo hi"), "One."], text="Count to one.", env=reading)
    id = first.result["session_id"]
    (found,) = sdk.list_sessions(directory=str(program.project))
    assert (found.session_id, found.summary, found.cwd) == (id, "Count to one.", str(program.project))
    assert sdk.get_session_info(id).first_prompt == "Count to one."
    told = sdk.get_session_messages(id, directory=str(program.project))
    whole = ["user: Count to one.", "assistant: Bash", "user: tool_result", "assistant: One."]
    assert said(told) == whole and "hi" in json.dumps(told[2].message)
    assert {m.uuid for m in told[1:]} <= {line.get("uuid") for line in first.lines}
    program.prompt(["", "", "Two."], "--resume", id, text="And two?", env=reading)
    assert said(sdk.get_session_messages(id)) == [*whole, "user: And two?", "assistant: Two."]
    (file,) = (program.home / "config" / "projects").glob("*/*.jsonl")
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_the_package_writes_into_it_stays(program: Program, reading: dict[str, str]) -> None:
    id = program.prompt(["One."], text="Count.", env=reading).result["session_id"]
    sdk.rename_session(id, "The counting", directory=str(program.project))
    program.prompt(["", "Two."], "--resume", id, text="More.", env=reading)
    (found,) = sdk.list_sessions()
    assert found.custom_title == "The counting"
    assert said(sdk.get_session_messages(id))[-2:] == ["user: More.", "assistant: Two."]
    fork = sdk.fork_session(id, directory=str(program.project)).session_id
    again = program.prompt(["", "", "Three."], "--resume", fork, text="Now?", env=reading)  # it is not in our store yet
    assert again.result["result"] == "Three." and again.result["session_id"] == fork
    sdk.delete_session(id, directory=str(program.project))
    program.prompt(["", "", "Four."], "--resume", id, text="Still there?", env=reading)
    assert said(sdk.get_session_messages(id))[-1] == "assistant: Four."  # written again, as a whole
    assert said(sdk.get_session_messages(id))[0] == "user: Count."


def test_a_kill_in_the_middle_of_a_line_is_mended(program: Program, reading: dict[str, str]) -> None:
    live = program.talk([bash("sleep 60"), "never"], "--dangerously-skip-permissions", env=reading)
    live.say("Wait.")
    live.wait_for(lambda line: line["type"] == "assistant")
    id = live.wait_for(lambda line: "session_id" in line and line["type"] == "system")["session_id"]
    os.killpg(live.process.pid, signal.SIGKILL)
    live.process.wait(20)
    (file,) = (program.home / "config" / "projects").glob("*/*.jsonl")
    file.write_bytes(file.read_bytes()[:-40])
    program.prompt(["", "Back."], "--resume", id, text="Go on.", env=reading)
    told = said(sdk.get_session_messages(id))
    assert told[:2] == ["user: Wait.", "assistant: Bash"] and told[-2:] == ["user: Go on.", "assistant: Back."]


def test_files_of_the_other_program_are_left_alone(program: Program, reading: dict[str, str]) -> None:
    sheet = Sheet(program.project)
    sheet.say("What is in the till?")
    sheet.reply("42 coins.")
    path = sheet.write(program.root)
    place = program.home / "config" / "projects" / path.parent.name
    place.mkdir(parents=True)
    copy = path.rename(place / path.name)
    before = copy.read_bytes()
    listed = json.loads(program.run("import", "claude", "--json", env=reading).out)
    assert [one["id"] for one in listed] == [copy.stem]
    ran = program.prompt(["", "Still 42."], "--resume", copy.stem, text="And now?", env=reading)
    assert ran.result["result"] == "Still 42." and copy.read_bytes() == before


def test_it_is_written_only_if_asked_for(program: Program) -> None:
    program.prompt(["One."])
    assert not (program.home / ".claude").exists()
    program.state.mkdir(exist_ok=True)
    (program.state / "settings.json").write_text(json.dumps({"teamwright": {"mirrorSessions": True}}))
    id = program.prompt(["One."]).result["session_id"]
    (file,) = (program.home / ".claude" / "projects").glob("*/*.jsonl")
    assert file.stem == id
    (program.state / "settings.json").write_text(json.dumps({"teamwright": {"mirrorSessions": False}}))
    program.prompt(["One."], env={"CLAUDE_CONFIG_DIR": str(program.home / "config")})
    assert not (program.home / "config").exists()


def test_a_place_that_cannot_be_written_costs_a_line_and_not_the_session(program: Program) -> None:
    (program.home / "config").write_text("a file is in the way")
    ran = program.prompt(["One."], env={"CLAUDE_CONFIG_DIR": str(program.home / "config")})
    assert ran.rc == 0 and ran.result["result"] == "One."
    assert "not written any more" in ran.out + ran.err


@pytest.mark.anyio
async def test_a_store_of_the_client_brings_a_session_to_another_machine(program: Program) -> None:
    store = sdk.InMemorySessionStore()

    def options(machine: str, script: list[Any], **more: Any) -> Any:
        home = program.root / machine
        home.mkdir(exist_ok=True)
        (home / "script.json").write_text(json.dumps(script))
        env = {"HOME": str(home), "TEAMWRIGHT_HOME": str(home / ".teamwright"), "CLAUDE_CONFIG_DIR": f"{home}/.claude"}
        cli = str(Path(sys.executable).parent / "teamwright")
        return sdk.ClaudeAgentOptions(
            cli_path=cli, cwd=str(program.project), model=f"script/{home}/script.json", env=env, session_store=store,
            **more,
        )  # fmt: skip

    async def ask(prompt: str, made: Any) -> Any:
        return [message async for message in sdk.query(prompt=prompt, options=made)][-1]

    first = await ask("Remember 42.", options("one", [tool("Bash", command="echo kept"), "I will."]))
    id = first.session_id
    second = await ask("Which number?", options("two", ["", "", "42."], resume=id))
    assert second.session_id == id and second.result == "42."
    third = await ask("Sure?", options("three", ["", "", "", "Sure."], continue_conversation=True))
    assert third.session_id == id and third.result == "Sure."
    told = said(await sdk.get_session_messages_from_store(store, id, directory=str(program.project)))
    assert told == [
        "user: Remember 42.", "assistant: Bash", "user: tool_result", "assistant: I will.",
        "user: Which number?", "assistant: 42.", "user: Sure?", "assistant: Sure.",
    ]  # fmt: skip
    again = await ask("Once more?", options("one", ["", "", "Again."], resume=id))
    assert again.session_id == id and again.result == "Again."
