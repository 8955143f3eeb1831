"""Questions to a server that is lost before it answers."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from engine_kit import Server
from teamwright.store.engine.wire.connection import connect

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    yield server
    server.kill()


@pytest.mark.spec("Z22")
async def test_a_question_is_given_up_when_its_server_was_lost_and_found_again(own_server: Server) -> None:
    """Its answer will never come: nobody waits for it until its limit of several seconds."""
    connection = await connect(own_server.new_space(), "test")
    own_server.pause()
    given_up = list[str]()

    async def ask() -> None:
        with pytest.raises(TimeoutError, match="lost before it answered"):
            await connection.publish("tw.test", b"x", {})
        given_up.append("publish")

    try:
        with anyio.fail_after(4):  # a question has five seconds
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                group.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                await connection.renewed()
    finally:
        own_server.pause(over=True)
    assert given_up == ["publish"] * 2
    await connection.close()
