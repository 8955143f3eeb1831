"""Shared parts of the pane tests: a program that reports its arguments, and bounded waits."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

# Reports its arguments, then stays. With "leave" it ends at once, with "deaf" only SIGKILL ends it.
PROBE = """
import json, os, signal, sys, time
where, how = sys.argv[1:3]
if how == "deaf":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
what = {"argv": sys.argv[3:], "env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid(), "group": os.getpgid(0)}
with open(where + ".draft", "w") as file:
    json.dump(what, file)
os.rename(where + ".draft", where)
print("probe is here", flush=True)
if how != "leave":
    time.sleep(1000)
"""
AWKWARD = [
    "two words", "", " ", "'", '"', "it's \"so\"", "$(touch pwned)", "`touch pwned`", "$HOME", "~", "*", ";", "x;",
    "\\;", "a\\;", "&& touch pwned", "| touch pwned", "#(touch pwned)", "#{pane_id}", "#[fg=red]", "%H", "line\nbreak",
    "\t", "\x1b[31m", "\\", "\\n", "-d", "--", "-t", "!!", "{}", "ü €", "x" * 20_000,
]  # fmt: skip


def probe(where: Path, *words: str, how: str = "stay") -> list[str]:
    return [sys.executable, "-I", "-S", "-c", PROBE, str(where), how, *words]


async def until(holds: Callable[[], Any], seconds: float = 20) -> Any:
    with anyio.fail_after(seconds):
        while not (found := holds()):
            await anyio.sleep(0.01)
    return found


async def told(where: Path) -> dict[str, Any]:
    await until(where.exists)
    return json.loads(where.read_text())


def lives(pid: int) -> bool:
    """A dead process counts as gone, whether collected or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
