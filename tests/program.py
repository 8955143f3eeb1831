"""The program as other programs see it: a subprocess with a home and a project of its own."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

LIMIT = 40.0
ARGV = [sys.executable, "-m", "teamwright"]
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def check_clean(text: str) -> None:
    """Check that nothing could move a cursor, or hide or reorder words on a terminal."""
    found = HIDDEN.search(text)
    assert found is None, f"{found[0]!r} in {text[max(0, found.start() - 60) : found.end() + 60]!r}"


def tool(name: str, /, **input: Any) -> dict[str, Any]:
    return {"tool": name, "input": input}


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command)


class Family:
    """What descends from the programs that a test has started. A number in a limit that Linux does not use tells: it is
    inherited, and everybody may read it, while our program shows its environment and its open files to root alone."""

    _turn = threading.Lock()

    def __init__(self) -> None:
        self._number = 1 << 50 | int.from_bytes(os.urandom(5), "big")

    @contextmanager
    def grows(self) -> Iterator[None]:
        """What is started meanwhile belongs to it."""
        with self._turn:
            before = resource.getrlimit(resource.RLIMIT_RSS)
            resource.setrlimit(resource.RLIMIT_RSS, (self._number, before[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_RSS, before)

    def living(self) -> dict[int, list[bytes]]:
        """The words of each by its pid. A zombie has none, and is left out."""
        found: dict[int, list[bytes]] = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # gone meanwhile
                if not entry.name.isdigit() or int(entry.name) == os.getpid():
                    continue
                ours = b"%d" % self._number in (entry / "limits").read_bytes().split()
                if ours and (words := (entry / "cmdline").read_bytes()):
                    found[int(entry.name)] = words.split(b"\0")
        return found

    @property
    def teammates(self) -> list[int]:
        return [pid for pid, words in self.living().items() if b"teammate" in words]


@dataclass
class Ran:
    """One run that has ended."""

    rc: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        return [line for line in self.lines if line["type"] == "result"][-1]

    @property
    def tool_results(self) -> list[tuple[str, bool]]:
        return tool_results(self.lines)


def tool_results(lines: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    blocks = [b for line in lines if line["type"] == "user" for b in line["message"]["content"]]
    return [("\n".join(c.get("text", "") for c in b["content"]), bool(b.get("is_error"))) for b in blocks]


@dataclass
class Live:
    """A running program: lines go in and out, and every wait has a limit."""

    process: subprocess.Popen[bytes]
    errors: Path
    lines: list[dict[str, Any]] = field(default_factory=list)
    longest: int = 0
    _news: threading.Condition = field(default_factory=threading.Condition)
    _ids: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for data in self.process.stdout:
            with self._news:
                self.longest = max(self.longest, len(data))
                try:
                    check_clean(data.decode())
                    self.lines.append(json.loads(data))
                except (ValueError, AssertionError) as fault:
                    self.lines.append({"type": "FAULT", "fault": repr(fault)})
                self._news.notify_all()
        with self._news:
            self.lines.append({"type": "END"})
            self._news.notify_all()

    def seen(self, **fields: Any) -> dict[str, Any]:
        """Wait for the first line with these fields."""
        return self.wait_for(lambda line: all(line.get(k) == v for k, v in fields.items()))

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], *, after: int = 0) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((line for line in self.lines[after:] if wanted(line)), None)

        with self._news:
            self._news.wait_for(lambda: found() or self.lines[-1:] == [{"type": "END"}], LIMIT)
            line = found()
        assert line is not None, f"not seen; lines: {self.lines[-5:]}; {self.errors.read_text()[-2000:]}"
        return line

    def send(self, line: Any) -> None:
        assert self.process.stdin
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def say(self, text: Any) -> None:
        message = {"role": "user", "content": text}
        self.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"})

    def ask(self, subtype: str, **fields: Any) -> dict[str, Any]:
        """Send a control request and return its answer."""
        id = f"r{next(self._ids)}"
        self.send({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **fields}})
        answer = self.wait_for(lambda line: line["type"] == "control_response" and line["response"]["request_id"] == id)
        return answer["response"]

    def question(self, n: int = 0) -> dict[str, Any]:
        """The n-th question that the program asks."""
        seen = iter(range(n + 1))
        before = 0
        for _ in seen:
            line = self.wait_for(lambda line: line["type"] == "control_request", after=before)
            before = self.lines.index(line) + 1
        return line

    def answer(self, question: dict[str, Any], **response: Any) -> None:
        body = {"subtype": "success", "request_id": question["request_id"], "response": response}
        self.send({"type": "control_response", "response": body})

    def results(self, many: int) -> list[dict[str, Any]]:
        """Wait for the first `many` results."""
        before = 0
        for _ in range(many):
            line = self.wait_for(lambda line: line["type"] == "result", after=before)
            before = self.lines.index(line) + 1
        return [line for line in self.lines if line["type"] == "result"]

    def end(self) -> Ran:
        """Close the input and wait for the program to end by itself."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        rc = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        lines = [line for line in self.lines if line["type"] != "END"]
        assert not [line for line in lines if line["type"] == "FAULT"], lines
        return Ran(rc, "\n".join(map(json.dumps, lines)), self.errors.read_text())


class Program:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.project, self.home = self.root / "project", self.root / "home"
        self.state = self.home / ".teamwright"
        for directory in (self.project, self.home):
            directory.mkdir()
        self.env = {
            "HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.state), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
        } | {k: v for k, v in os.environ.items() if k == "PYTHONPATH"}  # fmt: skip
        self.family = Family()
        self._started: list[Live] = []

    def model(self, script: Any) -> list[str]:
        """Options that let a script play the model."""
        file = self.root / "script.json"
        file.write_text(json.dumps(script))
        return ["--model", f"script/{file}"]

    def run(
        self, *args: str, script: Any = None, env: dict[str, str] | None = None, input: bytes | None = None,
        cwd: Path | None = None,
    ) -> Ran:  # fmt: skip
        argv = [*ARGV, *args, *(self.model(script) if script is not None else ())]
        source = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        done = subprocess.run(
            argv, cwd=cwd or self.project, env=self.env | (env or {}), capture_output=True, timeout=LIMIT, check=False,
            **source,
        )  # fmt: skip
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        check_clean(ran.out)
        check_clean(ran.err)
        assert "Traceback" not in ran.err, ran.err
        return ran

    def prompt(self, script: Any, *args: str, text: str = "go", **more: Any) -> Ran:
        """A headless run in stream-json."""
        return self.run("-p", text, "--output-format", "stream-json", "--verbose", *args, script=script, **more)

    def start(self, *args: str, script: Any = None, env: dict[str, str] | None = None, pipe: bool = False) -> Live:
        """With `pipe`, standard input stays open, for `send` and `say`."""
        argv = [*ARGV, *args, *(self.model(script) if script is not None else ())]
        errors = self.root / f"stderr{len(self._started)}"
        with errors.open("wb") as file, self.family.grows():
            process = subprocess.Popen(
                argv, cwd=self.project, env=self.env | (env or {}), stdout=subprocess.PIPE, stderr=file,
                stdin=subprocess.PIPE if pipe else subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        live = Live(process, errors)
        self._started.append(live)
        return live

    def talk(self, script: Any, *args: str, **more: Any) -> Live:
        """Start the program as an SDK does: JSON lines both ways, questions included."""
        formats = ["--input-format", "stream-json", "--output-format", "stream-json"]
        return self.start(*formats, "--permission-prompt-tool", "stdio", *args, script=script, pipe=True, **more)

    def transcript(self) -> Path:
        (file,) = (self.state / "projects").glob("*/*.jsonl")
        return file

    def close(self) -> None:
        for live in self._started:
            if live.process.poll() is None:
                os.killpg(live.process.pid, signal.SIGKILL)
                live.process.wait(LIMIT)
            live._reader.join(LIMIT)
            for pipe in (live.process.stdin, live.process.stdout):
                if pipe:
                    pipe.close()


def alive(pid: int) -> bool:
    """Does it exist, and is it not a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_file(path: Path) -> str:
    """The text of a file that a command is about to write."""
    limit = time.monotonic() + LIMIT
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < limit, f"{path} was not written"
        time.sleep(0.01)
    return path.read_text()
