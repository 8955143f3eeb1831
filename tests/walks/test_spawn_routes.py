"""Where calls of Agent meet routes and places: each parameter has its effect or is named, each start a runner or a
reason.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from place_kit import APPROVE, CREATE, FREE, mate, options, roster, say
from program import Program, bash, tool
from remote_stage import Stage, ended, until

FORK, ASSISTANT = "--fork", "--assistant"


@pytest.fixture(params=["in-process", "local", "tmux"])
def place(request: pytest.FixtureRequest, program: Program) -> Iterator[list[str]]:
    yield from options(request.param, program)


def define(program: Program, name: str, *fields: str) -> None:
    file = program.state / "agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["---", f"name: {name}", "description: A test agent", *fields, "---", "You work.", ""]))


def unserved(program: Program) -> list[str]:
    """Options for a session whose server ends at once, which agents of kind `needy` need."""
    define(program, "needy", "requiredMcpServers: [gone]")
    file = program.root / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"gone": {"command": "false"}}}))
    return ["--mcp-config", str(file)]


def told(program: Program) -> str:
    """All that the lead's model was told."""
    found = [*program.state.glob("projects/*/*.jsonl"), *program.state.glob("engines/*/projects/*/*.jsonl")]
    return "".join(file.read_text() for file in found)


# --- a start that fails


@pytest.mark.spec("T1", "T5", "T12", "D7", "E6")
@pytest.mark.parametrize("isolation", [None, "worktree"])
def test_a_teammate_that_cannot_start_is_taken_back(program: Program, place: list[str], isolation: str | None) -> None:
    """Its call says why, once. Its name is free, its team can be deleted, and the session ends."""
    more = {} if isolation is None else {"isolation": isolation}
    if isolation:
        for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one", "--allow-empty"]):
            git(program.project, *args)
    script = {
        "main": [
            CREATE,
            tool("TaskCreate", subject="Build it", description="now", owner="ada"),
            mate("ada", subagent_type="needy", **more),
            tool("ListAgents"),
            mate("ada"),
            "on",
            tool("TeamDelete"),
            "end",
        ],
        "ada": ["hello"],
    }
    ran = program.prompt(script, FREE, *place, *unserved(program))
    assert ran.rc == 0, ran.err
    (failed, wrong), (listed, _), (again, late) = ran.tool_results[2:5]
    assert wrong and "gone" in failed and "ada could not be started" in failed and "#1" in failed
    assert "ada" not in listed and not late and again.startswith("ada has joined")
    kinds = [
        line["kind"] for line in ran.lines if line.get("subtype") == "team_event" and line.get("kind") != "message"
    ]
    assert "died" not in kinds and "ended unexpectedly" not in told(program)
    assert told(program).count("could not be started") == 1 and "not delivered" not in told(program)
    assert not list(program.project.glob(".teamwright/worktrees/*"))


@pytest.mark.spec("T1", "T5", "T12", "E6")
def test_a_teammate_whose_transcript_cannot_be_written_is_taken_back(program: Program, place: list[str]) -> None:
    spoil = f"for d in {program.state}/projects/*/*/; do touch $d/agents; done"
    script = {"main": [CREATE, bash(spoil), mate("ada"), "on"], "ada": ["hello"]}
    ran = program.prompt(script, FREE, *place)
    words, wrong = ran.tool_results[2]
    assert wrong and "could not be started" in words and "agents" in words, ran.err
    assert roster(program).keys() == {"team-lead"} and "ended unexpectedly" not in told(program)


@pytest.mark.spec("T1", "T5", "T12", "E7")
@pytest.mark.parametrize("name", ["local", "tmux"])
def test_a_teammate_whose_process_dies_at_once_is_taken_back(program: Program, name: str) -> None:
    broken = {"TEAMWRIGHT_TEAMMATE_CRASHPOINT": "transcript.append"}
    for place in options(name, program):
        ran = program.prompt({"main": [CREATE, mate("ada"), "on"], "ada": ["hello"]}, FREE, *place, env=broken)
        (words, wrong), log = ran.tool_results[1], program.state / "logs"
        assert ran.rc == 0 and wrong and "its process ended at once" in words, ran.err
        assert name == "tmux" or str(log) in words
        assert roster(program).keys() == {"team-lead"} and "ended unexpectedly" not in told(program)


@pytest.mark.spec("T1", "T12", "T6")
def test_a_member_that_nobody_runs_does_not_hold_up_its_session(program: Program) -> None:
    """Its definition is gone when the session is resumed before it began."""
    define(program, "brief")
    script = {"main": [CREATE, mate("ada", subagent_type="brief"), "on"], "ada": [{"text": "...", "delay": 600}]}
    live = program.start("-p", "go", "--output-format", "stream-json", "--verbose", FREE, script=script)
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line.get("kind") == "spawn")
    live.process.kill()
    live.process.wait(20)
    (program.state / "agents/brief.md").unlink()
    session = live.lines[0]["session_id"]
    ran = program.prompt({"main": ["again", tool("TeamDelete"), "end"]}, FREE, "--resume", session)
    assert ran.rc == 0 and "no agent definition brief" in told(program), ran.err
    assert roster(program).keys() == {"team-lead", "ada"}


@pytest.mark.spec("E7", "T5")
@pytest.mark.parametrize("name", ["local", "tmux"])
def test_a_process_that_cannot_bring_a_teammate_back_says_why_once(program: Program, name: str) -> None:
    for place in options(name, program):
        script = {"main": [CREATE, mate("ada", subagent_type="brief"), "on"], "ada": ["hello"]}
        define(program, "brief")
        first = program.prompt(script, FREE, *place)
        assert first.rc == 0, first.err
        define(program, "brief", "requiredMcpServers: [gone]")
        servers = unserved(program)
        again = {"main": ["x"] * len(replies(program)) + [say("ada", "More."), "on", "on", "on"], "ada": ["x"] * 9}
        ran = program.prompt(again, FREE, *place, *servers, "--resume", first.result["session_id"])
        assert ran.rc == 0, ran.err
        assert told(program).count("ada cannot continue here") == 1 and "ended unexpectedly" not in told(program)


# --- plans


@pytest.mark.spec("H2", "P7", "E6")
def test_a_definition_in_plan_mode_works_once_its_plan_is_approved(program: Program, place: list[str]) -> None:
    define(program, "planner", "permissionMode: plan")
    made = program.project / "made"
    write = tool("Write", file_path=str(made), content="x")
    script = {
        "main": [
            CREATE,
            mate("ada", subagent_type="planner"),
            "on",
            tool("SendMessage", to="ada", message=APPROVE),
            "on",
        ],
        "ada": [write, tool("ExitPlanMode", plan="Write it."), write, "done"],
    }
    ran = program.prompt(script, "--permission-mode", "acceptEdits", *place)
    assert ran.rc == 0 and made.read_text() == "x", ran.err
    (spawned,) = [line for line in ran.lines if line["type"] == "user" and "teammate_spawned" in json.dumps(line)]
    assert '"plan_mode_required": true' in json.dumps(spawned) and roster(program)["ada"]["planModeRequired"]


# --- tasks that wait


@pytest.mark.spec("L1", "K8", "T12", "E6")
def test_a_teammate_starts_once_one_of_its_tasks_is_free(program: Program, place: list[str]) -> None:
    """Until then nothing is asked of a model for it."""
    done = [tool("TaskUpdate", taskId=str(n), status="completed") for n in (1, 2)]
    script = {
        "main": [
            CREATE,
            tool("TaskCreate", subject="First", description="one", owner="ada"),
            tool("TaskCreate", subject="Then", description="two", owner="ben"),
            tool("TaskUpdate", taskId="2", addBlockedBy=["1"]),
            mate("ben"),
            mate("ada"),
            "on", "on", "on",
        ],
        "ada": [bash("echo ada >> log"), done[0], "first done"],
        "ben": [bash("echo ben >> log"), done[1], "second done"],
    }  # fmt: skip
    ran = program.prompt(script, FREE, *place)
    assert ran.rc == 0 and (program.project / "log").read_text().split() == ["ada", "ben"], ran.err
    ben = ran.tool_results[4][0]
    assert ben.startswith("ben has joined") and "(#2)" in ben and "starts once" in ben
    assert "starts once" not in ran.tool_results[5][0] and "open_tasks" not in ran.result


@pytest.mark.spec("L1", "T1", "T12")
def test_a_teammate_that_waits_for_tasks_holds_up_nobody_and_hears_its_lead(program: Program) -> None:
    tasks = [
        tool("TaskCreate", subject="First", description="one", owner="team-lead"),
        tool("TaskCreate", subject="Then", description="two", owner="ben"),
        tool("TaskUpdate", taskId="2", addBlockedBy=["1"]),
    ]
    script: dict[str, Any] = {"main": [CREATE, *tasks, mate("ben"), "on", "still open", "end"], "ben": ["too early"]}
    ran = program.prompt(script, FREE)
    assert ran.rc == 0 and roster(program)["ben"]["state"] == "created" and "too early" not in told(program), ran.err
    session, more = ran.result["session_id"], {"main": ["x"] * 8, "ben": ["I heard you."]}
    more["main"] = ["x"] * len(replies(program)) + [say("ben", "Begin all the same."), "on", "on", "end"]
    heard = program.prompt(more, FREE, "--resume", session)
    assert heard.rc == 0 and "I heard you." in told(program), heard.err
    more["main"] = ["x"] * len(replies(program)) + [tool("TeamDelete"), "end"]
    last = program.prompt(more, FREE, "--resume", session)
    assert last.rc == 0 and not last.tool_results[-1][1], last.tool_results


def replies(program: Program) -> list[str]:
    lines = program.transcript().read_text().splitlines()
    return [line for line in lines if json.loads(line)["event"]["type"] == "replied"]


# --- parameters


@pytest.mark.spec("P11", "P12", "G2", "E6")
def test_a_teammate_begins_in_the_directory_that_its_call_names(program: Program, place: list[str]) -> None:
    (program.project / "sub").mkdir()
    script = {"main": [CREATE, mate("ada", cwd="sub"), "on", "on"], "ada": [bash("pwd > here"), "done"]}
    ran = program.prompt(script, FREE, ASSISTANT, *place)
    assert ran.rc == 0 and (program.project / "sub/here").read_text() == f"{program.project}/sub\n", ran.err
    assert "ignored" not in ran.tool_results[1][0]


@pytest.mark.spec("P12", "F1", "R11")
def test_a_fork_names_what_it_does_not_heed(program: Program) -> None:
    (program.project / "sub").mkdir()
    asked = {"description": "a part", "prompt": "SCRIPT:part", "cwd": "sub", "effort": "low", "model": "haiku"}
    script = {"main": [tool("Agent", run_in_background=False, **asked), "on", "end"], "part": ["Scope: fine"]}
    ran = program.prompt(script, FREE, FORK, ASSISTANT)
    (text, wrong), named = ran.tool_results[0], {"cwd", "effort", "model", "run_in_background"}
    assert ran.rc == 0 and not wrong and all(f"{name} was ignored" in text for name in named), text


@pytest.mark.spec("P10", "P3")
def test_what_a_teammate_starts_is_bound_by_its_limits(program: Program, place: list[str]) -> None:
    """Also below a sub-agent of it: nothing runs in the background, and the tool does not offer it."""
    child = {"description": "a part", "subagent_type": "general-purpose"}
    beside = tool("Agent", prompt="SCRIPT:deep", run_in_background=True, **child)
    script = {
        "main": [CREATE, mate("ada"), "on", "on"],
        "ada": [tool("Agent", prompt="SCRIPT:low", **child), "done"],
        "low": [beside, tool("Agent", prompt="SCRIPT:deep", name="x", team_name="crew", **child), "done"],
        "deep": [bash("touch started"), "done"],
    }
    ran = program.prompt(script, FREE, *place)
    assert ran.rc == 0 and not (program.project / "started").exists(), ran.err
    lines = [file.read_text() for file in program.transcript().with_suffix("").glob("agents/*.jsonl")]
    said = "\n".join(lines)
    assert "A teammate cannot start background agents" in said and "A teammate cannot add teammates" in said


# --- with an engine


def wish(script: str, **more: Any) -> dict[str, Any]:
    return tool("Agent", description=f"play {script}", prompt=f"SCRIPT:{script}", **more)


@pytest.mark.spec("R6", "R11", "P12", "Z4", "Z11")
def test_an_agent_asked_for_elsewhere_never_forks(stage: Stage) -> None:
    """With forks on and no type named it is still a worker's, and the lead's tree stays as it is."""
    stage.worker("w1")
    main = [[wish("far", isolation="remote", cwd=".", run_in_background=False)], ["waiting"], ["end"]]
    far = [[bash("echo new > made")], [tool("SendMessage", to="main", message="from afar", summary="a word")], ["done"]]
    ran = ended(stage.start(stage.script(main=main, far=far), FREE, FORK, ASSISTANT))
    (text, wrong) = ran.tool_results[0]
    assert ran.rc == 0 and not wrong and "another machine" in text and not (stage.program.project / "made").exists()
    assert "cwd was ignored" in text and "run_in_background was ignored" in text
    assert "worktree-" in stage.git("branch") and "from afar" in told(stage.program)


@pytest.mark.spec("P12", "Z5", "Z11", "T1")
def test_a_teammate_elsewhere_names_what_it_does_not_heed(stage: Stage) -> None:
    """So does one that cannot travel: it is not on the roster."""
    stage.worker("w1")
    (stage.program.project / "file").write_text("changed\n")
    define(stage.program, "hooked", 'hooks: {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}')
    main = [
        [CREATE],
        [wish("far", name="bob", isolation="remote", subagent_type="hooked")],
        [wish("far", name="ada", isolation="worktree", cwd=".", mode="plan")],
        ["on"],
        ["on"],
    ]
    lead = stage.start(stage.script(main=main, far=[["looked"]]), FREE, ASSISTANT, "--teammate-mode", "remote")
    ran = ended(lead)
    (no, wrong), (text, _) = ran.tool_results[1:3]
    assert ran.rc == 0 and wrong and "hooks" in no, ran.err
    assert "isolation was ignored" in text or "exclude each other" in text
    assert "bob" not in json.dumps(stage.listing("teams"))


@pytest.mark.spec("Z6", "Z7")
def test_a_call_says_that_no_worker_fits(stage: Stage) -> None:
    main = [[wish("far", isolation="remote", subagent_type="general-purpose")], ["waiting"], ["end"]]
    lead = stage.start(stage.script(main=main, far=[["done"]]))
    waits = until(lambda: [j for j in stage.listing("jobs") if j.get("waiting_for")], "it is not shown as waiting")
    assert waits
    stage.worker("w1")
    ran = ended(lead)
    assert ran.rc == 0 and "It waits for a worker: none is there" in ran.tool_results[0][0]
    assert "waits for a worker: none is there" in ran.err or "waits for a worker" in ran.out


def git(cwd: Path, *args: str) -> None:
    import subprocess

    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], cwd=cwd, check=True, timeout=30)
