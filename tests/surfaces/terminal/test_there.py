"""The app at another session's door: it can do everything that it can do in its own session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from stage import LIMIT, Stage

from crew import agent, bash, stage
from teamwright.app import open_session
from teamwright.core.data.message import Text
from teamwright.core.data.op import Say
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, LetterId
from teamwright.models.scripted import call
from teamwright.runtime.session import Session
from teamwright.store.files.paths import home_from
from teamwright.surfaces.attach.lines import ToldLine, describe
from teamwright.surfaces.headless.door import keep_door
from teamwright.surfaces.port.doors import address_file, knock
from teamwright.surfaces.port.remote_session import RemoteSession
from teamwright.surfaces.terminal.app import TerminalApp

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(walker: Any, script: Any, **more: Any) -> AsyncIterator[Session]:
    session, home = await open_session(walker.options(script, can_ask=True, **more)), home_from(walker.env)
    async with session, anyio.create_task_group() as group:
        group.start_soon(keep_door, session, home, walker.env)
        with anyio.fail_after(LIMIT):
            while not address_file(home, session.id).exists():
                await anyio.sleep(0.005)
        yield session
        group.cancel_scope.cancel()


@asynccontextmanager
async def entered(walker: Any, session: Session) -> AsyncIterator[RemoteSession]:
    home = home_from(walker.env)
    async with knock(home, session.id) as wire, anyio.create_task_group() as group:
        there = RemoteSession(wire, home)
        group.start_soon(there.listen)
        await there.enter()
        yield there
        group.cancel_scope.cancel()


@asynccontextmanager
async def attached(walker: Any, session: Session) -> AsyncIterator[Stage]:
    async with entered(walker, session) as there:
        app = TerminalApp(there, walker.options(["unused"]))
        async with app.run_test(size=(130, 40)) as pilot:
            yield Stage(app, pilot, session)


@pytest.mark.spec("T7")
async def test_agents_tasks_mail_and_commands_are_seen_from_outside(walker: Any) -> None:
    scripts = {"main": [], "ada": [bash("echo ada was here"), "Ready."]}
    async with opened(walker, stage(scripts), mode="bypassPermissions") as session:
        team = await session.team("crew", lead="model")
        ada = await team.spawn("ada", "SCRIPT:ada")
        await team.idle()
        await team.add_task("Paint the fence")
        async with attached(walker, session) as seen:
            await seen.shows("runs in another terminal")
            await seen.until(lambda: ada.agent in seen.view.agents, "ada")
            member = seen.view.agents[ada.agent]
            assert (member.name, member.color) == ("ada", ada.color)
            await seen.until(lambda: member.state == "idle", "rest")
            await seen.press("f2")
            await seen.shows("ada")
            await seen.press("f2")
            await seen.shows("Paint the fence")
            await seen.press("f2")
            await seen.shows("joined")
            await seen.press("escape")
            await seen.press("shift+down")
            await seen.shows("Ready.")
            assert "echo ada was here" in seen.screen
            await seen.say("/export ada.md")
            await seen.until((walker.project / "ada.md").exists)
            await seen.press("escape")
            asked = {"/help": "/doctor", "/compact": "was compacted", "/jobs": "ada@crew", "/theme x": "takes one of"}
            for words, answer in asked.items():
                await seen.say(words)
                await seen.shows(answer)


async def test_what_is_asked_of_it_is_done_there_or_refused_in_words(walker: Any) -> None:
    scripts = {"main": [agent("child", run_in_background=True), "on"], "child": [bash("sleep 60"), "x"]}
    async with opened(walker, stage(scripts), mode="bypassPermissions") as session, entered(walker, session) as there:
        await there.say(Say((Text("go"),)))
        with anyio.fail_after(LIMIT):
            while not (running := session.supervisor.jobs.running()):
                await anyio.sleep(0.01)
        child = AgentId(running[0].id)
        past, live = await there.begin()
        with anyio.fail_after(LIMIT):
            async for record in live:  # what it has begun is told after what was
                if record.agent == child:
                    break
        live.close()
        assert {record.agent for record in past.records} >= {session.main.id}
        await there.stop(child)
        assert not session.supervisor.jobs.running()
        with pytest.raises(UsageError, match="no task"):
            await there.stop(child)
        assert not await there.withdraw(LetterId("l0"), AgentId("nobody"))
        assert await there.expand("/nothing-of-that-name") is None
        assert [record.agent for record in await there.past(child)][:1] == [child]
        assert (await there.crew()).teams == ()


async def test_a_door_that_closes_ends_the_app_and_refuses_what_comes_late(walker: Any) -> None:
    async with opened(walker, ["hello"]) as session:
        home = home_from(walker.env)
        async with knock(home, session.id) as wire, anyio.create_task_group() as group:
            there = RemoteSession(wire, home)
            group.start_soon(there.listen)
            await there.enter()
            app = TerminalApp(there, walker.options(["unused"]))
            async with app.run_test(size=(100, 30)) as pilot:
                seen = Stage(app, pilot, session)
                await seen.shows("runs in another terminal")
                session.services.bus.close()
                await seen.until(lambda: not app.is_running, "the end")
                assert app.return_value is not None and app.return_value.ended
            with pytest.raises(UsageError, match="has ended"):
                await there.say(Say((Text("too late"),)))
            group.cancel_scope.cancel()


@pytest.mark.spec("RW6")
async def test_a_rewind_from_outside_is_seen_by_everybody(walker: Any) -> None:
    file = walker.project / "a.txt"
    script = ["hello", [call("Write", file_path=str(file), content="one\n")], "written"]
    async with opened(walker, script, mode="acceptEdits", keep_files=True) as session:
        await session.ask("first")
        await session.ask("write it")
        async with attached(walker, session) as seen, knock(home_from(walker.env), session.id) as guest:
            await seen.shows("written")
            await seen.press("escape", "escape")
            await seen.shows("1 file +1 -0")
            await seen.press("enter")
            await seen.shows("remove    a.txt")
            await seen.press("b")
            await seen.shows("Went back to here")
            assert not file.exists() and seen.app.prompt.text == "write it"
            assert [m.text for m in session.main.history.messages] == ["first", "hello"]
            heard = b""
            with anyio.fail_after(LIMIT):
                while b'"rewound"' not in heard or not heard.endswith(b"\n"):
                    heard += await guest.receive()
    (line,) = [line for line in heard.splitlines() if b'"rewound"' in line]
    told = msgspec.json.decode(line)
    assert told["conversation"] is True and told["filesChanged"] == [str(file)]
    assert describe(line, ToldLine()) == ["* somebody at the app went back to an earlier prompt"]
