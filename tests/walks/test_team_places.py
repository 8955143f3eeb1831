"""One suite for all places where teammates run, and what a killed process leaves behind."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from place_kit import AGREE, APPROVE, CREATE, FREE, control, mate, options, roster, say, serves, teammates, until
from program import LIMIT, Live, Program, alive, bash, tool
from worktree_kit import new_repo


@pytest.fixture(params=["in-process", "local", "tmux"])
def place(request: pytest.FixtureRequest, program: Program) -> Iterator[list[str]]:
    """The options for each place; tmux gets a server of its own."""
    yield from options(request.param, program)


@pytest.fixture(params=["local", "tmux"])
def apart(request: pytest.FixtureRequest, program: Program) -> Iterator[list[str]]:
    """Places with processes of their own."""
    yield from options(request.param, program)


@pytest.mark.spec("E1", "E2", "E3", "E6", "E8", "H1", "T4", "T12")
def test_a_whole_life_is_the_same_everywhere_and_leaves_nothing_behind(program: Program, place: list[str]) -> None:
    """Spawned, at work, idle, woken by a message, shut down; its tools know who they work for."""
    names = "echo $TEAMWRIGHT_AGENT_NAME $TEAMWRIGHT_TEAM >> log"
    script = {
        "main": [CREATE, mate("ada"), "on"],
        "ada": [bash(names), say("team-lead", "SCRIPT:reply"), "idle"],
        "reply": [say("ada", "SCRIPT:more"), "on"],
        "more": [bash("echo more >> log"), say("team-lead", "SCRIPT:close"), *[AGREE, "idle"] * 2],
        "close": [control("ada", "shutdown_request", reason="done"), "on"],
    }  # fmt: skip
    ran = program.prompt(script, FREE, *place)
    assert ran.rc == 0 and (program.project / "log").read_text().split() == ["ada", "crew", "more"], ran.err
    kinds = [line["kind"] for line in ran.lines if line.get("subtype") == "team_event" and line["kind"] != "message"]
    assert kinds[0] == "spawn" and kinds[-1] == "shutdown" and kinds.count("shutdown") == 1
    begun, ended = ([x for x in ran.lines if x.get("subtype") == f"task_{s}"] for s in ("started", "notification"))
    assert [x["task_type"] for x in begun] == ["in_process_teammate"] and begun[0]["description"]
    assert [(x["task_id"], x.get("status")) for x in (*begun, *ended)] == [
        ("ada@crew", None),
        ("ada@crew", "completed"),
    ]
    assert "shutdown_approved" in program.transcript().read_text() and list(roster(program)) == ["team-lead"]
    until(lambda: not teammates(program), "the end of all")
    if place[-1] == "tmux":
        assert not [s for s in Path(program.env["TMUX_TMPDIR"]).glob("tmux-*/*") if serves(s)]


@pytest.mark.spec("W1", "W9", "E6")
def test_a_teammate_works_in_its_worktree_wherever_it_runs(program: Program, place: list[str]) -> None:
    new_repo(program.project / "repo")
    program.project /= "repo"
    work = bash("pwd > where; git add where; git commit -qm where")
    script = {
        "main": [CREATE, mate("ada", isolation="worktree"), "on"],
        "ada": [work, say("team-lead", "SCRIPT:close"), *[AGREE, "idle"] * 2],
        "close": [control("ada", "shutdown_request", reason="done"), "on", "on"],
    }
    ran = program.prompt(script, FREE, *place)
    tree = program.project / ".teamwright/worktrees/ada"
    assert ran.rc == 0 and (tree / "where").read_text() == f"{tree}\n", ran.err
    kinds = [line["kind"] for line in ran.lines if line.get("subtype") == "team_event"]
    assert "died" not in kinds and kinds[-1] == "shutdown"
    assert "Its worktree was kept" in program.transcript().read_text() and not (program.project / "where").exists()


@pytest.mark.spec("E6", "A15")
@pytest.mark.parametrize("flag", ["--allowed-tools=Bash(touch *)", "--coordinator", "--assistant"])
def test_prompt_and_tools_are_the_same_wherever_it_runs(program: Program, flag: str) -> None:
    told = []
    for name in ("in-process", "local"):
        ran = program.prompt({"main": [CREATE, mate("ada"), "on"], "ada": ["idle"]}, flag, "--teammate-mode", name)
        assert ran.rc == 0, ran.err
        session = ran.result["session_id"]
        prompts = (program.state / "projects").glob(f"*/{session}/prompts/*")
        told.append([text for text in map(Path.read_text, prompts) if "You are ada" in text])
        assert program.run("teams", "delete", "crew").rc == 0
    assert len(told[0]) == 1 and told[0] == told[1]


@pytest.mark.spec("H2", "E6")
def test_a_planning_teammate_cannot_write_anywhere(program: Program, place: list[str]) -> None:
    made = program.project / "made"
    tries = [bash("touch early"), tool("Write", file_path=str(made), content="early")]
    script = {
        "main": [CREATE, mate("ada", mode="plan"), "on", tool("SendMessage", to="ada", message=APPROVE), "on"],
        "ada": [tries, tool("ExitPlanMode", plan="a plan"), bash("touch late"), "done"],
    }
    ran = program.prompt(script, FREE, *place)
    assert ran.rc == 0 and not (program.project / "early").exists() and not made.exists(), ran.err
    assert (program.project / "late").exists()


@pytest.mark.spec("M5", "M6", "H4", "E6")
def test_a_question_comes_out_where_the_person_is(program: Program, place: list[str]) -> None:
    """With name and colour; an "always" holds for the next call."""
    work = [bash("touch one"), bash("touch two"), say("team-lead", "it went on"), "on"]
    script = {"main": [CREATE, mate("ada"), "on"], "ada": work}
    live = program.talk(script, *place)
    live.say("go")
    question = live.question()
    asked = question["request"]
    assert asked["tool_name"] == "Bash" and asked["agent_name"] == "ada"
    assert asked["agent_color"] == roster(program)["ada"]["color"]
    rule = {"toolName": "Bash", "ruleContent": "touch *"}
    rules = [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]
    live.answer(question, behavior="allow", updatedInput=asked["input"], updatedPermissions=rules)
    until(lambda: "it went on" in program.transcript().read_text(), "its message")
    ran = live.end()
    assert ran.rc == 0 and (program.project / "two").exists()
    assert sum(line["type"] == "control_request" for line in ran.lines) == 1


@pytest.mark.spec("A6", "E6")
def test_what_runs_later_in_a_home_is_asked_wherever_the_teammate_runs(program: Program, place: list[str]) -> None:
    """The lead's process judges its call anew, and must not find that its mode covers it."""
    program.env["HOME"] = str(program.project)
    files = [".config/autostart/x", "plain"]
    work = [tool("Write", file_path=str(program.project / file), content="x") for file in files]
    script = {"main": [CREATE, mate("ada"), "on"], "ada": [*work, say("team-lead", "it went on"), "on"]}
    live = program.talk(script, "--permission-mode", "acceptEdits", *place)
    live.say("go")
    question = live.question()
    assert question["request"]["input"]["file_path"].endswith("autostart/x")
    live.answer(question, behavior="deny", message="not there")
    until(lambda: "it went on" in program.transcript().read_text(), "its message")
    assert live.end().rc == 0 and (program.project / "plain").exists() and not (program.project / ".config").exists()


@pytest.mark.spec("T13", "E6")
def test_an_interrupt_ends_the_turn_of_a_teammate_and_not_its_life(program: Program, place: list[str]) -> None:
    """An interrupt of an idle teammate does nothing, not even to its next turn."""
    script = {
        "main": [CREATE, mate("ada"), "on"],
        "ada": [bash("echo $$ > pid; exec sleep 300"), "x"],
        "back": [say("ada", "SCRIPT:again"), "on"],
        "again": [bash("touch again"), "on"],
    }  # fmt: skip
    live = program.talk(script, FREE, *place)
    live.say("go")
    pid = int(until((program.project / "pid").read_text, "the command"))
    assert live.ask("interrupt", agent_id="ada@crew")["subtype"] == "success"
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    until(lambda: "interrupted" in program.transcript().read_text(), "the word about it")
    until(lambda: not alive(pid), "the end of the command")
    assert live.ask("interrupt", agent_id="ada@crew")["subtype"] == "success"
    assert live.ask("interrupt", agent_id="bob@crew")["subtype"] == "error"
    live.say("SCRIPT:back")
    until((program.project / "again").exists, "it goes on")
    assert live.end().rc == 0


@pytest.mark.spec("T5", "E6")
def test_each_turn_is_told_wherever_it_was_however_short(program: Program, place: list[str]) -> None:
    script = {"main": [CREATE, mate("ada"), *["on"] * 9], "ada": ["rest"] * 9, "poke": [say("ada", "hello"), "on"]}
    live = program.talk(script, FREE, *place)
    before = 0
    for words in ("go", *["SCRIPT:poke"] * 3):
        live.say(words)
        live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle", after=before)
        before = len(live.lines)
    told = [line for line in live.end().lines if line.get("subtype") == "team_event" and line["kind"] != "message"]
    assert [line["kind"] for line in told[:8]] == ["spawn", "idle", *["wake", "idle"] * 3]
    assert {line["text"] for line in told[:8] if line["kind"] == "idle"} == {"available"}


@pytest.mark.spec("O1", "K5", "E6")
def test_what_becomes_of_tasks_is_told_wherever_it_happens(program: Program, place: list[str]) -> None:
    def task(subject: str, **more: str) -> dict[str, Any]:
        return tool("TaskCreate", subject=subject, description="x", **more)

    def update(id: str, **more: str) -> dict[str, Any]:
        return tool("TaskUpdate", taskId=id, **more)

    script = {
        "main": [CREATE, task("kept", owner="ada"), mate("ada"), *["on"] * 9],
        "ada": [
            update("1", status="completed"), [task("mine"), update("2", subject="my own")], update("2", owner="ada"),
            update("2", status="completed"), "ready", update("3", status="completed"), "on",
        ],
        "free": [task("free"), *["on"] * 9],
    }  # fmt: skip
    live = program.talk(script, FREE, *place)
    live.say("go")
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    live.say("SCRIPT:free")
    live.wait_for(lambda line: line.get("task_id") == "3" and line["kind"] == "completed")
    lines = [line for line in live.end().lines if line.get("subtype") == "team_event" and "task_id" in line]
    told = [(line["kind"], line["task_id"], line["text"]) for line in lines]
    names = {"1": "kept", "2": "my own", "3": "free"}
    assert told == [(kind, id, name) for id, name in names.items() for kind in ("claim", "completed")]
    assert {line["agent"] for line in lines} == {"ada@crew"}


@pytest.mark.spec("E6", "T6")
def test_what_an_adopted_teammate_did_before_is_no_news(program: Program) -> None:
    for place in options("tmux", program):
        script = {
            "main": [CREATE, mate("ada"), "on", "on"], "ada": [say("team-lead", "a first word"), "ready", "woken", "x"],
            "back": [say("ada", "hello"), "on", "on"],
        }  # fmt: skip
        live = program.talk(script, FREE, *place)
        live.say("go")
        live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
        pids = teammates(program)
        live.process.kill()
        live.process.wait(LIMIT)
        live = program.talk(script, "--resume", program.transcript().stem, FREE, *place)
        live.say("SCRIPT:back")
        live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
        assert teammates(program) == pids
        ran = live.end()
        told = [line["kind"] for line in ran.lines if line.get("subtype") == "team_event"]
        assert told[:3] == ["message", "wake", "idle"], told
        assert "a first word" not in str([line for line in ran.lines if line.get("type") == "assistant"])


@pytest.mark.spec("M6", "M10", "E6")
def test_without_a_person_a_question_is_denied_at_once_with_words(program: Program, place: list[str]) -> None:
    script = {"main": [CREATE, mate("ada"), "on"], "ada": [bash("touch one"), "on"]}
    ran = program.prompt(script, *place)
    assert ran.rc == 0 and not (program.project / "one").exists()
    assert any("nobody is attached" in text for text, is_error in ran.tool_results if is_error), ran.out[-3000:]


@pytest.mark.spec("E7", "K6", "X6", "T6")
def test_a_process_that_dies_is_noticed_its_task_freed_and_a_message_brings_it_back(
    program: Program, apart: list[str]
) -> None:
    script = {
        "main": [CREATE, tool("TaskCreate", subject="the job", description="x"), mate("ada"), "on"],
        "ada": [tool("TaskUpdate", taskId="1", owner="ada"), bash("touch up"), "ready"],
        "back": [say("ada", "SCRIPT:again"), "on"],
        "again": [bash("touch again"), "on"],
    }  # fmt: skip
    live = program.talk(script, FREE, *apart)
    live.say("go")
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    (pid,) = teammates(program)
    os.kill(pid, signal.SIGKILL)
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "died")
    until(lambda: "Free again: #1" in program.transcript().read_text(), "the word about its task")
    live.say("SCRIPT:back")
    until((program.project / "again").exists, "it came back")
    assert live.end().rc == 0
    until(lambda: not teammates(program), "the end of all")


@pytest.mark.spec("E7", "T5", "O1")
def test_one_that_dies_in_a_turn_is_not_told_as_idle(program: Program, apart: list[str]) -> None:
    script = {
        "main": [CREATE, mate("ada"), "on"], "ada": [bash("touch up; kill -9 $PPID"), *["ready"] * 4],
        "back": [say("ada", "hello"), "on"],
    }  # fmt: skip
    live = program.talk(script, FREE, *apart)
    live.say("go")
    wait_until_up(program)
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "died")
    live.say("SCRIPT:back")
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    told = [line for line in live.end().lines if line.get("subtype") == "team_event" and line["kind"] != "message"]
    assert [line["kind"] for line in told[:4]] == ["spawn", "died", "wake", "idle"], told
    assert told[3]["text"] == "available"


def wait_until_up(program: Program) -> None:
    until((program.project / "up").exists, "the teammate at work")


@pytest.mark.spec("E8", "T6")
def test_sigterm_leaves_no_process_and_a_resume_goes_on(program: Program, apart: list[str]) -> None:
    script = {
        "main": [CREATE, mate("ada"), "on"],
        "ada": [bash("echo first >> log; touch up"), {"blocks": [bash("echo second >> log")], "delay": 3}, "done"],
    }  # fmt: skip
    live = program.start("-p", "go", "--output-format", "stream-json", "--verbose", FREE, *apart, script=script)
    wait_until_up(program)
    until(lambda: teammates(program), "its process")
    live.process.send_signal(signal.SIGTERM)
    assert live.process.wait(LIMIT) == 143
    until(lambda: not teammates(program), "their end")
    id = program.transcript().stem
    ran = program.prompt(script, "--resume", id, FREE, *apart, text="on")
    assert ran.rc == 0 and (program.project / "log").read_text().split() == ["first", "second"]


@pytest.mark.spec("E8", "T12")
def test_a_teammate_that_does_not_react_is_killed_at_the_end(program: Program, apart: list[str]) -> None:
    live = program.talk({"main": [CREATE, mate("ada"), "on"], "ada": ["ready"]}, FREE, *apart)
    live.say("go")
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    (pid,) = teammates(program)
    os.kill(pid, signal.SIGSTOP)
    assert live.end().rc == 0
    assert not alive(pid)


@pytest.mark.spec("E8", "T6", "X2")
def test_after_kill_9_of_the_lead_local_ones_end_and_the_team_goes_on(program: Program) -> None:
    for place in options("local", program):
        killed_lead(program, place, stays=False)


@pytest.mark.spec("T6", "K6", "E8")
def test_who_comes_back_at_once_finds_local_ones_with_their_turn_and_their_tasks(program: Program) -> None:
    """The dead lead's children may still be shutting down."""
    script = {
        "main": [CREATE, tool("TaskCreate", subject="the job", description="x"), mate("ada"), *["on"] * 9],
        "ada": [
            [tool("TaskUpdate", taskId="1", owner="ada"), bash("echo first >> log; touch up")],
            {"blocks": [bash("echo second >> log")], "delay": 2}, "done",
        ],
    }  # fmt: skip
    for place in options("local", program):
        live = program.start("-p", "go", FREE, *place, script=script)
        wait_until_up(program)
        os.kill(live.process.pid, signal.SIGKILL)
        live.process.wait(LIMIT)
        ran = program.prompt(script, "--resume", program.transcript().stem, FREE, *place, text="on")
        assert ran.rc == 0 and (program.project / "log").read_text().split() == ["first", "second"], ran.err
        told = program.transcript().read_text()
        assert "ended unexpectedly" not in told and "Free again" not in told


@pytest.mark.spec("E8", "T6", "T11")
def test_after_kill_9_of_the_lead_a_pane_stays_and_is_adopted(program: Program) -> None:
    for place in options("tmux", program):
        killed_lead(program, place, stays=True)


def killed_lead(program: Program, place: list[str], *, stays: bool) -> None:
    script = {
        "main": [CREATE, mate("ada"), "on"],
        "ada": [bash("echo first >> log; touch up"), "ready"],
        "back": [say("ada", "SCRIPT:again"), "on"],
        "again": [bash("echo second >> log"), "on"],
    }
    live: Live = program.talk(script, FREE, *place)
    live.say("go")
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    (pid,) = teammates(program)
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait(LIMIT)
    if not stays:
        until(lambda: not alive(pid), "the end of the child")
    ran = program.prompt(script, "--resume", program.transcript().stem, FREE, *place, text="SCRIPT:back")
    assert ran.rc == 0 and (program.project / "log").read_text().split() == ["first", "second"], ran.err
    until(lambda: not teammates(program), "the end of all")


@pytest.mark.spec("E5")
def test_a_missing_tmux_is_said_and_the_team_works_without(program: Program) -> None:
    program.env["PATH"] = str(program.root / "bin")
    (program.root / "bin").mkdir()
    for name in ("bash", "sh", "git", "env", "touch"):
        if found := shutil.which(name):
            (program.root / "bin" / name).symlink_to(found)
    script = {"main": [CREATE, mate("ada"), "on"], "ada": [bash("touch made"), "on"]}
    ran = program.prompt(script, FREE, "--teammate-mode", "tmux")
    assert ran.rc == 0 and (program.project / "made").exists() and roster(program)["ada"]["backendType"] == "in-process"
    assert "tmux" in ran.err + ran.out


@pytest.mark.spec("E5")
def test_remote_without_an_engine_is_told_and_replaced_by_what_works(program: Program) -> None:
    script = {"main": [CREATE, mate("ada"), "on", "on"], "ada": ["ready"]}
    ran = program.prompt(script, FREE, "--teammate-mode", "remote")
    assert ran.rc == 0 and "There is no engine, so teammates run here" in ran.err


@pytest.mark.spec("C7", "E6")
def test_a_teammate_is_read_by_its_name_and_a_wrong_id_is_told_what_there_is(
    program: Program, place: list[str]
) -> None:
    script = {
        "main": [
            CREATE,
            tool("TaskCreate", subject="Build it", description="now", owner="nobody-yet"),
            mate("ada"),
            "on",
            [
                tool("TaskOutput", task_id="ada@crew"),
                tool("TaskOutput", task_id="ada"),
                tool("TaskStop", task_id="ada"),
                tool("TaskOutput", task_id="1"),
                tool("TaskStop", task_id="#1"),
            ],
            "on",
        ],
        "ada": ["I have looked: all is well."],
    }  # fmt: skip
    ran = program.prompt(script, FREE, *place)
    address, name, stop, number, stop_number = ran.tool_results[3:]
    assert ran.rc == 0 and not address[1] and not name[1], ran.err
    assert "I have looked: all is well." in address[0] and "ada@crew" in name[0] and "idle" in name[0]
    assert stop[1] and "its id is ada@crew" in stop[0]
    assert all(wrong and "task list" in text and "ada@crew" in text for text, wrong in (number, stop_number))
