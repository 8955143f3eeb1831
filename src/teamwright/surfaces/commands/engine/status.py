"""`teamwright engine status`: shows the server, the log, the processes, and warnings about what is not safe."""

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from teamwright.core.errors import UsageError
from teamwright.store.engine.wire.address import Address
from teamwright.store.files.paths import home_from
from teamwright.surfaces.commands.engine.server import SERVER
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.commands.through_engine import read_named_engine
from teamwright.tools.bounds import visible

if TYPE_CHECKING:
    from teamwright.store.engine.space import About, Space

_PATIENCE = 20.0  # seconds
_FAR = 1000  # entries
_HERE = ("127.", "localhost", "[::1]")


def show_status(named: str | None, *, as_json: bool) -> int:
    address = read_named_engine(named)
    if address is None:
        raise UsageError("engine status: name the engine, by --engine URL or TEAMWRIGHT_ENGINE")
    found = anyio.run(_read, address)
    if as_json:
        print_json(found)
        return 0
    head = f"{found['url']}, nats-server {found['server']}, {found['nodes']} node"
    lines = [
        f"{head}{'s' if found['nodes'] > 1 else ''}",
        f"log: {found['entries']} entries, the last at {local_time(found['lastAt'])}; "
        f"{found['refused']} changes were refused for want of rights, or because nobody could read them",
        *(
            f"{row['batches']} batches of lines of worker {row['name']} do not count: it never ran agent {row['agent']}"
            for row in found["strangers"]
        ),
    ]
    sys.stdout.write("\n".join(visible(line) for line in lines) + "\n")
    if found["processes"]:
        head = ["HOST", "ROLE", "NAME", "VERSION", "STATE", "HEARD", "BEHIND"]
        print_table([head, *(_row(process) for process in found["processes"])])
    for words in found["unsafe"]:
        sys.stdout.write(visible(f"not safe: {words}") + "\n")
    return 0


def _row(process: dict[str, Any]) -> list[str]:
    told = [process[name] for name in ("host", "role", "name", "version", "state")]
    return [*told, local_time(process["heard"]), str(process["behind"])]


async def _read(address: Address) -> dict[str, Any]:
    from teamwright.store.engine.space import Joining, open_space  # noqa: PLC0415

    space = await open_space(address, home_from(os.environ).root, Joining(joins=False, patience=_PATIENCE))
    try:
        return await _describe(space)
    finally:
        await space.close()


async def _describe(space: "Space") -> dict[str, Any]:
    from teamwright.store.engine.tables import read_cursor, read_hosts, read_refused  # noqa: PLC0415

    cursor, about = await space.replica.read(read_cursor), await space.about()
    processes = [
        {
            "process": host.process,
            "host": host.host,
            "role": host.role,
            "name": host.name,
            "version": host.version,
            "state": "gone" if host.gone else "here",
            "since": host.joined,
            "heard": host.beat,
            "behind": max(0, cursor.seq - host.seen) if host.seen else 0,
        }
        for host in await space.replica.read(read_hosts)
    ]
    return {
        "url": str(space.address),
        "space": space.address.space,
        "server": about.version,
        "nodes": about.replicas,
        "entries": cursor.seq,
        "lastAt": cursor.at,
        "snapshot": cursor.snapshot or None,
        "refused": await space.replica.read(read_refused),
        "strangers": await _strangers(space),
        "processes": processes,
        "unsafe": _unsafe(space.address, about, processes),
    }


async def _strangers(space: "Space") -> list[dict[str, Any]]:
    """Workers that wrote into transcripts of agents that they never ran. These lines do not count."""
    from teamwright.store.engine.holders import find_strangers  # noqa: PLC0415

    written = await space.lines.written()
    found = await space.replica.read(partial(find_strangers, written=written))
    return [{"name": name, "agent": agent, "batches": many} for name, agent, many in found]


def _unsafe(address: Address, about: "About", processes: list[dict[str, Any]]) -> list[str]:
    words: list[str] = []
    if not about.server.startswith(SERVER):
        words.append("the server was not made by `engine init`: whether it syncs each write to its disk is not known")
    if not address.user and not address.creds:
        words.append("no rights: no password is needed, whoever reaches the address may read and change everything")
    if address.scheme != "tls" and any(not host.startswith(_HERE) for host in address.hosts):
        words.append("the connection is not encrypted, and the engine is on another machine")
    if about.replicas == 1:
        words.append("one node: what it stores is lost with its disk")
    if far := [process["host"] for process in processes if process["state"] == "here" and process["behind"] > _FAR]:
        words.append(f"far behind: {', '.join(far)}")
    return words
