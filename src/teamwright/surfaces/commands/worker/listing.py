"""`teamwright workers`: lists the processes that run agents for others in an engine's space."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import anyio

from teamwright.core.errors import UsageError
from teamwright.store.files.paths import home_from
from teamwright.store.tables.remotes import RemoteTable, Worker
from teamwright.surfaces.commands.tables import local_time, print_json, print_table
from teamwright.surfaces.commands.through_engine import look_through
from teamwright.surfaces.port.stored import opened_store
from teamwright.tools.bounds import visible


def run_workers(parser: ArgumentParser, args: Sequence[str]) -> int:
    found = parser.parse_args(args)
    if not (found.engine or os.environ.get("TEAMWRIGHT_ENGINE")):
        raise UsageError("Workers belong to an engine: name it by --engine URL, or in TEAMWRIGHT_ENGINE.")
    look_through(found.engine)
    workers = anyio.run(_read)
    if found.json:
        print_json([_as_json(worker) for worker in workers])
    elif not workers:
        sys.stdout.write("there are no workers; `teamwright worker --join URL` starts one\n")
    else:
        head = ["NAME", "HOST", "STATE", "SINCE", "USED", "KEYS", "LABELS"]
        print_table([head, *map(_cells, workers)])
    return 0


async def _read() -> list[Worker]:
    async with opened_store(home_from(os.environ)) as state:
        return await RemoteTable(state.database).workers()


def _as_json(worker: Worker) -> dict[str, Any]:
    names = ("name", "host", "slots", "used", "labels", "providers", "version", "state", "since", "agents")
    return {name: getattr(worker, name) for name in names}


def _cells(worker: Worker) -> list[str]:
    labels = " ".join(f"{key}={value}" for key, value in worker.labels.items())
    used = f"{worker.used}/{worker.slots}"
    words = (worker.name, worker.host, worker.state, local_time(worker.since), used, " ".join(worker.providers), labels)
    return [visible(word) for word in words]
