"""A running session's door: guests watch, talk and answer; none of their faults disturbs the session."""

import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from conftest import Walker
from crew import after, agent, bash, marking, stage
from teamwright.app import open_session
from teamwright.core.data.event import ToolEnded
from teamwright.core.errors import UsageError
from teamwright.core.ids import SessionId
from teamwright.host.ipc.unix_stream import UnixStream
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.session import Session
from teamwright.store.files import transcripts
from teamwright.store.files.paths import home_from
from teamwright.surfaces.headless.door import keep_door
from teamwright.surfaces.port.doors import address_file, knock, open_doors

LIMIT = 15.0
Line = dict[str, Any]


class Guest:
    def __init__(self, stream: UnixStream) -> None:
        self.stream = stream
        self.lines: list[Line] = []
        self._rest = b""

    async def until(self, seen: Callable[[Line], object]) -> Line:
        """The first matching line; earlier ones are kept."""
        with anyio.fail_after(LIMIT):
            while True:
                *ended, self._rest = self._rest.split(b"\n")
                for n, line in enumerate(ended):
                    value = json.loads(line)
                    self.lines.append(value)
                    if seen(value):
                        self._rest = b"\n".join([*ended[n + 1 :], self._rest])
                        return value
                chunk = await self.stream.receive()
                assert chunk, "the door was closed"
                self._rest += chunk

    async def send(self, *values: Any) -> None:
        for value in values:
            await self.stream.send((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n")

    async def say(self, text: str, **more: Any) -> None:
        await self.send({"type": "user", "message": {"role": "user", "content": text}} | more)

    async def ask(self, subtype: str, **fields: Any) -> Line:
        await self.send({"type": "control_request", "request_id": "r", "request": {"subtype": subtype, **fields}})
        return (await self.until(of("control_response")))["response"]

    async def answer(self, question: Line, **response: Any) -> None:
        body = {"subtype": "success", "request_id": question["request_id"], "response": response}
        await self.send({"type": "control_response", "response": body})


def of(kind: str, subtype: str | None = None) -> Callable[[Line], bool]:
    return lambda line: line["type"] == kind and subtype in (None, line.get("subtype"))


def says(text: str) -> Callable[[Line], bool]:
    return lambda line: line["type"] == "assistant" and text in json.dumps(line["message"])


@asynccontextmanager
async def opened(walker: Walker, script: Any, **more: Any) -> AsyncIterator[Session]:
    session = await open_session(walker.options(script, can_ask=True, **more))
    home = home_from(walker.env)
    async with session, anyio.create_task_group() as group:
        group.start_soon(keep_door, session, home, walker.env)
        with anyio.fail_after(LIMIT):
            while not address_file(home, session.id).exists():
                await anyio.sleep(0.005)
        yield session
        group.cancel_scope.cancel()


@asynccontextmanager
async def guest(walker: Walker, session: Session) -> AsyncIterator[Guest]:
    async with knock(home_from(walker.env), session.id) as stream:
        found = Guest(stream)
        await found.until(of("system", "attached"))
        yield found


async def test_a_guest_talks_with_the_session_and_others_see_it(walker: Walker) -> None:
    async with opened(walker, ["first answer", "second answer"]) as session:
        async with guest(walker, session) as one, guest(walker, session) as two:
            await one.say("hello")
            for each in (one, two):
                said = await each.until(of("user"))
                assert said["isReplay"] and said["message"]["content"] == "hello"
                await each.until(says("first answer"))
                assert (await each.until(of("result")))["subtype"] == "success"
        async with guest(walker, session) as late:  # sees what happened before it came, and continues from there
            await late.until(says("first answer"))
            await late.say("again")
            await late.until(says("second answer"))


@pytest.mark.spec("M5", "M10")
async def test_a_guest_answers_a_question_and_the_others_are_told(walker: Walker) -> None:
    script = [bash("touch made"), bash("touch made-too"), "done"]
    async with opened(walker, script) as session, guest(walker, session) as one:
        await one.say("go")
        asked = await one.until(of("control_request"))
        assert asked["request"]["tool_name"] == "Bash" and asked["request"]["input"]["command"] == "touch made"
        async with guest(walker, session) as two:  # a question that is already waiting is visible, too
            seen = await two.until(of("control_request"))
            assert seen["request_id"] == asked["request_id"]
            await two.answer(seen, behavior="allow")
            gone = await one.until(of("control_cancel_request"))
            assert gone["request_id"] == asked["request_id"]
            second = await one.until(of("control_request"))
            await one.answer(second, behavior="deny", message="The person said no. They say: not that")
            result = await one.until(lambda line: line["type"] == "user" and "not that" in json.dumps(line))
            assert result["message"]["content"][0]["is_error"]
            await one.until(of("result"))
        transcript = home_from(walker.env).transcript(walker.project, session.id)
        ends = [line.event for _, line in transcripts.read(transcript) if isinstance(line.event, ToolEnded)]
        kept = [end.consent for end in ends if end.consent]
        assert [(c.by, c.via, c.verdict) for c in kept] == [("person", "door", "allow"), ("person", "door", "deny")]
        assert all(0 < c.asked <= c.answered for c in kept)
    assert (walker.project / "made").exists() and not (walker.project / "made-too").exists()


@pytest.mark.spec("T7")
async def test_a_guest_talks_to_an_agent_below(walker: Walker) -> None:
    asked, told = anyio.Event(), anyio.Event()

    def heard(request: Any) -> Any:
        assert "be brief" in request.messages[-1].text
        return "brief report"

    scripts = {
        "main": [agent("child", run_in_background=True), "waiting", "all done"],
        "child": [marking(asked, bash("true")), after(told, bash("true")), heard],
    }
    async with opened(walker, stage(scripts), mode="bypassPermissions") as session, guest(walker, session) as one:
        await one.say("go")
        with anyio.fail_after(LIMIT):
            await asked.wait()
        child = next(a.id for a in session.supervisor.agents if a.id != session.main.id)
        await one.say("be brief", agent_id=child)
        told.set()
        seen = await one.until(lambda line: line["type"] == "user" and line.get("isReplay") and "brief" in str(line))
        assert seen["agent_id"] == child
        await one.until(says("all done"))
        await one.say("anybody?", agent_id="nobody-here")
        assert "nobody-here" in (await one.until(of("system", "refused")))["text"]


async def test_controls_work_and_faults_are_told_to_whoever_made_them(walker: Walker) -> None:
    async with opened(walker, ["done"]) as session, guest(walker, session) as one:
        assert (await one.ask("set_permission_mode", mode="plan"))["response"] == {"mode": "plan"}
        assert (await one.ask("background"))["subtype"] == "error"
        assert (await one.ask("initialize"))["response"]["models"] is not None
        for wrong in (b"{", b"\xff\xfe", b'{"type": "nonsense"}', b'"x"', b'{"type":"user","message":{"content":""}}'):
            await one.send(wrong)
            assert (await one.until(of("system", "refused")))["text"]
        await one.say("still there?")
        await one.until(of("result"))


async def test_a_guest_that_leaves_or_never_reads_harms_nobody(walker: Walker) -> None:
    script, home = [bash("seq 200000"), *["done"] * 3], home_from(walker.env)
    async with opened(walker, script, mode="bypassPermissions") as session, knock(home, session.id):  # reads nothing
        async with knock(home, session.id) as rude:
            await rude.send(b'{"type": "user"')
        async with guest(walker, session) as one:
            for _ in range(3):
                await one.say("go")
                await one.until(of("result"))


async def test_the_door_is_private_and_closed_behind_the_session(walker: Walker) -> None:
    home = home_from(walker.env)
    async with opened(walker, ["done"]) as session:
        note = address_file(home, session.id)
        path = Path(note.read_text())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(note.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert open_doors(home) == {session.id}
    assert not path.exists() and open_doors(home) == set()
    with pytest.raises(UsageError, match="--resume"):
        knock(home, SessionId(session.id))


async def test_a_session_whose_door_cannot_open_goes_on(walker: Walker) -> None:
    session = await open_session(walker.options(ScriptedModel(["done"])))
    home = home_from(walker.env)
    async with session:
        address_file(home, session.id).mkdir()
        watch = session.watch()
        with anyio.fail_after(LIMIT):
            await keep_door(session, home, walker.env)
        assert (await session.ask("go")).reason == "done"
        assert "attach" in str((await anext(watch)).event)


async def test_an_agents_own_question_is_answered(walker: Walker) -> None:
    options = [{"label": "SQLite", "description": "one file"}, {"label": "Postgres", "description": "a server"}]
    asks = {"questions": [{"question": "Which database?", "header": "DB", "options": options}]}
    async with opened(walker, [call("AskUserQuestion", **asks), "fine"], interactive=True) as session:
        assert "AskUserQuestion" in [tool.name for tool in session.main.prompt.tools]
        async with guest(walker, session) as one:
            await one.say("go")
            asked = await one.until(of("control_request"))
            answers = {"Which database?": "SQLite"}
            await one.answer(asked, behavior="allow", updatedInput=asked["request"]["input"] | {"answers": answers})
            result = await one.until(lambda line: line["type"] == "user" and "SQLite" in str(line))
            assert "Which database? SQLite" in json.dumps(result["message"])
            assert result["tool_use_result"]["answers"] == answers
