"""Background Bash and Monitor as a model meets them: what is offered, what a call returns, what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Walk, Walker
from teamwright.app import open_session
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.event import Denied, JobStarted, ToolEnded
from teamwright.core.data.message import Request, ToolSpec
from teamwright.models.scripted import ScriptedModel, call
from teamwright.tools.bash import BashTool
from teamwright.tools.monitor import DEFAULT_MS, MonitorTool

pytestmark = pytest.mark.anyio
FREE: dict[str, Any] = {"mode": "bypassPermissions"}
OFF = json.dumps({"teamwright": {"background": False}})


async def offered(walker: Walker, **more: Any) -> dict[str, ToolSpec]:
    walk = await walker.walk(["x"], **more)
    return {spec.name: spec for spec in walk.model.requests[0].tools}


def background(command: str, **more: Any) -> Any:
    return call("Bash", command=command, run_in_background=True, **more)


def ended(walk: Walk) -> list[ToolEnded]:
    return walk.of(ToolEnded)


@pytest.mark.spec("B1", "P3")
async def test_both_are_offered_where_jobs_may_run_in_the_background(walker: Walker) -> None:
    tools = await offered(walker)
    assert list(tools["Bash"].schema["properties"]) == ["command", "description", "timeout", "run_in_background"]
    assert list(tools["Monitor"].schema["properties"]) == ["command", "description", "timeout_ms"]
    assert tools["Monitor"].schema["required"] == ["command", "description"] and not tools["Monitor"].parallel


@pytest.mark.spec("G4", "P12")
@pytest.mark.parametrize("by", ["settings", "environment"])
async def test_background_jobs_off_hides_ignores_and_refuses(walker: Walker, by: str) -> None:
    more: dict[str, Any] = {"settings": OFF} if by == "settings" else {}
    if by == "environment":
        walker.env["TEAMWRIGHT_DISABLE_BACKGROUND"] = "1"
    tools = await offered(walker, **more)
    assert "Monitor" not in tools and "run_in_background" not in tools["Bash"].schema["properties"]
    assert "run_in_background" not in tools["Bash"].description
    script = [[background("echo words"), call("Monitor", command="touch ran", description="x")], "end"]
    walk = await walker.walk(script, **FREE, **more)
    (text, failed), (refusal, refused) = walk.results
    assert (
        text.startswith("words\n") and "run_in_background was ignored: background jobs are off" in text and not failed
    )
    assert refused and "background jobs are off" in refusal
    assert not (walker.project / "ran").exists() and not walk.of(JobStarted)


@pytest.mark.spec("D6", "M9")
@pytest.mark.parametrize(
    ("definition", "seen"),
    [
        ({}, {"Bash", "Monitor"}),
        ({"disallowed_tools": ("Bash",)}, set()),  # a shell by another name
        ({"disallowed_tools": ("Monitor",)}, {"Bash"}),
        ({"tools": ("Bash",)}, {"Bash"}),
        ({"tools": ("Monitor",)}, set()),
        ({"tools": ("Bash", "Monitor")}, {"Bash", "Monitor"}),
    ],
)
async def test_monitor_goes_with_bash(walker: Walker, definition: dict[str, Any], seen: set[str]) -> None:
    agent = AgentDefinition(name="one", description="x", prompt="x", **definition)
    tools = await offered(walker, definitions=[agent], agent="one")
    assert {"Bash", "Monitor"} & set(tools) == seen


async def test_limits_of_bash_are_limits_of_monitor(walker: Walker) -> None:
    agent = AgentDefinition(name="one", description="x", prompt="x", tools=("*", "Bash(git *)"))
    session = await open_session(walker.options(["x"], definitions=[agent], agent="one"))
    async with session:
        assert session.main.limits == {"Bash": ("git *",), "Monitor": ("git *",)}


@pytest.mark.spec("M3", "M7")
async def test_rules_of_bash_hold_for_monitor(walker: Walker) -> None:
    assert "Monitor" not in await offered(walker, disallowed_tools=["Bash"])
    calls = [call("Monitor", command=f"{word} ran", description="x") for word in ("touch", "rm")]
    walk = await walker.walk(
        [calls, "end"], allowed_tools=["Bash(touch *)"], disallowed_tools=["Bash(rm *)"], mode="default"
    )
    assert [failed for _, failed in walk.results] == [False, True]
    assert [denied.args["command"] for denied in walk.of(Denied)] == ["rm ran"]


@pytest.mark.spec("B2", "B10")
async def test_a_background_command_returns_its_id_and_file_and_moves_nobody(walker: Walker) -> None:
    (walker.project / "sub").mkdir()
    first = background("cd sub && pwd && sleep 300", description="look  \n around")
    walk = await walker.walk([first, call("Bash", command="pwd"), "end"], **FREE)
    first, second = ended(walk)
    assert first.data is not None and set(first.data) == {"backgroundTaskId", "outputFile"} and not first.cwd
    text = walk.results[0][0]
    assert first.data["backgroundTaskId"] in text
    assert re.findall(r"/\S+/jobs/\S+\.output", text) == [first.data["outputFile"]]
    assert walk.results[1][0] == str(walker.project) and second.data == {"exitCode": 0, "interrupted": False}
    (started,) = walk.of(JobStarted)
    assert (started.description, started.call_id) == ("look around", first.call_id)


@pytest.mark.spec("B10")
async def test_its_output_file_may_be_read_unasked_in_every_mode(walker: Walker) -> None:
    wait = call("TaskOutput", task_id=r"{{re:\nid: (\S+)}}")
    read = call("Read", file_path=r"{{re:output file: (\S+)}}")
    script = [background("echo to be read"), wait, read, "end"]
    walk = await walker.walk(script, mode="dontAsk", allowed_tools=["Bash(echo *)"])
    assert "to be read" in walk.results[1][0] and "to be read" in walk.results[2][0], walk.results


async def test_a_directory_that_is_gone_is_told_and_recorded(walker: Walker) -> None:
    sub = walker.project / "sub"
    sub.mkdir()

    def play(request: Request) -> Any:
        if len(request.messages) == 1:
            return call("Bash", command="cd sub")
        if sub.exists():
            sub.rmdir()
            return background("pwd")
        return "end"

    walk = await walker.walk(ScriptedModel(play), **FREE)
    assert f"{sub} was gone" in walk.results[1][0]
    assert [event.cwd for event in ended(walk)] == [str(sub), str(walker.project)]


@pytest.mark.parametrize("tool", [BashTool(), MonitorTool()])
def test_no_commands_no_background(tool: BashTool | MonitorTool) -> None:
    assert "run_in_background" not in tool.spec.schema["properties"]


async def test_a_command_that_cannot_be_one_is_refused_at_once(walker: Walker) -> None:
    calls = [
        background(" "),
        call("Monitor", command="a\0b", description="x"),
        call("Monitor", command="true"),
        call("Monitor", command="true", description="x", timeout_ms="soon"),
    ]
    walk = await walker.walk([calls, "end"], **FREE)
    texts = [text for text, failed in walk.results if failed]
    assert ["empty" in texts[0], "NUL" in texts[1], "description" in texts[2], "timeout_ms" in texts[3]] == [True] * 4
    assert not walk.of(JobStarted)


async def test_a_monitor_says_how_long_it_runs(walker: Walker) -> None:
    calls = [call("Monitor", command="sleep 300", description="x", **more) for more in ({}, {"timeout_ms": 90_000})]
    walk = await walker.walk([[*calls], "end"], **FREE)
    (first, _), (second, _) = walk.results
    assert f"{DEFAULT_MS // 1000} s at most" in first and "90 s at most" in second
    for event in ended(walk):
        assert event.data is not None and Path(event.data["outputFile"]).is_file()
