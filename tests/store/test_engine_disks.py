"""Disks and sizes on an engine: a full disk, and a transcript that is too long for memory."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from engine_kit import Server, caught_up, open_host
from journal import all_rows
from long_form import long_form
from teamwright.core.data.letter import SYSTEM, Letter, Said
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.engine.port import EngineError
from teamwright.store.tables.state import StateStore

pytestmark = pytest.mark.anyio
S = SessionId("11111111-1111-4111-8111-111111111111")


def letter(n: int) -> Letter:
    """A letter that does not compress."""
    return Letter(LetterId(f"l{n}"), AgentId(S), SYSTEM, Said(os.urandom(60_000).hex()))


@long_form
@pytest.mark.spec("Z22")
async def test_an_engine_whose_disk_is_full_takes_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """Patient callers continue once there is room; others report the engine's own words."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "2MB")
    try:
        space = server.new_space()
        async with open_host(tmp_path / "a", space, patience=1) as a, open_host(tmp_path / "b", space) as b:
            state = StateStore(a.database)
            await state.register_session(S, "/", 1)
            await state.register_agent(S, S, None, "main", "main", 0)
            stored = 0
            with pytest.raises(EngineError, match=r"took nothing for 1 s: .*resource"), anyio.fail_after(60):
                while True:
                    await state.post(letter(stored))
                    stored += 1
            async with anyio.create_task_group() as group:
                group.start_soon(StateStore(b.database).post, letter(1000))
                server.kill()
                server.furnish()
                await anyio.to_thread.run_sync(server.start)
            async with open_host(tmp_path / "c", space) as c:
                waiting = await StateStore(c.database).waiting(AgentId(S))
                assert [found.id for found in waiting] == [*(f"l{n}" for n in range(stored)), "l1000"]
                await caught_up(b, c)
                await caught_up(c, b)
                assert await b.replica.read(all_rows) == await c.replica.read(all_rows)
    finally:
        server.kill()


PULL = """
import resource, sys
import anyio
from pathlib import Path
from teamwright.core.ids import AgentId
from teamwright.store.engine.wire.address import read_address
from teamwright.store.engine.wire.lines import Lines, Place
from teamwright.store.engine.wire.nats import open_log
from teamwright.store.engine.wire.objects import NatsObjects

ROWS, SIZE, EACH = map(int, sys.argv[3:])

async def main():
    root, url = Path(sys.argv[1]), sys.argv[2]
    log = await open_log(read_address(url), "lead", "ada", patience=20)
    lines = Lines(log, NatsObjects(log, 20), "ada", root)
    await lines.prepare()
    place, row = Place(), b"x" * (SIZE - 1) + bytes([10])
    for _ in range(ROWS // EACH):
        place = await lines.append(AgentId("a1"), "p", [row] * EACH, place)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert await lines.pull(AgentId("a1"), root / "copy") == place
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    await log.close()

anyio.run(main)
"""


@long_form
@pytest.mark.spec("Z28")
async def test_a_huge_transcript_takes_time_and_not_memory(tmp_path: Path) -> None:
    """100 MB."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        argv = [sys.executable, "-c", PULL, str(tmp_path), str(server.new_space()), "25000", "4000", "100"]
        done = await anyio.run_process(argv, check=False, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr.decode()
        assert (tmp_path / "copy").stat().st_size == 100_000_000
        assert int(done.stdout) < 60_000  # KB more than without it
    finally:
        server.kill()
