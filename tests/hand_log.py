"""Makes entries of an engine's log by hand, with chosen time stamps."""

from typing import Any

from teamwright.core.data.team import ProcessId
from teamwright.store.acts.act import Act
from teamwright.store.acts.hosts import Beat, JoinHost
from teamwright.store.db.database import Database
from teamwright.store.engine.entry import Applied, ApplyEntries, encode_entry
from teamwright.store.engine.port import Entry
from teamwright.store.engine.tables import read_hosts

START = 1_700_000_000_000


class Log:
    """A log in which everybody has a lead's rights."""

    def __init__(self, database: Database) -> None:
        self.database, self.at, self._seq, self._k = database, START, 0, dict[str, int]()

    async def entry(self, process: str, *acts: Act[Any], after: int = 1) -> list[Any]:
        """Append an entry this many milliseconds after the previous one; return its outcome."""
        self.at, self._seq = self.at + after, self._seq + 1
        self._k[process] = self._k.get(process, 0) + 1
        data = encode_entry(ProcessId(process), self._k[process], list(acts))
        batch = await self.database.write(ApplyEntries([Entry(self._seq, self.at, "lead", "ada", data)]))
        (applied,) = batch.applied
        assert isinstance(applied, Applied)
        return applied.outcomes

    async def strange(self, data: bytes, after: int = 1) -> list[Applied]:
        """Append what a worker of another name has written; return what was applied."""
        self.at, self._seq = self.at + after, self._seq + 1
        batch = await self.database.write(ApplyEntries([Entry(self._seq, self.at, "worker", "eve", data)]))
        return batch.applied

    async def join(self, process: str, lease: int = 3000) -> None:
        await self.entry(process, JoinHost("box", "1", lease))

    async def living(self) -> list[str]:
        return [host.process for host in await self.database.read(read_hosts) if not host.gone]


async def keep(log: Log, process: str, times: int = 3) -> None:
    """Signs of life, a second apart."""
    for _ in range(times):
        await log.entry(process, Beat(0, ""), after=1000)
