"""Lean sessions: a short prompt and six tools, by option or because the model's window is small."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import pytest

from conftest import Walker
from fake_api import FakeApi, Step, answer, events, local_routes, said_routes, stream
from program import Program, Ran
from teamwright.core.data.message import Request
from teamwright.core.errors import UsageError
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.agents.prompt import LEAN_WORK, WORK
from teamwright.runtime.agents.resume import Origin
from teamwright.tools.lean import LEAN

pytestmark = [pytest.mark.anyio, pytest.mark.spec("I10")]
ALL = 20  # least number of tools in a session that is not lean


def tools(request: Request) -> set[str]:
    return {spec.name for spec in request.tools}


async def test_a_lean_session_works_and_stays_lean_when_it_is_resumed(walker: Walker) -> None:
    (walker.project / "f").write_text("one\n")
    edit = call("Edit", file_path="f", old_string="one", new_string="two")
    model = ScriptedModel([call("Read", file_path="f"), edit, call("Bash", command="cat f"), "done"])
    walk = await walker.walk(model, lean=True, mode="acceptEdits")
    assert (walker.project / "f").read_text() == "two\n"
    first = model.requests[0]
    assert tools(first) == set(LEAN) and first.system[0] == LEAN_WORK
    resumed = ScriptedModel(["still here", "and more"])
    await walker.walk(resumed, origin=Origin(resume=walk.session.id))
    again = resumed.requests[0]
    assert (again.system, again.tools) == (first.system, first.tools)
    full = ScriptedModel(["everything"])
    await walker.walk(full, lean=False, origin=Origin(resume=walk.session.id))
    assert len(full.requests[0].tools) > ALL and full.requests[0].system[0] == WORK


async def test_a_session_that_was_not_lean_does_not_become_so(walker: Walker) -> None:
    walk = await walker.walk(ScriptedModel(["hi"]))
    (walker.home / ".teamwright" / "settings.json").write_text('{"teamwright": {"lean": true}}')
    resumed, new = ScriptedModel(["hi"]), ScriptedModel(["hi"])
    await walker.walk(resumed, origin=Origin(resume=walk.session.id))
    assert len(resumed.requests[0].tools) > ALL
    await walker.walk(new)
    assert tools(new.requests[0]) == set(LEAN), "a new one follows the settings"


async def test_chosen_tools_stay_chosen_and_are_told_of_in_short(walker: Walker) -> None:
    model = ScriptedModel(["hi"])
    await walker.walk(model, lean=True, tools=("Read", "WebFetch"))
    assert tools(model.requests[0]) == {"Read", "WebFetch"}
    with pytest.raises(UsageError, match="--lean leaves out"):
        await walker.walk(model, lean=True, coordinator=True)


SAID = stream(
    events([{"choices": [{"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}]}, "[DONE]"], named=False)
)


async def asked(program: Program, routes: Mapping[str, Sequence[Step]], *more: str) -> tuple[Ran, Any]:
    async with FakeApi([SAID], routes=dict(routes)) as api:
        env = {"OPENAI_BASE_URL": f"{api.url}/v1"}
        args = ("-p", "2+2?", "--model", "openai/m", *more)
        run = await anyio.to_thread.run_sync(lambda: program.run(*args, env=env))
        (request,) = [a.json for a in api.asked if a.path == "/v1/chat/completions"]
    return run, request


async def test_a_small_window_makes_a_session_lean_with_a_note(program: Program) -> None:
    run, request = await asked(program, local_routes("llama.cpp", 4096))
    assert run.rc == 0 and run.out.strip() == "4"
    assert {tool["function"]["name"] for tool in request["tools"]} == set(LEAN)
    assert "window of 4,096 tokens" in run.err and "--no-lean" in run.err
    assert len(str(request)) < 6_000, "it must leave most of the window"


@pytest.mark.parametrize(
    ("routes", "more"),
    [
        (local_routes("llama.cpp", 4096), ("--no-lean",)),
        (local_routes("vLLM", 16_384), ()),
        (said_routes({}), ()),
    ],
    ids=["refused", "large", "unknown"],
)
async def test_other_sessions_have_all_tools(program: Program, routes: Any, more: tuple[str, ...]) -> None:
    run, request = await asked(program, routes, *more)
    assert run.rc == 0 and len(request["tools"]) > ALL and "lean" not in run.err


async def test_a_model_that_is_known_is_not_asked_about(program: Program) -> None:
    async with FakeApi([answer(200, {})], routes=local_routes("llama.cpp", 4096)) as api:
        env = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "key", "TEAMWRIGHT_MAX_RETRIES": "0"}
        await anyio.to_thread.run_sync(lambda: program.run("-p", "hi", "--model", "sonnet", env=env))
        assert [a.path for a in api.asked] == ["/v1/messages"]
