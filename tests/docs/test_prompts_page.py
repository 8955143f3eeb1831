"""docs/prompts.md is what `scripts/prompts` prints, and the texts in it stay within their budgets."""

import json
import re
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SINGLE = 6_450  # tokens of the first request of a single agent, in a repository
LEAN = 1_000  # of a lean one
TEAMMATE = 900  # and of a teammate's system prompt
SHARED = 4_500  # of a main agent and those whom it starts
LONG = 25  # a shorter text does not count as a sentence


@cache
def printed(*args: str) -> str:
    command = [sys.executable, str(ROOT / "scripts" / "prompts"), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@cache
def figures() -> dict[str, Any]:
    return json.loads(printed("--json"))


def agents() -> dict[str, Any]:
    return figures()["agents"]


@pytest.mark.spec("A15")
def test_the_page_is_current() -> None:
    page = ROOT / "docs" / "prompts.md"
    assert page.read_text() == printed(), "run scripts/prompts --write"


@pytest.mark.spec("A15")
def test_the_budgets_hold() -> None:
    for name in ("main agent, headless", "main agent, in the app", "main agent, with forks"):
        assert agents()[name]["system_tokens"] + agents()[name]["tool_tokens"] <= SINGLE, name
    lean = agents()["main agent, lean"]
    assert lean["system_tokens"] + lean["tool_tokens"] <= LEAN
    for name in ("teammate, in a worktree", "teammate explore"):
        assert agents()[name]["system_tokens"] <= TEAMMATE, name


@pytest.mark.spec("A11")
def test_agents_share_a_providers_cache() -> None:
    """Tools that all have, then instructions; the figures count what stands before a marker of both requests."""
    assert figures()["shared"]["main agent and teammate"] >= SHARED
    assert figures()["shared"]["main agent and sub-agent general-purpose"] >= SHARED
    teammate = agents()["teammate, in a worktree"]
    *before, _ = teammate["system"]
    assert before and figures()["shared"]["two teammates"] > teammate["tool_tokens"] + 500, "all but where they are"


def sentences(text: str) -> list[str]:
    parts = (part.strip(" -\n") for part in re.split(r"(?<=[.:;!?])\s+|\n", text))
    return [part for part in parts if len(part) >= LONG]


@pytest.mark.spec("A15")
def test_no_agent_reads_a_sentence_twice() -> None:
    for name, found in agents().items():
        about = (description for description, _ in found["tools"].values())
        every = list(chain.from_iterable(sentences(text) for text in (*found["system"], *about)))
        assert sorted(one for one in set(every) if every.count(one) > 1) == [], name


@pytest.mark.spec("A15", "P3")
def test_prompts_name_no_tool_that_their_agent_has_not() -> None:
    """A tool name in a prompt or a description is a promise, in backticks or not. Names of agent types do not count."""
    ours = set(chain.from_iterable(found["tools"] for found in agents().values()))
    plain = {"Agent", "Read", "Write", "Edit", "Bash", "Monitor", "Skill"}  # words, too
    for name, found in agents().items():
        text = "\n".join(found["system"])
        named = {tool for tool in ours - plain if re.search(rf"\b{tool}\b", text)}
        assert named <= set(found["tools"]), name
