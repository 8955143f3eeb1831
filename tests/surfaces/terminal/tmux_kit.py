"""The program in a real terminal: tmux sends keys and captures the screen."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from program import Family

LIMIT = 120.0
AGAIN = 4.0  # seconds after which a key without effect is pressed again
SIZES = [(60, 20), (100, 30), (200, 50)]


class Terminal:
    """One tmux server with one window, in a home and a project of its own."""

    def __init__(self, root: Path, size: tuple[int, int], name: str = "one") -> None:
        self.project, self.home = root / "project", root / "home"
        self.project.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self.family = Family()
        self._root, self._socket, self._size, self._name = root, root / "tmux", size, name

    def beside(self, name: str = "two") -> "Terminal":
        """A second terminal of the same person."""
        return Terminal(self._root, self._size, name)

    def tmux(self, *args: str) -> str:
        argv = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *args]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=LIMIT).stdout

    def start(self, script: Any, *args: str, env: dict[str, str] | None = None) -> None:
        """Start the app, with a script in place of the model."""
        path = self.home / "script.json"
        path.write_text(json.dumps(script))
        self.run("--model", f"script/{path}", *args, env=env)

    def run(self, *args: str, env: dict[str, str] | None = None) -> None:
        settings = {
            "HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.home / ".teamwright"), "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8", "TERM": "xterm-256color", "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TEAMWRIGHT_SANDBOX": "off", **(env or {}),  # so that the start offers nothing
        }  # fmt: skip
        width, height = map(str, self._size)
        argv = [
            "env",
            "-i",
            *(f"{name}={value}" for name, value in settings.items()),
            sys.executable,
            "-m",
            "teamwright",
        ]
        argv += args
        shell = ["sh", "-c", '"$@"; echo "LEFT $?"; exec sleep 1000', "sh", *argv]
        size = ("-x", width, "-y", height)
        with self.family.grows():
            self.tmux("new-session", "-d", "-s", self._name, *size, "-c", str(self.project), "--", *shell)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", self._name)

    @property
    def pid(self) -> int:
        """The pid of the program, which a shell has started."""
        shell = self.tmux("display-message", "-p", "-t", self._name, "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", self._name, *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", self._name, "-l", text)

    def shows(self, *texts: str) -> str:
        end = time.monotonic() + LIMIT
        while not all(text in (screen := self.screen) for text in texts):
            assert time.monotonic() < end, f"never came: {texts}\n{screen}"
            time.sleep(0.05)
        return screen

    def gone(self, text: str) -> None:
        end = time.monotonic() + LIMIT
        while text in (screen := self.screen):
            assert time.monotonic() < end, f"never went: {text}\n{screen}"
            time.sleep(0.05)

    def press_until(self, key: str, text: str, *, gone: bool = False) -> None:
        """Dialogs ignore input at first, and a page may be scrolled up: then the key is pressed again. It gets its time
        first, because after an effect a second press would mean something else.
        """
        end = time.monotonic() + LIMIT
        while (text in (screen := self.screen)) == gone:
            assert time.monotonic() < end, screen
            self.keys(key)
            again = time.monotonic() + AGAIN
            while (text in self.screen) == gone and time.monotonic() < again:
                time.sleep(0.05)

    def leave(self) -> None:
        """Press only twice: the app releases the keyboard at once, so a third Ctrl+C would go to the shell."""
        self.press_until("C-c", "Ctrl+C again")
        self.keys("C-c")

    def close(self) -> None:
        subprocess.run(
            ["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False, timeout=LIMIT
        )
