"""The person's own proxy as the parent of the sandbox's, and a fuzz test of forwarded requests."""

import base64
import contextlib
import shutil
import socket
import threading
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from net_kit import PATIENCE, drain, running, site

from teamwright.core.sandbox.hosts import Hosts, HostVerdict, canonical_host, split_target
from teamwright.host.sandbox.connections.proxy import RefusedHost
from teamwright.host.sandbox.connections.request_head import onward, parse_head
from teamwright.host.sandbox.connections.upstream import Inward, Unreachable, parent_for

OPEN = Hosts(("*.example", "intranet", "db.local", "10.0.0.5"))


@contextlib.contextmanager
def parent(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A proxy that records the first bytes of each client, sends this answer, and echoes what follows."""
    heard = list[bytes]()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.settimeout(PATIENCE)
                heard.append(client.recv(4096))
                client.sendall(answer)
                if b" 200 " in answer and heard[-1].startswith(b"CONNECT"):
                    client.sendall(client.recv(4096).upper())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1], heard
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(PATIENCE)


def through(port: int, target: str) -> bytes:
    """Send `hello` through a tunnel and return what comes back."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\nhello".encode())
        client.shutdown(socket.SHUT_WR)
        return drain(client)


@pytest.mark.spec("V8")
async def test_the_persons_own_proxy_is_the_parent():
    """It gets its own credentials, never ours, and looks up the name itself."""
    with parent(b"HTTP/1.1 200 fine\r\nVia: x\r\n\r\nfirst ") as (port, heard):
        env = {"HTTPS_PROXY": f"http://me:p%40ss@127.0.0.1:{port}", "http_proxy": f"127.0.0.1:{port}"}
        async with running(OPEN, env=env) as proxy:
            answer = await anyio.to_thread.run_sync(through, proxy.port, "far.example:443")
            await proxy.say(b"GET http://far.example/a HTTP/1.1\r\nProxy-Authorization: Basic eDp5\r\nX: y\r\n\r\n")
    own = base64.b64encode(b"me:p@ss").decode()
    tunnel = f"CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\nProxy-Authorization: Basic {own}\r\n\r\n"
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nfirst HELLO"
    assert heard[0] == tunnel.encode()
    assert heard[1] == (
        b"GET http://far.example:80/a HTTP/1.1\r\nHost: far.example\r\nX: y\r\nConnection: close\r\n\r\n"
    )
    assert proxy.looked_up == []


@pytest.mark.spec("V8")
async def test_a_parent_lifts_no_refusal():
    """Local and denied names stay refused; names in NO_PROXY go directly, and are vetted."""
    with parent(b"HTTP/1.1 200 fine\r\n\r\n") as (port, heard), site() as there:
        env = {"HTTPS_PROXY": f"http://127.0.0.1:{port}", "HTTP_PROXY": f"http://127.0.0.1:{port}"}
        hosts = Hosts((*OPEN.allowed, f"localhost:{there.port}"), ("bad.example",))
        names = {"near.example": ["10.1.1.1"]}
        async with running(hosts, names, env=env | {"NO_PROXY": "near.example"}) as proxy:
            for host in ("intranet", "db.local", "bad.example", "near.example"):
                answer = await proxy.say(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 403 "), host
            local = await proxy.say(f"GET http://localhost:{there.port}/ HTTP/1.1\r\n\r\n".encode())
    assert heard == [] and b"from-site" in local
    whys = [(r.host, r.why) for r in proxy.refused]
    assert whys == [
        ("intranet", "address"),
        ("db.local", "address"),
        ("bad.example", "host"),
        ("near.example", "address"),
    ]
    assert isinstance(proxy.refused[0], RefusedHost)


@pytest.mark.spec("V9")
@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.parametrize("scheme", ["plain", "tunnel"])
async def test_a_client_that_waits_to_be_asked_for_its_name_is_asked(scheme: str):
    """As git does: first without credentials, then with those of the proxy's address."""

    async def known(call: str, host: str, port: int) -> HostVerdict:
        return "yes" if call == "two" else "ask"

    with site() as there:
        async with running(verdict=known) as proxy:
            proxy.proxy.admit("one")
            address = f"http://box:{proxy.proxy.admit('two')}@127.0.0.1:{proxy.port}"
            argv = ["curl", "-sS", "-m", "10", "--noproxy", "", "--proxy-anyauth", "-x", address]
            argv += ["--proxytunnel"] * (scheme == "tunnel")
            done = await anyio.run_process([*argv, f"http://localhost:{there.port}/"])
    assert done.stdout == b"from-site" and [call for call, _, _ in proxy.asked] == ["", "two"]


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    ("address", "said", "words"),
    [
        ("http://127.0.0.1:{}", b"HTTP/1.1 407 Who are you\r\n\r\n", b"answered 407 Who are you"),
        ("http://127.0.0.1:{}", b"SSH-2.0-x\r\n\r\n", b"answered something else"),
        ("http://127.0.0.1:{}", b"", b"does not answer"),
        ("http://127.0.0.1:1", b"", b"cannot be reached"),
        ("https://me:secret@127.0.0.1:{}", b"", b"is not an `http://host:port`"),
        ("socks5://127.0.0.1:{}", b"", b"is not an `http://host:port`"),
    ],
)
async def test_a_parent_that_does_not_work_is_told(address: str, said: bytes, words: bytes):
    with parent(said) as (port, _):
        async with running(OPEN, env={"HTTPS_PROXY": address.format(port)}) as proxy:
            answer = await proxy.say(b"CONNECT far.example:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ") and words in answer and b"secret" not in answer


@pytest.mark.spec("V8")
@given(st.from_regex(r"[a-z0-9._-]{1,80}", fullmatch=True), st.integers(1, 65_535))
def test_every_name_has_a_parent_or_an_answer(host: str, port: int):
    """For any string as a name, only these errors are raised."""
    if canonical_host(host) == host:
        with contextlib.suppress(Inward, Unreachable):
            found = parent_for(host, port, {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "a.b"}, secure=True)
            assert found is None or found.port == 1


@pytest.mark.spec("V8")
def test_a_proxy_for_everything_is_the_parent_too():
    for secure in (True, False):
        found = parent_for("far.example", 443, {"ALL_PROXY": "http://127.0.0.1:1"}, secure=secure)
        assert found is not None and found.port == 1


_PIECES = (
    b"GET |CONNECT |http://|https://|good.example|evil.example|@|:|443|80|/|/x|?q|#f|\\| |\t|\r|\n|\r\n|\0|HTTP/1.1|"
    b"HTTP/1.0|\r\nHost: |\r\nContent-Length: |\r\nTransfer-Encoding: chunked|\r\nConnection: |Host|[::1]|127.1|0|%2e|"
    b"\r\nProxy-Authorization: Basic eDp5|\r\nX: y|GET http://good.example/ HTTP/1.1|CONNECT a.b:1 HTTP/1.1"
).split(b"|")


@pytest.mark.spec("V8")
@given(st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join) | st.binary(max_size=60))
def test_what_goes_on_names_one_host_however_it_is_read(data: bytes):
    """Parsed as the most lenient reader would: one request line, one Host, no line hidden in another."""
    try:
        head = parse_head(data)
    except ValueError:
        return
    assert canonical_host(head.host) == head.host and 0 < head.port < 65_536
    if head.verb == "CONNECT":
        return
    text = onward(head)
    assert text.endswith(b"\r\n\r\n") and text.count(b"\n") == text.count(b"\r\n") == text.count(b"\r")
    assert text.count(b"\r\n\r\n") == 1
    names = [line.split(b":")[0].strip().lower() for line in text.split(b"\r\n")[1:-2]]
    assert text.split(b" ")[1].startswith(b"/")
    assert names.count(b"host") == 1 and names.count(b"connection") == 1
    assert not any(name.startswith(b"proxy-") for name in names)
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    host = text.partition(b"\r\nHost: ")[2].partition(b"\r\n")[0].decode()
    assert split_target(host, default=80) == (head.host, head.port)
