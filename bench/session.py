"""One run of a client against the scripted server, and everything that was measured."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from server import Seen, prompt

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("teamwright")
LIMIT = 60  # seconds for one run
SMALL = "hello\n"
PAGE = "".join(f"line {n:02} of a page that is read: some words\n" for n in range(1, 25))  # a little over 1 kB
# The shell appends its process id, which becomes the client's, to the URL.
_EXEC = 'export ANTHROPIC_BASE_URL="$ANTHROPIC_BASE_URL/$$"; exec "$@"'
_STRANGE = ("ANTHROPIC", "CLAUDE", "TEAMWRIGHT", "OPENAI", "PYTHON")


class Rig:
    """A server, and a home and a project for its clients."""

    def __init__(self, root: Path, port: int) -> None:
        self.root, self.url = root, f"http://127.0.0.1:{port}"
        self.last_bodies = b""  # what the last client sent, one body after the other
        self.home, self.project = root / "home", root / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(_STRANGE)}
        self.env |= {
            "HOME": str(self.home),
            "TEAMWRIGHT_HOME": str(self.home / "state"),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.url,
            "NO_PROXY": "127.0.0.1",
            # Precompiled byte code, as in an installed program, and outside the tree that is measured.
            "PYTHONPYCACHEPREFIX": str(root / "bytecode"),
        }

    def run(self, turns: int, *, text: str = SMALL) -> Seen:
        """Run the program with `turns` reads of a file that holds `text`."""
        file = self.project / "small.txt"
        file.write_text(text)
        argv = [PROGRAM, "-p", prompt(turns, file), "--model", "claude-sonnet-4-6", "--output-format", "stream-json"]
        seen, out = self._seen(argv)
        if len(seen.cpu) != turns + 1 or b'"subtype":"success"' not in out:
            raise SystemExit(f"the program did not do its {turns} turns:\n{out[-2000:].decode()}")
        return seen

    def run_bare(self, bodies: Path, sizes: Sequence[int]) -> Seen:
        argv = ["sh", "-c", 'exec "$0" "$1" "$ANTHROPIC_BASE_URL" "$2" $3', sys.executable, HERE / "bare.py", bodies]
        seen, _ = self._seen([*argv, " ".join(map(str, sizes))])
        return seen

    def _seen(self, argv: Sequence[str | Path]) -> tuple[Seen, bytes]:
        command = ["sh", "-c", _EXEC, "sh", *map(str, argv)]
        process = subprocess.Popen(
            command, cwd=self.project, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        with process:
            try:
                out, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise SystemExit(f"not done after {LIMIT} s: {command}") from None
        if process.returncode:
            raise SystemExit(f"exit status {process.returncode}: {command}\n{out[-2000:].decode()}")
        self.last_bodies = self._get(f"{process.pid}/bodies")
        return Seen(**msgspec.json.decode(self._get(f"{process.pid}/seen"))), out

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=LIMIT) as response:
            return response.read()

    def stored(self) -> int:
        """Bytes of everything that the program stores."""
        return sum(file.stat().st_size for file in (self.home / "state").rglob("*") if file.is_file())


@contextlib.contextmanager
def rig() -> Iterator[Rig]:
    root = Path(tempfile.mkdtemp(prefix="teamwright-bench-"))
    server = subprocess.Popen([sys.executable, HERE / "server.py"], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        made = Rig(root, int(server.stdout.readline()))
        made.run(1)  # writes byte code, makes the home
        yield made
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(root, ignore_errors=True)
