"""A team whose disk fails at one call: how its run ends, and what is left when the disk works again."""

import errno
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

from msgspec import Struct
from team_brain import LONG, Brain
from team_harness import Crew
from team_ledger import check

SOURCE = Path(__file__).with_name("disk_faults.c")
END_LIMIT = 30.0  # seconds in which a run must end, whatever fails
KINDS = ("write", "sync", "open", "rename", "truncate", "link", "unlink", "mkdir")
TROUBLE = ("disk", "Cannot", "cannot", "could not")  # the words for a failing disk


class Fault(Struct, frozen=True):
    """The n-th call of these kinds fails, and those after it: this many times, or for good (0)."""

    at: int
    error: int
    times: int = 1
    kinds: tuple[str, ...] = KINDS
    power: bool = False  # then the power is cut: what no successful sync covers is gone

    def __str__(self) -> str:
        kinds = "" if self.kinds == KINDS else f" of {'/'.join(self.kinds)}"
        often = {0: "for good", 1: "once"}.get(self.times, f"{self.times} times")
        return f"call {self.at}{kinds}: {errno.errorcode[self.error]} {often}{', power cut' if self.power else ''}"


class Verdict(Struct):
    """The outcome of one fault."""

    fault: Fault
    fired: str = ""  # the call that failed first
    seconds: float = 0.0
    status: int | None = None
    hung: bool = False
    bad: list[str] = []

    def __str__(self) -> str:
        end = "hung" if self.hung else f"status {self.status}"
        return f"{self.fault} ({self.fired or 'not reached'}): {end} after {self.seconds:.1f} s: {'; '.join(self.bad)}"


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path) -> Path:
    """Compile the shim."""
    cc, made = compiler(), directory / "disk_faults.so"
    assert cc is not None
    subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl", "-lpthread"], check=True, timeout=60)
    return made


class Patient:
    """One crew with its own disk."""

    def __init__(self, brain: Brain, shim: Path, mode: str, seed: int) -> None:
        self.crew = Crew(brain, mode, seed, LONG)
        self._shim, self._log, self._count = shim, self.crew.root / "disk", self.crew.root / "count"

    def _env(self, fault: Fault | None, kinds: tuple[str, ...]) -> dict[str, str]:
        self._count.write_bytes(bytes(8))
        env = {
            "LD_PRELOAD": str(self._shim), "DISK_ROOT": str(self.crew.state), "DISK_COUNT": str(self._count),
            "DISK_LOG": str(self._log), "DISK_KINDS": f",{','.join(kinds)},",
        }  # fmt: skip
        if fault is not None:
            env |= {"DISK_AT": str(fault.at), "DISK_ERROR": str(fault.error), "DISK_TIMES": str(fault.times)}
        return env

    def count(self, kinds: tuple[str, ...] = KINDS) -> int:
        """The number of calls in an undisturbed run."""
        process = self.crew.start(**self._env(None, kinds))
        assert process.wait(END_LIMIT) == 0, (self.crew.root / "err").read_text()
        return struct.unpack("l", self._count.read_bytes())[0]

    def suffer(self, fault: Fault) -> Verdict:
        """Run with the fault, then once without it; then check everything."""
        verdict, crew = Verdict(fault, bad=[]), self.crew
        began = time.monotonic()
        process = crew.start(**self._env(fault, fault.kinds))
        try:
            verdict.status = process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            verdict.hung = True
            verdict.bad.append(f"hung: {self._said()}")
            crew.shoot("all")
            process.wait(10)
        verdict.seconds = time.monotonic() - began
        verdict.fired = self._fired()
        self._judge_end(verdict)
        crew._until_alone()
        if fault.power:
            self._cut_power()
        self._judge_rest(verdict)
        return verdict

    def _judge_end(self, verdict: Verdict) -> None:
        said = self._said()
        if "Traceback" in said or "internal error" in said:
            verdict.bad.append(f"no words for a person: {said}")
        if verdict.status and not any(words in said for words in TROUBLE):
            verdict.bad.append(f"status {verdict.status} without a word: {said}")
        if verdict.status == 0:
            verdict.bad += [f"success, but {what}" for what in self._look()]

    def _judge_rest(self, verdict: Verdict) -> None:
        before = len(self.crew.figures.faults)
        self.crew.finish()
        verdict.bad += [f"afterwards {what}" for what in self.crew.figures.faults[before:]]

    def _look(self) -> list[str]:
        bodies = {name: body for (team, name), body in self.crew.brain.last.items() if team == self.crew.name}
        return check(self.crew.state, bodies).faults

    def _said(self) -> str:
        return "".join((self.crew.root / name).read_text()[-1500:] for name in ("out", "err"))

    def _fired(self) -> str:
        lines = self._log.read_text().splitlines() if self._log.exists() else ()
        first = next((line for line in lines if line.startswith("failed ")), "")
        return first.removeprefix("failed ").replace(str(self.crew.state), "~")

    def _cut_power(self) -> None:
        """What a failed sync dropped then reads as zeros; what was not synced at all is gone."""
        self.crew._cut_power()
        doubts: dict[str, tuple[int, int]] = {}
        for line in self._log.read_text().splitlines() if self._log.exists() else ():
            word, _, rest = line.partition(" ")
            if word == "sure":
                doubts.pop(rest, None)
            elif word == "doubt":
                start, end, path = rest.split(" ", 2)
                doubts[path] = (int(start), int(end))
        for path, (start, end) in doubts.items():
            if Path(path).exists():
                with Path(path).open("r+b") as file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(start)
                    file.write(bytes(max(0, min(end, size) - start)))

    def close(self) -> None:
        self.crew.close()
