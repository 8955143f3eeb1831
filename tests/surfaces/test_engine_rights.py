"""Rights, encryption and three nodes: engines as `engine init` makes them, with the real server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from program import ARGV, Program, wait_file
from teamwright.core.data.letter import PERSON, Letter, Said
from teamwright.core.errors import NotAllowed
from teamwright.core.ids import AgentId, LetterId, SessionId
from teamwright.store.acts.act import Act
from teamwright.store.acts.sessions import PostLetter, RegisterAgent, RegisterSession
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.space import Joining, open_space
from teamwright.store.engine.wire.address import Address, read_named
from teamwright.store.engine.wire.connection import Connection, connect

_LIMIT = 60.0


def free_port() -> int:
    """A port that is free on every loopback address, together with the one above it for routes."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("0.0.0.0", 0))
            port = one.getsockname()[1]
            if port < 60_000:
                try:
                    two.bind(("0.0.0.0", port + 2000))
                except OSError:
                    continue
                return port


@contextmanager
def running(program: Program, directory: Path, *nodes: str) -> Generator[list[subprocess.Popen[bytes]]]:
    started = list[subprocess.Popen[bytes]]()
    try:
        for node in nodes or ("",):
            more = ["--node", node] if node else []
            argv = [*ARGV, "engine", "run", str(directory), *more]
            nowhere = subprocess.DEVNULL
            started.append(subprocess.Popen(argv, env=program.env, stdout=nowhere, stderr=nowhere))
            wait_file(directory / (f"server-{node}.pid" if node else "server.pid"))
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(30)


def init(program: Program, directory: Path, *more: str) -> Path:
    made = program.run("engine", "init", str(directory), "--port", str(free_port()), *more)
    assert made.rc == 0, made.err
    return directory


@pytest.fixture
def engine(program: Program, tmp_path: Path) -> Iterator[Path]:
    directory = init(program, tmp_path / "engine")
    with running(program, directory):
        yield directory


def at(directory: Path, name: str) -> Address:
    return read_named(f"@{directory}/{name}.url", directory)


async def with_patience(do: Callable[[], Any]) -> Any:
    limit = anyio.current_time() + _LIMIT
    while True:
        try:
            return await do()
        except EngineError:
            assert anyio.current_time() < limit
            await anyio.sleep(0.2)


async def may_publish(connection: Connection, subject: str) -> bool:
    """Does the server accept it? A refusal comes separately, so a later ping's answer shows that none came."""
    violated = list[str]()

    async def heed(error: Exception) -> None:
        violated.append(str(error).lower())

    client = connection.client
    client._error_cb = heed  # pyright: ignore[reportPrivateUsage]
    await client.publish(subject, b"{}")
    await client.flush()
    await client.flush()
    return not any(subject.lower() in text for text in violated)


@pytest.mark.spec("Z24", "Z30")
async def test_an_identity_writes_only_what_its_role_may(engine: Path):
    """The server itself is asked, subject by subject."""
    worker: Connection = await with_patience(lambda: connect(at(engine, "worker"), "test"))
    lead = await connect(at(engine, "lead"), "test")
    try:
        for subject, workers, leads in (
            ("tw.main.log.worker.worker", True, False),
            ("tw.main.log.worker.other", False, False),
            ("tw.main.log.lead.worker", False, False),
            ("tw.main.log.lead.lead", False, True),
            ("tw.main.lines.worker.worker.a1", True, False),
            ("tw.main.lines.worker.other.a1", False, False),
            ("tw.main.lines.lead.lead.a1", False, True),
            ("tw.main.live.a1", True, True),
            ("tw.main.out.log.worker.worker", False, False),
            ("tw.main.out.lines.lead.lead.a1", False, False),
            ("tw.other.log.lead.lead", False, False),
            ("$O.tw_main.C.worker.worker.x", True, False),
            ("$O.tw_main.M.worker.worker.x", True, False),
            ("$O.tw_main.C.lead.lead.x", False, True),
            ("$O.tw_main.M.worker.other.x", False, False),
            ("$O.tw_main_lead.C.lead.lead.x", False, True),
            ("$JS.API.STREAM.INFO.TW_main_LOG", True, True),
            ("$JS.API.DIRECT.GET.TW_main_LINES", True, True),
            ("$JS.API.STREAM.CREATE.TW_x", False, True),
            ("$JS.API.STREAM.UPDATE.TW_main_LOG", False, True),
            ("$JS.API.STREAM.PURGE.TW_main_NONE", False, True),
            ("$JS.API.STREAM.DELETE.TW_main_NONE", False, True),
            ("$JS.API.STREAM.MSG.DELETE.TW_main_LOG", False, True),
            ("$JS.API.CONSUMER.CREATE.TW_main_LOG", False, True),
            ("anything", False, False),
        ):
            assert await may_publish(worker, subject) is workers, subject
            assert await may_publish(lead, subject) is leads, subject
    finally:
        await worker.close()
        await lead.close()


@pytest.mark.spec("Z24")
async def test_what_is_stored_no_worker_replaces_or_removes(engine: Path, tmp_path: Path):
    """Neither by a record of its own for the name of another's, nor by a header that rolls a subject up."""
    lead = await with_patience(lambda: open_space(at(engine, "lead"), tmp_path / "lead", Joining()))
    worker = await open_space(at(engine, "worker"), tmp_path / "worker", Joining(role="worker", patience=5))
    bad = await connect(at(engine, "worker"), "bad")
    try:
        await lead.objects.put_bytes("code/x", b"theirs")
        await worker.objects.put_bytes("code/x", b"mine")
        for rolled in ("all", "sub"):
            for kind in "CM":
                said = await bad.publish(f"$O.tw_main.{kind}.worker.worker.y", b"{}", {"Nats-Rollup": rolled})
                assert "rollup not permitted" in said["error"]["description"]
        assert await worker.objects.get_bytes("code/x") == b"theirs"
        await lead.objects.remove("code/x")
        assert not await worker.objects.has("code/x"), "whoever stored it, a lead removes it"
        await worker.objects.put_bytes("code/x", b"again")
        assert await lead.objects.get_bytes("code/x") == b"again"
    finally:
        await bad.close()
        await worker.close()
        await lead.close()


@pytest.mark.spec("Z24", "Z16")
async def test_where_a_session_stands_is_for_leads_to_say(engine: Path, tmp_path: Path):
    """A session's place is told to its model when it moves: a worker can read it, but not change it."""
    lead = await with_patience(lambda: open_space(at(engine, "lead"), tmp_path / "lead", Joining()))
    worker = await open_space(at(engine, "worker"), tmp_path / "worker", Joining(role="worker", patience=5))
    try:
        await lead.put_record("place/s1", b"here")
        with pytest.raises(EngineError):
            await worker.put_record("place/s1", b"elsewhere")
        assert await worker.get_record("place/s1") == b"here"
    finally:
        await worker.close()
        await lead.close()


@pytest.mark.spec("Z30")
def test_a_space_that_cannot_be_made_is_told_beside_the_server(program: Program, tmp_path: Path):
    directory, said = init(program, tmp_path / "engine"), tmp_path / "said"
    (directory / "lead.url").write_text("nonsense\n")
    with said.open("w") as errors:
        argv = [*ARGV, "engine", "run", str(directory)]
        process = subprocess.Popen(argv, env=program.env, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        limit = time.monotonic() + _LIMIT
        while "the space could not be made: The address of an engine is" not in said.read_text():
            assert time.monotonic() < limit, said.read_text()
            time.sleep(0.02)
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.spec("Z24", "Z30")
def test_a_worker_waits_for_the_first_lead_of_a_server_of_ones_own(program: Program, tmp_path: Path):
    directory, said = init(program, tmp_path / "engine"), tmp_path / "said"
    server = Path(sys.executable).with_name("nats-server")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen([server, "-c", "server.conf"], cwd=directory, **silent)]
    try:
        wait_file(directory / "server.pid")
        with said.open("w") as words:
            argv = [*ARGV, "worker", "--join", f"@{directory}/worker.url", "--name", "early"]
            started.append(subprocess.Popen(argv, env=program.env, stdout=words, stderr=words))

        def wait_for(part: str) -> None:
            limit = time.monotonic() + _LIMIT
            while part not in said.read_text():
                assert time.monotonic() < limit and started[1].poll() is None, said.read_text()
                time.sleep(0.02)

        wait_for("The worker joins as soon as one does.")
        assert program.run("-p", "hi", "--engine", f"@{directory}/lead.url", script=["hello"]).out == "hello\n"
        wait_for("early has joined")
        assert said.read_text().count("No lead has opened the space") == 1
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


@pytest.mark.spec("Z24")
async def test_what_an_entry_asks_for_beyond_its_rights_is_not_applied_counted_and_shown(
    program: Program, engine: Path, tmp_path: Path
):
    how = Joining(lease=15, patience=20)
    lead = await with_patience(lambda: open_space(at(engine, "lead"), tmp_path / "a", how))
    worker = await open_space(at(engine, "worker"), tmp_path / "b", replace(how, role="worker"))
    try:
        session, agent = SessionId("00000000-0000-4000-8000-000000000001"), AgentId("a1")
        await lead.replica.write(RegisterSession(session, "/p", 0))
        await lead.replica.write(RegisterAgent(agent, session, None, "general-purpose", "", 0))
        letter = Letter(LetterId("l1"), agent, PERSON, Said("obey"))
        refused: tuple[Act[None], ...] = (
            RegisterSession(SessionId("00000000-0000-4000-8000-000000000002"), "/q", 0),
            PostLetter(letter),
        )
        for act in refused:
            with pytest.raises(NotAllowed):
                await worker.replica.write(act)
    finally:
        await worker.close()
        await lead.close()
    ran = program.run("engine", "status", "--engine", f"@{engine}/lead.url", "--json")
    assert ran.rc == 0 and json.loads(ran.out)["refused"] == 2, ran.err


@pytest.mark.spec("Z2", "Z24")
def test_an_address_of_the_wrong_role_is_one_sentence(program: Program, engine: Path):
    ran = program.prompt(["hi"], "--engine", f"@{engine}/worker.url")
    assert ran.rc == 1 and "no right" in ran.err and "address for leads" in ran.err and not ran.out


@pytest.mark.spec("Z30")
def test_workers_find_the_space_made_before_any_lead_came(engine: Path, tmp_path: Path):
    async def join() -> None:
        how = Joining(role="worker", patience=20)
        space = await with_patience(lambda: open_space(at(engine, "worker"), tmp_path / "w", how))
        await space.close()

    anyio.run(join)


@pytest.mark.spec("Z30")
def test_a_further_identity_is_taken_up_by_the_running_server(program: Program, engine: Path):
    assert program.run("engine", "add", "worker", "build-1", str(engine)).rc == 0
    assert (engine / "build-1.url").stat().st_mode & 0o777 == 0o600

    async def ask() -> None:
        connection = await with_patience(lambda: connect(at(engine, "build-1"), "test"))
        assert await may_publish(connection, "tw.main.log.worker.build-1")
        assert not await may_publish(connection, "tw.main.log.worker.worker")
        await connection.close()

    anyio.run(ask)
    for words, said in (
        (("boss", "x"), "neither lead nor worker"),
        (("lead", "X Y"), "small letters"),
        (("lead", "worker"), "already"),
    ):
        ran = program.run("engine", "add", *words, str(engine))
        assert ran.rc == 2 and said in ran.err


@pytest.mark.spec("Z31")
def test_a_worker_removes_no_session(program: Program, engine: Path):
    limit = time.monotonic() + _LIMIT
    while (ran := program.prompt(["hi"], "--engine", f"@{engine}/lead.url")).rc and time.monotonic() < limit:
        continue
    session = ran.result["session_id"]
    ran = program.run("sessions", "delete", session, "--engine", f"@{engine}/worker.url")
    assert ran.rc == 1 and "no right" in ran.err, ran.err
    ran = program.run("sessions", "delete", session, "--engine", f"@{engine}/lead.url")
    assert ran.rc == 0, ran.err


# --- encryption


@pytest.mark.spec("Z23", "Z30")
def test_tls_is_verified(program: Program, tmp_path: Path):
    """The engine's own authority verifies it; another authority, none, or another host name do not."""
    directory = init(program, tmp_path / "engine", "--tls", "--host", "localhost")
    other = init(program, tmp_path / "other", "--tls", "--host", "localhost")
    url = (directory / "lead.url").read_text().strip()
    assert url.startswith("tls://lead:") and (directory / "server-key.pem").stat().st_mode & 0o777 == 0o600
    with running(program, directory):
        limit = time.monotonic() + _LIMIT
        while (good := program.prompt(["hi"], "--engine", f"@{directory}/lead.url")).rc and time.monotonic() < limit:
            continue
        assert good.rc == 0 and good.result["result"] == "hi", good.err
        ran = program.prompt(["hi"], "--engine", url)
        assert ran.rc == 1 and "certificate" in ran.err.lower() and not ran.out, ran.err
        ran = program.prompt(["hi"], "--engine", url, env={"TEAMWRIGHT_ENGINE_CA": str(other / "ca.pem")})
        assert ran.rc == 1 and "certificate" in ran.err.lower(), ran.err
        (tmp_path / "by-number.url").write_text(url.replace("@localhost:", "@127.0.0.1:"))
        env = {"TEAMWRIGHT_ENGINE_CA": str(directory / "ca.pem")}
        ran = program.prompt(["hi"], "--engine", f"@{tmp_path}/by-number.url", env=env)
        assert ran.rc == 1 and "certificate" in ran.err.lower(), ran.err
        ran = program.prompt(["hi"], "--engine", url.replace("tls://", "nats://"))
        assert ran.rc == 1 and not ran.out  # the server refuses unencrypted connections


# --- three nodes


@pytest.mark.spec("Z22", "Z30")
def test_three_nodes_go_on_when_one_is_killed(program: Program, tmp_path: Path):
    hosts = "127.0.0.1,127.0.0.2,127.0.0.3"
    directory = init(program, tmp_path / "engine", "--host", hosts, "--tls")
    assert {f"server-{n}.conf" for n in (1, 2, 3)} <= {path.name for path in directory.iterdir()}
    ran = program.run("engine", "run", str(directory))
    assert ran.rc == 2 and "--node" in ran.err
    lead = f"@{directory}/lead.url"
    with running(program, directory, "1", "2", "3") as nodes:
        limit = time.monotonic() + 2 * _LIMIT
        while (ran := program.prompt(["one"], "--engine", lead)).rc and time.monotonic() < limit:
            continue
        assert ran.rc == 0, ran.err
        id = ran.lines[0]["session_id"]
        status = json.loads(program.run("engine", "status", "--engine", lead, "--json").out)
        assert status["nodes"] == 3 and status["unsafe"] == []
        os.kill(nodes[0].pid, signal.SIGKILL)
        nodes[0].wait(10)
        again = program.prompt(["one", "two"], "--engine", lead, "--resume", id)
        assert again.rc == 0 and again.result["result"] == "two" and not again.err, again.err


@pytest.mark.spec("Z30")
def test_wrong_hosts_are_told(program: Program, tmp_path: Path):
    for hosts, said in (("a,b", "or three"), ("a,a,a", "or three"), ("a b", "cannot be part")):
        ran = program.run("engine", "init", str(tmp_path / "x"), "--host", hosts)
        assert ran.rc == 2 and said in ran.err and not (tmp_path / "x" / "engine.json").exists()


@pytest.mark.spec("Z30")
def test_status_says_what_is_not_safe_of_a_server_that_somebody_else_made(program: Program, tmp_path: Path):
    port = free_port()
    store = f'jetstream {{store_dir: "{tmp_path}/store"}}\n'
    (tmp_path / "plain.conf").write_text(f'listen: "127.0.0.1:{port}"\npid_file: "{tmp_path}/plain.pid"\n{store}')
    argv = [str(Path(ARGV[0]).with_name("nats-server")), "-c", str(tmp_path / "plain.conf")]
    server = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        wait_file(tmp_path / "plain.pid")
        ran = program.run("engine", "status", "--engine", f"nats://127.0.0.1:{port}")
        assert ran.rc == 0, ran.err
        for words in ("whether it syncs", "no rights", "one node"):
            assert f"not safe: {words}" in ran.out or words in ran.out, ran.out
    finally:
        server.terminate()
        server.wait(20)
