"""`sessions delete ID --engine URL`: everything that only this session has is removed, and nothing else."""

import json
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine_kit import Engines, Host, caught_up, open_host
from journal import all_rows
from program import Program, tool
from remote_stage import until
from teamwright.core.ids import AgentId, SessionId
from teamwright.store.acts.removal import RemoveSession
from teamwright.store.engine.space import Joining, Space, open_space
from teamwright.store.engine.wire.address import Address, read_address
from teamwright.store.tables.processes import ProcessTable

pytestmark = pytest.mark.one_machine
LONG = "y" * 600_000  # a line of it does not fit into a message


@pytest.fixture
def url() -> str:
    return str(Engines.get().new_space())


@pytest.fixture
def other(tmp_path: Path) -> Program:
    """Another machine."""
    (tmp_path / "other").mkdir()
    return Program(tmp_path / "other")


def say(program: Program, url: str, script: list[Any], *more: str) -> str:
    ran = program.prompt(script, "--engine", url, *more)
    assert ran.rc == 0, ran.err
    return ran.result["session_id"]


def listed(program: Program, url: str) -> set[str]:
    ran = program.run("sessions", "--json", "--engine", url)
    assert ran.rc == 0, ran.err
    return {row["id"] for row in json.loads(ran.out)}


def in_space(url: str, home: Path, do: Any) -> Any:
    async def run() -> Any:
        space = await open_space(read_address(url), home, Joining(patience=20))
        try:
            return await do(space)
        finally:
            await space.close()

    return anyio.run(run)


async def what_is_there(space: Space) -> tuple[dict[AgentId, set[str]], set[str]]:
    """Objects that lines name, and which of them exist."""
    named = await space.lines.named()
    all_names = {name for names in named.values() for name in names}
    return named, {name for name in all_names if await space.objects.has(name)}


@pytest.mark.spec("Z31")
def test_a_session_is_removed_and_others_stay(program: Program, other: Program, url: str, tmp_path: Path):
    kept, gone = say(program, url, ["hello"]), say(program, url, [LONG])
    named, there = in_space(url, tmp_path / "look", what_is_there)
    parts = {name for name in named[AgentId(gone)] if name.startswith("part/")}
    prompts = named[AgentId(gone)] & named[AgentId(kept)]
    assert parts <= there and prompts and {name.partition("/")[0] for name in prompts} == {"prompt"}
    assert listed(other, url) >= {kept, gone}

    ran = program.run("sessions", "delete", gone[:8], "--engine", url)
    assert ran.rc == 0 and f"deleted {gone}" in ran.out, ran.err
    assert listed(program, url) == listed(other, url) == {kept}
    assert not [path for home in (program.home, other.home) for path in home.rglob(f"{gone}*")]

    async def look(space: Space) -> None:
        named, there = await what_is_there(space)
        assert AgentId(gone) not in named and prompts <= there
        assert not [name for name in parts if await space.objects.has(name)]
        assert await space.get_record(f"place/{gone}") is None and await space.get_record(f"place/{kept}")

    in_space(url, tmp_path / "look", look)
    ran = program.prompt(["hello", "again"], "--engine", url, "--resume", kept)
    assert ran.rc == 0 and ran.result["result"] == "again", ran.err
    for words in ((gone,), (kept, gone), ("",), (kept[:3],)):
        ran = program.run("sessions", "delete", *words, "--engine", url)
        assert ran.rc and "nothing was deleted" in ran.err and kept in listed(program, url), ran.err
    ran = program.run("sessions", "delete", "--older-than", "1", "--engine", url)
    assert ran.rc == 2 and "takes the ids" in ran.err
    ran = other.prompt(["no"], "--engine", url, "--session-id", gone)  # every machine removes what it has of that id
    assert ran.rc == 2 and "its id is not given again" in ran.err, ran.err
    anyio.run(compare_replicas, read_address(url), tmp_path)


async def compare_replicas(address: Address, root: Path) -> None:
    """Compare an old replica with one made from the log."""
    async with open_host(root / "look", address) as old, open_host(root / "new", address) as new:
        await caught_up(old, new)
        await caught_up(new, old)
        assert await rows_of(old) == await rows_of(new)


async def rows_of(host: Host) -> Any:
    return await host.replica.look(all_rows)


@pytest.mark.spec("Z31")
def test_one_that_runs_is_refused(program: Program, other: Program, url: str):
    live = program.start("-p", "go", "--output-format", "stream-json", "--verbose", "--engine", url,
                         "--dangerously-skip-permissions", "--no-sandbox",
                         script=[{"tool": "Bash", "input": {"command": "touch here; sleep 600"}}])  # fmt: skip
    session = live.seen(type="system", subtype="init")["session_id"]
    until((program.project / "here").exists, "the command runs")
    ran = other.run("sessions", "delete", session, "--engine", url)
    assert ran.rc == 1 and "is running in a process on" in ran.err, ran.err
    assert session in listed(other, url)
    live.process.send_signal(signal.SIGKILL)
    live.process.wait(30)


@pytest.mark.spec("Z31", "CL3")
def test_the_team_of_a_removed_session_is_deleted_too(program: Program, other: Program, url: str):
    gone = say(program, url, [tool("TeamCreate", team_name="alpha", description="a team"), "made"])
    assert program.run("sessions", "delete", gone, "--engine", url).rc == 0
    ran = other.run("teams", "delete", "alhpa", "--engine", url)
    assert ran.rc == 2 and "did you mean alpha?" in ran.err, ran.err
    ran = other.run("teams", "delete", "alpha", "--engine", url)
    assert ran.rc == 0 and "deleted alpha" in ran.out, ran.err
    assert json.loads(program.run("teams", "--json", "--engine", url).out) == []
    say(program, url, [tool("TeamCreate", team_name="alpha", description="another"), "made"])


@pytest.mark.spec("Z31")
def test_it_can_be_repeated_after_a_kill(program: Program, url: str, tmp_path: Path):
    """Its rows are gone, but nothing else yet."""
    kept, gone = say(program, url, ["hello"]), say(program, url, [LONG])

    async def half(space: Space) -> None:
        await ProcessTable(space.database, space.home.run).register(SessionId(gone))
        assert await space.replica.write(RemoveSession(SessionId(gone))) is True
        assert await space.replica.write(RemoveSession(SessionId(gone))) is False

    in_space(url, tmp_path / "look", half)
    ran = program.prompt(["no"], "--engine", url, "--resume", gone)
    assert ran.rc and kept in listed(program, url)
    for expected in (0, 1):
        ran = program.run("sessions", "delete", gone, "--engine", url)
        assert bool(ran.rc) == bool(expected), ran.err
    named, there = in_space(url, tmp_path / "look", what_is_there)
    assert set(named) == {AgentId(kept)} and named[AgentId(kept)] <= there
