"""Teams of real processes that are killed again and again, and resumed until they come to rest."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from team_brain import LEAD, Brain
from team_ledger import Figures, check

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from program import Family

LIMIT = 60.0  # seconds until a team must be at rest
PATIENCE = 8.0  # seconds after which a run that its crash point did not kill is killed from outside
MODEL = "anthropic/claude-sonnet-4-6"
RECORDER = Path(__file__).parent / "recorder"
ARGV = [sys.executable, "-m", "teamwright"]
# Where a team's writes can be cut in two; `state.upgrade` and the worktrees have tests of their own.
POINTS = (
    "transcript.append", "transcript.half", "transcript.sync", "state.commit", "state.committed", "mail.post",
    "letters.taken", "team.member", "team.state", "team.take_over",
)  # fmt: skip

# In one run, about.
MOST_PASSES = {"team.member": 3, "team.take_over": 1, "team.state": 12, "mail.post": 25, "letters.taken": 20}


class Kill(Struct, frozen=True):
    """How one run ends: at a pass of a crash point, or by our SIGKILL after this many requests and seconds."""

    point: str = ""
    whom: str = "all"  # all, lead, or mate: one with its own process
    requests: int = 0
    wait: float = 0.0
    power: bool = False  # the machine fails, too: only what was synced of the transcripts is left
    rest: bool = False  # the others are left alone afterwards, and must come to rest by themselves


class Crew:
    """One team in its own home, whose provider is at the brain's address followed by the team's name."""

    def __init__(self, brain: Brain, mode: str, seed: int, plan: str = "") -> None:
        """`plan`: words for the brain, in each prompt."""
        self.plan = plan
        self.brain, self.mode, self.dice = brain, mode, random.Random(seed)
        self.name = f"{mode}-{seed}-{os.getpid()}"
        self.root = Path(tempfile.mkdtemp(prefix="tw"))  # short, because socket paths must be
        self.home, self.project = self.root / "home", self.root / "project"
        self.state = self.home / ".teamwright"
        for directory in (self.home, self.project, self.root / "tmux", self.root / "run"):
            directory.mkdir(mode=0o700)
        self.session = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        self.round = 0
        self.figures = Figures()
        self.family = Family()
        self.killed: set[int] = set()  # each process counts separately
        self.env = {
            "HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.state), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
            "TMUX_TMPDIR": str(self.root / "tmux"), "XDG_RUNTIME_DIR": str(self.root / "run"), "TERM": "xterm",
            "ANTHROPIC_BASE_URL": f"{brain.url}/{self.name}", "ANTHROPIC_API_KEY": "none",
            "TEAMWRIGHT_SYNC_LOG": str(self.root / "syncs"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(RECORDER), os.environ.get("PYTHONPATH")))),
        }  # fmt: skip

    # --- processes

    def processes(self) -> dict[int, str]:
        """All live processes of this team, by pid: lead, mate or other."""
        found: dict[int, str] = {}
        for pid, words in self.family.living().items():
            ours = b"teamwright" in words
            kind = "mate" if ours and b"teammate" in words else "lead" if ours and b"-p" in words else "other"
            found[pid] = kind
        return found

    def shoot(self, whom: str) -> None:
        """SIGKILL from here."""
        alive = self.processes()
        mates = [pid for pid, kind in alive.items() if kind == "mate"]
        if whom == "mate" and mates:
            chosen = [self.dice.choice(mates)]
        else:
            chosen = [pid for pid, kind in alive.items() if kind == "lead" or (whom != "lead" and kind == "mate")]
        for pid in chosen:
            try:
                os.kill(pid, signal.SIGKILL)
                self.killed.add(pid)
            except ProcessLookupError:
                pass

    @property
    def transcript(self) -> Path | None:
        return next((self.state / "projects").glob(f"*/{self.session}.jsonl"), None)

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        self.round += 1
        begun = self.transcript is not None and self.transcript.read_bytes().count(b"\n") > 0
        if not begun and self.transcript is not None:
            self.transcript.unlink()  # killed before its first line: the program says that there is nothing to resume
        which = ["--resume", self.session] if begun else ["--session-id", self.session]
        self.figures.resumes += begun
        modes = ["--dangerously-skip-permissions", "--teammate-mode", self.mode]
        argv = [*ARGV, "-p", self.prompt(), "--model", MODEL, *modes, *which]
        with (self.root / "out").open("ab") as out, (self.root / "err").open("wb") as err, self.family.grows():
            return subprocess.Popen(
                argv, cwd=self.project, env=self.env | env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip

    def prompt(self) -> str:
        return f"CREW:{LEAD} ROUND:{self.round} {self.plan}".rstrip()

    # --- runs

    def run_killed(self, kill: Kill) -> None:
        env = {}
        if kill.point:
            env = {("TEAMWRIGHT_TEAMMATE_CRASHPOINT" if kill.whom == "mate" else "TEAMWRIGHT_CRASHPOINT"): kill.point}
        before = self.brain.counts.get(self.name, 0)
        process = self.start(**env)
        if not kill.point:
            asked = lambda: self.brain.counts.get(self.name, 0) - before >= kill.requests  # noqa: E731
            self._wait(process, asked, LIMIT)
            self._wait(process, lambda: False, kill.wait)
            self.shoot(kill.whom)
            if kill.whom == "mate":  # the others continue without it for a while
                self._wait(process, lambda: False, LIMIT if kill.rest else kill.wait * 4)
            if kill.rest and process.poll() is None:
                self._failed("it did not come to rest after the end of a teammate")
        else:
            self._wait(process, lambda: False, PATIENCE)
        self._end(process, kill)

    def _end(self, process: subprocess.Popen[bytes], kill: Kill) -> None:
        """End what is left of it, too, because panes and children may outlive a lead that was killed alone."""
        if process.poll() is None:
            self.shoot("lead" if kill.whom == "lead" else "all")
        code = process.wait(10)
        if code == -signal.SIGKILL:  # even if it died at its crash point
            self.killed.add(process.pid)
        if code not in (0, -signal.SIGKILL):
            self._failed(f"status {code}")
        if kill.whom != "lead" and code:
            self.shoot("all")
        self.figures.kills = len(self.killed)
        if kill.power:
            self._cut_power()

    def _cut_power(self) -> None:
        """Cut the power once nothing of this team runs. What the store has committed stays: SQLite syncs by itself."""
        self._until_alone()
        log = self.root / "syncs"
        safe: dict[str, int] = {}
        for line in log.read_text().splitlines() if log.exists() else ():
            size, _, name = line.partition(" ")
            safe[name] = int(size)
        for file in (self.state / "projects").rglob("*.jsonl"):
            if str(file) in safe:
                os.truncate(file, min(safe[str(file)], file.stat().st_size))
            else:
                file.unlink()

    def _until_alone(self) -> None:
        end = time.monotonic() + LIMIT
        while set(self.processes().values()) & {"lead", "mate"} and time.monotonic() < end:
            self.shoot("all")
            time.sleep(0.002)

    def run_to_rest(self) -> None:
        process = self.start()
        self._wait(process, lambda: False, LIMIT)
        if process.poll() is None:
            self._failed("it did not come to rest")
            self.shoot("all")
        elif process.returncode:
            self._failed(f"status {process.returncode}")
        process.wait(10)

    def finish(self) -> Figures:
        """Run once more undisturbed, then check everything."""
        self.run_to_rest()
        bodies = {name: body for (team, name), body in self.brain.last.items() if team == self.name}
        self.figures += check(self.state, bodies)
        self.figures.faults += self.brain.faults.get(self.name, [])
        return self.figures

    def _failed(self, what: str) -> None:
        self.figures.failed += 1
        self.figures.faults.append(f"run {self.round}: {what}: {(self.root / 'err').read_text()[-2000:]}")

    def _wait(self, process: subprocess.Popen[bytes], seen: Callable[[], bool], limit: float) -> None:
        end = time.monotonic() + limit
        while process.poll() is None and not seen() and time.monotonic() < end:
            time.sleep(0.002)

    def close(self) -> None:
        self.shoot("all")
        if self.mode == "tmux":
            subprocess.run(["tmux", "kill-server"], env=self.env, capture_output=True, check=False)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.brain.forget(self.name)
        shutil.rmtree(self.root, ignore_errors=True)


def random_kill(dice: random.Random, mode: str) -> Kill:
    """A kill from outside at any time, or at any pass of any crash point."""
    whom = "all" if mode == "in-process" else dice.choice(["all", "all", "lead", "mate"])
    power = whom == "all" and dice.random() < 0.3
    if dice.random() < 0.5:
        point = dice.choice(POINTS)
        return Kill(f"{point}:{dice.randint(1, MOST_PASSES.get(point, 120))}", whom, power=power)
    requests, wait = dice.choice([0, dice.randint(0, 40)]), dice.random() * dice.choice([0.005, 0.05, 0.4])
    return Kill("", whom, requests, wait, power=power, rest=whom == "mate" and dice.random() < 0.3)


def torment(crew: Crew, kills: list[Kill]) -> Figures:
    for kill in kills:
        crew.run_killed(kill)
    return crew.finish()
