"""An engine on loopback, and stores that are replicas of its log: `pytest --store=engine`."""

import itertools
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio

from journal import all_rows
from teamwright.core.policies.authority import Role
from teamwright.store.db.database import Database
from teamwright.store.engine.opening import LEASE, open_replica
from teamwright.store.engine.replica import Replica
from teamwright.store.engine.tables import read_cursor
from teamwright.store.engine.wire.address import Address, read_address
from teamwright.store.engine.wire.nats import NatsLog, open_log
from teamwright.store.engine.wire.objects import NatsObjects

_LIMIT = 20.0  # seconds


class Server:
    """A real nats-server that syncs on each write. It can be killed and started again, with another disk."""

    def __init__(self, root: Path, most: str = "") -> None:
        """`most`: the storage limit."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.root, self._spaces, self._process = root, itertools.count(1), None
        self.furnish(most)
        self.start()

    def furnish(self, most: str = "") -> None:
        """Set how it runs from its next start on."""
        limit = f", max_file_store: {most}" if most else ""
        store = f'jetstream {{store_dir: "{self.root}/store", sync_interval: always{limit}}}\n'
        (self.root / "server.conf").write_text(f'listen: "127.0.0.1:{self.port}"\n{store}')

    def start(self) -> None:
        program = Path(sys.executable).with_name("nats-server")
        self._process = subprocess.Popen([program, "-c", self.root / "server.conf"], stderr=subprocess.DEVNULL)
        limit = time.monotonic() + _LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < limit and self._process.poll() is None
                time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def pause(self, *, over: bool = False) -> None:
        """Suspend the process, or continue it with `over`. Meanwhile, what is sent to it waits in its socket."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT if over else signal.SIGSTOP)

    def last(self, seconds: float) -> None:
        """Let an outage last this long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.05)

    def new_space(self) -> Address:
        return read_address(f"nats://127.0.0.1:{self.port}/s{next(self._spaces)}")


class Engines:
    """One server for all tests of a run."""

    server: Server | None = None
    root: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def get(cls) -> Server:
        if cls.server is None:
            cls.root = tempfile.TemporaryDirectory(prefix="engine")
            cls.server = Server(Path(cls.root.name))
        return cls.server

    @classmethod
    def stop(cls) -> None:
        if cls.server is not None and cls.root is not None:
            cls.server.kill()
            cls.root.cleanup()
            cls.server = cls.root = None


class Host:
    """One machine: a home and a connected process."""

    def __init__(self, replica: Replica, log: NatsLog) -> None:
        self.replica, self.log = replica, log

    @property
    def database(self) -> Database:
        """The store, for the tables."""
        return cast("Database", self.replica)


@asynccontextmanager
async def open_host(
    home: Path,
    address: Address,
    role: Role = "lead",
    *,
    patience: float = 20,
    lease: float = LEASE,
    joins: bool = True,
) -> AsyncIterator[Host]:
    log = await open_log(address, role, "ada", patience=patience)
    objects = NatsObjects(log, patience, leads=True)
    try:
        await objects.prepare()
        replica = await open_replica(home / "engines", log, objects, lease=lease, joins=joins)
        async with anyio.create_task_group() as group:
            await group.start(replica.run)
            try:
                yield Host(replica, log)
            finally:
                with anyio.move_on_after(_LIMIT, shield=True):
                    await replica.close()
                group.cancel_scope.cancel()
    finally:
        await log.close()


async def caught_up(host: Host, with_: Host) -> None:
    with anyio.fail_after(_LIMIT):
        while await seq_of(host) < await seq_of(with_):
            await anyio.sleep(0.005)


async def seq_of(host: Host) -> int:
    """The number of the last entry that it has applied."""
    return (await host.replica.look(read_cursor)).seq


@asynccontextmanager
async def open_replicated(home: Path) -> AsyncIterator[Host]:
    """A replica in its own space. At the end, its log is applied to an empty replica: every row must be the same."""
    address = Engines.get().new_space()
    async with open_host(home, address) as host:
        yield host
        with tempfile.TemporaryDirectory() as empty:
            async with open_host(Path(empty), address, joins=False) as other:
                await caught_up(other, host)
                assert await other.replica.read(all_rows) == await host.replica.read(all_rows)
