"""A lead and workers, each with its own home, on a real server: for tests of agents on other machines."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from program import Program, Ran, bash, tool
from teamwright.store.engine.wire.address import Address

LIMIT = 90.0  # seconds
LEASE = "4"


def until(seen: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + LIMIT
    while not (found := seen()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


class Worker:
    """`teamwright worker` with its own home, as on another machine."""

    def __init__(self, stage: "Stage", name: str, *flags: str, join: str = "", **more: str) -> None:
        self.home, self.out = stage.root / name, stage.root / f"{name}.out"
        self.home.mkdir(exist_ok=True)
        env = stage.program.env | {"HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.home / ".teamwright")}
        argv = [sys.executable, "-m", "teamwright", "worker", "--join", join or str(stage.space), "--name", name]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [*argv, "--allow-bypass", *flags],
                env=env | more,
                cwd=self.home,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.out.read_text()

    def ready(self) -> "Worker":
        until(lambda: "joined" in self.said or self.process.poll() is not None, f"not joined: {self.said}")
        assert self.process.poll() is None, self.said
        return self

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.kill(signal.SIGCONT)
            self.kill()
        self.process.wait(LIMIT)


class Stage:
    def __init__(self, root: Path, space: Address) -> None:
        (root / "lead").mkdir()
        self.root, self.space, self.program = root, space, Program(root / "lead")
        self.program.env["TEAMWRIGHT_LEASE_SECONDS"] = LEASE
        self.workers: list[Worker] = []
        self._leads: list[subprocess.Popen[str]] = []
        self.log = root / "log"
        (self.program.project / "file").write_text("hello\n")
        for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
            self.git(*args)

    def close(self) -> None:
        for lead in self._leads:
            if lead.poll() is None:
                lead.kill()
                lead.communicate(timeout=LIMIT)
        for worker in self.workers:
            worker.stop()

    def worker(self, name: str, *flags: str, lease: str = LEASE, join: str = "", **env: str) -> Worker:
        """Start a worker; it has joined on return."""
        more = env | {"TEAMWRIGHT_LEASE_SECONDS": lease}
        self.workers.append(Worker(self, name, *flags, join=join, **more))
        return self.workers[-1].ready()

    def script(self, **scripts: Any) -> list[str]:
        return self.program.model(scripts)

    def start(self, model: list[str], *flags: str, script: str = "main") -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "teamwright", "-p", f"SCRIPT:{script}", "--engine", str(self.space), *model]
        argv += ["--output-format", "stream-json", "--verbose", *(flags or ("--dangerously-skip-permissions",))]
        lead = subprocess.Popen(
            argv,
            cwd=self.program.project,
            env=self.program.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._leads.append(lead)
        return lead

    def lines(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def mark(self, word: str, *, then: str = "true") -> dict[str, Any]:
        return bash(f"echo {word} >> {self.log}; {then}")

    def gate(self, name: str) -> str:
        return f"while [ ! -e {self.root / name} ]; do sleep 0.02; done"

    def git(self, *args: str) -> str:
        argv = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args]
        return subprocess.check_output(argv, cwd=self.program.project, text=True, timeout=LIMIT)

    def listing(self, *words: str) -> Any:
        argv = [sys.executable, "-m", "teamwright", *words, "--json", "--engine", str(self.space)]
        ran = subprocess.run(
            argv, cwd=self.program.project, env=self.program.env, capture_output=True, timeout=LIMIT, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


def ended(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=LIMIT)
    return Ran(process.returncode, out, err)


def notices(ran: Ran) -> list[dict[str, Any]]:
    return [line for line in ran.lines if line.get("subtype") == "task_notification"]


def away(script: str, **more: Any) -> dict[str, Any]:
    asked = {"description": f"play {script}", "prompt": f"SCRIPT:{script}", "isolation": "remote"}
    return tool("Agent", **asked | {"subagent_type": "general-purpose"} | more)
