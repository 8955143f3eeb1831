"""The program with an engine: creating and running one, sessions in it, and what other machines see of them."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from program import ARGV, Program, tool, wait_file

CREW = [
    [tool("TeamCreate", team_name="crew", description="a crew")],
    [tool("TaskCreate", subject="paint the boat", description="red")],
    "all set",
]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Program]:
    """Another machine of the same person."""
    (tmp_path / "other").mkdir()
    program = Program(tmp_path / "other")
    yield program
    program.close()


@pytest.fixture
def engine(program: Program, tmp_path: Path) -> Iterator[Path]:
    """A running engine's directory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    directory = tmp_path / "engine"
    made = program.run("engine", "init", str(directory), "--port", str(port))
    assert made.rc == 0 and f"teamwright engine run {directory}" in made.out, made.err
    server = subprocess.Popen(
        [*ARGV, "engine", "run", str(directory)], env=program.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_file(directory / "server.pid")
    yield directory
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    server.wait(20)


def read(program: Program, *args: str) -> Any:
    ran = program.run(*args, "--json")
    assert ran.rc == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.spec("Z2", "Z16", "Z17", "Z23", "Z30")
def test_a_session_in_an_engine_is_seen_and_resumed_from_another_machine(
    program: Program, other: Program, engine: Path
) -> None:
    at = f"@{engine}/lead.url"
    password = (engine / "lead.url").read_text().split(":")[2].split("@")[0]
    first = program.prompt(CREW, "--engine", at, text="begin the crew")
    assert first.rc == 0 and first.result["result"] == "all set", first.err
    init = first.lines[0]
    assert init["engine"]["space"] == "main" and init["engine"]["url"].startswith("nats://127.0.0.1:")
    assert password not in first.out + first.err
    id = init["session_id"]
    (listed,) = read(other, "sessions", "--engine", at)
    assert (listed["id"], listed["prompt"]) == (id, "begin the crew")
    (team,) = read(other, "teams", "--engine", at)
    assert (team["name"], team["state"]) == ("crew", "lead gone")
    (task,) = read(other, "tasks", "--team", "crew", "--engine", at)
    assert task["subject"] == "paint the boat"
    assert read(other, "inbox", "--engine", at) == [] and read(other, "jobs", id[:8], "--engine", at) == []
    assert sum(agent["turns"] for agent in read(other, "cost", id, "--engine", at)["agents"]) == 3
    why = other.run("why", id, "--engine", at)
    assert why.rc == 0, why.err
    again = other.prompt([*CREW, "here I am"], "--engine", at, "--resume", id, text="still there?")
    assert again.rc == 0 and again.result["result"] == "here I am", again.err
    assert (
        read(other, "sessions") == [] and read(program, "sessions") == []
    )  # nothing of it is in the homes' own stores


@pytest.mark.spec("Z1")
def test_teammates_in_processes_of_their_own_share_the_engine(program: Program, other: Program, engine: Path) -> None:
    at = f"@{engine}/lead.url"
    ada = tool("Agent", name="ada", description="d", prompt="SCRIPT:ada", subagent_type="general-purpose")
    report = tool("SendMessage", to="team-lead", summary="done", message="the report of ada")
    script = {
        "main": [[tool("TeamCreate", team_name="crew", description="a crew")], [ada], "waiting", "end", "end", "end"],
        "ada": [[report], "rests", "rests"],
    }
    ran = program.prompt(script, "--engine", at, "--teammate-mode", "local", text="SCRIPT:main")
    assert ran.rc == 0, ran.err
    (team,) = read(other, "teams", "--engine", at)
    assert {member["name"]: member["backendType"] for member in team["members"]}["ada"] == "local"
    mail = read(other, "inbox", "crew", "--engine", at)
    assert [m["read"] for m in mail if m["text"] == "the report of ada"] == [True]


@pytest.mark.spec("Z17", "Z22")
def test_without_the_engine_a_listing_says_what_was_last_known(program: Program, other: Program, engine: Path) -> None:
    at = f"@{engine}/lead.url"
    assert program.prompt(CREW, "--engine", at).rc == 0
    assert program.run("teams", "--engine", at).rc == 0
    pid = int((engine / "server.pid").read_text())
    subprocess.run(["kill", "-9", str(pid)], check=True)
    ran = program.run("teams", "--json", "--engine", at)
    assert ran.rc == 0 and json.loads(ran.out)[0]["name"] == "crew"
    assert "cannot be reached" in ran.err and "This is what this machine knew at 20" in ran.err
    why = program.run("why", "--engine", at)
    assert why.rc == 0 and "Everybody waits for the engine at nats://" in why.out and "last heard at 20" in why.out
    never = other.run("teams", "--engine", at)
    assert never.rc == 1 and "cannot be reached" in never.err and never.out == ""


@pytest.mark.spec("Z30")
def test_the_status_says_in_words_what_is_not_safe(program: Program, engine: Path) -> None:
    at = f"@{engine}/lead.url"
    assert program.prompt(["hi"], "--engine", at).rc == 0
    found = read(program, "engine", "status", "--engine", at)
    assert found["entries"] > 3 and found["nodes"] == 1 and found["processes"] == [] and found["refused"] == 0
    assert found["unsafe"] == ["one node: what it stores is lost with its disk"]
    told = program.run("engine", "status", env={"TEAMWRIGHT_ENGINE": at})
    assert told.rc == 0 and "not safe: one node" in told.out


@pytest.mark.spec("Z23", "Z30")
def test_each_identity_has_an_address_of_its_own_and_nobody_else_gets_in(program: Program, engine: Path) -> None:
    added = program.run("engine", "add", "lead", "ada", str(engine))
    assert added.rc == 0 and f"@{engine}/ada.url" in added.out, added.err
    for name in ("lead.url", "ada.url", "users.conf", "engine.json", "server.conf"):
        assert (engine / name).stat().st_mode & 0o777 == 0o600
    assert program.prompt(["hi"], "--engine", f"@{engine}/ada.url").rc == 0
    open_address = (engine / "lead.url").read_text().strip()
    nobody = "nats://" + open_address.partition("@")[2]
    ran = program.prompt(["hi"], "--engine", nobody)
    assert ran.rc == 1 and "cannot be reached" in ran.err and not ran.out
    assert program.run("engine", "add", "lead", "ada", str(engine)).rc == 2


@pytest.mark.spec("Z2")
def test_wrong_words_are_one_sentence(program: Program, tmp_path: Path) -> None:
    ran = program.prompt(["hi"], "--engine", "nats://127.0.0.1:9/main")
    assert ran.rc == 1 and "127.0.0.1:9" in ran.err and not ran.out and not (program.state / "engines").exists()
    ran = program.prompt(["hi"], "--engine", "somewhere")
    assert ran.rc == 2 and "The address of an engine is nats://" in ran.err and "USER:PASSWORD@" in ran.err
    for args, words in (
        (("engine", "run", str(tmp_path / "none")), "is no engine"),
        (("engine", "init"), "`teamwright engine init DIR`"),
        (("engine", "status", "nats://127.0.0.1:9"), "`teamwright engine status --engine URL`"),
        (("engine", "status"), "name the engine"),
    ):
        ran = program.run(*args)
        assert ran.rc == 2 and words in ran.err, ran.err
