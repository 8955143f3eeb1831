"""Runs scripts in real boxes, as the user who runs the tests or as another one, and reports what they did.

Run as a program, it reads one order from stdin and prints the outcome: that is how another user runs it.
"""

import contextlib
import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import anyio
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.path_entry import PathEntry
from teamwright.core.sandbox.policy import Policy, policy_for
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.process.bash import run_script
from teamwright.host.process.capture import Capture
from teamwright.host.sandbox.box import Box, Fence
from teamwright.host.sandbox.ground.terrain import Ground, read_terrain
from teamwright.host.sandbox.tiers import find_tier

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")


class Order(Struct, frozen=True):
    """Scripts for one agent. Paths belong to the house."""

    tier: str
    base: str
    steps: tuple[str, ...]
    roots: tuple[str, ...] = ("p",)
    rules: dict[str, Any] = {}
    mode: str = "default"
    lives_on: bool = False
    env: dict[str, str] = {}
    busy: tuple[str, ...] = ()
    limit: float = 30.0


class Told(Struct, frozen=True):
    """`fault`: the box could not be made."""

    text: str = ""
    status: int | None = None
    undone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    appeared: tuple[str, ...] = ()
    fault: str = ""


def rules_of(said: dict[str, Any]) -> SandboxRules:
    entries = {name: tuple(PathEntry(p) for p in said[name]) for name in ("allow_write", "allow_read") if name in said}
    return SandboxRules(**{name: tuple(v) if isinstance(v, list) else v for name, v in said.items()} | entries)


def ground_of(order: Order) -> Ground:
    base = order.base
    return Ground(
        roots=tuple(os.path.join(base, root) for root in order.roots),
        project=f"{base}/p",
        home=f"{base}/h",
        state=f"{base}/h/.teamwright",
        tmp=f"{base}/t",
        cache=f"{base}/h/.teamwright/sandbox/p",
        path=os.environ["PATH"],
        busy=tuple(os.path.join(base, one) for one in order.busy),
    )


def policy_of(order: Order) -> Policy:
    ground, rules = ground_of(order), rules_of(order.rules)
    os.makedirs(ground.cache, exist_ok=True)
    return policy_for(
        rules, map(os.path.realpath, ground.roots), order.mode, read_terrain(ground, rules), lives_on=order.lives_on
    )


@functools.cache
def bwrap_program() -> str:
    with tempfile.TemporaryDirectory() as place:
        return find_tier(Path(place), {"TEAMWRIGHT_SANDBOX": "bwrap"}).bwrap


def box_of(order: Order) -> Box:
    tier: Any = order.tier
    state = f"{order.base}/h/.teamwright"
    fence = Fence(tier, f"{state}/quarantine", f"{state}/made", bwrap_program() if tier == "bwrap" else "")
    return Box(fence, policy_of(order))


async def perform_step(order: Order, script: str) -> Told:
    capture = Capture()
    home = f"{order.base}/h"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "P": f"{order.base}/p",
        "D": order.base,
        "H": home,
        "LC_ALL": "C",
    } | order.env
    try:
        box = box_of(order)
        ended, _ = await run_script(
            script.encode(), cwd=Path(order.base) / order.roots[0], env=env, limit=order.limit, capture=capture, box=box
        )
    except ToolError as fault:
        return Told(fault=str(fault))
    done = box.ended
    assert done is not None
    return Told(capture.text(), ended.status, done.undone, done.changed, done.appeared)


async def perform(order: Order) -> list[Told]:
    return [await perform_step(order, script) for script in order.steps]


def run_as(user: str, order: Order) -> list[Told]:
    import msgspec

    if user == "me":
        return anyio.run(perform, order)
    argv = [*AS_NOBODY, sys.executable, __file__]
    done = subprocess.run(argv, input=msgspec.json.encode(order), capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout, type=list[Told])


@functools.cache
def why_not(tier: str, user: str) -> str:
    """Why this tier cannot be tried as this user; empty if it can."""
    if user == "nobody" and not shutil.which("setpriv"):
        return "only setpriv makes another user of root"
    script = "import sys; from box_kit import found; print(found(sys.argv[1]))"
    prefix = AS_NOBODY if user == "nobody" else ()
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script, tier], capture_output=True, text=True, env=env, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr


def found(tier: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        return find_tier(Path(place), {"TEAMWRIGHT_SANDBOX": tier}).why


def miss(why: str) -> NoReturn:
    """A tier cannot be tried here: skip, or fail if all must be there (`TEAMWRIGHT_TEST_TIERS=all`)."""
    import pytest

    if os.environ.get("TEAMWRIGHT_TEST_TIERS") == "all":
        pytest.fail(f"TEAMWRIGHT_TEST_TIERS=all, but {why}", pytrace=False)
    pytest.skip(why)


class House:
    """A home with secrets, a project with a repository and a neighbour, owned by the user who runs the box."""

    def __init__(self, base: Path, tier: str, user: str) -> None:
        self.base, self.tier, self.user = base, tier, user
        self.project, self.home, self.neighbour = base / "p", base / "h", base / "n"
        self.write("h/.ssh/id", "canary-ssh\n")
        self.write("h/.netrc", "canary-netrc\n")
        self.write("h/.bashrc", "# mine\n")
        self.write("h/notes", "harmless\n")
        self.write("n/file", "theirs\n")
        for folder in ("p", "t", "h/.teamwright"):
            (base / folder).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str = "x\n") -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str, at: str = "p") -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", "-c", "safe.directory=*")
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        place = self.base / at
        done = subprocess.run(["git", *who, *words], cwd=place, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    def repository(self, at: str = "p") -> None:
        (self.base / at).mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", at=at)
        self.git("config", "user.name", "t", at=at)
        self.git("config", "user.email", "t@t", at=at)
        self.write(f"{at}/README", "one\n")
        self.git("add", "README", at=at)
        self.git("commit", "-q", "-m", "first", at=at)

    def play(self, *steps: str, **order: Any) -> list[Told]:
        if self.user == "nobody":
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(self.base)], check=True)
        return run_as(self.user, Order(self.tier, str(self.base), steps, **order))

    def one(self, script: str, **order: Any) -> Told:
        return self.play(script, **order)[0]

    def quarantined(self) -> list[Path]:
        place = self.home / ".teamwright/quarantine"
        return sorted(place.iterdir()) if place.exists() else []


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below, with its kind and content."""
    told: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        data = b""
        if stat.S_ISLNK(mode):
            data = os.fsencode(os.readlink(path))
        elif stat.S_ISREG(mode):
            data = path.read_bytes()
        told[str(path.relative_to(root))] = (mode, data)
    return told


@contextlib.contextmanager
def house_for(tier: str, user: str) -> Generator[House]:
    writable = (one for one in ("/srv", os.path.realpath(Path.home())) if os.access(one, os.W_OK))
    place = next((one for one in writable if not one.startswith(("/tmp/", "/var/tmp/"))), None)
    if place is None:
        import pytest

        pytest.skip("neither /srv nor the home can be written in and is outside of /tmp, which boxes hide")
    base = Path(tempfile.mkdtemp(dir=place, prefix="box-"))
    base.chmod(0o755)
    try:
        yield House(base.resolve(), tier, user)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    import msgspec

    told = anyio.run(perform, msgspec.json.decode(sys.stdin.buffer.read(), type=Order))
    print(json.dumps(msgspec.to_builtins(told)))
