"""The demo's repository: two independent bugs and a missing file."""

import os
import subprocess
from pathlib import Path

TASKS = (
    ("cheapest() of an empty list", "prices.py: it must give None, as its description says, and raises instead."),
    ("prices with two digits", "labels.py: label(500) must be 5.00, and is 5.0."),
    ("write banner.py", "banner(prices): 'from 5.00' for the cheapest, 'sold out' if there is none. Use both."),
)
PRICES = "    return min(prices)", "    return min(prices, default=None)"
LABELS = "    return str(cents / 100)", '    return f"{cents / 100:.2f}"'
BANNER = '''\
"""What hangs above the shelf."""

from labels import label
from prices import cheapest


def banner(prices):
    lowest = cheapest(prices)
    return "sold out" if lowest is None else f"from {label(lowest)}"
'''
FILES = {
    "prices.py": f'''\
"""Prices in cents."""


def cheapest(prices):
    """The lowest price; None if there is none."""
{PRICES[0]}
''',
    "labels.py": f'''\
"""How a price is written."""


def label(cents):
    """With two digits after the point."""
{LABELS[0]}
''',
    "test_prices.py": """\
import unittest

from prices import cheapest


class Prices(unittest.TestCase):
    def test_cheapest(self):
        self.assertEqual(cheapest([300, 100, 200]), 100)

    def test_cheapest_of_nothing(self):
        self.assertIsNone(cheapest([]))
""",
    "test_labels.py": """\
import unittest

from labels import label


class Labels(unittest.TestCase):
    def test_two_digits(self):
        self.assertEqual([label(500), label(1999)], ["5.00", "19.99"])
""",
    "test_banner.py": """\
import unittest

from banner import banner


class Banner(unittest.TestCase):
    def test_banner(self):
        self.assertEqual([banner([900, 500]), banner([])], ["from 5.00", "sold out"])
""",
    ".gitignore": "__pycache__/\n",
}
_CONFIG = {  # the person's own git setup must not apply here
    "user.name": "Demo",
    "user.email": "demo@example.invalid",
    "commit.gpgsign": "false",
    "core.hooksPath": "/dev/null",
}
_TESTS = ("python3", "-m", "unittest", "-q")


def make_shop(path: Path) -> None:
    path.mkdir(parents=True)
    for name, text in FILES.items():
        (path / name).write_text(text)
    git(path, "-c", "init.defaultBranch=main", "init", "-q")
    for key, value in _CONFIG.items():
        git(path, "config", key, value)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "A shop")


def tests_pass(path: Path, *some: str) -> bool:
    ran = subprocess.run((*_TESTS, *some), cwd=path, env=dict(os.environ), check=False, capture_output=True, timeout=60)
    return ran.returncode == 0


def git(path: Path, *args: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # a hook's GIT_DIR
    ran = subprocess.run(["git", *args], cwd=path, env=env, check=True, capture_output=True, text=True, timeout=60)
    return ran.stdout
