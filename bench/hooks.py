"""What a PreToolUse command hook adds to its own run time: `python bench/hooks.py`.

The same command is started as a hook and by a bare `bash -c`, in turns; each gets the payload, and we wait for its end.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from rows import Row, ms, table

from teamwright.core.data.extensions.hook import Fired, HookBook
from teamwright.core.ids import AgentId, SessionId
from teamwright.library.hooks import read_hooks
from teamwright.runtime.extensions.hooks import Hooks

ROUNDS = 200
MOST_ADDED = 2.0  # ms
COMMANDS = {"true": "true", "cat and exit 2": "cat > /dev/null; echo no >&2; exit 2"}
ARGS = {"tool_name": "Bash", "tool_input": {"command": "git status"}, "tool_use_id": "toolu_1"}


def hooks_in(project: Path, book: HookBook) -> Hooks:
    return Hooks(
        book, session=SessionId("bench"), transcript=project / "t.jsonl", project=project, env=os.environ, log=print
    )


async def fire(hooks: Hooks, project: Path) -> Fired:
    return await hooks.fire("PreToolUse", subject="Bash", agent=AgentId("bench"), cwd=project, mode="default", **ARGS)


def bare(command: str, project: Path) -> None:
    data = b'{"tool_name": "Bash", "tool_input": {"command": "git status"}}'
    subprocess.run(["bash", "-c", command], input=data, cwd=project, capture_output=True, check=False)


def timed(values: list[float], began: float) -> None:
    values.append(time.perf_counter() - began)


async def compare(project: Path, command: str) -> tuple[list[float], list[float]]:
    book, _ = read_hooks([("bench", {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]})])
    hooks, ours, other = hooks_in(project, book), [], []
    await fire(hooks, project)  # imports, and the watch that is set up once
    for n in range(ROUNDS):
        for turn in (n % 2, 1 - n % 2):
            began = time.perf_counter()
            if turn:
                await fire(hooks, project)
                timed(ours, began)
            else:
                bare(command, project)
                timed(other, began)
    return ms(ours), ms(other)


async def without(project: Path) -> list[float]:
    """Microseconds to fire an event that has no hook."""
    hooks, rounds = hooks_in(project, HookBook()), 10_000
    began = time.perf_counter()
    for _ in range(rounds):
        await fire(hooks, project)
    return [(time.perf_counter() - began) / rounds * 1e6]


def measure(_rig: Any = None) -> list[Row]:
    rows: list[Row] = []
    run: Callable[..., Any] = anyio.run
    with tempfile.TemporaryDirectory() as place:
        for name, command in COMMANDS.items():
            ours, other = run(compare, Path(place), command)
            rows.append(Row(f"PreToolUse hook : bash -c, {name}", ours, other, unit="ms"))
            rows.append(Row("  added", [min(ours) - min(other)], unit="ms", most=MOST_ADDED))
        rows.append(Row("an event without a hook", run(without, Path(place)), unit="µs"))
    return rows


if __name__ == "__main__":
    print(table(measure()))
