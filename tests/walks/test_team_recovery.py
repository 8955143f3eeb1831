"""kill -9 of the whole program at each crash point of teams: the resumed session continues, and does nothing twice."""

import json
import re
import signal
from typing import Any

import pytest

from program import Program, bash, tool

FREE = "--dangerously-skip-permissions"
REQUEST_ID = "{{re:request_?[iI]d(?:&quot;|[^A-Za-z0-9])*([\\w-]+)}}"
POINTS = [
    "team.member:1", "team.state:1", "team.state:2", "mail.post:1", "mail.post:2", "mail.post:3", "request.open:1",
    "request.answer:1", "team.take_over:1",
]  # fmt: skip


def say(to: str, text: str) -> dict[str, Any]:
    return tool("SendMessage", to=to, message=text, summary="a note")


def control(to: str, type: str, **more: Any) -> dict[str, Any]:
    return tool("SendMessage", to=to, message={"type": type, **more})


ADA = tool("Agent", description="ada works", prompt="SCRIPT:ada", name="ada")
AGREE = control("team-lead", "shutdown_response", request_id=REQUEST_ID, approve=True)
SCRIPT = {
    "main": [
        tool("TeamCreate", team_name="crew"),
        ADA,
        say("ada", "one note"),
        control("ada", "shutdown_request"),
        "on",
    ],
    "ada": [bash("echo worked >> log"), AGREE, AGREE, AGREE, AGREE],
    "after": ["on"],
    "finish": [ADA, "on", control("ada", "shutdown_request"), "on"],
}


@pytest.mark.spec("T6", "X2", "Q5", "A2", "H3")
@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_at_a_crash_point_the_session_goes_on(program: Program, point: str) -> None:
    live = program.start(
        "-p", "go", "--output-format", "stream-json", "--verbose", FREE, script=SCRIPT,
        env={"TEAMWRIGHT_CRASHPOINT": point},
    )  # fmt: skip
    first = live.process.wait(40)
    assert first in (0, -signal.SIGKILL)
    id = program.transcript().stem
    if point.startswith("team.take_over"):  # only a resumed lead passes there
        assert first == 0
        again = program.start(
            "-p", "SCRIPT:after", "--resume", id, FREE, script=SCRIPT, env={"TEAMWRIGHT_CRASHPOINT": point}
        )
        assert again.process.wait(40) == -signal.SIGKILL
    else:
        assert first == -signal.SIGKILL
    ran = program.prompt(SCRIPT, FREE, "--resume", id, text="SCRIPT:after")
    assert ran.rc == 0, ran.err
    once_only(program)
    teams = json.loads(program.run("teams", "--json").out)
    assert [t["name"] for t in teams] in ([], ["crew"])
    last = program.prompt(SCRIPT, FREE, "--resume", id, text="SCRIPT:after")
    assert last.rc == 0
    once_only(program)


def once_only(program: Program) -> None:
    """No letter is delivered twice, whatever is killed when."""
    for file in (program.state / "projects").rglob("*.jsonl"):
        taken = re.findall(r'"letters":\[(.*?)\]', file.read_text())
        ids = [id for group in taken for id in re.findall(r'"([^"]+)"', group)]
        assert len(ids) == len(set(ids)), file
    log = program.project / "log"
    assert not log.exists() or log.read_text().count("worked") <= 1
