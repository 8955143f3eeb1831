"""A download of 10 MB with and without the sandbox's proxy, by Python's own HTTP client, in turns.

Everything runs on loopback, where copies and context switches are the whole cost; no real line is as fast.
"""

import socket
import subprocess
import sys

import anyio
import msgspec
from rows import Row, ms
from session import Rig

from teamwright.core.sandbox.hosts import Hosts, HostVerdict, host_verdict
from teamwright.host.sandbox.connections.proxy import Proxy, ProxyRules, RefusedHost

ROUNDS = 40
SIZE = 10_000_000

SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
data = b"x" * int(sys.argv[1])
head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(data)
while True:
    client, _ = server.accept()
    with client:
        client.recv(4096)
        client.sendall(head + data)
"""
CLIENT = """
import http.client, json, sys, time
site, proxy, rounds, size = map(int, sys.argv[1:])
direct, through = [], []
def download(port, times):
    began = time.perf_counter()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    if port == proxy:
        client.set_tunnel("localhost", site)
    client.request("GET", "/")
    assert len(client.getresponse().read()) == size
    client.close()
    times.append(time.perf_counter() - began)
for _ in range(rounds):
    download(site, direct)
    download(proxy, through)
print(json.dumps([through, direct]))
"""


async def _downloads(site: int) -> list[list[float]]:
    async def decide(call: str, host: str, port: int) -> HostVerdict:
        return host_verdict(Hosts((f"localhost:{site}",)), host, port)

    def refused(refusal: RefusedHost) -> None:
        raise AssertionError(refusal)

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with anyio.create_task_group() as group:
        group.start_soon(Proxy(ProxyRules(decide, refused)).serve, listener)
        argv = [sys.executable, "-c", CLIENT, str(site), str(port), str(ROUNDS), str(SIZE)]
        done = await anyio.run_process(argv, stderr=None)
        group.cancel_scope.cancel()
    return msgspec.json.decode(done.stdout, type=list[list[float]])


def measure(_: Rig) -> list[Row]:
    argv = [sys.executable, "-c", SERVER, str(SIZE)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            through, direct = anyio.run(_downloads, int(server.stdout.readline()))
        finally:
            server.kill()
    return [Row("10 MB through the sandbox's proxy : direct", ms(through), ms(direct), unit="ms", most_ratio=1 / 0.7)]
