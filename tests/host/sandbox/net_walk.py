"""Walks through real networks of roots, as the user who runs this file: `python net_walk.py NAME` prints what it saw.

A program of its own, so that root and an unprivileged user can take the same walk.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from net_kit import NONE, PATIENCE, everywhere, make_certificate, site

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.hosts import Hosts, HostVerdict, host_verdict
from teamwright.host.sandbox.connections.netns import find_nsenter
from teamwright.host.sandbox.connections.network import NetworkRules, RootNetwork, Way
from teamwright.host.sandbox.connections.proxy import ProxyRules, RefusedHost
from teamwright.host.web.addresses import Address

BWRAP = "/usr/bin/bwrap"
Seen = dict[str, Any]


class Root:
    """The network of one root, with its refusals."""

    def __init__(self, network: RootNetwork, refused: list[RefusedHost]) -> None:
        self.network, self.refused = network, refused

    async def run(self, *argv: str, ports: tuple[int, ...] = (), call: str = "call", seconds: float = PATIENCE) -> str:
        """The output of a program in a new box, including standard error."""
        way = await self.network.enter(call, ports)
        try:
            return await anyio.to_thread.run_sync(run_in, way, argv, seconds)
        finally:
            self.network.leave(way)


def box_argv(way: Way, argv: tuple[str, ...]) -> list[str]:
    """The box as the tier makes it, without its map of files."""
    user = [] if os.geteuid() == 0 else ["--unshare-user"]
    fence = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", *user, "--cap-drop", "ALL", "--die-with-parent"]
    files = ["--new-session", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
    return [*way.argv, BWRAP, *way.bwrap, *fence, *files, "--", *argv]


def run_in(way: Way, argv: tuple[str, ...], seconds: float) -> str:
    done = subprocess.run(
        box_argv(way, argv), env={"PATH": "/usr/bin:/bin", **way.env}, pass_fds=way.fds, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    return done.stdout


@contextlib.asynccontextmanager
async def root(hosts: Hosts = NONE, **more: Any) -> AsyncIterator[Root]:
    refused = list[RefusedHost]()

    async def decide(call: str, host: str, port: int) -> HostVerdict:
        return host_verdict(hosts, host, port)

    async def resolve(host: str, port: int) -> list[Address]:
        from ipaddress import ip_address

        return [ip_address("127.0.0.1")]

    proxy = ProxyRules(decide=decide, refused=refused.append, resolve=resolve, allowed=everywhere)
    rules = NetworkRules(**{"bwrap": BWRAP, "nsenter": find_nsenter(), "proxy": proxy} | more)
    async with anyio.create_task_group() as group:
        network = RootNetwork(group, rules)
        try:
            yield Root(network, refused)
        finally:
            network.close()


PYTHON = sys.executable
SERVE = """
import socket
l = socket.create_server(("127.0.0.1", 3000)); print("up", flush=True)
while True:
    c, _ = l.accept(); c.sendall(b"hello from the box"); c.close()
"""
CALL = "import socket; print(socket.create_connection(('127.0.0.1', {port}), 3).recv(100).decode())"


@contextlib.asynccontextmanager
async def background(there: Root, program: str) -> AsyncIterator[subprocess.Popen[str]]:
    way = await there.network.enter("background")
    argv = box_argv(way, (PYTHON, "-c", program))
    with subprocess.Popen(argv, env=way.env, pass_fds=way.fds, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            await anyio.to_thread.run_sync(process.stdout.readline)
            yield process
        finally:
            process.kill()


async def shared() -> Seen:
    """Boxes of one root share a loopback; two roots and this machine do not, so each may use the same port."""
    async with root() as one, root() as two, background(one, SERVE), background(two, SERVE.replace("hello", "other")):
        call = CALL.format(port=3000)
        with contextlib.closing(await one.network.connect(3000)) as wire:
            taken = await wire.receive()
        try:
            socket.create_connection(("127.0.0.1", 3000), 1).close()
            machine = "reached"
        except OSError:
            machine = "nothing"
        return {
            "one": await one.run(PYTHON, "-c", call),
            "two": await two.run(PYTHON, "-c", call),
            "connect": taken.decode(),
            "machine": machine,
        }


OUTWARD = """
import json, socket, sys
port, name = int(sys.argv[1]), sys.argv[2]
told = {}
def attempt(what, do):
    try:
        told[what] = repr(do())
    except OSError as error:
        told[what] = type(error).__name__
def udp(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        return s.sendto(b"secret", address)
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("tcp6", lambda: socket.create_connection(("::1", port), 2))
attempt("machine", lambda: socket.create_connection((sys.argv[3], port), 2))
attempt("far", lambda: socket.create_connection(("1.1.1.1", 53), 2))
attempt("far6", lambda: socket.create_connection(("2606:4700:4700::1111", 53), 2))
attempt("udp far", lambda: udp(socket.AF_INET, ("1.1.1.1", 53)))
attempt("udp6 far", lambda: udp(socket.AF_INET6, ("2606:4700:4700::1111", 53)))
attempt("udp", lambda: udp(socket.AF_INET, ("127.0.0.1", port)))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + name))
attempt("name", lambda: socket.getaddrinfo("example.com", 80))
print(json.dumps(told))
"""


async def outward() -> Seen:
    """Whatever a box tries by itself, nothing arrives here."""
    name = f"teamwright-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        abstract.bind(f"\0{name}")
        abstract.listen()
        for each in (tcp, udp, abstract):
            each.settimeout(0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            with contextlib.suppress(OSError):
                probe.connect(("192.0.2.1", 9))
            mine = probe.getsockname()[0]
        async with root() as there:
            told = await there.run(PYTHON, "-c", OUTWARD, str(port), name, mine)
        arrived = list[str]()
        for what, take in (("tcp", tcp.accept), ("udp", lambda: udp.recv(10)), ("abstract", abstract.accept)):
            with contextlib.suppress(BlockingIOError):
                take()
                arrived.append(what)
    return {"told": json.loads(told), "arrived": arrived}


async def proxied() -> Seen:
    """curl and Python reach an allowed host through the proxy, over TLS too, and no other."""
    with tempfile.TemporaryDirectory() as folder:
        certificate = make_certificate(Path(folder) / "site.pem", "site.example")
        with site(certificate=certificate) as secure, site() as plain:
            entries = (f"site.example:{secure.port}", f"site.example:{plain.port}")
            async with root(Hosts(entries)) as there:
                curl = ("curl", "-sS", "-m", "10", "--cacert", str(certificate))
                python = f"import urllib.request as u; print(u.urlopen('http://site.example:{plain.port}/py').read())"
                tls = await there.run(*curl, f"https://site.example:{secure.port}/tls")
                http = await there.run(PYTHON, "-c", python)
                refused = await there.run(*curl, "-i", "http://evil.example/x", call="call-9")
                tunnel = await there.run(*curl, "https://evil.example/x", call="call-9")
                direct = await there.run(*curl, "--noproxy", "*", f"http://127.0.0.1:{plain.port}/direct")
                told = [[r.call, r.host, r.port] for r in there.refused]
    paths = secure.paths + plain.paths
    words = {"tls": tls, "http": http, "refused": refused, "tunnel": tunnel, "direct": direct}
    return words | {"paths": paths, "told": told}


async def forwarded() -> Seen:
    """An allowed port of this machine is at the same port inside; another port is not there."""
    with site() as one, site() as two:
        get = (
            "import urllib.request as u\n"
            "try: print(u.urlopen('http://{host}:{port}/', timeout=3).read().decode())\n"
            "except OSError as error: print(error)"
        )
        async with root() as there:
            before = await there.run(PYTHON, "-c", get.format(host="127.0.0.1", port=one.port))
            inside = [
                await there.run(PYTHON, "-c", get.format(host=host, port=port), ports=(one.port,))
                for host, port in (("localhost", one.port), ("[::1]", one.port), ("127.0.0.1", two.port))
            ]
        return {"before": before, "inside": inside, "two": two.paths}


async def other_proxy() -> Seen:
    """If the person has a proxy, boxes find it at the address that they are given."""
    with site() as theirs:
        async with root(http_proxy_port=theirs.port) as there:
            told = await there.run("curl", "-sS", "-m", "10", "http://whatever.example/x")
    return {"told": told, "line": theirs.seen[0][0], "named": "proxy-authorization" in theirs.seen[0][1]}


async def handles() -> Seen:
    """Boxes inherit no handle of ours, even if our children cannot read our /proc."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    async with root() as there:
        return {"fds": (await there.run("sh", "-c", "echo /proc/self/fd/*")).split()}


def _holders() -> list[int]:
    """Pids of the programs below us that hold a namespace."""
    found = list[int]()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if words[:1] == [PYTHON.encode()] and any(word.endswith(b"net_helper.py") for word in words):
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                grand = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
                found += [int(place.name)] if grand == os.getpid() else []
    return found


async def holder_dies() -> Seen:
    """Then the way in fails and never leads elsewhere; the next command gets a new network and is told."""
    async with root() as there:
        first = await there.network.enter("one")
        [holder] = _holders()
        handle = os.pidfd_open(holder)
        os.kill(holder, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(handle)
        os.close(handle)
        late = run_in(first, ("cat", "/proc/net/dev"), PATIENCE)
        try:
            await there.network.connect(3000)
        except OSError as error:
            order = str(error)
        else:
            order = "obeyed"
        again, after = await there.network.enter("two"), await there.network.enter("three")
        works = run_in(again, ("cat", "/proc/net/dev"), PATIENCE)
        return {"late": late, "order": order, "notice": again.notice, "after": after.notice, "works": works}


async def cannot_be_made() -> Seen:
    words = list[str]()
    for more in ({"bwrap": "/nowhere/bwrap"}, {"bwrap": "/usr/bin/false"}, {"python": "/nowhere/python"}):
        async with root(**more) as there:
            try:
                await there.run("true")
            except ToolError as error:
                words.append(str(error))
    async with root(nsenter=None) as there:
        way = await there.network.enter("x")
        alone = run_in(way, ("cat", "/proc/net/dev"), PATIENCE)
    return {"words": words, "alone": alone, "env": way.env, "left": _holders()}


async def until_killed() -> Seen:
    """Say who holds the network, and wait, for a test that kills this program."""
    async with root() as there:
        await there.network.prepare()
        print(json.dumps({"holders": _holders()}), flush=True)
        await anyio.sleep(3 * PATIENCE)
    return {}


WALKS: dict[str, Callable[[], Coroutine[Any, Any, Seen]]] = {
    walk.__name__: walk
    for walk in (shared, outward, proxied, forwarded, other_proxy, handles, holder_dies, cannot_be_made, until_killed)
}

if __name__ == "__main__":
    print(json.dumps(anyio.run(WALKS[sys.argv[1]])))
