"""`attach URL`: a third machine watches an agent on a worker and talks to it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from program import ARGV, Program, bash, tool
from remote_kit import Site


@pytest.fixture
def site(program: Program, tmp_path: Path) -> Iterator[Site]:
    found = Site(program, tmp_path)
    found.start()
    yield found
    found.close()


def script(go: Path) -> dict[str, object]:
    launch = tool("Agent", description="far", prompt="SCRIPT:far begin", isolation="remote")
    wait = bash(f"until [ -e {go} ]; do sleep 0.1; done")
    last = {"blocks": ["second words, said slowly"], "pace": 20}
    return {"main": [[launch], "launched", "told"], "far": [["first words", wait], last, "again"]}


@pytest.mark.spec("Z18", "Z23")
def test_an_agent_is_watched_and_spoken_to_by_its_url(site: Site, tmp_path: Path):
    site.worker("w1")
    lead = site.begin(script(tmp_path / "go"))
    line = lead.wait_for(lambda line: "sessionUrl" in (line.get("tool_use_result") or {}))
    url = line["tool_use_result"]["sessionUrl"]
    password = (site.engine / "lead.url").read_text().split(":")[2].split("@")[0]
    assert url.startswith("nats://127.0.0.1:") and "@" not in url
    third = site.machine("third")
    view = third.start("attach", url, "--json", "--engine", f"@{site.engine}/lead.url", pipe=True)
    view.wait_for(lambda line: "first words" in str(line.get("message")))
    view.say("typed by the person")
    (tmp_path / "go").touch()
    view.seen(type="stream_event")
    view.wait_for(lambda line: line["type"] == "assistant" and "second words" in str(line["message"]))
    view.wait_for(lambda line: bool(line.get("isReplay")) and "typed by the person" in str(line["message"]))
    view.wait_for(lambda line: "has ended: completed" in line.get("text", ""))
    assert view.process.wait(40) == 0
    plain = third.run("attach", url, "--engine", f"@{site.engine}/lead.url")
    assert plain.rc == 0 and "first words" in plain.out and "has ended" in plain.out
    ended = lead.end()
    assert ended.rc == 0 and password not in ended.out + plain.out


@pytest.mark.spec("Z18")
def test_wrong_urls_are_one_sentence(site: Site):
    host = (site.engine / "lead.url").read_text().strip().rpartition("@")[2]
    at = ("--engine", f"@{site.engine}/lead.url")
    for url, said in (
        (f"nats://{host}/a0000000000000000", "there is no agent a0000000000000000"),
        (f"nats://{host}", "nats://HOST:PORT/SPACE/ID"),
    ):
        ran = site.lead.run("attach", url, *at)
        assert ran.rc in (1, 2) and said in ran.err and not ran.out
    done = subprocess.run(
        [*ARGV, "attach", f"nats://{host}/a0"],
        env=site.lead.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and "cannot be reached" in done.stderr
