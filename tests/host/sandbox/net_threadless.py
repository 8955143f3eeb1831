"""Runs long transfers through a proxy in a process that can start no more threads, and prints their outcome."""

import resource
import socket
import threading

import anyio
from net_kit import running

from teamwright.core.sandbox.hosts import Hosts
from teamwright.host.sandbox.connections.upstream import look_up
from teamwright.host.sandbox.connections.wire import Stream, dial

DATA = bytes(range(251)) * 8_000


async def transfer(proxy: int, server: socket.socket) -> str:
    client = await dial("127.0.0.1", proxy, 5)
    await client.send(f"CONNECT localhost:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
    await anyio.wait_readable(server)
    far = Stream(server.accept()[0])
    assert (await client.receive()).startswith(b"HTTP/1.1 200")

    async def say() -> None:
        await far.send(DATA)
        far.finish()

    heard = bytearray()
    async with client, far, anyio.create_task_group() as group:
        group.start_soon(say)
        while piece := await client.receive():
            heard += piece
    return "all of it" if heard == DATA else f"{len(heard)} bytes"


async def main() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        async with running(Hosts((f"localhost:{server.getsockname()[1]}",))) as proxy:
            told.append(await transfer(proxy.port, server))
            try:
                threading.Thread(target=print).start()
            except RuntimeError:
                told.append("no thread")
            try:
                await look_up("example.com", 80)
            except OSError:
                told.append(await transfer(proxy.port, server))
    print("; ".join(told))


anyio.run(main)
