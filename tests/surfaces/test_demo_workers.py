"""The demo with workers: the real engine, a lead and workers as separate processes, and a kill -9."""

import subprocess

import pytest

from program import ARGV, Program
from teamwright.surfaces.demo.workers import LIMIT


@pytest.mark.spec("Z8", "Z9", "Z12")
def test_a_teammate_goes_on_on_another_worker_and_its_branch_comes_back(program: Program):

    argv = [*ARGV, "demo", "--workers", "2"]
    done = subprocess.run(
        argv, cwd=program.project, env=program.env, capture_output=True, text=True, timeout=LIMIT + 30, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    killed = next(n for n, line in enumerate(lines) if line.startswith("kill -9"))
    assert any("ada (" in line and "comes" in line for line in lines[killed:]) and "* ada@shop has moved" in done.stdout
    assert "ada       The edit is still here." in lines and not done.stderr
    assert [line for line in lines if line.startswith("x ")] == [] and sum(line[:2] == "+ " for line in lines) == 5


def test_the_story_needs_two_workers(program: Program):
    for many in ("1", "9"):
        ran = program.run("demo", "--workers", many)
        assert ran.rc == 2 and "needs two" in ran.err
