"""The library: a session in code, tools from plain functions, questions answered by a callback, events watched."""

import re
import sys
import threading
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from teamwright import Allow, Deny, Question, ScriptedModel, ToolContext, ToolError, call, session, tool
from teamwright.core.data.event import Asked, ToolEnded, TurnEnded
from teamwright.core.data.message import Request, Text, ToolResult
from teamwright.core.data.op import Interrupt, Say
from teamwright.core.errors import UsageError

pytestmark = pytest.mark.anyio


class Rooms:
    def __init__(self, root: Path) -> None:
        self.project, self.home = root / "project", root / "home"
        self.project.mkdir()
        self.model = ScriptedModel(["done"])

    def open(self, script: Any, **more: Any) -> session:
        self.model = ScriptedModel(script)
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        return session(self.project, model=self.model, home=self.home, env=env, **more)

    @property
    def results(self) -> list[tuple[str, bool]]:
        """What the model read of its last calls' results."""
        blocks = [b for b in self.model.requests[-1].messages[-1].blocks if isinstance(b, ToolResult)]
        return [(c.text, b.is_error) for b in blocks for c in b.content if isinstance(c, Text)]


@pytest.fixture
def rooms(tmp_path: Path) -> Rooms:
    return Rooms(tmp_path)


async def test_ask_and_ask_again(rooms: Rooms) -> None:
    async with rooms.open(["Hello.", "Again."]) as agent:
        assert (await agent.ask("Say hello")).text == "Hello."
        assert (await agent.ask("Once more")).text == "Again."
        assert agent.snapshot().running is False and agent.snapshot().usage.output > 0
        id = agent.id
    async with rooms.open(lambda _: "Back.", resume=id) as agent:
        assert (await agent.ask("Are you back?")).text == "Back." and agent.id == id


@pytest.mark.spec("M10")
async def test_questions_are_answered_by_code(rooms: Rooms) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> Allow | Deny:
        asked.append(question)
        return Allow() if "good" in question.args["command"] else Deny("Not that one.")

    calls = [call("Bash", command="touch good"), call("Bash", command="touch bad")]
    async with rooms.open([calls, "done"], answer=answer) as agent:
        watch = agent.watch()
        await agent.ask("go")
    assert [q.tool for q in asked] == ["Bash", "Bash"] and rooms.results[1] == ("Not that one.", True)
    assert sorted(p.name for p in rooms.project.iterdir()) == ["good"]
    assert len([r async for r in watch if isinstance(r.event, Asked)]) == 2  # watchers see them, too


@pytest.mark.spec("M10")
async def test_an_exception_of_the_code_that_answers_comes_out_of_ask(rooms: Rooms) -> None:
    """As the same object, also if a sub-agent's call was in question; the call is denied, and the session goes on."""
    mine = KeyError("mine")

    async def answer(question: Question) -> Any:
        if question.args["command"] == "touch odd":
            return "yes"
        raise mine

    touch, odd = call("Bash", command="touch f"), call("Bash", command="touch odd")
    async with rooms.open([touch, odd, "fine"], answer=answer) as lead:
        with pytest.raises(KeyError) as raised:
            await lead.ask("go")
        assert raised.value is mine
        with pytest.raises(UsageError, match="answer: it returned 'yes'"):
            await lead.ask("go")
        assert (await lead.ask("on")).text == "fine"
    assert not list(rooms.project.iterdir())

    def play(request: Request) -> Any:
        if "CHILD" in str(request.messages[0]):
            return touch
        return "done" if request.messages[-2:-1] else call("Agent", description="d", prompt="CHILD")

    async with rooms.open(play, answer=answer) as lead:
        with pytest.raises(KeyError) as raised:
            await lead.ask("go")
        assert raised.value is mine
    with pytest.raises(KeyError) as raised:
        async with rooms.open([touch], answer=answer) as lead:
            await lead.submit(Say((Text("go"),)))  # nobody waits for its answer
            await lead.idle()
    assert raised.value is mine and not list(rooms.project.iterdir())


@pytest.mark.spec("M10")
async def test_without_anybody_to_ask_what_needs_a_yes_is_denied(rooms: Rooms) -> None:
    async with rooms.open([call("Bash", command="touch f"), "done"]) as agent:
        await agent.ask("go")
    assert rooms.results[0][1] and "nobody" in rooms.results[0][0] and not list(rooms.project.iterdir())


async def test_tools_from_plain_functions(rooms: Rooms) -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @tool(name="shout", parallel=True)
    async def whatever(text: str, how: Literal["loud", "louder"] = "loud") -> dict[str, str]:
        """Say it louder."""
        await anyio.lowlevel.checkpoint()
        return {"said": text.upper(), "how": how}

    @tool
    def where(ctx: ToolContext) -> str:
        """Where am I?"""
        return f"{ctx.desk.cwd} {ctx.call_id} {threading.current_thread() is threading.main_thread()}"

    @tool
    def nothing() -> None:
        """Do nothing."""

    calls = [
        call("add", a=1),
        call("shout", text="hi"),
        call("where"),
        call("nothing"),
        call("add", a="x"),
        call("add"),
    ]
    async with rooms.open([calls, "done"], tools=[add, whatever, where, nothing]) as agent:
        await agent.ask("go")
    said, ids = rooms.results, [c.id for c in rooms.model.requests[-1].messages[1].calls]
    assert said[0] == ("3", False) and said[1] == ('{"said":"HI","how":"loud"}', False)
    assert said[2] == (f"{rooms.project} {ids[2]} False", False)  # a plain function runs in a thread
    assert said[3] == ("(no output)", False)
    assert said[4][1] and "`$.a`" in said[4][0] and said[5][1] and "`a`" in said[5][0]
    assert add(1, 2) == 3  # and it is still the function that it was
    (spec,) = [t for t in rooms.model.requests[0].tools if t.name == "shout"]
    assert spec.description == "Say it louder." and spec.schema["required"] == ["text"]
    assert spec.schema["properties"]["how"]["enum"] == ["loud", "louder"]


@pytest.mark.spec("A9")
async def test_a_function_that_raises_is_words_for_the_model(rooms: Rooms) -> None:
    @tool
    def broken() -> str:
        """Raise."""
        raise ZeroDivisionError("by zero")

    @tool
    async def picky() -> str:
        """Refuse."""
        raise ToolError("Ask for something else.")

    async with rooms.open([[call("broken"), call("picky")], "done"], tools=[broken, picky]) as agent:
        end = await agent.ask("go")
    assert end.reason == "done"
    assert rooms.results == [
        ("broken failed: ZeroDivisionError: by zero", True),
        ("Ask for something else.", True),
    ]


@pytest.mark.spec("M2", "M3")
async def test_own_tools_run_unasked_unless_they_want_to_be_asked_or_are_denied(rooms: Rooms) -> None:
    ran: list[str] = []

    @tool
    def free() -> None:
        """Free."""
        ran.append("free")

    @tool(ask=True)
    def costly() -> None:
        """Costly."""
        ran.append("costly")

    @tool
    def denied() -> None:
        """Denied."""
        ran.append("denied")

    calls = [call("free"), call("costly"), call("denied")]
    more: dict[str, Any] = {"tools": [free, costly, denied], "disallowed_tools": ["denied"]}
    async with rooms.open([calls, "done"], **more) as agent:
        await agent.ask("go")
    assert ran == ["free"] and "no tool `denied`" in rooms.results[2][0]

    async def yes(question: Question) -> Allow:
        ran.append(f"asked {question.tool}")
        return Allow()

    async with rooms.open([calls, "done"], answer=yes, **more) as agent:
        await agent.ask("go")
    assert ran == ["free", "free", "asked costly", "costly"]


@pytest.mark.spec("A5", "A12")
async def test_what_a_function_returns_is_bounded_and_safe(rooms: Rooms) -> None:
    @tool
    def much() -> str:
        """Much."""
        return "\x1b[31m" + "x" * 500_000

    async with rooms.open([call("much"), "done"], tools=[much]) as agent:
        await agent.ask("go")
    ((text, _),) = rooms.results
    assert len(text) < 40_000 and text.startswith("\\x1b[31m") and "left out" in text


def test_a_function_without_named_parameters_is_no_tool() -> None:
    with pytest.raises(TypeError, match="names"):

        @tool
        def bad(*args: int) -> None:
            """Bad."""


async def test_watching_submitting_and_interrupting(rooms: Rooms) -> None:
    async with rooms.open([{"text": "slow words here", "pace": 1}]) as agent:
        watch = agent.watch()
        await agent.submit(Say((Text("go"),)))
        with anyio.fail_after(20):
            async for record in watch:
                if type(record.event).__name__ == "Streamed":
                    break
        await agent.submit(Interrupt())
        with anyio.fail_after(20):
            ends = [await anext(watch)]
            while not isinstance(ends[-1].event, TurnEnded):
                ends.append(await anext(watch))
        assert ends[-1].event.reason == "interrupted"
        await agent.idle()


async def test_who_waits_when_the_session_closes_is_told(rooms: Rooms) -> None:
    failed: list[UsageError] = []

    async def ask(agent: Any) -> None:
        try:
            assert (await agent.ask("go")).reason == "interrupted"
        except UsageError as error:
            failed.append(error)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group, rooms.open([{"text": "never", "delay": 60}]) as agent:
            watch = agent.watch()
            group.start_soon(ask, agent)
            async for record in watch:
                if type(record.event).__name__ == "LettersTaken":
                    break
    assert failed == [] or "closed" in str(failed[0])


async def test_limits_and_prompts_of_the_session(rooms: Rooms) -> None:
    options: dict[str, Any] = {"max_turns": 2, "system_prompt": "Own.", "append_system_prompt": "More."}
    async with rooms.open(lambda _: call("Glob", pattern="*"), **options) as agent:
        watch = agent.watch()
        end = await agent.ask("go")
    assert end.reason == "max_turns" and rooms.model.requests[0].system[0] == "Own."
    assert rooms.model.requests[0].system[-1] == "More."
    assert len([r async for r in watch if isinstance(r.event, ToolEnded)]) == 2


async def test_a_model_that_cannot_be_opened_is_said_before_anything_begins(rooms: Rooms) -> None:
    with pytest.raises(Exception, match="no/such"):
        async with session(rooms.project, model="no/such", home=rooms.home, env={"HOME": str(rooms.home)}):
            pass
    assert not (rooms.home / "projects").exists()


@pytest.mark.spec("D9")
async def test_hooks_and_servers_from_code(tmp_path: Path) -> None:
    seen: list[str] = []

    async def after(payload: dict[str, Any]) -> None:
        seen.append(payload["tool_name"])

    small = Path(__file__).parents[1] / "servers" / "small_mcp.py"
    near = {"command": sys.executable, "args": [str(small), str(tmp_path / "near.log")]}
    model = ScriptedModel([call("mcp__near__echo", text="x"), call("Bash", command="echo y"), "end"])
    options: Any = {"home": tmp_path / "state", "permission_mode": "bypassPermissions", "mcp_servers": {"near": near}}
    async with session(tmp_path, model=model, hooks={"PostToolUse": [("mcp__.*", after)]}, **options) as agent:
        await agent.ask("go")
    assert seen == ["mcp__near__echo"]
    for wrong in ({"Nonsense": [after]}, {"Stop": [("(", after)]}):
        with pytest.raises(UsageError, match="hooks"):
            async with session(tmp_path, model=model, home=tmp_path / "state", hooks=wrong):
                pass


def test_every_public_name_is_there_and_events_ops_and_errors_are_among_them() -> None:
    import typing

    import teamwright
    from teamwright.core import errors
    from teamwright.core.data.event import Event
    from teamwright.core.data.op import Op

    assert all(getattr(teamwright, name) is not None for name in teamwright.__all__)
    inside = {"AgentLost", "DiskError", "Fenced", "HookStop", "NotAllowed"}
    raised = {name for name, found in vars(errors).items() if isinstance(found, type)} - inside
    for kinds in (typing.get_args(Event), typing.get_args(Op)):
        assert {kind.__name__ for kind in kinds} <= set(teamwright.__all__)
    assert raised <= set(teamwright.__all__)


def test_every_event_and_every_argument_is_documented() -> None:
    import typing

    from teamwright import SessionOptions
    from teamwright.core.data.event import Event

    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
    names = [*(kind.__name__ for kind in typing.get_args(Event)), *SessionOptions.__annotations__]
    assert [name for name in names if f"`{name}`" not in page] == []
    fields = {kind.__name__: set(kind.__struct_fields__) for kind in typing.get_args(Event)}
    table = page.split("| event | fields |")[1].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        names, told = (re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:3])
        assert set(told) <= set().union(*(fields[name] for name in names)), line
