"""`bridge:SESSION`: messages between sessions on two machines, through an engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from program import Program, tool
from remote_kit import Site


@pytest.fixture
def site(program: Program, tmp_path: Path) -> Iterator[Site]:
    found = Site(program, tmp_path)
    found.start()
    yield found
    found.close()


def say(to: str) -> dict[str, object]:
    return tool("SendMessage", to=to, summary="a word", message="from the other side")


@pytest.mark.spec("Z27", "C6")
def test_a_session_on_another_machine_hears_it_and_is_woken(site: Site):
    other, at = site.machine("other"), ("--engine", f"@{site.engine}/lead.url")
    flags = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose", "--replay-user-messages")
    waiting = other.start("-p", *at, *flags, script=["ready", "I have heard it"], pipe=True)
    waiting.say("wait")
    waiting.results(1)
    id = waiting.lines[0]["session_id"]
    ran = site.lead.prompt([[say(f"bridge:{id}")], "sent"], *at, "--allowedTools", "SendMessage")
    assert ran.rc == 0 and not ran.tool_results[0][1], ran.tool_results
    waiting.wait_for(lambda line: "I have heard it" in str(line.get("message")))
    heard = waiting.wait_for(lambda line: "from the other side" in str(line.get("message")))
    assert f"bridge:{ran.lines[0]['session_id']}" in str(heard)
    assert waiting.end().rc == 0


@pytest.mark.spec("Z27", "C6")
def test_it_needs_approval_an_engine_and_a_session_that_is_there(site: Site):
    at = ("--engine", f"@{site.engine}/lead.url")
    for more, said in (
        (at, "no allow rule covers"),
        ((*at, "--allowedTools", "SendMessage"), "no agent"),
        (("--allowedTools", "SendMessage"), "this session is in none"),
    ):
        ran = site.lead.prompt([[say("bridge:00000000-0000-4000-8000-000000000009")], "end"], *more)
        ((text, is_error),) = ran.tool_results
        assert is_error and said in text, text
