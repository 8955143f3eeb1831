"""Interrupted calls that only change our own store: their results say what is stored."""

import json
import os
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
from team_steps import TEAM, create, heard, home, mate, say, scene, shutdown, task, until, update

from conftest import Walker
from crew import Crew, check_valid, crew, ended_calls
from teamwright.core.data.message import Request, Text
from teamwright.core.data.op import Interrupt
from teamwright.models.scripted import call
from teamwright.runtime.agents.resume import Origin

pytestmark = pytest.mark.anyio
LATER = "2099-01-01T00:00"


def holding(walker: Walker, *tools: str) -> str:
    """Settings with a hook that holds each call of these tools between its work and its result."""
    os.mkfifo(walker.project / "held")
    command = f"echo x >> {walker.project}/reached; cat {walker.project}/held"
    entry = {"matcher": "|".join(tools), "hooks": [{"type": "command", "command": command, "timeout": 60}]}
    return json.dumps({"hooks": {"PostToolUse": [entry]}})


async def interrupt_held(walker: Walker, play: Crew, many: int = 1) -> None:
    reached = walker.project / "reached"
    await until(lambda: reached.exists() and reached.read_text().count("x") >= many)
    await play.submit(Interrupt())
    await until(lambda: not play.session.main.running)


def last_words(play: Crew) -> tuple[str, bool]:
    event = ended_calls(play)[-1]
    assert isinstance(event.content[0], Text)
    return event.content[0].text, event.is_error


CALLS: Sequence[tuple[Any, str]] = [
    (say("ada", "remember the milk"), "stored"),
    (say("*", "all of you"), "stored"),
    (shutdown("ada"), "stored"),
    (task("paint"), "#2 had been created"),
    (update("1", subject="changed"), "#1 had been changed"),
    (update("1", status="deleted"), "#1 had been deleted"),
    (call("CronCreate", at=LATER, prompt="look"), "Scheduled as"),
    (call("CronDelete", id=r"{{re:Scheduled as (\w+)}}"), "no schedule"),
    (call("TaskStop", task_id=f"ada@{TEAM}"), "has shut down"),
    (call("TeamDelete"), f"{TEAM} had been deleted"),
]


@pytest.mark.spec("A2", "X2", "X9", "T13")
@pytest.mark.parametrize(("made", "said"), CALLS, ids=lambda x: x if isinstance(x, str) else x.name)
async def test_what_was_stored_before_the_interrupt_is_said(walker: Walker, made: Any, said: str) -> None:
    scripts = {
        "main": [[create(), call("CronCreate", at=LATER, prompt="hm")], [mate("ada"), task("one", blockedBy=[])], "on"],
        "then": [made, "on"],
    }
    async with crew(walker, scene(scripts)) as play:
        await play.play()
    hold = holding(walker, made.name)
    async with crew(walker, scene(scripts), settings=hold, origin=Origin(resume=play.session.id)) as again:
        await again.say("SCRIPT:then")
        await interrupt_held(walker, again)
    words, is_error = last_words(again)
    assert said in words and not is_error and "unknown" not in words, words
    check_valid(again.session.main.history.messages)


@pytest.mark.spec("A2", "R12")
async def test_a_team_that_was_made_before_the_interrupt_is_named(walker: Walker) -> None:
    async with crew(walker, scene({"main": [create(), "on"]}), settings=holding(walker, "TeamCreate")) as play:
        await play.say("go")
        await interrupt_held(walker, play)
    words, is_error = last_words(play)
    assert f"{TEAM} had been created before the turn was interrupted" in words and not is_error


@pytest.mark.spec("A2", "Y4")
async def test_an_agent_that_was_at_work_at_the_interrupt_is_named(walker: Walker) -> None:
    held = call("Bash", command="echo x >> reached; sleep 60")
    agent = call("Agent", description="waits", prompt="SCRIPT:child")
    async with crew(walker, scene({"main": [agent], "child": [held]})) as play:
        await play.say("go")
        await interrupt_held(walker, play)
    words, is_error = last_words(play)
    assert "The turn was interrupted while" in words and play.children[0] in words and is_error


@pytest.mark.spec("A2", "X2", "X5")
async def test_a_message_on_a_slow_disk_is_stored_whole_and_rung_for(walker: Walker) -> None:
    """The interrupt comes while the store waits for another process."""
    other: sqlite3.Connection | None = None

    def locked(_: Request) -> Any:
        nonlocal other
        other = sqlite3.connect(home(walker) / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        return say("ada", "remember the milk")

    scripts = {"main": [create(), mate("ada"), "on"], "then": [locked, "on"]}
    async with crew(walker, scene(scripts)) as play:
        await play.play()
        await play.say("SCRIPT:then")
        await until(lambda: other is not None and play.session.main.history.begun)
        await play.submit(Interrupt())
        assert other is not None
        other.execute("ROLLBACK")
        other.close()
        await heard(play, "ada", "remember the milk")
        await until(lambda: not play.session.main.running)
    words, is_error = last_words(play)
    assert "tored" in words and "ada" in words and not is_error, words
