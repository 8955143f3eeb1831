"""A definition's limits on a tool: they apply behind the session's own gate, and never widen it."""

from pathlib import Path
from typing import Any

import pytest

from conftest import Walker
from crew import agent, bash, crew, results, write_agent
from teamwright.models.scripted import call

pytestmark = [pytest.mark.anyio, pytest.mark.spec("D6", "M9")]


async def tried(walker: Walker, tools: str, *calls: Any, **more: Any) -> list[bool]:
    """Which of these calls were allowed."""
    write_agent(walker, "limited", f"tools: {tools}")
    scripts = {"main": [agent("child", subagent_type="limited")], "child": [*calls, "r"]}
    async with crew(walker, scripts, **more) as play:
        await play.play()
    return [not results(request.messages[-1])[0][1] for request in play.requests("child")[1:]]


def edit(path: Path) -> Any:
    return call("Write", file_path=str(path), content="x\n")


@pytest.mark.parametrize(
    ("command", "fine"),
    [
        ("git --version", True),
        ("git --version && git --version", True),
        ("git --version | tee f", False),
        ("git --version; touch f", False),
        ("echo $(touch f)", False),
        ("git --version > f", False),
        ("env touch f", False),
        ("bash -c 'touch f'", False),
    ],
)
async def test_every_command_must_be_within_the_pattern(walker: Walker, command: str, fine: bool) -> None:
    assert await tried(walker, "Bash(git *)", bash(command)) == [fine]
    assert not (walker.project / "f").exists()


async def test_paths_are_limited_for_writing_and_reading(walker: Walker) -> None:
    (walker.project / "src").mkdir()
    (walker.project / "src/a").write_text("a\n")
    (walker.project / "b").write_text("b\n")
    (walker.project / "src/out").symlink_to(walker.project / "b")
    reads = [call("Read", file_path=str(walker.project / name)) for name in ("src/a", "b", "src/out")]
    writes = [edit(walker.project / "src/new"), edit(walker.project / "new")]
    allowed = await tried(walker, "Read(src/**), Write(src/**)", *reads, *writes)
    assert allowed == [True, False, False, True, False]
    assert (walker.project / "src/new").exists() and not (walker.project / "new").exists()


async def test_a_pattern_gives_nothing_that_the_session_refuses(walker: Walker) -> None:
    assert await tried(walker, "Bash(touch *)", bash("touch f"), mode="default") == [False]
    assert await tried(walker, "Bash(touch *)", bash("touch f"), disallowed_tools=["Bash(touch *)"]) == [False]
    assert not (walker.project / "f").exists()


async def test_a_monitor_is_limited_as_the_shell_is(walker: Walker) -> None:
    watch = call("Monitor", command="touch f", description="watches")
    assert await tried(walker, "Bash(git *), Monitor", watch) == [False]
    assert not (walker.project / "f").exists()
