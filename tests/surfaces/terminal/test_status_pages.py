"""`/status` and `/context`: how the session is set up with its servers, and what fills its window."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from stage import Stage, staged

from program import Program
from teamwright import __version__
from teamwright.app import open_session
from teamwright.core.data.event import Warned
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.local_session import LocalSession
from teamwright.store.files.paths import home_from, list_sessions

pytestmark = pytest.mark.spec("AP6")
WIDE = (160, 50)
SMALL = Path(__file__).parent.parent.parent / "servers" / "small_mcp.py"


def settle(folder: Path, log: Path) -> None:
    """One server that works, and one that exits at once."""
    folder.mkdir(parents=True, exist_ok=True)
    servers = {
        "shelf": {"command": sys.executable, "args": [str(SMALL), str(log)]},
        "broken": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
    }
    (folder / "settings.json").write_text(json.dumps({"mcp": servers}))


def line(stage: Stage, beginning: str) -> str:
    (found,) = (text for text in stage.screen.split("\n") if text.strip().startswith(beginning))
    return found


@pytest.mark.anyio
async def test_the_status_is_one_page(walker: Any) -> None:
    async with staged(walker, ["answer"], size=WIDE, effort="high", mode="plan") as stage:
        await stage.say("go")
        await stage.rests()
        await stage.say("/status")
        await stage.shows("servers    none")
        assert __version__ in line(stage, "version ")
        assert stage.session.id in line(stage, "session ")
        assert str(walker.project) in line(stage, "directory ")
        assert "script/given, effort high" in line(stage, "model ")
        assert "plan (plan)" in line(stage, "mode ")
        assert "none is used" in line(stage, "key ")
        assert "off" in line(stage, "sandbox ")
        assert "tokens" in line(stage, "context ")
        assert "cost       unknown" in line(stage, "cost ")  # as `teamwright cost` says it


@pytest.mark.anyio
async def test_a_price_that_is_not_known_stays_so_after_a_resume(walker: Any) -> None:
    async with staged(walker, ["answer"], size=WIDE) as stage:
        await stage.say("/status")
        await stage.shows("cost       $0.00")
        await stage.say("go")
        await stage.rests()
        id = stage.session.id
    async with staged(walker, ["answer"], size=WIDE, origin=Origin(id)) as stage:
        await stage.say("/status")
        await stage.shows("cost       unknown")


@pytest.mark.anyio
async def test_servers_are_shown_as_they_are_now(walker: Any, tmp_path: Path) -> None:
    settle(walker.home / ".teamwright", tmp_path / "log")
    async with staged(walker, size=WIDE) as stage:
        await stage.shows("MCP server broken is not connected: ")
        assert stage.screen.count("is not connected") == 1
        assert "teamwright mcp test broken" in stage.screen
        await stage.say("/status")
        await stage.shows("version ")
        assert "connected   14 tools" in line(stage, "shelf ")
        assert "failed " in line(stage, "broken ") and "`teamwright mcp test broken`" in line(stage, "broken ")


@pytest.mark.anyio
async def test_a_failure_from_before_anybody_watched_is_seen_once_by_everybody(walker: Any, tmp_path: Path) -> None:
    settle(walker.home / ".teamwright", tmp_path / "log")
    options = walker.options([])
    async with await open_session(options) as session:
        port = LocalSession(session, home_from(options.env))
        with anyio.fail_after(30):
            while not session.brought.failures:
                await anyio.sleep(0)
        for _ in range(2):  # the first watch brings what came too early; the second does not
            _, now, live = await port.join()
            live.close()  # what waits in it is still given
            warned = [r.event.text for r in [*now, *[r async for r in live]] if isinstance(r.event, Warned)]
            assert len(warned) == 1 and "broken is not connected" in warned[0]


@pytest.mark.anyio
async def test_the_window_is_shown_by_its_parts(walker: Any) -> None:
    async with staged(walker, ["answer"], size=WIDE) as stage:
        await stage.say("go")
        await stage.rests()
        await stage.say("/context")
        await stage.shows("/compact replaces")
        for part in ("system", "tools", "messages"):
            assert "█" in line(stage, f"{part} ")
        used = (await stage.app.session.status()).context
        assert used.system > 100 and used.messages > 0 and used.tools["Bash"] > 0


def test_a_program_is_told_once_of_a_server_that_failed(program: Program) -> None:
    settle(program.state, program.root / "log")
    done = program.prompt(["fine"])
    assert done.rc == 0 and done.result["result"] == "fine"
    (told,) = (text for text in done.err.split("\n") if "broken" in text)
    assert told.startswith("teamwright: MCP server broken is not connected: ")
    assert "teamwright mcp test broken" in told and "shelf" not in done.err


def test_a_server_that_never_answers_is_named_too(program: Program) -> None:
    server = {"command": sys.executable, "args": [str(SMALL), str(program.root / "log"), "deaf"]}
    program.state.mkdir(parents=True, exist_ok=True)
    (program.state / "settings.json").write_text(json.dumps({"mcp": {"deaf": server}}))
    done = program.prompt(["fine"], env={"MCP_TIMEOUT": "300"})
    assert done.rc == 0 and done.result["result"] == "fine"
    (told,) = done.err.splitlines()
    assert told.startswith("teamwright: MCP server deaf is not connected: it ") and "answer" in told


@pytest.mark.anyio
async def test_a_session_is_listed_by_the_name_that_it_is_given(walker: Any) -> None:
    async with staged(walker, ["answer"], size=WIDE) as stage:
        await stage.say("the first prompt")
        await stage.rests()
        await stage.say("/rename")
        await stage.shows("/rename needs a name")
        stage.app.prompt.put("")
        await stage.say("/rename Blue\nwhale")
        await stage.shows("This session is now listed as: Blue whale")
        await stage.say("/status")
        await stage.shows("servers    none")
        assert "Blue whale" in line(stage, "name ")
        id = stage.session.id
    (entry,) = list_sessions(home_from(walker.env))
    assert (entry.id, entry.name, entry.prompt) == (id, "Blue whale", "the first prompt")
    async with staged(walker, size=WIDE) as stage:
        await stage.say("/resume")
        await stage.shows("Blue whale")
        assert "the first prompt" not in stage.screen
        await stage.press("escape")
