"""`teamwright demo`: a small repository with a failing test, an agent that mends it, and two that help.

The model is a script, which the screen says; the loop, the tools, the permissions and the files are real.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from teamwright.app import Options, open_session
from teamwright.core.errors import UsageError
from teamwright.core.event import TurnEnded
from teamwright.core.ids import AgentId
from teamwright.core.message import Text
from teamwright.core.op import Say
from teamwright.models.scripted import ScriptedModel, call
from teamwright.runtime.bus import Watch
from teamwright.surfaces.progress import Progress, standard

PROMPT = "The tests of this project fail. Find out why, fix it, and show me the change."
TYPING = 120.0  # characters a second
CALLERS = "Find every caller of cheapest() and say what it expects for an empty list."
CHECK = "cheapest() in prices.py was changed. Run all tests and say whether the change holds. Change nothing."
THOUGHT = 0.5  # seconds before the second helper begins, so that the main agent has ended its turn by then

FILES = {
    "prices.py": '''\
"""Prices in cents."""


def total(prices, discount=0):
    """The sum of all prices, less a discount in per cent."""
    return sum(prices) * (1 - discount / 100)


def cheapest(prices):
    """The lowest price; None if there is none."""
    return min(prices)
''',
    "banner.py": '''\
"""What hangs above the shelf."""

from prices import cheapest


def banner(prices):
    lowest = cheapest(prices)
    return "sold out" if lowest is None else f"from {lowest / 100:.2f}"
''',
    "test_prices.py": """\
import unittest

from prices import cheapest, total


class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([100, 250]), 350)

    def test_discount(self):
        self.assertEqual(total([1000], discount=10), 900)

    def test_cheapest(self):
        self.assertEqual(cheapest([300, 100, 200]), 100)

    def test_cheapest_of_nothing(self):
        self.assertIsNone(cheapest([]))


if __name__ == "__main__":
    unittest.main()
""",
}


def play(*, fast: bool, keep: bool) -> int:
    """Run the demo; 0 if the tests pass at the end."""
    if shutil.which("git") is None:
        raise UsageError("the demo needs git, and it is not installed")
    root = Path(tempfile.mkdtemp(prefix="teamwright-demo-"))
    try:
        return anyio.run(_play, root, fast)
    finally:
        if keep:
            sys.stdout.write(f"\nThe repository and the transcript are in {root}\n")
        else:
            shutil.rmtree(root, ignore_errors=True)


async def _play(root: Path, fast: bool) -> int:  # noqa: FBT001 -- anyio.run passes positionally
    repository = root / "shop"
    await anyio.to_thread.run_sync(_make_repository, repository)
    env = dict(os.environ)
    progress = standard(env)
    _introduce(progress, repository)
    options = Options(
        cwd=repository,
        env=env | {"TEAMWRIGHT_HOME": str(root / "home")},
        own_model=ScriptedModel(_script(repository), pace=0.0 if fast else TYPING),
        mode="acceptEdits",
        allowed_tools=("Bash(python3 -m unittest *)",),
        setting_sources=(),
    )
    session = await open_session(options)
    ends: list[TurnEnded] = []
    async with anyio.create_task_group() as group, session:
        group.start_soon(_show, session.watch(), progress, session.main.id, ends)
        await session.submit(Say((Text(PROMPT),)))
        await session.idle()
    passed = await anyio.to_thread.run_sync(_tests_pass, repository)
    progress.say("")
    progress.say("The tests pass." if passed else "The tests still fail.", "green" if passed else "red")
    return 0 if passed and ends and ends[-1].reason == "done" else 1


async def _show(watch: Watch, progress: Progress, main: AgentId, ends: list[TurnEnded]) -> None:
    """Until the session is closed."""
    async for record in watch:
        progress.show(record)
        if isinstance(record.event, TurnEnded) and record.agent == main:
            ends.append(record.event)
    watch.close()


def _introduce(progress: Progress, repository: Path) -> None:
    progress.say("Teamwright demo", "bold")
    progress.say("A script plays the model's part, so no key is needed. The rest is real: the loop,", "dim")
    progress.say("the tools, the permission rules, and a git repository with a failing test in", "dim")
    progress.say(f"{repository}", "dim")


def _script(repository: Path) -> dict[str, object]:
    return {
        "main": _main_steps(str(repository / "prices.py")),
        "explore": {
            "when": CALLERS,
            "steps": [
                [call("Grep", pattern=r"cheapest\(", output_mode="content", **{"-n": True})],
                "banner.py:7 is the only caller outside of the tests. It compares the result with None and then says "
                '"sold out": it expects None for an empty list.',
            ],
        },
        "verification": {
            "when": CHECK,
            "steps": [
                {"blocks": [call("Bash", command="python3 -m unittest test_prices")], "delay": THOUGHT},
                "All four tests pass, the one for an empty list among them. Verdict: holds",
            ],
        },
    }


def _main_steps(code: str) -> list[object]:
    fixed = "    return min(prices, default=None)"
    return [
        [
            "I will run the tests first, and look at the code.",
            call("Bash", command="python3 -m unittest -v test_prices"),
        ],
        [
            "One test fails: `min` of an empty list raises. Before I change `cheapest`, another agent finds out "
            "who relies on it, while I read the code.",
            call("Read", file_path=code),
            _start("explore", "find the callers", CALLERS),
        ],
        [
            "The tests, the docstring and the only caller all want None, so the code is wrong. `min` takes a "
            "default for that. A second agent checks the change in the background.",
            call("Edit", file_path=code, old_string="    return min(prices)", new_string=fixed),
            _start("verification", "check the change", CHECK, run_in_background=True),
            call("Bash", command="git diff"),
        ],
        "The change is one line. I will sum up when the check is done.",
        "Fixed and checked. `cheapest([])` raised ValueError, because `min` of nothing has no answer; it now gives "
        "None, as its description says (prices.py:11) and as banner.py:8 expects. All four tests pass.",
    ]


def _start(kind: str, description: str, prompt: str, **more: object) -> object:
    return call("Agent", subagent_type=kind, description=description, prompt=prompt, **more)


def _make_repository(path: Path) -> None:
    path.mkdir(parents=True)
    for name, text in FILES.items():
        (path / name).write_text(text)
    git = ["git", "-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "init.defaultBranch=main"]
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A shop"]):
        subprocess.run([*git, *args], cwd=path, check=True, capture_output=True, timeout=60)


def _tests_pass(path: Path) -> bool:
    ended = subprocess.run(["python3", "-m", "unittest", "-q"], cwd=path, check=False, capture_output=True, timeout=60)
    return ended.returncode == 0
