"""The way to an engine: its address, passwords and certificates, and questions to a server that is lost."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from engine_kit import Server
from teamwright.core.errors import UsageError
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.space import Joining, open_space
from teamwright.store.engine.wire.address import read_address, read_named
from teamwright.store.engine.wire.connection import connect
from teamwright.store.engine.wire.nats import open_log

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


@pytest.mark.spec("Z22")
async def test_in_a_hurry_a_question_to_several_nodes_is_given_up_in_time(own_server: Server) -> None:
    """Otherwise it is repeated a few times at least, as they may be about to elect a leader."""
    one = f"127.0.0.1:{own_server.port}"
    connection = await connect(read_address(f"nats://{one},{one},{one}/main"), "test")
    own_server.kill()
    connection.hurry(0.5)
    with pytest.raises(EngineError, match="does not answer"), anyio.fail_after(10):
        await connection.api("STREAM.INFO", "any")
    await connection.close()


@pytest.mark.spec("Z22")
async def test_a_space_is_closed_whole_though_its_engine_is_away(own_server: Server, tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    space = await open_space(own_server.new_space(), tmp_path, Joining())
    own_server.kill()
    space.hurry(0.5)
    with pytest.raises(EngineError, match="took nothing"), anyio.fail_after(15):
        await space.close()
    with anyio.fail_after(5):
        while asyncio.all_tasks() != before:
            await anyio.sleep(0.01)


@pytest.mark.spec("Z2", "Z23")
async def test_an_engine_that_cannot_be_reached_is_one_sentence_without_the_password(
    tmp_path: Path, own_server: Server
) -> None:
    conf = own_server.root / "server.conf"
    own_server.kill()
    conf.write_text(conf.read_text() + 'authorization {user: ada, password: "s3cret"}\n')
    at = f"127.0.0.1:{own_server.port}"
    for who in ("", "ada:wr0ng@", "ada:s3cret@"):
        with pytest.raises(EngineError, match="cannot be reached") as caught, anyio.fail_after(30):
            await open_log(read_address(f"nats://{who}{at}/main"), "lead", "ada")
        words = str(caught.value)
        assert f"The engine at nats://{at}/main cannot be reached" in words
        assert "cret" not in words and "wr0" not in words
    own_server.start()
    with pytest.raises(EngineError, match=r"cannot be reached: .*[Aa]uthorization"), anyio.fail_after(30):
        await open_log(read_address(f"nats://ada:wr0ng@{at}/main"), "lead", "ada")
    log = await open_log(read_address(f"nats://ada:s3cret@{at}/main"), "lead", "ada")
    await log.close()


@pytest.mark.parametrize(
    ("text", "hosts", "space"),
    [
        ("nats://h:1/main", ("h:1",), "main"),
        ("nats://h", ("h:4222",), "main"),
        ("tls://u:p%40ss@h:1,[::1]:2/my-team", ("h:1", "[::1]:2"), "my-team"),
    ],
)
def test_an_address_is_read(text: str, hosts: tuple[str, ...], space: str) -> None:
    found = read_address(text)
    assert (found.hosts, found.space) == (hosts, space)
    assert "ss" not in str(found).partition("://")[2]
    assert found.password in ("", "p@ss")


@pytest.mark.parametrize(
    "text",
    ["h:1", "http://h", "nats://", "nats://h:1/Main", "nats://h h/x", "nats://:p@h", "nats://h:65536", "tls://h:0"],
)
def test_what_is_no_address_is_said_so(text: str) -> None:
    with pytest.raises(UsageError, match="The address of an engine is nats://"):
        read_address(text)


@pytest.mark.spec("Z23")
async def test_a_wrong_certificate_is_an_error(tmp_path: Path, own_server: Server) -> None:
    """`tls://` is checked against the authority that the person named."""
    for name in ("ours", "others"):
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=engine"]
        more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run([*make, *more], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    own_server.kill()
    conf = own_server.root / "server.conf"
    tls = f'tls {{ cert_file: "{tmp_path}/ours.pem", key_file: "{tmp_path}/ours.key" }}\n'
    conf.write_text(conf.read_text() + tls)
    own_server.start()
    url, file = f"tls://127.0.0.1:{own_server.port}/main", tmp_path / "lead.url"
    file.write_text(url)
    log = await open_log(read_named(f"@{file}", tmp_path, str(tmp_path / "ours.pem")), "lead", "ada")
    await log.close()
    for authority in (str(tmp_path / "others.pem"), ""):
        with pytest.raises(EngineError, match=r"cannot be reached: .*certificate"), anyio.fail_after(30):
            await open_log(read_named(url, tmp_path, authority), "lead", "ada")
    (tmp_path / "ca.pem").write_bytes((tmp_path / "ours.pem").read_bytes())
    log = await open_log(read_named("@lead.url", tmp_path), "lead", "ada")  # the authority's file is beside the address
    await log.close()
