"""Several machines on loopback: what an engine and workers cost, and how soon work continues after a loss.

`python bench/run.py remote`. The goals are multiples of the bare server's round trip (a publish and acknowledgement of
as many bytes, synced), measured in turns with what is compared. Each worker has its own home and a lease of 3 s.
"""

import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

import anyio
from land import git
from remote_parts import LEASE, LIMIT, MODEL, Asked, Provider, Server, Worker, a_repository, free_port, timed
from remote_store import ENTRIES, EngineInbox, applying, joining, open_bare, open_home, writes
from rows import Row, ms
from session import Rig

from teamwright.app import Options, open_session
from teamwright.runtime.session import Session

FILES, TURNS, PINGS, LONG = 800, 12, 40, 100
AWAY = 2.0  # seconds during which the engine is gone
NODES, BEFORE, AFTER = 3, 50, 300  # messages before and after one of them is killed


def measure(rig: Rig) -> list[Row]:
    root = rig.root / "remote"
    root.mkdir()
    return [*anyio.run(store_rows, root), *anyio.run(team_rows, root, rig.env), *anyio.run(node_rows, root)]


async def store_rows(root: Path) -> list[Row]:
    server = Server(root / "store-server")
    try:
        ours, bare = await writes(server, root)
    finally:
        server.stop()
    took = await applying(root)
    joined = await joining(root)
    trip = median(ms(bare))
    return [
        Row("bare round trip, synced", ms(bare), unit="ms wall"),
        Row("a message's outcome, p50", [median(ms(ours))], unit="ms wall", most=round(1.5 * trip + 2, 1)),
        Row("applying 1,000 acts, in entries of 20", took, unit="ms CPU", most=round(1000 / 6)),
        Row(f"joining a log of {ENTRIES:,} entries", joined, unit="s", most=5),
    ]


# --- a team


class Crew:
    """A lead in this process, workers beside it, and one provider for everybody."""

    def __init__(self, root: Path, server: Server, provider: Provider, env: dict[str, str]) -> None:
        self.root, self.server, self.provider = root, server, provider
        self.env, self._stack, self.pings = env | provider.env, AsyncExitStack(), 0
        self.url, self.workers = server.url("crew"), dict[str, Worker]()

    def worker(self, name: str) -> Worker:
        self.workers[name] = Worker(self.root, self.url, name, self.env)
        return self.workers[name]

    def options(self, **more: object) -> Options:
        env = self.env | {"TEAMWRIGHT_LEASE_SECONDS": str(LEASE)}
        return Options(
            cwd=self.root / "project", env=env, model=MODEL, mode="bypassPermissions", may_bypass=True, **more
        )

    async def ping(self, session: Session, name: str) -> float:
        """Seconds from the sending call to the request of the reader, which was idle."""
        team = await session.team("crew")
        await team.idle()
        await session.main.at_rest()
        self.pings += 1
        began = time.perf_counter()
        await team.send(name, f"PING-{self.pings}.")
        return await self.provider.seen(f"PING-{self.pings}.") - began


@asynccontextmanager
async def open_crew(root: Path, env: dict[str, str]) -> AsyncIterator[Crew]:
    provider, server = Provider(), Server(root / "team-server")
    await provider.open()
    crew = Crew(root, server, provider, env)
    a_repository(root / "project", FILES)
    try:
        yield crew
    finally:
        for worker in crew.workers.values():
            worker.close()
        server.stop()
        provider.close()


async def team_rows(root: Path, env: dict[str, str]) -> list[Row]:
    async with open_crew(root, env) as crew, open_bare(crew.server) as bare:
        here = await turns_here(crew)
        session = await open_session(crew.options(engine=crew.url, teammate_mode="remote"))
        async with session:
            pings, turns, trips = list[float](), list[float](), list[float]()
            crew.worker("w1")
            team = await session.team("crew")
            for name in ("ada", "bob"):
                await team.spawn(name, "wait")
            for n in range(PINGS):
                trips.append(await timed(bare.trip))
                pings.append(await crew.ping(session, ("ada", "bob")[n % 2]))
            await team.spawn("cyd", f"CALLS-{TURNS}-there.")
            turns = (await crew.provider.turns(f"CALLS-{TURNS}-there.", TURNS))[2:]
            saving = save_by_git(crew.root / "project", crew.root / "saving")
            await team.idle()
            rows = await losses(crew, session)
    trip, left = median(ms(trips)), median(ms(turns)) - median(ms(here))
    return [
        Row(
            "message to an idle remote teammate's request, p50", [median(ms(pings))], unit="ms wall", most=6 * trip + 10
        ),
        Row(f"a remote turn with Bash, {FILES} files, above one here", [left], unit="ms wall", most=6 * trip + saving),
        Row("  saving the tree by git's commands", [saving], unit="ms wall"),
        *rows,
    ]


async def turns_here(crew: Crew) -> list[float]:
    """The same turns of a teammate in this process, without an engine."""
    mark = f"CALLS-{TURNS}-here."
    session = await open_session(crew.options())
    async with session:
        team = await session.team("here")
        await team.spawn("ada", mark)
        found = await crew.provider.turns(mark, TURNS)
        await team.idle()
    return found[2:]


def save_by_git(repo: Path, scratch: Path) -> float:
    """Milliseconds for the git commands alone: scan all files, write the tree, commit, pack."""
    took, env = list[float](), os.environ | {"GIT_INDEX_FILE": str(scratch)}
    head = git(repo, "rev-parse", "HEAD")
    us = ("git", "-c", "user.name=b", "-c", "user.email=b@localhost")

    def run(*args: str, text: str = "") -> str:
        done = subprocess.run([*us, *args], cwd=repo, env=env, input=text.encode(), check=True, capture_output=True)
        return done.stdout.decode("latin-1").strip()

    run("read-tree", head)
    run("add", "-A")
    for n in range(8):
        (repo / "changed.txt").write_text(f"round {n}\n" * (n + 1))
        began = time.perf_counter()
        run("add", "-A")
        commit = run("commit-tree", run("write-tree"), "-p", head, "-m", "saved")
        run("pack-objects", "--revs", "--thin", "--stdout", "--quiet", text=f"{commit}\n^{head}\n")
        took.append((time.perf_counter() - began) * 1000)
    git(repo, "checkout", "-q", "--", ".")
    return median(took)


# --- losses


async def losses(crew: Crew, session: Session) -> list[Row]:
    """When this begins, `cyd`, `ada` and `bob` are idle on w1."""
    team, provider = await session.team("crew"), crew.provider
    back = list[float]()
    for _ in range(2):
        crew.server.stop()
        began = time.perf_counter()
        await anyio.sleep(AWAY)
        crew.server.start()
        for name in ("ada", "bob"):
            await crew.ping(session, name)
        back.append(time.perf_counter() - began)
    left = await leaving(crew, session)
    mark = f"CALLS-{LONG}-killed."
    killed = list[float]()

    def kill(asked: Asked) -> bool:
        """Kill the agent's worker at its last request but one, before the answer."""
        if asked.mark == mark and asked.results == LONG - 1 and not killed:
            killed.append(time.perf_counter())
            crew.workers["w2"].kill()
            return False
        return True

    provider.on_asked = kill
    await team.spawn("eve", mark)
    await provider.wait(lambda: provider.of(mark))
    crew.worker("w3")  # later than its teammate, which is on w2 by then
    again = await provider.wait(lambda: [one for one in provider.of(mark) if one.results >= LONG - 1][1:])
    await team.idle()
    return [
        Row(
            f"worker killed at turn {LONG}, lease {LEASE} s, to the next request",
            [again[0].came - killed[0]],
            unit="s",
            most=LEASE + 3,
        ),
        Row("SIGTERM of an idle worker to the next request", left, unit="s", most=1.5),
        Row(f"engine killed and back after {AWAY:g} s, all go on", back, unit="s", most=AWAY + 2),
    ]


async def leaving(crew: Crew, session: Session) -> list[float]:
    """w1 leaves while w2 is there; then the other way round, and again."""
    team, took = await session.team("crew"), list[float]()
    for old, new in (("w1", "v1"), ("v1", "w2")):
        crew.worker(new)
        await team.idle()
        await session.main.at_rest()
        crew.pings += 1
        began = time.perf_counter()
        crew.workers[old].kill(15)
        await team.send("ada", f"PING-{crew.pings}.")
        took.append(await crew.provider.seen(f"PING-{crew.pings}.") - began)
        with anyio.fail_after(LIMIT):
            while crew.workers[old].process.poll() is None:
                await anyio.sleep(0.01)
    return took


# --- three nodes


async def node_rows(root: Path) -> list[Row]:
    """Kill the node that leads the stream while a writer is busy."""
    ports = [free_port() for _ in range(NODES)]
    servers = [Server(root / f"node{n}", ports, n) for n in range(NODES)]
    try:
        stall = await stalled(servers)
    finally:
        for server in servers:
            server.stop()
    return [Row("one of three nodes killed, the longest stall", [stall], unit="s", most=10)]


async def stalled(servers: list[Server]) -> float:
    async with open_home(servers[0].root.parent / "nodes-home", servers[0].url("nodes")) as space:
        inbox, longest = EngineInbox(), 0.0
        await inbox.fill_space(space, servers[0].root)
        for n in range(BEFORE + AFTER):
            if n == BEFORE:
                servers[int((await space.about()).server[1:])].stop()
            longest = max(longest, await timed(inbox.post))
    return longest
