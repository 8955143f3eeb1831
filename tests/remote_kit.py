"""An engine as `engine init` makes it, and workers with their own homes, for tests of the whole program."""

import socket
import subprocess
from pathlib import Path

from program import ARGV, Live, Program, wait_file


class Site:
    """A machine, in one directory."""

    def __init__(self, program: Program, root: Path) -> None:
        self.lead, self.root, self.engine = program, root, root / "engine"
        self._others: list[Program] = []
        self._workers: list[subprocess.Popen[str]] = []
        self._server: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        made = program.run("engine", "init", str(self.engine), "--port", str(port))
        assert made.rc == 0, made.err
        for args in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "first")):
            words = ("git", "-c", "user.name=A", "-c", "user.email=a@localhost", *args)
            subprocess.run(words, cwd=program.project, check=True, capture_output=True)

    def start(self) -> None:
        nowhere = subprocess.DEVNULL
        argv = [*ARGV, "engine", "run", str(self.engine)]
        self._server = subprocess.Popen(argv, env=self.lead.env, stdout=nowhere, stderr=nowhere)
        wait_file(self.engine / "server.pid")

    def machine(self, name: str) -> Program:
        (self.root / name).mkdir()
        found = Program(self.root / name)
        self._others.append(found)
        return found

    def worker(self, name: str, *more: str) -> subprocess.Popen[str]:
        """Start a worker; it has joined on return."""
        here = self.machine(name)
        argv = [*ARGV, "worker", "--join", f"@{self.engine}/worker.url", "--name", name, *more]
        with (here.root / "worker.err").open("w") as errors:
            worker = subprocess.Popen(
                argv, cwd=here.project, env=here.env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._workers.append(worker)
        assert worker.stdout is not None
        line = worker.stdout.readline()
        assert "joined" in line, line + (here.root / "worker.err").read_text()
        return worker

    def begin(self, script: object, *more: str) -> Live:
        at = ("--engine", f"@{self.engine}/lead.url", "--output-format", "stream-json", "--verbose")
        return self.lead.start("-p", "go", *at, "--allowedTools", "Bash,Edit,Read,Write", *more, script=script)

    def close(self) -> None:
        for process in (*self._workers, self._server):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(40)
        for worker in self._workers:
            assert worker.stdout is not None
            worker.stdout.close()
        for other in self._others:
            other.close()
