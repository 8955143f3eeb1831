"""`teamwright demo`: a small repository with a failing test, and an agent that finds and mends it.

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
from teamwright.core.message import Text
from teamwright.core.op import Say
from teamwright.models.scripted import ScriptedModel, call
from teamwright.surfaces.progress import Progress, standard

PROMPT = "The tests of this project fail. Find out why, fix it, and show me the change."
TYPING = 120.0  # characters a second

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
    end = None
    async with session:
        watch = session.watch()
        await session.submit(Say((Text(PROMPT),)))
        async for record in watch:
            progress.show(record)
            if isinstance(record.event, TurnEnded):
                end = record.event
                break
    passed = await anyio.to_thread.run_sync(_tests_pass, repository)
    progress.say("")
    progress.say("The tests pass." if passed else "The tests still fail.", "green" if passed else "red")
    return 0 if passed and end is not None and end.reason == "done" else 1


def _introduce(progress: Progress, repository: Path) -> None:
    progress.say("Teamwright demo", "bold")
    progress.say("A script plays the model's part, so no key is needed. The rest is real: the loop,", "dim")
    progress.say("the tools, the permission rules, and a git repository with a failing test in", "dim")
    progress.say(f"{repository}", "dim")


def _script(repository: Path) -> list[object]:
    code, tests = str(repository / "prices.py"), "python3 -m unittest -v test_prices"
    fixed = "    return min(prices, default=None)"
    return [
        ["I will run the tests first and look at the code beside them.", call("Bash", command=tests)],
        [
            "One test fails: the lowest price of an empty list should be None, but `min` raises on it.",
            call("Read", file_path=code),
            call("Grep", pattern="cheapest", output_mode="content"),
        ],
        [
            "`min` takes a default for that case. The function's own words promise None, so the code is wrong.",
            call("Edit", file_path=code, old_string="    return min(prices)", new_string=fixed),
        ],
        [call("Bash", command=tests), call("Bash", command="git diff")],
        "Fixed. `cheapest([])` raised ValueError, because `min` of nothing has no answer; it now gives None, as its "
        "description says (prices.py:11). All four tests pass. Nothing else was changed.",
    ]


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
