"""The directory of an engine's server: its configuration, its identities, and the addresses to give out.

Paths in it are relative, so that it can be copied unchanged to the other nodes.
"""

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
from teamwright.surfaces.commands.engine.rights import Role, users_text

OLDEST = (2, 12)
SERVER = "teamwright"  # how our servers' names begin, which tells that they sync each write
_NODES = (1, 3)
_ROUTES = 2000  # distance between the port for clients and the one for other nodes
_NAME = re.compile(r"[a-z0-9-]{1,32}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]")
_TLS = 'tls { cert_file: "server.pem", key_file: "server-key.pem", ca_file: "ca.pem"'


class Plan(msgspec.Struct, frozen=True):
    """What `engine init` was told, kept as `engine.json`, with the role and the password of each identity."""

    hosts: tuple[str, ...]
    port: int
    space: str
    tls: bool = False
    routes: str = ""  # password between the nodes
    people: dict[str, tuple[Role, str]] = {}

    def url(self, name: str) -> str:
        places = ",".join(f"{host}:{self.port}" for host in self.hosts)
        scheme = "tls" if self.tls else "nats"
        return f"{scheme}://{name}:{self.people[name][1]}@{places}/{self.space}"

    def file(self, node: int, kind: str) -> str:
        """`server.conf`, or `server-2.conf` if there are several nodes."""
        return f"server.{kind}" if len(self.hosts) == 1 else f"server-{node}.{kind}"


def make(directory: Path, hosts: tuple[str, ...], port: int, space: str, *, tls: bool = False) -> None:
    """Make an engine, with one identity for a lead and one for workers."""
    if (directory / "engine.json").exists():
        raise UsageError(f"{directory} is an engine already; `teamwright engine run {directory}` starts it")
    for what, text, pattern in (*(("--host", host, _HOST) for host in hosts), ("--space", space, _NAME)):
        if not pattern.fullmatch(text):
            raise UsageError(f"{what} {text!r} cannot be part of an address")
    if len(hosts) not in _NODES or len(set(hosts)) != len(hosts):
        raise UsageError("--host names one machine, or three different ones: H,H,H")
    if not 0 < port < 65536 - _ROUTES:
        raise UsageError(f"--port {port} is not a port from 1 to {65535 - _ROUTES}")
    people: dict[str, tuple[Role, str]] = {"lead": ("lead", _password()), "worker": ("worker", _password())}
    plan = Plan(hosts, port, space, tls, _password(), people)
    make_dir(directory)
    if tls:
        _write_certificates(directory, hosts)
    for node in range(1, len(hosts) + 1):
        write_file(directory / plan.file(node, "conf"), _configuration(plan, node).encode())
    _write(directory, plan, *people)


def _write_certificates(directory: Path, hosts: tuple[str, ...]) -> None:
    from teamwright.surfaces.commands.engine.certificates import make_certificates  # noqa: PLC0415

    made = make_certificates(hosts)
    for name, data in (("ca.pem", made.authority), ("server.pem", made.server), ("server-key.pem", made.key)):
        write_file(directory / name, data)


def _configuration(plan: Plan, node: int) -> str:
    host, several = plan.hosts[node - 1], len(plan.hosts) > 1
    folder = "store" if not several else f"store-{node}"
    text = f"""# Made by `teamwright engine init`.
server_name: "{SERVER}-{node}"
listen: "{host}:{plan.port}"
pid_file: "{plan.file(node, "pid")}"
# An entry is acknowledged once it is on the disk, not before.
jetstream {{ store_dir: "{folder}", sync_interval: always }}
include "users.conf"
"""
    if plan.tls:
        text += f"{_TLS} }}\n"
    if several:
        routes = ", ".join(f'"nats-route://node:{plan.routes}@{other}:{plan.port + _ROUTES}"' for other in plan.hosts)
        text += f"""cluster {{
  name: "{SERVER}-{plan.space}"
  listen: "{host}:{plan.port + _ROUTES}"
  authorization {{ user: "node", password: "{plan.routes}" }}
  routes: [{routes}]
{f"  {_TLS}, verify: true }}" if plan.tls else ""}
}}
"""
    return text


def read_plan(directory: Path) -> Plan:
    try:
        return msgspec.json.decode((directory / "engine.json").read_bytes(), type=Plan)
    except FileNotFoundError:
        raise UsageError(f"{directory} is no engine: `teamwright engine init {directory}` makes one") from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{directory / 'engine.json'} cannot be read: {error}") from None


def add(directory: Path, role: str, name: str) -> Path:
    """Add an identity, which a server that runs here learns at once. Returns the file of its address."""
    plan = read_plan(directory)
    if role not in ("lead", "worker"):
        raise UsageError(f"{role!r} is neither lead nor worker: `teamwright engine add lead|worker NAME DIR`")
    if not _NAME.fullmatch(name):
        raise UsageError(f"a name has at most 32 small letters, digits and hyphens: {name!r}")
    if name in plan.people:
        raise UsageError(f"there is an identity {name} already: its address is in {directory / name}.url")
    new: dict[str, tuple[Role, str]] = {name: ("lead" if role == "lead" else "worker", _password())}
    _write(directory, msgspec.structs.replace(plan, people=plan.people | new), name)
    _reload(directory)
    return directory / f"{name}.url"


def _write(directory: Path, plan: Plan, *names: str) -> None:
    """Write the addresses of these identities, and all identities for the server."""
    write_file(directory / "users.conf", users_text(plan.space, plan.people).encode())
    write_file(directory / "engine.json", msgspec.json.encode(plan))
    for name in names:
        write_file(directory / f"{name}.url", f"{plan.url(name)}\n".encode())


def _password() -> str:
    return secrets.token_urlsafe(24)


def _reload(directory: Path) -> None:
    for file in directory.glob("server*.pid"):
        try:
            os.kill(int(file.read_text()), signal.SIGHUP)
        except (OSError, ValueError):
            continue  # it does not run


def find_server() -> str:
    """nats-server on PATH, if it is new enough; else the one that a wheel installed next to this Python."""
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
