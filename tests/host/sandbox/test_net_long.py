"""Long transfers through the sandbox's proxy, run by threads: nothing is lost or kept, nobody waits."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from box_kit import AS_NOBODY, miss, why_not
from net_kit import PATIENCE, drain, running

from teamwright.core.sandbox.hosts import Hosts
from teamwright.host.sandbox.connections.proxy import ProxyLimits

_STALL = 0.3  # more than any buffer on the way takes
DATA = bytes(range(251)) * 40_000  # 10 MB in which no piece looks like the next


@contextlib.contextmanager
def tunnel(proxy: int, server: socket.socket) -> Generator[tuple[socket.socket, socket.socket]]:
    """The two ends of a tunnel: the client's and the host's."""
    with socket.create_connection(("127.0.0.1", proxy), PATIENCE) as client:
        client.sendall(f"CONNECT localhost:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
        assert client.recv(200).startswith(b"HTTP/1.1 200")
        with server.accept()[0] as far:
            yield client, far


@pytest.fixture
def server() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(PATIENCE)
        yield made


def hosts(server: socket.socket) -> Hosts:
    return Hosts((f"localhost:{server.getsockname()[1]}",))


def send_until_stalled(far: socket.socket) -> bytes:
    """Send until nobody takes any more; return everything that was taken."""
    far.settimeout(_STALL)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while True:
            begin = sent % len(DATA)
            sent += far.send(DATA[begin : begin + 65_536])
    return (DATA * (sent // len(DATA) + 1))[:sent]


@pytest.mark.spec("V8")
async def test_nothing_is_lost_when_the_reader_pauses(server: socket.socket):
    def stop_and_go(proxy: int) -> bool:
        with tunnel(proxy, server) as (client, far):
            client.sendall(b"the other way meanwhile")
            sent = send_until_stalled(far)
            far.shutdown(socket.SHUT_WR)
            heard = bytearray()
            while piece := client.recv(1 << 20):
                heard += piece
            client.shutdown(socket.SHUT_WR)
            return len(sent) > 1 << 20 and bytes(heard) == sent and drain(far) == b"the other way meanwhile"

    async with running(hosts(server)) as proxy:
        assert await anyio.to_thread.run_sync(stop_and_go, proxy.port)


@pytest.mark.spec("V8")
async def test_silence_counts_after_much_was_said_and_not_while_it_is(server: socket.socket):
    silence = 0.4

    def talk(proxy: int) -> tuple[int, bytes]:
        with tunnel(proxy, server) as (client, far):
            got, until = 0, time.monotonic() + 3 * silence
            while time.monotonic() < until:
                far.sendall(DATA[:200_000])
                for _ in range(200_000):
                    got += len(client.recv(200_000))
                    if got % 200_000 == 0:
                        break
            return got, drain(client) + drain(far)  # both end by themselves

    async with running(hosts(server), limits=ProxyLimits(silence_seconds=silence)) as proxy:
        got, after = await anyio.to_thread.run_sync(talk, proxy.port)
    assert got > 1_000_000 and after == b""


@pytest.mark.spec("V8")
async def test_a_reader_that_has_gone_ends_it(server: socket.socket):
    def leave(proxy: int) -> bool:
        with tunnel(proxy, server) as (client, far):
            far.sendall(DATA[:1_000_000])
            client.recv(65_536)
            client.close()
            far.settimeout(PATIENCE)
            with pytest.raises(ConnectionError):
                for _ in count():
                    far.sendall(DATA)
            return True

    async with running(hosts(server)) as proxy:
        assert await anyio.to_thread.run_sync(leave, proxy.port)


@pytest.mark.spec("V8")
async def test_many_at_once(server: socket.socket):
    def many(proxy: int) -> list[bytes]:
        with contextlib.ExitStack() as stack:
            ends = [stack.enter_context(tunnel(proxy, server)) for _ in range(24)]
            senders = [threading.Thread(target=_say_all, args=(far,)) for _, far in ends]
            for sender in senders:
                sender.start()
            heard = [drain(client) for client, _ in reversed(ends)]
            for sender in senders:
                sender.join(PATIENCE)
            return heard

    async with running(hosts(server)) as proxy:
        assert await anyio.to_thread.run_sync(many, proxy.port) == [DATA[:2_000_000]] * 24


@pytest.mark.spec("V8")
def test_an_end_in_the_middle_leaves_no_thread(server: socket.socket):
    before = threading.enumerate()
    with contextlib.ExitStack() as stack:

        def flow(proxy: int) -> list[threading.Thread]:
            client, far = stack.enter_context(tunnel(proxy, server))
            talking = threading.Thread(target=_say_for_ever, args=(far,))
            talking.start()
            for _ in range(100):
                assert client.recv(65_536)
            hearing = threading.Thread(target=drain, args=(client,))
            hearing.start()
            return [talking, hearing]

        async def end_while_it_flows() -> list[threading.Thread]:
            async with running(hosts(server)) as proxy:
                return await anyio.to_thread.run_sync(flow, proxy.port)

        for thread in [*anyio.run(end_while_it_flows), *(set(threading.enumerate()) - set(before))]:
            thread.join(PATIENCE)
    assert set(threading.enumerate()) <= set(before)


def _say_all(far: socket.socket) -> None:
    far.sendall(DATA[:2_000_000])
    far.shutdown(socket.SHUT_WR)


def _say_for_ever(far: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            far.sendall(DATA)


@pytest.mark.spec("V8")
async def test_one_thread_carries_all_and_the_next_gets_its_turn(server: socket.socket):
    """Twelve transfers that never pause, and one more."""
    ended = threading.Event()

    def crowd(proxy: int) -> tuple[int, bytes, int]:
        with contextlib.ExitStack() as stack:
            ends = [stack.enter_context(tunnel(proxy, server)) for _ in range(12)]
            busy = [threading.Thread(target=_say_for_ever, args=(far,)) for _, far in ends]
            busy += [threading.Thread(target=_hear, args=(client, ended)) for client, _ in ends]
            for thread in busy:
                thread.start()
            try:
                client, far = stack.enter_context(tunnel(proxy, server))
                talking = threading.Thread(target=_say_all, args=(far,))
                talking.start()
                heard = drain(client)
                talking.join(PATIENCE)
                return _carrying(), heard, sum(not thread.is_alive() for thread in busy)
            finally:
                ended.set()
                for end in (one for pair in ends for one in pair):
                    with contextlib.suppress(OSError):  # the other end may be gone by now
                        end.shutdown(socket.SHUT_RDWR)
                for thread in busy:
                    thread.join(PATIENCE)

    async with running(hosts(server)) as proxy:
        carrying, heard, left = await anyio.to_thread.run_sync(crowd, proxy.port)
    assert (carrying, heard, left) == (1, DATA[:2_000_000], 0)


@pytest.mark.spec("V8")
async def test_what_a_reader_left_behind_reaches_nobody_else(server: socket.socket):
    """All connections share one pipe, so it must be empty after any of them breaks."""

    def break_one(proxy: int) -> bytes:
        for _ in range(20):
            with tunnel(proxy, server) as (client, far):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()  # with a reset
                with contextlib.suppress(ConnectionError):
                    far.sendall(DATA[:1_000_000])
        with tunnel(proxy, server) as (client, far):
            far.sendall(b"for me")
            far.shutdown(socket.SHUT_WR)
            return drain(client)

    async with running(hosts(server)) as proxy:
        assert await anyio.to_thread.run_sync(break_one, proxy.port) == b"for me"


@pytest.mark.spec("V8")
async def test_an_end_does_not_wait_for_a_tunnel_that_flows(server: socket.socket):
    """The end of a session neither waits for a transfer nor leaves its two sides connected."""
    with contextlib.ExitStack() as stack:

        def flow(proxy: int) -> tuple[socket.socket, socket.socket]:
            client, far = stack.enter_context(tunnel(proxy, server))
            far.sendall(DATA[:200_000])
            client.recv(1)
            return client, far

        async with running(hosts(server)) as proxy:
            client, far = await anyio.to_thread.run_sync(flow, proxy.port)
            began = time.monotonic()
        assert time.monotonic() - began < 1
        assert len(drain(client)) < 200_000 and drain(far) == b""


def _carrying() -> int:
    return sum(thread.name == "teamwright-relay" for thread in threading.enumerate())


def _hear(client: socket.socket, ended: threading.Event) -> None:
    client.settimeout(PATIENCE)
    with contextlib.suppress(OSError):
        while not ended.is_set() and client.recv(1 << 20):
            pass


@pytest.mark.spec("V8")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_machine_without_another_thread_does_not_end_the_proxy():
    """A fork bomb in a box, or a container that limits processes; run as a user for whom the limit counts."""
    if why := why_not("landlock", "nobody"):
        miss(f"as nobody: {why}")
    script = Path(__file__).with_name("net_threadless.py")
    done = subprocess.run(
        [*AS_NOBODY, sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=3 * PATIENCE
    )
    assert done.stdout == "all of it; no thread; all of it\n", done
