"""Jobs of a team whose lead was killed and that another session leads on: each end is told once, with what there is."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from place_kit import CREATE, FREE, mate, say, until
from program import LIMIT, Program, bash, tool

HANGS = "touch up; sleep 60"
WRITTEN = "until grep -qs words {{re:output file: (\\S+)}}; do sleep 0.02; done; " + HANGS
OUTPUT = "<output-file>(.*?)</output-file>"
READ = tool("Read", file_path=f"{{{{re:{OUTPUT}}}}}")


def in_background(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, run_in_background=True)


def killed(program: Program, script: dict[str, Any], *flags: str, text: str = "go") -> None:
    """A session that is killed once a command has made the file `up`."""
    up = program.project / "up"
    up.unlink(missing_ok=True)
    live = program.start("-p", text, FREE, *flags, script=script)
    until(up.exists, "the work")
    os.killpg(live.process.pid, signal.SIGKILL)
    live.process.wait(LIMIT)


def of_ada(program: Program, type: str) -> list[str]:
    """What the first of the agents has recorded."""
    files = (program.state / "projects").glob("*/*/agents/*.jsonl")
    path = next(path for path in files if '"name":"ada"' in path.read_text().split("\n", 1)[0])
    return [line for line in path.read_text().splitlines() if f'"type":"{type}"' in line]


def notices(program: Program) -> str:
    return "".join(of_ada(program, "letters_taken"))


TEAM = {"main": [CREATE, mate("ada"), *["on"] * 9], "back": ["on"] * 9}


@pytest.mark.spec("Q4", "B10", "T11")
def test_a_notice_names_the_output_where_it_is_and_its_owner_may_read_it(program: Program) -> None:
    work = [in_background("echo some words; sleep 60"), bash(WRITTEN), READ, "done"]
    script = TEAM | {"ada": work}
    killed(program, script)
    ran = program.prompt(script, "--team", "crew", text="SCRIPT:back")
    (path,) = re.findall(OUTPUT, notices(program))
    assert ran.rc == 0 and Path(path).read_text() == "some words\n", ran.err
    assert "some words" in of_ada(program, "tool_ended")[-1]


@pytest.mark.spec("Q4", "B10", "T11")
def test_that_of_a_job_begun_under_its_second_lead_is_with_that_one(program: Program) -> None:
    script = TEAM | {"ada": ["ready"], "more": [in_background("echo words; sleep 60"), bash(WRITTEN), "ended", "done"]}
    script["next"] = [say("ada", "SCRIPT:more"), *["on"] * 9]
    assert program.prompt(script, FREE).rc == 0
    killed(program, script, "--team", "crew", text="SCRIPT:next")
    ran = program.prompt(script, FREE, "--team", "crew", text="SCRIPT:back")
    (path,) = re.findall(OUTPUT, notices(program))
    assert ran.rc == 0 and Path(path).read_text() == "words\n", ran.err


@pytest.mark.spec("C7", "B4", "T11")
def test_an_end_that_was_read_under_its_second_lead_is_not_told_again(program: Program) -> None:
    read = tool("TaskOutput", task_id="{{re:\\bid: ([\\w-]+)}}", block=True, timeout=20000)
    script = TEAM | {"ada": ["ready"], "more": [in_background("sleep 0.2"), read, bash(HANGS), "ended", "done"]}
    script["next"] = [say("ada", "SCRIPT:more"), *["on"] * 9]
    assert program.prompt(script, FREE).rc == 0
    killed(program, script, "--team", "crew", text="SCRIPT:next")
    second = max((program.state / "projects").glob("*/*.jsonl"), key=lambda path: path.stat().st_mtime).stem
    ran = program.prompt(script, FREE, "--resume", second, text="SCRIPT:back")
    assert ran.rc == 0 and "task-notification" not in notices(program), ran.err
    assert len(of_ada(program, "tool_ended")) == 3
