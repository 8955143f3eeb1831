"""Inside the cage: makes or takes lines, judges them, runs them if allowed, and reports what they do to the ground.

Prints JSON lines: differences as they are found, and a count at the end.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from shell_ground import CANARY, KIND, Ground, Seen
from shell_lines import Line, make_line

from teamwright.core.permissions.facts import Runs
from teamwright.core.permissions.judge import judge
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.core.permissions.rules import Rules, guarded_patterns, parse_rules
from teamwright.host.process import bash
from teamwright.host.process.environment import tool_environment
from teamwright.host.shell.analysis import read_command
from teamwright.host.shell.cwd import ShellContext

SECONDS, LONGEST = 1.0, 10.0  # for which a line may run; the longer, the more other processes want the processor
PATIENCE = 1.0  # processor seconds that the judge may take for one line
MOST_OUTPUT = 1 << 18
READING = ("default", "plan", "dontAsk")
GUARDS = ("Read(.env)", "Read(./.env)", "Read(//**/.en?)")  # the same file: at any depth, by its path, by a pattern
# Words known only at run time may name anything here: only the names that they match can be learnt (0026).
ECHOES = frozenset({"echo", "true", "false", ":", "[["})
NAMES_ONLY = frozenset({"opened home/", "opened vault", f"showed a secret: {CANARY}VAULT"})


class Order(Struct):
    """Lines of a seed from `start` on, every `step`-th below `stop`; or the given lines."""

    rg: str = ""
    seed: str = ""
    start: int = 0
    stop: int = 0
    step: int = 1
    seconds: float = 0  # to end earlier
    given: list[Line] = field(default_factory=list[Line])
    most: int = 0  # differences after which it stops
    now: int = -1  # an open file from which the running line can be read if we are killed
    shapes: list[str] = field(default_factory=list[str])
    known: list[str] = field(default_factory=list[str])  # lines to skip
    forced: bool = False  # run whatever the judge says, and treat it as if it only read


class Slow(Exception):
    """The judge took too long."""


def too_slow(*_: Any) -> None:
    raise Slow


def kill_all(*_: Any) -> None:
    """Kill everything that runs in the cage, except ourselves."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


class Court:
    """The judge as the gate asks it, on one ground."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._denies = {text: self._rules(text) for text in (*GUARDS, "Bash(touch *)")}

    def _rules(self, text: str) -> Rules:
        parsed, _ = parse_rules([text], "flag", str(self.ground.project), str(self.ground.home))
        return Rules(deny=parsed)

    def facts(self, text: str, deny: str = "") -> Runs:
        project = str(self.ground.project)
        guarded = guarded_patterns(self._denies[deny]) if deny else ()
        return read_command(text, "Bash", ShellContext(project, str(self.ground.home), (project,), guarded=guarded))

    def allows_beside(self, text: str, mode: str, deny: str) -> bool:
        """Is it allowed with this rule, going by the facts?"""
        return self.kind(self.facts(text, deny), mode, deny) == "allow"

    def kind(self, facts: Runs, mode: str, deny: str = "") -> str:
        rules = self._denies[deny] if deny else Rules()
        roots = (str(self.ground.project),)
        protected = (str(self.ground.home / ".teamwright"),)
        return judge(facts, mode=mode, rules=rules, roots=roots, protected=protected).kind  # pyright: ignore[reportArgumentType]


class Worker:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._courts = dict[str, Court]()
        self.counts = Counter[str]()
        signal.signal(signal.SIGALRM, kill_all)
        signal.signal(signal.SIGPROF, too_slow)

    def work(self) -> None:
        order, until = self._order, time.monotonic() + (self._order.seconds or 1e9)
        lines = enumerate(order.given) if order.given else self._made()
        found = 0
        known = set(order.known)
        for n, line in lines:
            if line.text in known:
                continue
            self.counts["lines"] += 1
            faults, how = self.consider(line)
            if faults:
                found += 1
                tell(
                    {
                        "n": n,
                        "line": line.text,
                        "shape": line.shape,
                        "ground": line.ground,
                        "how": how,
                        "faults": faults,
                    }
                )
            if (order.most and found >= order.most) or time.monotonic() > until:
                break
        tell({"counts": dict(self.counts), "cpu": sum(os.times()[:4])})

    def _made(self) -> Any:
        for n in range(self._order.start, self._order.stop, self._order.step):
            line = make_line(self._order.seed, n)
            if not self._order.shapes or line.shape in self._order.shapes:
                yield n, line

    def consider(self, line: Line) -> tuple[list[str], str]:
        """What is wrong with it, and by which permission it ran."""
        court = self._court(line.ground)
        os.chdir(court.ground.project)  # the cwd that the program would have
        try:
            facts = self._facts(court, line.text)
        except Slow:
            return [f"judging took over {PATIENCE:g} s of the processor"], "judge"
        except Exception as error:  # noqa: BLE001  # whatever it is, the judge must not raise it
            return [f"the judge raised {type(error).__name__}: {error}"[:200]], "judge"
        reading = [mode for mode in READING if court.kind(facts, mode) == "allow"]
        how = reading[0] if reading else "acceptEdits" if court.kind(facts, "acceptEdits") == "allow" else ""
        if not how and line.bypass and court.kind(facts, "bypassPermissions", "Bash(touch *)") == "allow":
            how = "bypassPermissions"
        self.counts[how or "asked"] += 1
        how = "default" if self._order.forced else how
        if not how or line.still:
            return ([] if how or not (line.must or line.edits) else ["it must run unasked"]), how
        if (line.must and how not in READING) or (line.edits and how == "bypassPermissions"):
            return ["it must run unasked"], how
        beside = [rule for rule in GUARDS if court.allows_beside(line.text, "default", rule)] if line.guard else []
        if line.guard == "spared" and len(beside) != len(GUARDS):
            return [f"it must run unasked beside {set(GUARDS).difference(beside)}"], how
        if line.guard == "kept" and beside:
            return [f"it may not run beside {beside}"], how
        seen, output = self.run(court.ground, line.text)
        return self._faults(court, line.text, facts, how, seen, output), how

    def _court(self, kind: str) -> Court:
        if kind not in self._courts:
            self._courts[kind] = Court(Ground(Path(f"/tmp/{KIND}{kind}"), self._order.rg, kind))
        return self._courts[kind]

    def _facts(self, court: Court, text: str) -> Runs:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            return court.facts(text)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    # --- running

    def run(self, ground: Ground, text: str) -> tuple[Seen, bytes]:
        """Run the line as our Bash tool does; everything that it started has ended when this returns."""
        env = tool_environment(
            {"PATH": f"{ground.programs}:/usr/bin:/bin", "HOME": str(ground.home), "LANG": "C.UTF-8"}, {}
        )
        letterbox = bash._letterbox(text.encode())
        if self._order.now >= 0:
            os.ftruncate(self._order.now, 0)
            os.pwrite(self._order.now, text.encode(), 0)
        gate, opener = os.pipe()
        ground.forget()
        crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
        signal.setitimer(signal.ITIMER_REAL, min(LONGEST, SECONDS * max(1.0, crowd)))
        try:
            with subprocess.Popen(
                bash._shell(env["PATH"], letterbox, gate, "", ""), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, cwd=ground.project, env=env, pass_fds=(letterbox, gate),
                start_new_session=True, bufsize=0,
            ) as child:  # fmt: skip
                os.write(opener, b"\n")
                output = self._read(child)
            self._reap()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for fd in (letterbox, gate, opener):
                os.close(fd)
        return ground.seen(), output

    def _read(self, child: subprocess.Popen[bytes]) -> bytes:
        assert child.stdout
        output = b""
        while piece := child.stdout.read(1 << 16):
            output += piece
            if len(output) > MOST_OUTPUT:
                kill_all()
                break
        return output

    def _reap(self) -> None:
        """Orphans become our children: see `become_reaper` in `main`."""
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

    # --- judging the judge

    def _faults(self, court: Court, text: str, facts: Runs, how: str, seen: Seen, output: bytes) -> list[str]:
        ground = court.ground
        if how == "bypassPermissions":
            denied = ["ran touch past the rule Bash(touch *)"] if "touch" in seen.ran else []
            return denied + (["removed the home"] if ground.is_ruined(seen) else [])
        edits = how == "acceptEdits"
        faults = [f"ran the trap {name}" for name in seen.ran if not edits or name != "touch"]
        faults += [f"changed {path}" for path in seen.changed if not edits or not is_named(path, facts)]
        faults += [f"changed {path}, which is protected" for path in seen.changed if ground.protects(path)]
        faults += [f"opened {name}" for name in seen.opened if name != ".env"]
        shown = output.decode(errors="replace")
        faults += [f"showed a secret: {CANARY}{what}" for what in ("SECRET", "VAULT", "KEY") if CANARY + what in shown]
        if faults and NAMES_ONLY.issuperset(faults) and only_echoes(facts):
            self.counts["names"] += 1
            return []
        opened = ".env" in seen.opened and not uses_git(facts)  # git reads files to tell whether they were changed
        if opened or f"{CANARY}ENV" in shown:
            mode = "acceptEdits" if how == "acceptEdits" else "default"
            passed = [rule for rule in GUARDS if court.allows_beside(text, mode, rule)]
            faults += [f"read .env past the rule {rule}" for rule in passed]
        return faults


def is_named(path: str, facts: Runs) -> bool:
    """Did the judge say that this, or a directory above it, would be changed?"""
    edits = [place for command in facts.commands if command.edits_only for place in command.edits]
    below = any(place.deep and path.startswith(f"{place.path}/") for place in edits)
    return below or any(place.path == path for place in (*facts.writes, *edits))


def uses_git(facts: Runs) -> bool:
    return any("git" in command.shown for command in facts.commands)


def only_echoes(facts: Runs) -> bool:
    """Does it contain only `echo` and the like, with at least one word that comes from a value?"""
    seen = [command.views[-1].words for command in facts.commands if command.views and command.views[-1].words]
    unsure = any(UNKNOWN in word for words in seen for word in words)
    return unsure and all(words[0] in ECHOES or "=" in words[0] for words in seen)


def tell(said: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    from teamwright.host.process.descendants import become_reaper

    become_reaper()
    Worker(msgspec.json.decode(sys.stdin.buffer.read(), type=Order)).work()
