"""Starts terminal agents beside each other on one prompt and prints what each needs until its first request.

`python bench/beside.py [--rounds 5] [teamwright] [claude] [codex]`: those that are on PATH unless named.
Each is sent to a server on loopback, with a fresh home and an empty repository, in turns, so that whatever else the
machine does hits all. The first request that carries the prompt is measured as it arrives, and then the program is
killed, so no model is called. Linux only.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

PROMPT = "Which files are here? Say orchid."
KNOWN = ("teamwright", "claude", "codex")
LIMIT = 60
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Arrival:
    """Resources of the program and all its children when its first request with the prompt arrives."""

    seconds: float
    cpu: float
    megabytes: float
    kilobytes: float
    tools: int


class Ear(ThreadingHTTPServer):
    """Answers everything with an empty object, and records the first request body that has both prompt and tools."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Listener)
        self.body, self.at, self.heard = b"", 0.0, threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The programs that we kill break off their connections."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def note(self, body: bytes) -> None:
        if not self.heard.is_set() and b"orchid" in body and b'"tools"' in body:
            self.body, self.at = body, time.monotonic()
            self.heard.set()


class Listener(BaseHTTPRequestHandler):
    server: Ear
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.note(self._body())
        if self.server.heard.is_set():
            time.sleep(LIMIT)  # block until the program is killed, so that it is measured as it was when it asked
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_GET

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        return found

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def command(name: str, url: str) -> tuple[list[str], dict[str, str]]:
    """The command for each program, pointed at our server through the environment or flags."""
    if name == "teamwright":
        return [name, "-p", PROMPT, "--model", "sonnet"], {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"}
    if name == "claude":
        env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return [name, "-p", PROMPT, "--model", "sonnet"], env
    own = f'{{name="own", base_url="{url}/v1", wire_api="responses", env_key="OWN_KEY"}}'
    flags = ["-c", f"model_providers.own={own}", "-c", 'model_provider="own"', "-c", 'model="gpt-5.5"']
    return [name, "exec", "--skip-git-repo-check", *flags, PROMPT], {"OWN_KEY": "k"}


def family(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def cost_of(pids: list[int]) -> tuple[float, float]:
    """Processor seconds, including ended children, and proportional memory (PSS) in megabytes."""
    ticks = memory = 0
    for pid in pids:
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue  # the process has ended meanwhile
        memory += int(rollup.partition("\nPss:")[2].split()[0])
    return ticks / TICKS, memory / 1024


def arrival(name: str, place: Path) -> Arrival:
    ear = Ear()
    threading.Thread(target=ear.serve_forever, daemon=True).start()
    home, project = place / name, Path(tempfile.mkdtemp(dir=place))
    home.mkdir(exist_ok=True)  # its own copy, kept for the next round
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    argv, env = command(name, ear.address)
    env |= {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    began, note = time.monotonic(), place / "said"
    with note.open("wb") as said:
        process = subprocess.Popen(
            argv, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            heard = ear.heard.wait(LIMIT)
            cpu, memory = cost_of(family(process.pid))
        finally:
            for pid in family(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            ear.shutdown()
    if not heard:
        raise SystemExit(f"{name} asked nothing in {LIMIT} s:\n{note.read_text()[-2000:]}")
    return Arrival(ear.at - began, cpu, memory, len(ear.body) / 1000, len(json.loads(ear.body)["tools"]))


def row(name: str, all_of: list[Arrival]) -> str:
    asked = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=LIMIT, check=False)
    version = asked.stdout.strip().splitlines()[0] if asked.stdout.strip() else "?"
    seconds, cpu, memory = zip(*((a.seconds, a.cpu, a.megabytes) for a in all_of), strict=True)
    two = [f"{min(values):.2f} / {median(values):.2f}" for values in (seconds, cpu)]
    size = f"{median(a.kilobytes for a in all_of):.1f}"
    return f"{name:12}{two[0]:>16}{two[1]:>16}{median(memory):>6.0f}{size:>12}{all_of[0].tools:>7}  {version}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = options.programs or [name for name in KNOWN if shutil.which(name)]
    found: dict[str, list[Arrival]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory(prefix="beside-", ignore_cleanup_errors=True) as place:
        for n in range(options.rounds + 1):
            for name in programs[:: -1 if n % 2 else 1]:
                one = arrival(name, Path(place))
                if n:  # the first round sets up each program and fills caches
                    found[name].append(one)
    print(f"load {os.getloadavg()[0]:.1f}, {options.rounds} rounds; until the first request, least / median")
    print(f"{'program':12}{'seconds':>16}{'CPU seconds':>16}{'MB':>6}{'request kB':>12}{'tools':>7}  version")
    for name, all_of in found.items():
        print(row(name, all_of))


if __name__ == "__main__":
    main()
