"""Signing in to MCP servers: a real authorisation server on loopback, a browser that only follows links."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from program import ARGV, LIMIT, Program, check_clean

pytestmark = pytest.mark.spec("D8")
GUARDED = Path(__file__).parent.parent / "servers" / "auth_mcp.py"


class Guarded:
    def __init__(self, program: Program, seconds: int) -> None:
        self.program, self.log = program, program.root / "auth.log"
        self.process = subprocess.Popen(
            [sys.executable, str(GUARDED), str(self.log), str(seconds)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/mcp"
        assert program.run("mcp", "add", "-s", "user", "far", self.url).rc == 0

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(LIMIT)
        assert self.process.stdout
        self.process.stdout.close()

    @property
    def deeds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def state(self) -> dict[str, object]:
        (state,) = json.loads(self.program.run("mcp", "test", "--json").out)
        return state

    def login(self, before: Callable[[str], None] | None = None) -> tuple[int, str, str]:
        """Run the command and play the person in the browser; `before` comes first."""
        argv = [*ARGV, "mcp", "login", "far"]
        process = subprocess.Popen(
            argv, cwd=self.program.project, env=self.program.env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout
        try:
            shown = process.stdout.readline() + process.stdout.readline()
            if found := re.search(r"http://\S+", shown):
                if before is not None:
                    before(found[0])
                with urllib.request.urlopen(found[0], timeout=LIMIT) as page:
                    assert b"close this window" in page.read()
            out, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        check_clean(shown + out)
        check_clean(err)
        assert "Traceback" not in err
        return process.returncode, shown + out, err

    @property
    def file(self) -> Path:
        (file,) = (self.program.state / "mcp-tokens").glob("*.json")
        return file


@pytest.fixture
def guarded(program: Program, request: pytest.FixtureRequest) -> Iterator[Guarded]:
    server = Guarded(program, getattr(request, "param", 3600))
    yield server
    server.close()


def test_signed_in_once_used_often_and_forgotten(guarded: Guarded) -> None:
    assert guarded.state()["status"] == "needs-auth" and guarded.deeds == []  # nothing is begun unasked
    rc, out, err = guarded.login()
    assert rc == 0 and "far: signed in; it has 1 tools" in out, err
    assert guarded.deeds[1:] == ["token authorization_code"] and "127.0.0.1" in guarded.deeds[0]
    folder = guarded.program.state / "mcp-tokens"
    assert folder.stat().st_mode & 0o777 == 0o700 and guarded.file.stat().st_mode & 0o777 == 0o600
    assert guarded.state()["status"] == "connected" and len(guarded.deeds) == 2
    secret = json.loads(guarded.file.read_text())["tokens"]["access_token"]
    assert secret not in out + err
    kept = guarded.file.read_text()
    for broken in ("{", json.dumps(json.loads(kept) | {"tokens": {"access_token": 7}}), kept.replace("/mcp", "/other")):
        guarded.file.write_text(broken)
        assert guarded.state()["status"] == "needs-auth"
    assert "signed out" in guarded.program.run("mcp", "logout", "far").out
    assert "was not signed in" in guarded.program.run("mcp", "logout", "far").out
    assert guarded.state()["status"] == "needs-auth"


@pytest.mark.parametrize("guarded", [20], indirect=True)
def test_a_token_that_runs_out_is_renewed_and_kept(guarded: Guarded) -> None:
    assert guarded.login()[0] == 0
    before = json.loads(guarded.file.read_text())
    for many in (1, 2):  # each refresh token works once
        assert guarded.state()["status"] == "connected"
        assert guarded.deeds.count("token refresh_token") == many
    after = json.loads(guarded.file.read_text())
    assert after["tokens"]["refresh_token"] != before["tokens"]["refresh_token"]
    assert after["client"] == before["client"] and guarded.file.stat().st_mode & 0o777 == 0o600
    assert time.time() < after["expires_at"] < time.time() + 21


def test_what_is_not_accepted_any_more_wants_a_login_and_starts_none(guarded: Guarded) -> None:
    assert guarded.login()[0] == 0
    (guarded.log.parent / "closed").touch()
    deeds = guarded.deeds
    state = guarded.state()
    assert state["status"] == "needs-auth" and "mcp login" in str(state["error"])
    assert guarded.deeds == deeds  # no registration, no new code


def test_strangers_are_sent_away_and_the_login_waits_on(guarded: Guarded) -> None:
    """Another user on this machine, or a page in the browser, finds the port before the person has agreed."""
    told: list[int] = []

    def stranger(address: str) -> None:
        back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        forged = [
            "?code=x&state=forged",
            "?error=access_denied",
            "?error=no&state=",
            "?code=x",
            "?state=a&state=b&code=x",
        ]
        elsewhere = back.replace("/callback", "/other") + "?code=x&state=y"
        for url in (elsewhere, back, *(back + query for query in forged)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url, timeout=LIMIT)
            told.append(refused.value.code)
            refused.value.close()

    rc, out, err = guarded.login(stranger)
    assert rc == 0 and "signed in" in out, err
    assert told == [404, 400] + [403] * 5


def test_a_no_leaves_nothing_behind(guarded: Guarded) -> None:
    (guarded.log.parent / "refuse").touch()
    rc, _, err = guarded.login()
    assert rc == 1 and "not" in err
    assert (
        not list((guarded.program.state / "mcp-tokens").glob("*")) and "token authorization_code" not in guarded.deeds
    )


def test_where_there_is_nothing_to_sign_in_to(program: Program) -> None:
    assert program.run("mcp", "add", "-s", "user", "near", "cat").rc == 0
    assert (
        program.run("mcp", "add", "-s", "user", "-H", "Authorization: Bearer x", "held", "http://127.0.0.1:9/").rc == 0
    )
    assert "has no URL" in program.run("mcp", "login", "near").err
    assert "token in its headers" in program.run("mcp", "login", "held").err
    assert program.run("mcp", "login").rc == 2


BROWSER = f"{sys.executable} -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=20).read()'"


def test_the_browser_is_opened_and_the_address_printed_as_well(guarded: Guarded) -> None:
    ran = guarded.program.run("mcp", "login", "far", env={"BROWSER": BROWSER})
    assert ran.rc == 0 and "far: signed in" in ran.out and "/login/authorize?" in ran.out
    assert guarded.state()["status"] == "connected"


def test_a_server_that_asks_for_more_in_mid_session_gets_it_and_the_call_goes_on(guarded: Guarded) -> None:
    program = guarded.program
    assert guarded.login()[0] == 0
    script = [{"tool": "Bash", "input": {"command": f"touch {guarded.log.parent}/more"}}]
    script += [{"tool": "mcp__far__add", "input": {"a": 2, "b": 3}}, "done"]
    live = program.talk(script, "--dangerously-skip-permissions", env={"BROWSER": BROWSER})
    live.say("go")
    live.results(1)
    ran = live.end()
    assert ran.tool_results[-1][0].startswith("5"), ran.tool_results
    assert [deed for deed in guarded.deeds if deed.startswith("token")] == ["token authorization_code"] * 2
    assert "asks for more than you agreed to" in ran.err + ran.out


def test_where_nobody_can_agree_the_call_says_how(guarded: Guarded) -> None:
    assert guarded.login()[0] == 0
    (guarded.log.parent / "more").touch()
    ran = guarded.program.prompt(["done"], env={"BROWSER": BROWSER})
    assert ran.rc == 0 and "mcp login" in ran.err and len(guarded.deeds) == 2


def test_forms_are_answered_with_their_defaults_where_settings_say_so(program: Program) -> None:
    small = Path(__file__).parent.parent / "servers" / "small_mcp.py"
    assert (
        program.run("mcp", "add", "-s", "user", "near", sys.executable, str(small), str(program.root / "near.log")).rc
        == 0
    )
    script = [{"tool": "mcp__near__ask", "input": {"text": "Ada"}}, {"tool": "mcp__near__ask", "input": {}}, "done"]
    settings = json.dumps({"teamwright": {"mcpFormDefaults": True}})
    args = ["--dangerously-skip-permissions", "--settings", settings]
    (filled, _), (empty, _) = program.prompt(script, *args).tool_results
    assert json.loads(filled) == {"action": "accept", "content": {"name": "Ada"}}
    assert json.loads(empty)["action"] == "decline"
    (refused, _), *_ = program.prompt(script, "--dangerously-skip-permissions").tool_results
    assert "accept" not in refused
