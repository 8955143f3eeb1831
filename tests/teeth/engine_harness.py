"""A team over an engine: leads on two machines, workers and a server, all of them killed while they work."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from engine_ledger import look_around
from team_brain import LEAD, Brain
from team_harness import ARGV, MODEL
from team_ledger import Figures

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine_kit import Server

LIMIT = 180.0  # seconds until a team must be at rest
LEASE = float(os.environ.get("TEAMWRIGHT_LEASE_SECONDS", "3"))  # the shortest possible; a busy machine needs more
FADES = LEASE + 9.0  # seconds after which everybody knows that a worker was killed
LEADS, WORKERS = 2, 3
ANOTHER = 0.4  # how likely a killed lead begins another round
MOST_LOSSES = 2  # of one agent at one place; a third would end it, by design
AWAY = ("cannot be reached", "does not answer", "took nothing")  # in the error of whoever finds no engine
EXISTS = "already exists: resume it with --resume"  # in the error of whoever would begin an existing session
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@localhost")


class Machine:
    """A home, and a process that runs there."""

    def __init__(self, root: Path, name: str, env: dict[str, str]) -> None:
        self.name, self.home, self.project = name, root / name, root / name / "project"
        self.state = self.home / ".teamwright"
        self.home.mkdir(mode=0o700)
        self.env = env | {"HOME": str(self.home), "TEAMWRIGHT_HOME": str(self.state)}
        self.process: subprocess.Popen[bytes] | None = None
        self.said = self.home / "said"

    def start(self, *words: str) -> None:
        with self.said.open("ab") as said:
            said.write(f"--- {time.strftime('%X')}\n".encode())
            self.process = subprocess.Popen(
                [*ARGV, *words], cwd=self.project if self.project.exists() else self.home, env=self.env,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if "-p" in words else said, stderr=said,
                start_new_session=True,
            )  # fmt: skip

    @property
    def status(self) -> int | None:
        """None while it runs; 0 if nothing was started."""
        return self.process.poll() if self.process is not None else 0

    def tell(self, number: int) -> bool:
        if self.process is None or self.process.poll() is not None:
            return False
        self.process.send_signal(number)
        return True

    def kill(self) -> bool:
        """True if there was something to kill."""
        found = self.tell(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(20)
        return found and self.status == -signal.SIGKILL

    def words(self) -> str:
        return self.said.read_text(errors="replace").rsplit("--- ", 1)[-1][-1500:] if self.said.exists() else ""


class EngineCrew:
    def __init__(self, brain: Brain, seed: int) -> None:
        self.brain, self.dice, self.seed = brain, random.Random(seed), seed
        self.name = f"engine-{seed}-{os.getpid()}"
        self.root = Path(tempfile.mkdtemp(prefix="tw"))
        (self.root / "nats").mkdir()
        self.server, self.serves, self.down = Server(self.root / "nats"), True, time.monotonic()
        self.address = self.server.new_space()
        self.marks = self.root / "marks"
        self.session = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        self.figures, self.round, self.shots = Figures(), 0, list[float]()
        self.exists = False  # the session: a lead that was killed before its first request may have made it
        self.by_victim = {"worker": 0, "lead": 0, "server": 0}
        self.stops = 0
        env = {
            "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TEAMWRIGHT_LEASE_SECONDS": f"{LEASE:g}",
            "ANTHROPIC_BASE_URL": f"{brain.url}/{self.name}", "ANTHROPIC_API_KEY": "none",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }  # fmt: skip
        self.leads = [Machine(self.root, f"lead{n}", env) for n in range(LEADS)]
        self.workers = [Machine(self.root, f"w{n}", env) for n in range(WORKERS)]
        self.lead = self.leads[0]
        self._make_projects()

    def _make_projects(self) -> None:
        first = self.leads[0].project
        first.mkdir()
        (first / "file").write_text("hello\n")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
            subprocess.run([*GIT, *words], cwd=first, check=True, timeout=60)
        for other in self.leads[1:]:
            subprocess.run([*GIT, "clone", "-q", first, other.project], check=True, timeout=60)

    # --- starting

    def begin(self) -> None:
        self.start_lead(self.lead)
        for worker in self.workers:
            self.start_worker(worker)

    def start_worker(self, worker: Machine) -> None:
        worker.start("worker", "--join", str(self.address), "--name", worker.name, "--allow-bypass", "--slots", "4")

    def start_lead(self, machine: Machine) -> None:
        """Begin another round if the last one is done, or at random; otherwise continue the last one."""
        done = self.lead.status == 0 or self.dice.random() < ANOTHER
        self.lead, self.round = machine, self.round + done
        prompt = f"CREW:{LEAD} ROUND:{self.round} MARKS:{self.marks}"
        begun = self.exists or (self._rows("SELECT count(*) FROM sessions") != [(0,)] and self.asked() > 0)
        which = ("--resume", self.session) if begun else ("--session-id", self.session)
        self.figures.resumes += begun
        machine.start(
            "-p", prompt, "--model", MODEL, "--dangerously-skip-permissions", "--teammate-mode", "remote", "--engine",
            str(self.address), *which,
        )  # fmt: skip

    def asked(self) -> int:
        """The number of requests that the provider has had."""
        return self.brain.counts.get(self.name, 0)

    def _rows(self, sql: str) -> list[tuple[object, ...]]:
        """Rows of the machine that has applied most, dead or alive."""
        best, found = -1, list[tuple[object, ...]]()
        for machine in (*self.leads, *self.workers):
            for path in machine.state.glob("engines/*/state.db"):
                try:
                    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
                    try:
                        seq = db.execute("SELECT seq FROM space").fetchone()[0]
                        if seq > best:
                            best, found = seq, db.execute(sql).fetchall()
                    finally:
                        db.close()
                except sqlite3.Error:
                    continue  # it is being made
        return found or [(0,)]

    # --- killing

    def torment(self, kills: int) -> Figures:
        self.begin()
        victims = {"worker": 6, "lead": 4, "server": 5, "stopped worker": 1, "stopped lead": 0.5}
        while self.figures.kills < kills and not self.figures.faults:
            self._until_asked(self.dice.choice([0, 1, self.dice.randint(0, 8)]))
            self._pause(self.dice.random() * self.dice.choice([0.01, 0.1, 0.5]))
            self._mend()
            (victim,) = self.dice.choices(list(victims), list(victims.values()))
            getattr(self, "_hit_" + victim.replace(" ", "_"))()
        return self.finish()

    def _count(self, victim: str, *, killed: bool) -> None:
        self.figures.kills += killed
        self.by_victim[victim] += killed

    def _hit_worker(self) -> None:
        worker = self._choose_worker()
        if worker is not None:
            self._count("worker", killed=worker.kill())
            if self.dice.random() < 0.5:
                self._pause(self.dice.random() * LEASE * 1.5)

    def _choose_worker(self) -> Machine | None:
        """None while another loss could be an agent's third at one place."""
        now = time.monotonic()
        self.shots = [shot for shot in self.shots if now - shot < FADES]
        (losses,) = self._rows("SELECT max(losses) FROM remotes WHERE state <> 'ended'")[0]
        if int(losses or 0) + len(self.shots) >= MOST_LOSSES:  # pyright: ignore[reportArgumentType]
            return None
        self.shots.append(now)
        return self.dice.choice(self.workers)

    def _hit_lead(self) -> None:
        self._count("lead", killed=self.lead.kill())
        self.start_lead(self.dice.choice([self.lead, self.lead, *self.leads]))

    def _hit_server(self) -> None:
        self.server.kill()
        self._count("server", killed=True)
        self.serves = False
        self._pause(self.dice.random() * self.dice.choice([0.1, 1.0, LEASE * 2]))
        if self.dice.random() < 0.3:  # another one is leaving meanwhile
            self._hit_worker()
        self.server.start()
        self.serves, self.down = True, time.monotonic()

    def _hit_stopped_worker(self) -> None:
        """Suspend a worker: it loses all its agents, and finds out when it continues."""
        worker = self._choose_worker()
        if worker is not None and worker.tell(signal.SIGSTOP):
            self._pause(LEASE * (0.5 + self.dice.random()))
            worker.tell(signal.SIGCONT)
            self.stops += 1

    def _hit_stopped_lead(self) -> None:
        """Suspend the lead: another machine takes over. The first one comes back, finds out, and is then killed."""
        late = self.lead
        if late.tell(signal.SIGSTOP):
            self.stops += 1
            other = self.dice.choice([machine for machine in self.leads if machine is not late])
            before = self._asked_by_lead()
            self.start_lead(other)
            self._wait(lambda: self._asked_by_lead() != before or other.status is not None, LIMIT)
            late.tell(signal.SIGCONT)
            self._pause(self.dice.random())
            self._count("lead", killed=late.kill())

    def _asked_by_lead(self) -> bytes:
        return self.brain.last.get((self.name, LEAD), b"")

    def _mend(self) -> None:
        """Restart whatever has ended by itself; it must have had a reason."""
        for worker in self.workers:
            if worker.status is not None:
                self._judge(worker, (0, -signal.SIGKILL))
                self.start_worker(worker)
        if self.lead.status is not None:
            self._judge(self.lead, (0, -signal.SIGKILL))
            self.start_lead(self.dice.choice([self.lead, self.lead, *self.leads]))

    def _judge(self, machine: Machine, fine: tuple[int, ...]) -> None:
        words, recent = machine.words(), time.monotonic() - self.down < LIMIT
        if machine.status in fine or (machine.status == 1 and recent and any(word in words for word in AWAY)):
            return
        if machine.status == 2 and EXISTS in words and not self.exists:
            self.exists = True  # from now on it must be resumable
            return
        self._failed(f"{machine.name} ended with {machine.status}: {words}")

    # --- the end

    def finish(self) -> Figures:
        """Run one more round undisturbed, then check everything."""
        self._mend()
        if self.lead.status is None and not self.figures.faults:
            self._wait(lambda: self.lead.status is not None, LIMIT)
            self._mend()
        if not self.figures.faults:
            self._wait(lambda: self.lead.status is not None, LIMIT)
            if self.lead.status is None:
                self._failed(f"it did not come to rest: {self.lead.words()}")
            else:
                self._judge(self.lead, (0,))
        self._close_workers()
        self.lead.kill()
        bodies = {name: body for (team, name), body in self.brain.last.items() if team == self.name}
        homes = [machine.state for machine in (*self.leads, *self.workers) if (machine.state / "engines").exists()]
        self.figures += look_around(self.address, homes, bodies, self.marks, self.lead.project)
        self.figures.faults += self.brain.faults.get(self.name, [])
        return self.figures

    def _close_workers(self) -> None:
        for worker in self.workers:
            worker.tell(signal.SIGTERM)
        for worker in self.workers:
            if worker.process is not None:
                try:
                    status = worker.process.wait(60)
                except subprocess.TimeoutExpired:
                    self._failed(f"{worker.name} does not leave: {worker.words()}")
                    worker.kill()
                else:
                    if status not in (143, -signal.SIGTERM):  # the latter before it had joined
                        self._judge(worker, ())

    def _failed(self, what: str) -> None:
        self.figures.failed += 1
        self.figures.faults.append(f"round {self.round}: {what}")

    # --- waiting

    def _until_asked(self, many: int) -> None:
        before = self.asked()
        self._wait(lambda: self.asked() >= before + many, LEASE * 2)

    def _pause(self, seconds: float) -> None:
        self._wait(lambda: False, seconds)

    def _wait(self, seen: Callable[[], bool], limit: float) -> None:
        end = time.monotonic() + limit
        while not seen() and time.monotonic() < end:
            time.sleep(0.005)

    def close(self) -> None:
        for machine in (*self.leads, *self.workers):
            machine.kill()
        self.server.kill()
        self.brain.forget(self.name)
        if self.figures.faults and os.environ.get("TEAMWRIGHT_TEST_KEEP"):
            print(f"kept: {self.root}", file=sys.stderr)
        else:
            shutil.rmtree(self.root, ignore_errors=True)
