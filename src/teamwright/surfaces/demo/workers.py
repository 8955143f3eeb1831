"""`teamwright demo --workers N`: an engine, a lead and workers on this machine; one worker is killed half-way.

All of them are ordinary processes of the program, each with a home of its own, as on separate machines. Only the model
is played by a script.
"""

import importlib.util
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from teamwright.core.errors import TeamwrightError, UsageError
from teamwright.core.text import shown
from teamwright.surfaces.demo.screen import Screen
from teamwright.surfaces.demo.shop import git, tests_pass
from teamwright.surfaces.demo.workers_story import COMMITS, PROMPT, script_text
from teamwright.tools.bounds import visible

LIMIT = 240.0  # seconds for the whole story
MOST = 8
_LEASE = "3"  # seconds of silence after which a worker counts as dead
_PROGRAM = (sys.executable, "-m", "teamwright")
_END = 15.0  # seconds for a process to end when it is asked to


def play_with_workers(root: Path, shop: Path, screen: Screen, many: int) -> int:
    """0 if everything is right at the end."""
    if not 2 <= many <= MOST:
        raise UsageError(f"--workers {many}: the story needs two, and at most {MOST}")
    if importlib.util.find_spec("nats") is None:
        raise UsageError(
            "An engine needs packages that are not installed: `pip install 'teamwright[cluster]'` adds them."
        )
    stage = _Stage(root, shop, screen)
    try:
        return stage.play(many)
    finally:
        stage.close()


class _Stage:
    def __init__(self, root: Path, shop: Path, screen: Screen) -> None:
        self._root, self._shop, self._screen = root, shop, screen
        self._until = time.monotonic() + LIMIT
        self._said: queue.Queue[tuple[str, str]] = queue.Queue()  # (who, a line of its output)
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._names: dict[str, str] = {}  # of agents, by id
        self._places: dict[str, list[str]] = {}  # workers that an agent was on, by its name
        self._killed = ""

    def play(self, many: int) -> int:
        self._start_engine()
        for number in range(1, many + 1):
            name = f"worker-{number}"
            url = f"@{self._root}/engine/worker.url"
            self._start(name, "worker", "--join", url, "--name", name)
            self._wait_for(name, "joined")
        self._start_lead()
        while (line := self._next()) != ("lead", ""):
            self._hear(*line)
        return self._check(self._running["lead"].wait(_END))

    # --- processes

    def _start_engine(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        directory = str(self._root / "engine")
        words = (*_PROGRAM, "engine", "init", directory, "--port", str(port))
        done = subprocess.run(words, env=self._env("lead"), capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise TeamwrightError(done.stderr.strip())
        self._start("engine", "engine", "run", directory)
        self._screen.say("engine    `teamwright engine run`: a log, on disk before it answers", "dim")
        while not (self._root / "engine" / "server.pid").exists():
            if time.monotonic() > self._until or self._running["engine"].poll() is not None:
                raise TeamwrightError("the engine did not start")
            time.sleep(0.05)

    def _start_lead(self) -> None:
        script = self._root / "script.json"
        script.write_text(script_text())
        self._screen.say(f'lead      `teamwright -p "{PROMPT}" --engine @lead.url --teammate-mode remote`', "dim")
        flags = ("--output-format", "stream-json", "--verbose", "--allowedTools", "Bash,Edit,Read", "--trust")
        engine = ("--engine", f"@{self._root}/engine/lead.url", "--teammate-mode", "remote")
        self._start("lead", "-p", PROMPT, "--model", f"script/{script}", *engine, *flags)

    def _start(self, who: str, *args: str) -> None:
        with (self._root / f"{who}.log").open("w") as log:
            process = subprocess.Popen(
                [*_PROGRAM, *args],
                cwd=self._shop,
                env=self._env(who),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._running[who] = process
        threading.Thread(target=self._read, args=(who, process), daemon=True).start()

    def _env(self, who: str) -> dict[str, str]:
        """Each home stands for a machine."""
        home = self._root / "homes" / who
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TEAMWRIGHT_")}
        return kept | {"HOME": str(home), "TEAMWRIGHT_HOME": str(home / "state"), "TEAMWRIGHT_LEASE_SECONDS": _LEASE}

    def _read(self, who: str, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._said.put((who, line.rstrip("\n")))
        self._said.put((who, ""))

    def close(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_END)

    # --- output of the processes

    def _next(self) -> tuple[str, str]:
        try:
            return self._said.get(timeout=max(0.0, self._until - time.monotonic()))
        except queue.Empty:
            raise TeamwrightError(f"the story did not end within {LIMIT:g} s; --keep keeps the logs") from None

    def _wait_for(self, who: str, word: str) -> None:
        while (line := self._next()) != (who, ""):
            self._hear(*line)
            if line[0] == who and word in line[1]:
                return
        raise TeamwrightError((self._root / f"{who}.log").read_text().strip() or f"{who} did not start")

    def _hear(self, who: str, line: str) -> None:
        if who.startswith("worker") and line:
            self._screen.say(f"{who:9} {visible(line)}", "dim")
            name, _, rest = line.partition(" (")
            if rest.endswith(") comes"):
                self._names[rest.removesuffix(") comes")] = name
                self._places.setdefault(name, []).append(who)
        elif who == "lead" and line:
            self._follow(json.loads(line))

    def _follow(self, line: dict[str, Any]) -> None:
        who = self._names.get(line.get("agent_id") or "", "lead")
        for words in _told(line):
            self._screen.say(f"{who:9} {visible(words)}")
        edited = line["type"] == "user" and who == "ada" and "filePath" in (line.get("tool_use_result") or {})
        if edited and not self._killed:
            self._kill(self._places["ada"][-1])

    def _kill(self, worker: str) -> None:
        """Kill it like a power cut: nothing is said, nothing is handed over."""
        self._killed = worker
        process = self._running[worker]
        os.killpg(process.pid, signal.SIGKILL)
        self._screen.say()
        self._screen.say(f"kill -9 {process.pid}: {worker} is gone, and with it ada's machine.", "red")
        self._screen.say("Her edit is not committed. After three seconds of silence another worker goes on.", "bold")
        self._screen.say()

    # --- checks at the end

    def _check(self, status: int) -> int:
        places = self._places.get("ada", [])
        commits = git(self._shop, "log", "--no-merges", "--format=%s").splitlines()
        passed = tests_pass(self._shop, "test_prices", "test_labels")
        found = {
            f"ada began on {places[0]} and continued on {places[-1]}": bool(self._killed) and len(set(places)) > 1,
            f"commits: {len(commits)}, each once": sorted(commits) == sorted(COMMITS),
            "both branches came back and are merged": "worktree-ada" in git(self._shop, "branch", "--merged"),
            "the tests of both pass": passed,
            "the lead ended by itself": status == 0,
        }
        self._screen.say()
        self._screen.say("What was not lost", "bold")
        for words, good in found.items():
            self._screen.say(f"{'+' if good else 'x'} {words}", "green" if good else "red")
        return 0 if all(found.values()) else 1


def _told(line: dict[str, Any]) -> Iterator[str]:
    """What a person would read of a line of stream-json."""
    if line["type"] == "system" and line.get("subtype") == "team_event" and line.get("kind") == "moved":
        yield f"* {line['agent']} has moved"
    blocks = line["message"]["content"] if line["type"] == "assistant" else ()
    for block in blocks:
        if block["type"] == "text" and block["text"] != "done":
            yield block["text"]
        elif block["type"] == "tool_use":
            given = block["input"]
            what = given.get("command") or given.get("file_path") or given.get("name") or given.get("to") or ""
            yield shown(f"+ {block['name']} {what}", 90)
