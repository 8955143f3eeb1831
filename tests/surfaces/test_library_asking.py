"""The library's questions: one at a time, as a stream, in one line; wrong arguments are errors at once."""

import base64
import re
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, cast

import anyio
import pytest

import teamwright
from teamwright import (
    AgentDefinition,
    Image,
    Say,
    ScriptedModel,
    SessionBusy,
    Text,
    ToolError,
    ToolResult,
    ToolStarted,
    UsageError,
    call,
    query,
    query_sync,
    session,
    tool,
)
from teamwright.core.data.message import Request

LIMIT = 20.0


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "project").mkdir()
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    return {"cwd": tmp_path / "project", "home": tmp_path / "home", "env": env}


@pytest.mark.anyio
async def test_a_stream_gives_the_words_as_they_come(place: dict[str, Any]) -> None:
    model = ScriptedModel([["Let me see.", call("Bash", command="pwd")], "Here we are.", "Again."])
    with anyio.fail_after(LIMIT):
        async with session(model=model, **place) as agent:
            stream = agent.stream("Where are we?")
            pieces = [piece async for piece in stream]
            assert "".join(pieces) == "Let me see.\n\nHere we are." and len(pieces) > 3
            assert stream.end is not None and (stream.end.reason, stream.end.text) == ("done", "Here we are.")
            async for _ in agent.stream("Once more"):
                break  # stops reading, not the turn
            assert (await agent.ask("And?")).text == "done"


@pytest.mark.anyio
async def test_questions_at_once_are_answered_one_after_the_other(place: dict[str, Any]) -> None:
    def echo(request: Request) -> str:
        return f"answer to {request.messages[-1].text[-1]}"

    got: dict[int, str] = {}
    with anyio.fail_after(LIMIT):
        async with session(model=ScriptedModel(echo), **place) as agent:

            async def ask(n: int) -> None:
                got[n] = (await agent.ask(f"question {n}")).text

            async with anyio.create_task_group() as group:
                for n in range(4):
                    group.start_soon(ask, n)
    assert got == {n: f"answer to {n}" for n in range(4)}


QUESTION = re.compile(r"question (\w+)")


@pytest.mark.anyio
async def test_among_mail_and_notices_each_question_gets_its_own_answer(place: dict[str, Any]) -> None:
    """Teammates write and commands end all the time, and the turn that answers goes on with what they say."""
    mates, notes, jobs = 3, 12, 6

    def play(request: Request) -> Any:
        said = "\n".join(m.text for m in request.messages if m.role == "user")
        step = sum(m.role == "assistant" for m in request.messages)
        if 'teammate_id="team-lead"' in said:
            return call("SendMessage", to="team-lead", message=f"note {step}", summary="x") if step < notes else "done"
        if step == 0:
            return call("TeamCreate", team_name="crew")
        if step == 1:
            team = [call("Agent", name=f"m{n}", description="d", prompt="write") for n in range(mates)]
            return [*team, *(call("Bash", command="true", run_in_background=True) for _ in range(jobs))]
        asked = QUESTION.findall(request.messages[-1].text)
        return f"answer to {asked[-1]}" if asked else "noted"  # what others write

    got: dict[str, str] = {}
    with anyio.fail_after(LIMIT * 2):
        async with session(model=ScriptedModel(play), permission_mode="bypassPermissions", **place) as agent:

            async def ask(name: str) -> None:
                for n in range(10):
                    got[f"{name}{n}"] = (await agent.ask(f"question {name}{n}")).text

            await agent.ask("question begin")
            async with anyio.create_task_group() as group:
                for name in "abc":
                    group.start_soon(ask, name)
    assert got == {name: f"answer to {name}" for name in got} and len(got) == 30


@pytest.mark.anyio
async def test_a_question_that_nobody_waits_for_any_more_is_not_mixed_with_the_next(place: dict[str, Any]) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    async def play(request: Request) -> str:
        if "second" not in request.messages[-1].text:
            begun.set()
            await go_on.wait()
            return "first answer"
        return "second answer"

    with anyio.fail_after(LIMIT):
        async with session(model=ScriptedModel(play), **place) as agent, anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:

                async def give_up() -> None:
                    await begun.wait()
                    scope.cancel()

                group.start_soon(give_up)
                await agent.ask("first")
            assert scope.cancelled_caught
            group.start_soon(_set_later, go_on)
            assert (await agent.ask("second")).text == "second answer"


async def _set_later(event: anyio.Event) -> None:
    await anyio.lowlevel.checkpoint()
    event.set()


@pytest.mark.anyio
async def test_a_closed_session_and_a_question_from_within_are_refused(place: dict[str, Any]) -> None:
    @tool
    async def ask_back() -> str:
        """Ask the main agent."""
        try:
            return (await agent.ask("And you?")).text
        except UsageError as error:
            raise ToolError(f"refused: {error}") from None

    model = ScriptedModel([call("ask_back"), "Well."])
    with anyio.fail_after(LIMIT):
        async with session(model=model, tools=[ask_back], **place) as agent:
            team = await agent.team("crew")
            assert (await agent.ask("Go")).text == "Well."
        for late in (agent.ask("Hello?"), team.send("ada", "Hello?"), anext(agent.stream("Hello?"))):
            with pytest.raises(UsageError, match="the session is closed"):
                await late
    result: Any = model.requests[-1].messages[-1].blocks[0]
    assert result.is_error and "its turn would wait for itself" in result.content[0].text


@pytest.mark.anyio
async def test_one_question_waits_for_what_it_began(place: dict[str, Any]) -> None:
    work = call(
        "Agent", description="d", prompt="SCRIPT:child", subagent_type="general-purpose", run_in_background=True
    )
    model = ScriptedModel({"main": [work, "Begun.", "Finished."], "child": ["Counted."]})
    with anyio.fail_after(LIMIT):
        assert (await query("Count", model=model, **place)).text == "Finished."
        failed = await query(
            "x", model=ScriptedModel([{"error": {"fault": "bad_request", "message": "no", "status": 400}}]), **place
        )
        assert failed.reason == "failed" and failed.error
        with pytest.raises(UsageError, match="await query"):
            query_sync("x", model=ScriptedModel(["x"]), **place)


def test_one_question_without_an_event_loop(place: dict[str, Any]) -> None:
    assert query_sync("Hello", model=ScriptedModel(["Hello."]), **place).text == "Hello."


def test_parameters_are_described() -> None:
    @tool
    def find(
        what: Annotated[str, "the words to look for"],
        where: str = ".",
        most: int | None = None,
        kind: Annotated[str, "wins"] = "any",
    ) -> str:
        """Find words in files.

        Looks everywhere.

        Args:
            where: the directory, relative to
                the project
            most (int): at most so many: all by default
            kind: loses

        Returns the places.
        """
        return f"{what}{where}{most}{kind}"

    assert find.spec.description == "Find words in files.\n\nLooks everywhere.\n\nReturns the places."
    told = {name: about.get("description") for name, about in find.spec.schema["properties"].items()}
    assert told == {
        "what": "the words to look for",
        "where": "the directory, relative to the project",
        "most": "at most so many: all by default",
        "kind": "wins",
    }


SCHEMA = {"properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


@pytest.mark.anyio
async def test_an_answer_by_a_schema_is_data(place: dict[str, Any]) -> None:
    wrong, right = call("StructuredOutput", sum="x"), call("StructuredOutput", sum=3)
    model = ScriptedModel(["It is three.", wrong, right, "Four.", call("StructuredOutput", sum=4), *["Five."] * 4])
    with anyio.fail_after(LIMIT):
        async with session(model=model, schema=SCHEMA, **place) as agent:
            assert (await agent.ask("1 + 2?")).data == {"sum": 3}
            assert (await agent.ask("2 + 2?")).data == {"sum": 4}
            assert (await agent.ask("2 + 3?")).data is None  # it was asked for three times
        told = [m.text for m in model.requests[1].messages if m.role == "user"]
        assert "StructuredOutput" in told[-1]
        assert (await query("1 + 2?", model=ScriptedModel([right]), schema=SCHEMA, **place)).data == {"sum": 3}


@pytest.mark.anyio
async def test_a_schema_without_an_end_is_told_to_the_model(place: dict[str, Any]) -> None:
    endless = {"properties": {"a": {"$ref": "#/properties/a"}}}
    model = ScriptedModel([call("StructuredOutput", a=1), call("StructuredOutput", b=1)])
    with anyio.fail_after(LIMIT):
        assert (await query("x", model=model, schema=endless, **place)).data == {"b": 1}
    assert "cannot be applied: RecursionError" in str(model.requests[1].messages[-1])


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.anyio
async def test_a_prompt_may_have_pictures(place: dict[str, Any]) -> None:
    (place["cwd"] / "dot.png").write_bytes(PNG)
    (place["cwd"] / "no.png").write_text("no picture")
    model = ScriptedModel(["A dot.", "Two dots."])
    with anyio.fail_after(LIMIT):
        async with session(model=model, **place) as agent:
            await agent.ask(["What is this?", Path("dot.png")])
            blocks = model.requests[0].messages[-1].blocks
            assert [type(b).__name__ for b in blocks] == ["Text", "Image"]
            image: Any = blocks[1]
            assert image == Image("image/png", base64.b64encode(PNG).decode())
            await agent.ask([image, "And this?"])
            for wrong, words in (
                (["x", Path("no.png")], "is no PNG"),
                ([Path("none.png")], "cannot be read"),
                ([7], "7"),
            ):
                with pytest.raises(UsageError, match=words):
                    await agent.ask(wrong)  # pyright: ignore[reportArgumentType]
            assert len(model.requests) == 2


@pytest.mark.anyio
async def test_directories_settings_and_built_in_tools(place: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("from elsewhere")
    more: dict[str, Any] = {
        "add_dirs": [tmp_path / "other"],
        "settings": {"permissions": {"deny": ["Read(//**/secret.txt)"]}},
        "built_in_tools": ["Read"],
        "teammate_mode": "in-process",
        "tools": [plain],
    }
    (place["cwd"] / "secret.txt").write_text("secret")
    calls = [call("Read", file_path=str(tmp_path / "other" / "a.txt")), call("Read", file_path="secret.txt")]
    model = ScriptedModel([calls, "Read."])
    with anyio.fail_after(LIMIT):
        await query("Read", model=model, **place, **more)
    first, second = (block for block in model.requests[-1].messages[-1].blocks)
    assert "from elsewhere" in str(first) and isinstance(second, ToolResult) and second.is_error
    assert sorted(t.name for t in model.requests[0].tools) == ["Read", "plain"]


def plain(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


@pytest.mark.anyio
async def test_a_plain_function_is_made_a_tool(place: dict[str, Any]) -> None:
    model = ScriptedModel([call("plain", city="Ghent"), "Rain."])
    async with session(model=model, tools=[plain], **place) as agent:
        await agent.ask("Weather?")
    result: Any = model.requests[-1].messages[-1].blocks[0]
    assert result.content[0].text == "rain in Ghent"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"permission_mode": "yolo"}, "there is no 'yolo'; there are plan"),
        ({"allowed_tools": ["Bash(("]}, r"allowed_tools: 'Bash\(\(' is no rule: write"),
        ({"disallowed_tools": ["Edit()"]}, "disallowed_tools: .* parentheses are empty"),
        ({"allowed_tools": "Bash"}, "takes a list, not 'Bash'"),
        ({"allowed_tools": [plain]}, "is no text"),
        ({"tools": [lambda: 1]}, "neither a tool nor a function with a name"),
        ({"tools": [dict]}, "neither a tool"),
        ({"tools": [plain, plain]}, "two of the name plain"),
        ({"agents": [{"name": "x"}]}, "is no AgentDefinition"),
        ({"agents": AgentDefinition(name="x", description="x")}, "takes a list"),
        ({"teammate_mode": "moon"}, "there is no 'moon'; there are auto"),
        ({"built_in_tools": ["Bsh"]}, "there is no 'Bsh'; there are .*Bash"),
        ({"schema": {"type": "array"}}, "must be of type `object`"),
        ({"schema": {"type": "object", "properties": 7}}, "is no JSON schema"),
        ({"add_dirs": "/tmp"}, "takes a list"),
        ({"model": 7}, "7 is neither a name nor a model"),
        ({"agents": [AgentDefinition(name="x", description="x", effort=cast(Any, "huge"))]}, "agents: x: Invalid enum"),
        ({"effort": "huge"}, "effort: invalid enum value 'huge'"),
        ({"max_turns": 0}, "max_turns: expected `int` >= 1"),
        ({"max_turns": "3"}, "max_turns: expected `int"),
        ({"max_budget_usd": -1}, "max_budget_usd: expected `float` > 0"),
        ({"max_budget_usd": float("nan")}, "max_budget_usd: expected"),
        ({"hooks": [plain]}, "hooks: expected `object"),
        ({"mcp_servers": {"a": "b"}}, "mcp_servers.*: expected `object`, got `str`"),
        ({"schema": "x"}, "schema: expected `object"),
        ({"system_prompt": 7}, "system_prompt: expected `str"),
        ({"answer": 7}, "answer: 7 is no function"),
    ],
)
def test_wrong_arguments_are_errors_at_once(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        session(**wrong)


def test_mappings_of_any_kind_will_do(place: dict[str, Any]) -> None:
    held = MappingProxyType
    schema = held({"type": "object", "properties": held({"a": held({"type": "string"})})})
    session(schema=schema, mcp_servers=held({"a": held({"command": "x"})}), settings=held({"env": held({})}), **place)
    for name, wrong in ({"mcp_servers": {"a": {"b": object()}}, "settings": {"a": object()}}).items():
        with pytest.raises(UsageError, match=rf"{name}: <object .* cannot be written as JSON"):
            session(**{name: wrong})  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
async def test_an_op_that_does_not_fit_leaves_the_session_readable(place: dict[str, Any]) -> None:
    ops: Any = teamwright
    wrong = [ops.SetEffort("huge"), ops.Say("text"), ops.Say(("text",)), ops.AddRules(("Bash",), "may"), "hello"]
    wrong.append(ops.AddDirectories((7,)))
    with anyio.fail_after(LIMIT):
        async with session(model=ScriptedModel(["one"]), **place) as agent:
            for op in wrong:
                with pytest.raises(UsageError, match=r"Invalid enum|Expected `"):
                    await agent.submit(op)
            await agent.submit(ops.SetEffort("high"))
            await agent.submit(ops.AddDirectories([place["cwd"]]))
            assert (await agent.ask("x")).text == "one"
        async with session(model=ScriptedModel({"main": ["two"]}), resume=agent.id, **place) as again:
            assert again.id == agent.id and again.main.history.messages


@pytest.mark.anyio
async def test_a_teammate_that_does_not_fit_leaves_the_team_readable(place: dict[str, Any]) -> None:
    async with session(model=ScriptedModel({"ada": ["Ready."]}), **place) as agent:
        team = await agent.team("crew")
        wrong: list[dict[str, Any]] = [{"effort": "huge"}, {"isolation": "worktre"}, {"mode": "yolo"}, {"model": 7}]
        for more in wrong:
            with pytest.raises(UsageError, match="spawn of ada: "):
                await team.spawn("ada", "SCRIPT:ada", **more)
        await team.spawn("ada", "SCRIPT:ada", effort="high")
        with anyio.fail_after(LIMIT):
            await team.idle()
        assert [member.name for member in team.members] == ["team-lead", "ada"]


@pytest.mark.anyio
async def test_a_session_that_is_cancelled_is_left_at_once(place: dict[str, Any]) -> None:
    slow = call("Bash", command="sleep 100")
    started, scope = anyio.Event(), anyio.CancelScope()

    async def cancel() -> None:
        with anyio.fail_after(LIMIT):
            await started.wait()
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        with scope:
            async with session(model=ScriptedModel([slow]), permission_mode="bypassPermissions", **place) as agent:
                watch = agent.watch()
                await agent.submit(Say((Text("go"),)))
                async for record in watch:
                    if isinstance(record.event, ToolStarted):
                        began = anyio.current_time()
                        started.set()
    assert anyio.current_time() - began < 3
    async with session(model=ScriptedModel([slow, "Again."]), resume=agent.id, **place) as again:
        assert (await again.ask("Once more.")).text == "Again."


@pytest.mark.anyio
async def test_an_error_of_the_code_comes_out_as_it_is(place: dict[str, Any]) -> None:
    with anyio.fail_after(LIMIT):
        with pytest.raises(UsageError, match="cannot be read"):
            await query(["x", Path("none.png")], model=ScriptedModel(["one"]), **place)
        with pytest.raises(SessionBusy):
            async with session(model=ScriptedModel(["one"]), **place) as agent:
                await agent.ask("x")
                async with session(model=ScriptedModel(["two"]), resume=agent.id, **place):
                    pass
        with pytest.raises(KeyError, match="mine"):
            async with session(model=ScriptedModel(["one"]), **place):
                raise KeyError("mine")
        for mine in (ExceptionGroup("mine", [KeyError()]), ExceptionGroup("mine", [KeyError(), ValueError()])):
            with pytest.raises(ExceptionGroup) as raised:
                async with session(model=ScriptedModel(["one"]), **place):
                    raise mine
            assert raised.value is mine


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="no argument 'permision_mode'"):
        session(permision_mode="plan")  # pyright: ignore[reportCallIssue]
    assert teamwright.session is session
