"""Traces of teammates: their own, linked to the messages that woke them, wherever they run."""

from collections.abc import Callable
from typing import Any

import pytest

from collector import Collector
from program import Program, bash, tool

Open = Callable[..., Collector]


def until(file: str) -> dict[str, Any]:
    return bash(f"for i in $(seq 400); do [ -e {file} ] && exit 0; sleep 0.05; done; exit 1")


@pytest.mark.spec("U5")
@pytest.mark.parametrize("place", ["in-process", "local"])
def test_a_teammates_turn_links_to_the_message_that_woke_it(program: Program, collector: Open, place: str) -> None:
    sink = collector()
    ada = tool("Agent", description="join", prompt="SCRIPT:ada", name="ada", team_name="crew")
    message = tool("SendMessage", to="ada", message="SCRIPT:two go", summary="go on with it now please")
    script = {
        "main": [tool("TeamCreate", team_name="crew"), ada, until("ready"), message, until("heard"), "done"],
        "ada": [bash("touch ready"), "idle"],
        "two": [bash("touch heard"), "idle"],
    }
    ran = program.prompt(script, "--dangerously-skip-permissions", "--teammate-mode", place, env=sink.env())
    assert ran.rc == 0, ran.err
    (sent,) = sink.named("execute_tool SendMessage")
    turns = sink.named("invoke_agent ada")
    (woken,) = [span for span in turns if (sent.trace, sent.id) in span.links]
    assert woken.trace != sent.trace and woken.found["teamwright.team.name"] == "crew"
    (spawn,) = sink.named("execute_tool Agent")
    assert any((spawn.trace, spawn.id) in span.links for span in turns)
    assert "teamwright.mail_delivered" in [body for body, _ in sink.events]
