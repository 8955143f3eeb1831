"""The directory of an engine's server: its configuration, its identities, and the addresses that are given out."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from teamwright.core.errors import UsageError
from teamwright.osfiles.private import make_dir, write_file

OLDEST = (2, 12)
_NAME = re.compile(r"[a-z0-9-]{1,32}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]")


class Plan(msgspec.Struct, frozen=True):
    """What `engine init` was told; kept as `engine.json`, with the password of each identity."""

    host: str
    port: int
    space: str
    leads: dict[str, str] = {}

    def url(self, name: str) -> str:
        return f"nats://{name}:{self.leads[name]}@{self.host}:{self.port}/{self.space}"


def make(directory: Path, host: str, port: int, space: str) -> Path:
    """A new one, with one identity; the file of its address."""
    if (directory / "engine.json").exists():
        raise UsageError(f"{directory} is an engine already; `teamwright engine run {directory}` starts it")
    for what, text, pattern in (("--host", host, _HOST), ("--space", space, _NAME)):
        if not pattern.fullmatch(text):
            raise UsageError(f"{what} {text!r} cannot be part of an address")
    make_dir(directory)
    plan = Plan(host, port, space)
    text = f"""# Made by `teamwright engine init`.
listen: "{host}:{port}"
pid_file: "{directory}/server.pid"
# An entry is acknowledged once it is on the disk, not before.
jetstream {{ store_dir: "{directory}/store", sync_interval: always }}
include "users.conf"
"""
    write_file(directory / "server.conf", text.encode())
    return add(directory, "lead", plan)


def read_plan(directory: Path) -> Plan:
    try:
        return msgspec.json.decode((directory / "engine.json").read_bytes(), type=Plan)
    except FileNotFoundError:
        raise UsageError(f"{directory} is no engine: `teamwright engine init {directory}` makes one") from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{directory / 'engine.json'} cannot be read: {error}") from None


def add(directory: Path, name: str, plan: Plan | None = None) -> Path:
    """A further identity; a server that runs takes it up at once. The file of its address."""
    plan = plan or read_plan(directory)
    if not _NAME.fullmatch(name):
        raise UsageError(f"a name has at most 32 small letters, digits and hyphens: {name!r}")
    if name in plan.leads:
        raise UsageError(f"there is an identity {name} already: its address is in {directory / name}.url")
    plan = msgspec.structs.replace(plan, leads=plan.leads | {name: secrets.token_urlsafe(24)})
    file = directory / f"{name}.url"
    write_file(directory / "users.conf", _users(plan).encode())
    write_file(directory / "engine.json", msgspec.json.encode(plan))
    write_file(file, f"{plan.url(name)}\n".encode())
    _reload(directory)
    return file


def _users(plan: Plan) -> str:
    """Each may write under its own name alone, and nobody what only the server pushes."""
    space = plan.space
    users: list[str] = []
    for name, password in plan.leads.items():
        own = [f"tw.{space}.log.lead.{name}", f"tw.{space}.lines.lead.{name}.>", f"$O.tw_{space}.>", "$JS.API.>"]
        heard = ["_INBOX.>", f"tw.{space}.out.>"]
        rights = f"{{ publish: {_listed(own)}, subscribe: {_listed(heard)} }}"
        users.append(f'  {{ user: "{name}", password: "{password}", permissions: {rights} }}')
    return "authorization { users: [\n" + "\n".join(users) + "\n] }\n"


def _listed(subjects: list[str]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"


def _reload(directory: Path) -> None:
    try:
        os.kill(int((directory / "server.pid").read_text()), signal.SIGHUP)
    except (OSError, ValueError):
        return  # it does not run


def find_server() -> str:
    """nats-server on PATH, if it is new enough; else that of the wheel beside this Python."""
    found = [shutil.which("nats-server"), str(Path(sys.executable).with_name("nats-server"))]
    for program in found:
        if program and Path(program).is_file() and _version(program) >= OLDEST:
            return program
    raise UsageError(
        f"There is no nats-server {OLDEST[0]}.{OLDEST[1]} or newer: `pip install 'teamwright[cluster]'` adds one."
    )


def _version(program: str) -> tuple[int, ...]:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    found = re.search(r"v(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0, 0)
