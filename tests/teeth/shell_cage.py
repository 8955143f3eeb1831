"""The cage: workers in bubblewrap, each in its own file systems with no way out, and their reports."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from shell_ground import CANARY

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# In the environment rather than in its arguments, which anybody can list.
ENV = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONPATH": "/cage/source:/cage/teeth",
    "PYTHONDONTWRITEBYTECODE": "1",
    "ANTHROPIC_API_KEY": f"{CANARY}KEY",
}
PYTHON, TEETH, SOURCE = "/cage/python", "/cage/teeth", "/cage/source"  # never below /tmp, which lines may empty


class Report(Struct):
    differences: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    counts: Counter[str] = field(default_factory=Counter[str])
    cpu: float = 0  # processor seconds of all workers and everything that they ran


@cache
def why_not() -> str:
    """Why there is no cage here; empty if there is one."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if not shutil.which("bwrap"):
        return "bubblewrap (`bwrap`) is not installed"
    tried = subprocess.run([*_bars(HERE), "/usr/bin/true"], capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {tried.stderr.strip()[:200]}" if tried.returncode else ""


ALONE = [
    "--unshare-all", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session",
    "--chdir", "/",
]  # fmt: skip
MADE = [
    "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs",
    "/tmp",
]  # fmt: skip


def _bars(source: Path) -> list[str]:
    """Programs and our own code to read, an empty /tmp to write, no network, only its own processes."""
    argv = ["bwrap", *ALONE, *MADE]
    for place in map(Path, ("/bin", "/sbin", "/lib", "/lib64", "/lib32")):
        if place.is_symlink():
            argv += ["--symlink", str(place.readlink()), str(place)]
        elif place.exists():
            argv += ["--ro-bind", str(place), str(place)]
    for place in sorted(map(str, {Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]})):
        argv += ["--ro-bind", place, place]
    for place, inside in ((Path(sys.prefix), PYTHON), (HERE, TEETH), (source, SOURCE)):
        argv += ["--ro-bind", str(place), inside]
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/"]  # even `rm -rf /` does no damage here


def _rg() -> str:
    beside = str(Path(sys.executable).parent)
    if shutil.which("rg", path=beside):
        return f"{PYTHON}/bin/rg"
    found = shutil.which("rg")
    return str(Path(found).resolve()) if found else ""


def work(orders: Sequence[dict[str, Any]], source: Path | None = None, heard: Any = None) -> Report:
    """Run each order in its own worker, all at once."""
    report = Report()
    with ThreadPoolExecutor(len(orders)) as pool:
        for found in pool.map(lambda order: _one(order, source or ROOT / "src", heard), orders):
            report.differences += found.differences
            report.counts += found.counts
            report.cpu += found.cpu
    return report


def _one(order: dict[str, Any], source: Path, heard: Any) -> Report:
    argv = [*_bars(source), f"{PYTHON}/bin/python", "-B", f"{TEETH}/shell_worker.py"]
    report, ended, now = Report(), False, os.memfd_create("now")
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(now,), env=ENV) as child:
        assert child.stdin and child.stdout and child.stderr
        child.stdin.write(msgspec.json.encode(order | {"rg": _rg(), "now": now}))
        child.stdin.close()
        for text in child.stdout:
            told = msgspec.json.decode(text)
            if "counts" in told:
                report.counts += Counter(told["counts"])
                report.cpu = told["cpu"]
                ended = True
            else:
                report.differences.append(told)
                if heard:
                    heard(told)
        trouble = child.stderr.read().decode(errors="replace")
    last = os.pread(now, 1 << 20, 0).decode(errors="replace")
    os.close(now)
    if not ended:
        raise RuntimeError(f"a worker ended before its work did, at {last!r}:\n{trouble[-3000:]}")
    return report
