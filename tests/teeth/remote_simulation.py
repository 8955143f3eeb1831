"""Thousands of agents over workers in one process: `python tests/teeth/remote_simulation.py [AGENTS] [WORKERS]`.

Replicas, acts, leases, placement and the worker's loop are the program's own. The log is in memory, and an agent is
just its lines: each turn appends one, which is refused if another worker has written meanwhile. Now and then a worker
is killed without warning, and another one joins. At the end each agent has ended once, has each of its turns once, and
never had two owners.
"""

import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import anyio

from teamwright.core.data.job import JobResult
from teamwright.core.data.letter import PERSON, Letter, Prompt
from teamwright.core.data.message import Text
from teamwright.core.errors import Fenced, StoreError
from teamwright.core.ids import AgentId, JobId, LetterId, SessionId
from teamwright.core.policies.authority import Role
from teamwright.core.policies.placing import Needs
from teamwright.runtime.workers.hosted import Hosted
from teamwright.runtime.workers.office import Office, OfficeDeps
from teamwright.store.acts.jobs import BeginJob
from teamwright.store.db.database import Database
from teamwright.store.engine.opening import LEASE, open_replica
from teamwright.store.engine.port import Entry, Extent, Guard
from teamwright.store.engine.replica import Replica
from teamwright.store.engine.touched import Touched
from teamwright.store.tables.jobs import OWED, JobTable, NewAgent
from teamwright.store.tables.processes import ProcessTable
from teamwright.store.tables.remotes import BeginRemote, OfferSlots, Remote, RemoteTable
from teamwright.store.tables.state import StateStore

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
TURNS, SLOTS = 3, 50
LIMIT = 1800.0  # seconds
SHOWN = 5  # lost agents whose rows are printed


class Engine:
    """The log and the transcripts. Each process has its own `View` of it, which can be cut."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.lines: dict[AgentId, list[str]] = {}
        self.news = anyio.Event()
        self._ids: dict[str, int] = {}
        self._began = time.monotonic()

    def append(self, data: bytes, id: str, role: Role, name: str) -> int:
        if id not in self._ids:
            at = 1_700_000_000_000 + round((time.monotonic() - self._began) * 1000)
            self.entries.append(Entry(len(self.entries) + 1, at, role, name, data))
            self._ids[id] = len(self.entries)
            self.news.set()
            self.news = anyio.Event()
        return self._ids[id]

    def add_line(self, agent: AgentId, line: str, expected: int) -> None:
        """Append as the engine does: refused if another writer was quicker."""
        lines = self.lines.setdefault(agent, [])
        if len(lines) != expected:
            raise Fenced(f"Another process has continued agent {agent}.")
        lines.append(line)


class View:
    """The log as one process sees it."""

    space = "simulation"

    def __init__(self, engine: Engine, role: Role, name: str) -> None:
        self._engine, self._name = engine, name
        self._role: Role = role

    def watch_over(self, guard: Guard) -> None:
        """The connection is never lost."""

    async def append(self, entry: bytes, id: str) -> int:
        await anyio.sleep(0)
        return self._engine.append(entry, id, self._role, self._name)

    async def entries(self, after: int) -> AsyncGenerator[list[Entry]]:
        while True:
            news = self._engine.news
            if found := self._engine.entries[after : after + 256]:
                yield found
                after = found[-1].seq
            else:
                await news.wait()

    async def extent(self) -> Extent:
        return Extent(self.space, 1, len(self._engine.entries), 1)

    async def entry(self, seq: int) -> Entry | None:
        return self._engine.entries[seq - 1] if 0 < seq <= len(self._engine.entries) else None


class Agent:
    """Stands in for a hosted agent: its turns are lines, and nothing else."""

    def __init__(self, remote: Remote, worker: "SimulatedWorker") -> None:
        self._remote, self._worker = remote, worker
        self.name, self.words, self.began, self.limited = str(remote.agent), "", False, False
        self._scope, self._over = anyio.CancelScope(), False  # `over`: its end is under way

    async def live(self) -> Literal["ended", "lost"]:
        with self._scope:
            try:
                await self._play()
            except StoreError as error:
                self.words = str(error)
                return "lost"
            self.words = "has finished"
            return "ended"
        self.words = "another worker has it"
        return "lost"

    async def _play(self) -> None:
        agent, worker = self._remote.agent, self._worker
        lines, table = worker.engine.lines.setdefault(agent, []), worker.office.table
        at = len(lines)
        worker.engine.add_line(agent, f"resumed {worker.name}", at)
        await table.started(agent, at + 1)
        self.began = True
        done = {line for line in lines if line.startswith("turn")}
        for n in range(len(done), TURNS):
            at += 1  # lines that it wrote itself: if another worker has continued meanwhile, the next one is refused
            await worker.play_turn()
            worker.engine.add_line(agent, f"turn {n} {worker.name}", at)
        StateStore(worker.database).delivered_soon([LetterId(f"l-{agent}")])
        self._over = True
        if await table.ended(agent, "completed", JobResult("done")):
            worker.doom.ends[agent] += 1

    def is_touched(self, touched: Touched) -> bool:
        return self._remote.agent in touched.agents

    def heard(self) -> None:
        """It reads no letter but its first."""

    def lose(self) -> None:
        if not self._over:
            self._scope.cancel()

    stop = lose


class Doom:
    """After each share of the ends, the next worker that plays a turn is killed during it."""

    def __init__(self, agents: int, kills: int) -> None:
        self._at = [agents * n // (kills + 1) for n in range(1, kills + 1)]
        self.ends: Counter[AgentId] = Counter()
        self.victims: list[SimulatedWorker] = []

    def strikes(self) -> bool:
        """Counted by the workers: the lead may hear of ends so late that there is nobody left to kill."""
        return len(self.victims) < len(self._at) and len(self.ends) >= self._at[len(self.victims)]


class Offers(NamedTuple):
    """What a worker offers: slots, and the seconds for which it may be silent."""

    slots: int = SLOTS
    lease: float = LEASE


class SimulatedWorker:
    def __init__(self, engine: Engine, name: str, offers: Offers, doom: Doom) -> None:
        self.engine, self.name, self._offers, self.doom = engine, name, offers, doom
        self.replica: Replica
        self.office: Office
        self._scope, self.ready, self.gone = anyio.CancelScope(), anyio.Event(), anyio.Event()

    @property
    def database(self) -> Database:
        return cast("Database", self.replica)

    async def run(self, root: Path) -> None:
        """Run until killed; from then on it sends nothing to anybody."""
        view = View(self.engine, "worker", self.name)
        self.replica = await open_replica(root / self.name, view, lease=self._offers.lease)
        with self._scope:
            async with anyio.create_task_group() as group:
                await group.start(self.replica.run)
                process = await ProcessTable(self.database, root / self.name / "run").register(SessionId(""))
                offer = OfferSlots(self.name, self._offers.slots, (), ("script",))

                async def opened(remote: Remote) -> Hosted:
                    return cast("Hosted", Agent(remote, self))

                deps = OfficeDeps(
                    database=self.database,
                    process=process.id,
                    offer=offer,
                    open=opened,
                    say=_hush,
                    log=_hush,
                    sweep=_nothing_left,
                )
                self.office = Office(deps)
                self.replica.on_touched = self.office.heed
                await self.office.offer()
                self.ready.set()
                await self.office.run()
        with anyio.CancelScope(shield=True):
            await _drop(self.replica)
        self.gone.set()

    def kill(self) -> None:
        self._scope.cancel()

    async def play_turn(self) -> None:
        """The model's time, or the moment when this worker dies."""
        if self.doom.strikes() and not self._scope.cancel_called:
            self.doom.victims.append(self)
            self.kill()
        await anyio.sleep(0)


def _nothing_left() -> None:
    """Agents here have no files."""


def _hush(_: str) -> None:
    """Nobody watches."""


async def _drop(replica: Replica) -> None:
    """Drop its locks, as the kernel does for a dead process."""
    parts = replica._parts  # pyright: ignore[reportPrivateUsage]
    parts.living.close()
    await parts.database.close()
    if parts.lock is not None:
        parts.lock.release()


class Simulation:
    def __init__(self, agents: int, workers: int, kills: int, offers: Offers = Offers()) -> None:  # noqa: B008
        self.agents, self.kills, self.engine = agents, kills, Engine()
        self._many, self._offers, self._names, self._doom = workers, offers, itertools.count(1), Doom(agents, kills)
        self.workers: list[SimulatedWorker] = []
        self.stories: list[str] = []  # what the store and their lines say about lost agents

    async def run(self, root: Path) -> dict[str, Any]:
        found = dict[str, Any]()
        lead = await open_replica(root / "lead", View(self.engine, "lead", "ada"), lease=60)
        database = cast("Database", lead)
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                await group.start(lead.run)
                await StateStore(database).begin_session(SESSION, "/x", 1)
                for _ in range(self._many):
                    await self._hire(group, root)
                group.start_soon(self._launch_all, RemoteTable(database))
                await self._replace_killed(group, root, lead)
                await self._ended(lead, self.agents)
                found = await self._check(database)
                for worker in self.workers:
                    worker.kill()
                    await worker.gone.wait()
                group.cancel_scope.cancel()
        await _drop(lead)
        return found

    async def _hire(self, group: Any, root: Path) -> None:
        worker = SimulatedWorker(self.engine, f"w{next(self._names)}", self._offers, self._doom)
        self.workers.append(worker)
        group.start_soon(worker.run, root)
        await worker.ready.wait()

    async def _launch_all(self, table: RemoteTable) -> None:
        async def launch(n: int) -> None:
            agent = AgentId(f"a{n}")
            row = NewAgent(agent, SESSION, AgentId(SESSION), "general-purpose", agent, 1)
            first = Letter(LetterId(f"l-{agent}"), agent, PERSON, Prompt((Text("go"),)))
            job = BeginJob(JobId(agent), 1, SESSION, AgentId(SESSION), "remote", None, "work", True, 1, row, first)
            await table.begin(BeginRemote(agent, "c", Needs("script"), job))

        for first in range(0, self.agents, 100):
            async with anyio.create_task_group() as group:
                for n in range(first, min(first + 100, self.agents)):
                    group.start_soon(launch, n)

    async def _replace_killed(self, group: Any, root: Path, lead: Replica) -> None:
        """Replace each killed worker by a new one."""
        for n in range(self.kills):
            while len(self._doom.victims) <= n:
                if await lead.look(_count_ended) == self.agents:  # nobody works any more
                    return
                await lead.pause(0.5)
            await self._doom.victims[n].gone.wait()
            self.workers.remove(self._doom.victims[n])
            await self._hire(group, root)

    async def _ended(self, lead: Replica, many: int) -> None:
        """According to the store: a worker may be killed before it hears that its end was stored."""
        while await lead.look(_count_ended) < many:
            await lead.pause(0.5)

    async def _check(self, database: Database) -> dict[str, Any]:
        rows, lines = await JobTable(database).all(SESSION), self.engine.lines
        ids = {AgentId(f"a{n}") for n in range(self.agents)}
        ended = {AgentId(row.id) for row in rows if row.status == "completed" and row.notice == OWED}
        wanted = [f"turn {n}" for n in range(TURNS)]
        for agent in sorted(ids - ended)[:SHOWN]:
            jobs = [row for row in rows if row.id == agent]
            self.stories.append(f"{agent}: {await RemoteTable(database).find(agent)} {jobs} {lines.get(agent)}")
        turns = {agent: [line.rpartition(" ")[0] for line in lines.get(agent, ()) if line[0] == "t"] for agent in ids}
        return {
            "agents": self.agents,
            "killed": len(self._doom.victims),
            "lost": len(ids - ended),
            "doubled": sum(many > 1 for many in self._doom.ends.values()) + abs(len(rows) - len(ids)),
            "turns twice or missing": sum(found != wanted for found in turns.values()),
            "moved": sum(sum(line.startswith("resumed") for line in found) > 1 for found in lines.values()),
            "double owners": sum(map(_has_two_owners, lines.values())),
            "replicas differ": await self._differ(),
            "entries": len(self.engine.entries),
        }

    async def _differ(self) -> int:
        """At the same position, all replicas have applied the same entries with the same outcomes."""
        last, digests = len(self.engine.entries), set[bytes]()
        for worker in self.workers:
            while (found := await worker.replica.look(lambda db: _digest_at(db, last))) is None:
                await worker.replica.pause(0.2)
            digests.add(found)
        return len(digests) - 1


def _count_ended(db: Any) -> int:
    return db.execute("SELECT count(*) FROM remotes WHERE state = 'ended'").fetchone()[0]


def _has_two_owners(lines: list[str]) -> bool:
    """Did anybody write after another had continued the agent?"""
    owner = ""
    for line in lines:
        what, _, worker = line.rpartition(" ")
        if what == "resumed":
            owner = worker
        elif worker != owner:
            return True
    return False


def _digest_at(db: Any, seq: int) -> bytes | None:
    row = db.execute("SELECT digest FROM digests WHERE seq = ?", (seq,)).fetchone()
    return row[0] if row else None


def main(words: list[str]) -> int:
    agents, workers = int(words[0]) if words else 10_000, int(words[1]) if words[1:] else 10
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="simulation-") as root:
        simulation = Simulation(agents, workers, kills=max(1, agents // 2000))
        found = anyio.run(simulation.run, Path(root))
    print(", ".join(f"{name} {many:,}" for name, many in found.items()), f"in {time.monotonic() - began:.0f} s")
    print(*simulation.stories, sep="\n", end="")
    wrong = ("lost", "doubled", "turns twice or missing", "double owners", "replicas differ")
    return 1 if any(found[name] for name in wrong) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
