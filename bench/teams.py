"""Teams: how soon a message is read, and what idle teammates, claims, broadcasts and a resume cost.

`python bench/run.py teams`. Times begin at the sending call, so they include its commit.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import mail
from rows import Row, ms
from session import PROGRAM, Rig
from team_parts import Reader, add_history, answer

from teamwright.app import Options, open_session
from teamwright.core.data.message import Request
from teamwright.core.data.tasks import Actor, Draft
from teamwright.core.ids import AgentId
from teamwright.models.scripted import ScriptedModel
from teamwright.runtime.session import Session
from teamwright.store.db.database import open_database
from teamwright.store.tables.tasks import TaskTable

MESSAGES, MANY, IDLE, SECONDS = 60, 50, 100, 5.0
MATES = ("ada", "bob", "cyd", "dan")  # in turns, because the program stops two teammates that only talk to each other
FEW_TASKS, MANY_TASKS, CLAIMS = 10, 10_000, 200
RACERS, RACED = 8, 1_000
CREW, HISTORY = 10, 1_000  # teammates, and messages of each
RACER = """
import sys, anyio
from pathlib import Path
from teamwright.core.data.tasks import Actor
from teamwright.store.db.database import open_database
from teamwright.store.tables.tasks import TaskTable

async def main():
    database = await open_database(Path(sys.argv[1]))
    table, by, got = TaskTable(database), Actor(f"a-{sys.argv[2]}", sys.argv[2]), 0
    print("ready", flush=True)
    sys.stdin.readline()
    while await table.claim_first("crew", by) is not None:
        got += 1
    print(got, flush=True)
    await database.close()

anyio.run(main)
"""


def options(root: str, own: Any = None, **more: Any) -> Options:
    env = {"HOME": root, "TEAMWRIGHT_HOME": f"{root}/state", "PATH": "/usr/bin:/bin"} | more.pop("env", {})
    return Options(cwd=Path(root), env=env, own_model=own, mode="bypassPermissions", may_bypass=True, **more)


def measure(rig: Rig) -> list[Row]:
    here, there = anyio.run(read_here), anyio.run(read_there)
    extra = anyio.run(read_busy)
    cpu = anyio.run(idle_cost)
    few, many = anyio.run(claim_cost)
    rate = anyio.run(race)
    commits = anyio.run(broadcast)
    resumes = resume(rig)
    return [
        Row("message to an idle teammate's request, p50", [median(here)], unit="ms wall", most=3),
        Row("  between processes", [median(there)], unit="ms wall", most=8),
        Row(f"requests for {MANY} messages to a busy one", [extra], unit="requests", most=1),
        Row(f"{IDLE} idle teammates", [cpu], unit="% of a core", most=0.2),
        *anyio.run(mail.measure, MANY_TASKS)[:1],
        Row(f"a claim, {MANY_TASKS:,} tasks : {FEW_TASKS} tasks", ms(many), ms(few), unit="ms wall", most_ratio=1.3),
        Row(f"{RACED:,} claims by {RACERS} processes", [rate], unit="ms wall", most=RACED),
        Row(f"a broadcast to {IDLE}", [commits], unit="commits", most=1),
        Row(f"resume of {CREW}, {HISTORY:,} messages each", resumes, unit="ms wall", most=1500),
    ]


# --- how soon


async def ping(session: Session, seen: Callable[[str], Awaitable[float]]) -> list[float]:
    """Ping an idle teammate while the lead is at rest too, so that its work on the last answer is not measured."""
    took: list[float] = []
    team = await session.team("crew")
    for mate in MATES:
        await team.spawn(mate, "wait")
    for n in range(MESSAGES + 5):
        await team.idle()
        await session.main.at_rest()
        began = time.perf_counter()
        await team.send(MATES[n % len(MATES)], f"PING-{n}.")
        took.append(await seen(f"PING-{n}.") - began)
    return ms(took[5:])


async def read_here() -> list[float]:
    reader = Reader()

    def play(request: Request) -> str:
        reader.note(request.messages[-1].text)
        return "noted"

    with TemporaryDirectory() as root:
        session = await open_session(options(root, ScriptedModel(play)))
        async with session:
            return await ping(session, reader.seen)


async def read_there() -> list[float]:
    """The same for a teammate in its own process that asks a provider over HTTP, measured by our clock."""
    reader = Reader()

    async def serve(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(stream, writer, reader.note)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with TemporaryDirectory() as root:
        env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
        session = await open_session(options(root, env=env, model="claude-sonnet-4-6", teammate_mode="local"))
        async with session:
            took = await ping(session, reader.seen)
    server.close()
    return took


async def read_busy() -> float:
    """Requests beyond the one that the teammate was busy with."""
    busy, go, asked = anyio.Event(), anyio.Event(), [0]

    async def play(request: Request) -> str:
        if "BUSY" in request.messages[0].text:
            asked[0] += 1
            busy.set()
            await go.wait()
        return "noted"

    with TemporaryDirectory() as root:
        session = await open_session(options(root, ScriptedModel(play)))
        async with session:
            team = await session.team("crew")
            await team.spawn("ada", "BUSY")
            await busy.wait()
            for n in range(MANY):
                await team.send("ada", f"message {n}")
            go.set()
            await team.idle()
    return asked[0] - 1


async def idle_cost() -> float:
    with TemporaryDirectory() as root:
        session = await open_session(options(root, ScriptedModel(lambda _: "noted")))
        async with session:
            team = await session.team("crew")
            for n in range(IDLE):
                await team.spawn(f"mate{n}", "wait")
            await team.idle()
            await session.main.at_rest()
            await anyio.sleep(0.5)  # work left over from spawning them
            began = time.process_time()
            await anyio.sleep(SECONDS)
            return (time.process_time() - began) / SECONDS * 100


# --- the store


async def claim_cost() -> tuple[list[float], list[float]]:
    """Claim the first task of a long and of a short list, in turns; each list keeps its length."""
    by = Actor(AgentId("a"), "ada")
    with TemporaryDirectory() as root:
        database = await open_database(Path(root) / "state.db")
        table = TaskTable(database)
        took: dict[str, list[float]] = {"few": [], "many": []}
        for name, tasks in (("few", FEW_TASKS), ("many", MANY_TASKS)):
            await fill(table, name, tasks)
        for _ in range(CLAIMS):
            for name, times in took.items():
                began = time.perf_counter()
                done = await table.claim_first(name, by)
                times.append(time.perf_counter() - began)
                assert done is not None
                await table.release_all(name, by.agent)
        await database.close()
    return took["few"], took["many"]


async def fill(table: TaskTable, name: str, tasks: int) -> None:
    async def some(group: range) -> None:
        async with anyio.create_task_group() as tasks_of_one_commit:
            for n in group:
                tasks_of_one_commit.start_soon(table.create, name, Draft(f"task {n}"), Actor(AgentId("l"), "lead"))

    for first in range(0, tasks, 1000):
        await some(range(first, min(first + 1000, tasks)))


async def race() -> float:
    """Milliseconds from the start until the last task has an owner."""
    with TemporaryDirectory() as root:
        path = Path(root) / "state.db"
        database = await open_database(path)
        await fill(TaskTable(database), "crew", RACED)
        await database.close()
        argv = [sys.executable, "-c", RACER, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        racers = [subprocess.Popen([*argv, f"r{n}"], **pipes) for n in range(RACERS)]
        for racer in racers:
            racer.stdout.readline()
        began = time.perf_counter()
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        got = [int(racer.stdout.readline()) for racer in racers]
        took = time.perf_counter() - began
        for racer in racers:
            racer.communicate()
        assert sum(got) == RACED, got
    return took * 1000


async def broadcast() -> float:
    with TemporaryDirectory() as root:
        inbox = mail.Inbox()
        await inbox.fill(Path(root), 0)
        notes = [inbox.note() for _ in range(IDLE)]
        before = inbox.state.database.commits
        await inbox.mail.post_all(notes)
        commits = inbox.state.database.commits - before
        await inbox.state.close()
    return commits


# --- the way back


def resume(rig: Rig) -> list[float]:
    """The whole program, from start to exit, with one short turn of the lead."""
    script = rig.root / "crew.json"
    each = {"description": "waits", "prompt": "SCRIPT:mate", "team_name": "crew"}
    spawn = [{"tool": "Agent", "input": {"name": f"mate{n}", **each}} for n in range(CREW)]
    create = {"tool": "TeamCreate", "input": {"team_name": "crew"}}
    script.write_text(json.dumps({"main": [create, spawn, "end"], "mate": ["resting"], "again": ["end"]}))
    home = rig.root / "crew"
    env = rig.env | {"TEAMWRIGHT_HOME": str(home)}
    argv = [PROGRAM, "--model", f"script/{script}", "--dangerously-skip-permissions"]

    def run(*args: str) -> float:
        began = time.perf_counter()
        done = subprocess.run([*argv, *args], cwd=rig.project, env=env, capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise SystemExit(f"exit status {done.returncode}: {done.stderr.decode()[-2000:]}")
        return time.perf_counter() - began

    run("-p", "SCRIPT:main")
    (main,) = home.glob("projects/*/*.jsonl")
    for file in (main, *main.with_suffix("").glob("agents/*.jsonl")):
        add_history(file, HISTORY)
    return ms([run("-p", "SCRIPT:again", "--resume", main.stem) for _ in range(3)])
