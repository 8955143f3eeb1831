"""Many agents on several workers, compared with as many in one process: the whole program, with a scripted model."""

import json
import subprocess
import time
from pathlib import Path

from remote_parts import Server, Worker, a_repository
from rows import Row
from session import PROGRAM, Rig

AGENTS, WORKERS, SLOTS, FILES = 1000, 4, 16, 20
PEAK = 200  # megabytes


def measure(rig: Rig) -> list[Row]:
    return many(rig, AGENTS)


def many(rig: Rig, agents: int) -> list[Row]:
    root = rig.root / "many"
    root.mkdir()
    project = a_repository(root / "project", FILES)
    here = run(rig, project, script(root / "here.json", agents), agents)
    server = Server(root / "server")
    url = server.url("many")
    workers = [Worker(root, url, f"w{n}", rig.env, slots=SLOTS) for n in range(WORKERS)]
    try:
        there = run(rig, project, script(root / "there.json", agents, isolation="remote"), agents, "--engine", url)
        peak = max(worker.peak() for worker in workers)
    finally:
        for worker in workers:
            worker.close()
        server.stop()
    name = f"{agents:,} agents of 3 turns, {WORKERS} workers : one process"
    return [
        Row(name, [there], [here], unit="s", most_ratio=3),
        Row("  the largest worker at its peak", [peak], unit="MB", most=PEAK),
    ]


def script(path: Path, agents: int, **more: str) -> Path:
    each = {"description": "work", "prompt": "SCRIPT:work", "subagent_type": "general-purpose"} | more
    if not more:
        each["run_in_background"] = True
    calls = [{"tool": "Agent", "input": each | {"description": f"work {n}"}} for n in range(agents)]
    look = {"tool": "Bash", "input": {"command": "true", "description": "look"}}
    path.write_text(json.dumps({"main": [calls, "end"], "work": [look, look, "done"]}))
    return path


def run(rig: Rig, project: Path, model: Path, agents: int, *more: str) -> float:
    """Seconds from the start of the program to its end. Every agent ends once."""
    argv = [PROGRAM, "-p", "SCRIPT:main", "--model", f"script/{model}", "--dangerously-skip-permissions", *more]
    argv += ["--output-format", "stream-json", "--verbose"]
    env = rig.env | {"TEAMWRIGHT_HOME": str(model.with_suffix(""))}
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, timeout=1800, check=False)
    took = time.perf_counter() - began
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    told = [line["task_id"] for line in lines if line.get("subtype") == "task_notification"]
    if done.returncode or len(told) != agents or len(set(told)) != agents:
        raise SystemExit(f"status {done.returncode}, {len(told)} ends of {agents}: {done.stderr.decode()[-2000:]}")
    return took
