"""Tests a tier with a real box: what must fail is tried and must fail, and a write inside must work."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.policy import Name, Policy, Repository, Terrain, Tier, policy_for
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.core.text import shown
from teamwright.host.sandbox.box import Box, Fence
from teamwright.host.sandbox.launch import Launch

SECONDS = 10.0
_CONFIG, _SECRET = "[core]\n", "a-secret-of-the-probe"
# Reports each attempt as it happens: one word for each door that was open.
_TRIES = """
import os, socket, sys
base, port, root = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "0"
said = []
def attempt(word, action):
    try:
        action()
        said.append(word)
    except OSError:
        pass
def write(path):
    with open(path, "a") as file: file.write("x")
def connect():
    with socket.socket() as one:
        one.settimeout(2)
        one.connect(("127.0.0.1", port))
def sysctl():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
attempt("inside", lambda: write(base + "/root/inside"))
attempt("outside", lambda: write(base + "/outside/planted"))
attempt("secret", lambda: open(base + "/home/secret/key").read())
attempt("network", connect)
attempt("config", lambda: write(base + "/root/.git/config"))
if root: attempt("sysctl", sysctl)
print("tried", *said)
"""


class Probed(Struct, frozen=True):
    """`words`, for a person: what was refused, or why the tier does not hold."""

    passed: bool
    words: str


def probe(tier: Tier, bwrap: str = "") -> Probed:
    """Blocks for some ten milliseconds."""
    with tempfile.TemporaryDirectory(prefix="teamwright-probe-") as made, _listener() as port:
        base = os.path.realpath(made)
        began = time.monotonic()
        try:
            policy = _policy(_furnish(base))
            box = Box(Fence(tier, f"{base}/quarantine", bwrap=bwrap), policy)
            said, complaint = _run(box, base, port)
        except (ToolError, OSError) as error:
            return Probed(passed=False, words=shown(str(error), 200))
        took = (time.monotonic() - began) * 1000
        undone = box.end()
        return _verdict(base, said, complaint, held=not undone.undone, took=took)


def _furnish(base: str) -> str:
    for folder in ("root/.git/hooks", "home/secret", "outside", "tmp"):
        os.makedirs(f"{base}/{folder}")
    for name, text in (("root/.git/config", _CONFIG), ("home/secret/key", _SECRET)):
        with open(f"{base}/{name}", "w") as file:
            file.write(text)
    return base


def _policy(base: str) -> Policy:
    git = f"{base}/root/.git"
    names = (Name(f"{git}/config", "there"), Name(f"{git}/hooks", "there"))
    terrain = Terrain(
        project=f"{base}/root",
        home=f"{base}/home",
        state=f"{base}/state",
        hidden=(f"{base}/home/secret",),
        shared=(os.path.realpath("/tmp"),),
        shown=(f"{base}/outside", *_needed()),
        repositories=(Repository(git, names),),
        tmp=f"{base}/tmp",
    )
    policy = policy_for(SandboxRules(), (f"{base}/root",), "default", terrain)
    gone = {path for path, _ in policy.access if not os.path.lexists(path)}
    return Policy(tuple(entry for entry in policy.access if entry[0] not in gone), kept=policy.kept, tmp=policy.tmp)


def _needed() -> tuple[str, ...]:
    """Our own interpreter may be below /tmp."""
    return tuple({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix)})


def find_python() -> str:
    """Our own interpreter, unless we have changed user since and may no longer start it."""
    others = (f"{folder}/python3" for folder in os.defpath.split(":"))
    return next((path for path in (sys.executable, *others) if os.access(path, os.X_OK)), sys.executable)


@contextmanager
def _listener() -> Generator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def _run(box: Box, base: str, port: int) -> tuple[list[str], str]:
    nowhere = subprocess.DEVNULL
    argv = (find_python(), "-I", "-S", "-c", _TRIES, base, str(port), str(os.geteuid()))
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    popen = box.start(Launch(argv, f"{base}/root", env, {}, nowhere, subprocess.PIPE, subprocess.PIPE))
    try:
        out, err = popen.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.communicate()
        return [], f"it did not end within {SECONDS:g} s"
    told = out.decode(errors="replace").split()
    return (told if told[:1] == ["tried"] else []), err.decode(errors="replace").strip()


def _verdict(base: str, said: list[str], complaint: str, *, held: bool, took: float) -> Probed:
    if not said:
        return Probed(passed=False, words=shown(complaint.splitlines()[-1] if complaint else "it said nothing", 200))
    with open(f"{base}/root/.git/config") as file:
        safe = file.read() == _CONFIG
    open_doors = set(said[1:]) - {"inside", *(("config",) if safe else ())}
    with suppress(OSError):
        if os.listdir(f"{base}/outside"):
            open_doors.add("outside")
    if "inside" not in said:
        return Probed(passed=False, words="a write inside failed")
    if open_doors:
        return Probed(passed=False, words=f"it does not hold: {', '.join(sorted(open_doors))} was open")
    config = "refused" if held else "undone"
    words = f"write outside refused, secret hidden, network refused, .git/config {config}, {took:.0f} ms"
    return Probed(passed=True, words=words)
