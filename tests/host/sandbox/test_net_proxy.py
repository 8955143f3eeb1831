"""The sandbox's proxy on this machine: what passes, what is refused and reported, and how long it waits."""

import contextlib
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from net_kit import PATIENCE, credentials, drain, everywhere, make_certificate, running, say, site

from teamwright.core.sandbox.hosts import Hosts, HostVerdict
from teamwright.host.sandbox.connections.proxy import ProxyLimits, RefusedHost
from teamwright.host.sandbox.connections.upstream import look_up

HOME = {"site.example": ["127.0.0.1"]}


def get(port: int, path: str = "/", more: str = "", host: str = "site.example") -> bytes:
    return f"GET http://{host}:{port}{path} HTTP/1.1\r\n{more}\r\n".encode()


@pytest.mark.spec("V8")
async def test_a_request_goes_on_as_the_target_says_and_without_what_is_ours():
    more = "Host: other.example\r\nHost: third\r\nProxy-Connection: keep-alive\r\nX-Kept: yes\r\nX-Hop: 1\r\n"
    with site() as there:
        async with running(Hosts((f"site.example:{there.port}",)), HOME, allowed=everywhere) as proxy:
            told = credentials(proxy.proxy.admit("call-1"))
            answer = await proxy.say(get(there.port, "/a?b=c", more + told + "Connection: keep-alive, X-Hop\r\n"))
    line, fields, _ = there.seen[0]
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"from-site")
    assert line == "GET /a?b=c HTTP/1.1"
    assert fields == {"host": f"site.example:{there.port}", "x-kept": "yes", "connection": "close"}
    assert proxy.asked == [("call-1", "site.example", there.port)]


@pytest.mark.spec("V8")
async def test_a_tunnel_carries_tls_that_nobody_opened(tmp_path: Path):
    certificate = make_certificate(tmp_path / "site.pem", "site.example")
    with site(certificate=certificate) as there:
        async with running(Hosts((f"site.example:{there.port}",)), HOME, allowed=everywhere) as proxy:

            def fetch() -> bytes:
                with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as raw:
                    raw.sendall(f"CONNECT SITE.example.:{there.port} HTTP/1.1\r\n\r\n".encode())
                    assert raw.recv(200).startswith(b"HTTP/1.1 200")
                    context = ssl.create_default_context(cafile=str(certificate))
                    with context.wrap_socket(raw, server_hostname="site.example") as secure:
                        secure.sendall(b"GET /secret HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
                        return drain(secure)

            answer = await anyio.to_thread.run_sync(fetch)
    assert answer.endswith(b"from-site") and there.paths == ["/secret"]


@pytest.mark.spec("V8")
@pytest.mark.parametrize("request_line", ["CONNECT evil.example:443", "GET http://evil.example:443/x?key=secret"])
async def test_a_refusal_says_what_was_refused_and_the_ways_on(request_line: str):
    async with running(Hosts(("good.example",))) as proxy:
        told = credentials(proxy.proxy.admit("call-7"))
        answer = (await proxy.say(f"{request_line} HTTP/1.1\r\n{told}\r\n".encode())).decode()
    assert answer.startswith("HTTP/1.1 403 ") and "sandbox refused" in answer and "evil.example:443" in answer
    assert "allowedDomains" in answer and "dangerouslyDisableSandbox" in answer and "secret" not in answer
    assert proxy.refused == [RefusedHost("call-7", "evil.example", 443, "host")] and proxy.looked_up == []


_NONSENSE = [
    *("GET / HTTP/1.1", "OPTIONS * HTTP/1.1", "GET good.example/ HTTP/1.1", "GET https://good.example/ HTTP/1.1"),
    *("GET ftp://good.example/ HTTP/1.1", "GET file:///etc/passwd HTTP/1.1", "GET ws://good.example/ HTTP/1.1"),
    *("GET http://u@good.example/ HTTP/1.1", "GET http://u:p@good.example/ HTTP/1.1", "GET http:///x HTTP/1.1"),
    *("GET http://good.example#@evil.example/ HTTP/1.1", "GET http://good.example\\@evil.example/ HTTP/1.1"),
    *(
        "GET http://good.example/#x HTTP/1.1",
        "GET http://good.example:/ HTTP/1.1",
        "GET http://good.example:0/ HTTP/1.1",
    ),
    *("GET http://good.example%2eevil.example/ HTTP/1.1", "GET http://[::ffff:127.0.0.1]/ HTTP/1.1"),
    *("GET http://0x7f.1/ HTTP/1.1", "GET http://2130706433/ HTTP/1.1", "GET http://127.1/ HTTP/1.1"),
    *(
        "GET http://good..example/ HTTP/1.1",
        "GET http://goo\u0501.example/ HTTP/1.1",
        "GET  http://good.example/ HTTP/1.1",
    ),
    *("CONNECT good.example HTTP/1.1", "CONNECT u@good.example:443 HTTP/1.1", "CONNECT good.example:443/ HTTP/1.1"),
    *("CONNECT http://good.example:443 HTTP/1.1", "CONNECT good.example:+443 HTTP/1.1", "CONNECT :443 HTTP/1.1"),
    *("CONNECT good.example:443 HTTP/2.0", "CONNECT good.example:443", "CONNECT good.example:443 HTTP/1.1 x"),
    *("CONNECT 0177.0.0.1:443 HTTP/1.1", "CONNECT ::1:443 HTTP/1.1", "CONNECT [good.example]:443 HTTP/1.1"),
    *("CONNECT good.example:443\tHTTP/1.1", "CONNECT good.example\0.evil:443 HTTP/1.1", "\x16\x03\x01\x02"),
    *("CONNECT good.example:443 HTTP/1.1\r\n X: folded", "CONNECT good.example:443 HTTP/1.1\r\nX : y"),
    *("CONNECT good.example:443 HTTP/1.1\nHost: x", "CONNECT good.example:443 HTTP/1.1\r\nX: a\nY: b"),
    *("CONNECT good.example:443 HTTP/1.1\r\nX: a\rY: b", "CONNECT good.example:443 HTTP/1.1\r\nX: a\0"),
    *("POST http://good.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",),
    *("POST http://good.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1",),
    *(
        "POST http://good.example/ HTTP/1.1\r\nContent-Length: +1",
        "POST http://good.example/ HTTP/1.1\r\nContent-Length: ",
    ),
    *("POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: xchunked",),
    *("POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",),
]


@pytest.mark.spec("V8")
async def test_what_could_be_read_in_two_ways_is_read_in_none():
    async with running(Hosts(("good.example", "*.example", "127.0.0.1")), HOME) as proxy:
        for head in _NONSENSE:
            answer = await proxy.say(head.encode() + b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400 ") and b"sandbox" in answer, head
    assert proxy.asked == [] and proxy.looked_up == []


@pytest.mark.spec("V8")
async def test_a_second_request_goes_nowhere():
    """Neither in the same packet, nor behind a body, nor after the answer."""
    with site() as there:
        port = there.port
        async with running(Hosts((f"site.example:{port}",)), HOME, allowed=everywhere) as proxy:
            second = get(port, "/two", "Host: evil.example\r\n", "evil.example")
            assert (await proxy.say(get(port, "/none") + second)).startswith(b"HTTP/1.1 400")
            assert there.seen == []
            await proxy.say(get(port, "/body", "Content-Length: 3\r\n") + b"abc" + second)
            await proxy.say(get(port, "/chunks", "Transfer-Encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\n\r\n" + second)

            def one_after_the_other() -> bytes:
                with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as client:
                    client.sendall(get(port, "/one"))
                    whole = b""
                    while not whole.endswith(b"from-site"):
                        whole += client.recv(4096)
                    with contextlib.suppress(ConnectionError):
                        client.sendall(second)
                    return drain(client)

            assert await anyio.to_thread.run_sync(one_after_the_other) == b""
    assert (
        "/one" in there.paths and "/two" not in there.paths and {host for _, host, _ in proxy.asked} == {"site.example"}
    )


@pytest.mark.spec("V8")
async def test_a_second_request_ends_a_connection_that_the_host_keeps_open():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        port = server.getsockname()[1]

        def ask(proxy: int) -> tuple[bytes, bytes]:
            with socket.create_connection(("127.0.0.1", proxy), PATIENCE) as client:
                client.sendall(get(port, "/one", host="localhost"))
                with server.accept()[0] as host:
                    host.settimeout(PATIENCE)
                    first = host.recv(4096)
                    host.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    assert client.recv(4096).endswith(b"ok")
                    client.sendall(get(port, "/two", host="evil.example"))
                    return drain(client), first + drain(host)

        async with running(Hosts((f"localhost:{port}",))) as proxy:
            more, heard = await anyio.to_thread.run_sync(ask, proxy.port)
    assert more == b"" and heard.count(b"HTTP/1.1") == 1 and b"/two" not in heard


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ("Content-Length: 200000\r\n", b"x" * 200_000),
        ("Transfer-Encoding: chunked\r\n", b"30D40;a=b\r\n" + b"x" * 200_000 + b"\r\n0\r\nTrailer: y\r\n\r\n"),
    ],
)
async def test_bodies_arrive_whole(fields: str, body: bytes):
    with site() as there:
        async with running(Hosts((f"localhost:{there.port}",))) as proxy:
            head = f"POST http://localhost:{there.port}/up HTTP/1.1\r\nExpect: 100-continue\r\n{fields}\r\n"
            answer = await proxy.say(head.encode() + body)
    assert b"from-site" in answer and there.seen[0][2] == b"x" * 200_000


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "chunks", [b"zz\r\nabc\r\n", b"3\r\nabcdef\r\n", b"-1\r\n\r\n", b"0x3\r\nabc\r\n", b"9" * 5000]
)
async def test_odd_chunks_end_the_request(chunks: bytes):
    with site() as there:
        async with running(Hosts((f"localhost:{there.port}",))) as proxy:
            head = f"POST http://localhost:{there.port}/up HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            assert b"from-site" not in await proxy.say(head.encode() + chunks)
    assert there.seen == []


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["fd00::1"],
        ["93.184.216.34", "192.168.1.1"],
    ],
)
async def test_a_name_that_leads_inward_is_refused(addresses: Sequence[str]):
    with site() as there:
        port = there.port
        async with running(Hosts((f"site.example:{port}",)), {"site.example": addresses}) as proxy:
            for line in (f"CONNECT site.example:{port}", f"GET http://site.example:{port}/x"):
                answer = await proxy.say(f"{line} HTTP/1.1\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 403 ") and b"its own network" in answer
    assert there.seen == [] and proxy.refused == [RefusedHost("", "site.example", port, "address")] * 2
    assert proxy.looked_up == ["site.example"] * 2


@pytest.mark.spec("V8")
async def test_the_name_is_looked_up_once_and_that_address_is_reached():
    """The system's own resolver does not know the name, so a second lookup would fail."""
    with site() as there:
        async with running(
            Hosts((f"once.invalid:{there.port}",)), {"once.invalid": ["127.0.0.1"]}, allowed=everywhere
        ) as p:
            assert b"from-site" in await p.say(get(there.port, "/", host="once.invalid"))
    assert p.looked_up == ["once.invalid"]


@pytest.mark.spec("V8")
async def test_names_are_looked_up_by_the_system():
    assert all(address.is_loopback for address in await look_up("localhost", 80))
    for name in ("nowhere.invalid", "x" * 70 + ".example"):
        with pytest.raises(OSError):
            await look_up(name, 80)


@pytest.mark.spec("V8")
async def test_what_is_allowed_but_not_there_is_a_502():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with running(Hosts((f"localhost:{port}", "nowhere.example"))) as proxy:
        refused = await proxy.say(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
        missing = await proxy.say(b"GET http://nowhere.example/ HTTP/1.1\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 502 ") and b"cannot be reached" in refused
    assert missing.startswith(b"HTTP/1.1 502 ") and b"no address for nowhere.example" in missing
    assert proxy.refused == []


@pytest.mark.spec("V9")
async def test_a_connection_waits_for_an_answer_and_not_for_ever():
    answered = anyio.Event()

    async def later(call: str, host: str, port: int) -> HostVerdict:
        if host == "localhost":
            await answered.wait()
            return "yes"
        await anyio.sleep_forever()
        return "yes"

    with site() as there:
        async with running(verdict=later, limits=ProxyLimits(verdict_seconds=0.2)) as proxy:
            assert (await proxy.say(b"CONNECT nobody.example:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")
        async with running(verdict=later) as proxy, anyio.create_task_group() as group:
            answers = list[bytes]()

            async def ask() -> None:
                answers.append(await proxy.say(get(there.port, host="localhost")))

            group.start_soon(ask)
            while not proxy.asked:
                await anyio.sleep(0)
            assert answers == [] and there.seen == []
            answered.set()
    assert b"from-site" in answers[0]


@pytest.mark.spec("V9")
async def test_each_connection_is_known_as_that_of_its_call():
    """The token names the call. Without a token it must be the only box; among several, nobody is asked."""

    async def ask_for(call: str, host: str, port: int) -> HostVerdict:
        return "ask" if host == "new.example" else "no"

    async with running(verdict=ask_for) as proxy:
        plain = b"CONNECT old.example:443 HTTP/1.1\r\n\r\n"
        one = proxy.proxy.admit("one")
        assert (await proxy.say(plain)).startswith(b"HTTP/1.1 403")
        two = proxy.proxy.admit("two")
        for token, status in ((one, b"403"), (two, b"403"), ("wrong", b"407"), ("", b"407")):
            told = credentials(token) if token else ""
            answer = await proxy.say(f"CONNECT new.example:443 HTTP/1.1\r\n{told}\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 " + status) and (b"Proxy-Authenticate: Basic" in answer) == (
                status == b"407"
            )
        assert (await proxy.say(plain)).startswith(b"HTTP/1.1 403")
        proxy.proxy.dismiss(one)
        await proxy.say(plain)
    assert [call for call, _, _ in proxy.asked] == ["one", "one", "two", "", "", "", "two"]
    assert [refusal.call for refusal in proxy.refused] == ["one", "one", "two", "", "two"]


@pytest.mark.spec("V8")
async def test_a_listener_that_others_can_reach_wants_the_token():
    async with running(Hosts(("localhost:1",)), named_only=True) as proxy:
        token = proxy.proxy.admit("one")
        assert (await proxy.say(b"CONNECT localhost:1 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 407")
        named = f"CONNECT localhost:1 HTTP/1.1\r\n{credentials(token)}\r\n".encode()
        assert (await proxy.say(named)).startswith(b"HTTP/1.1 502")
    assert len(proxy.asked) == 1


@pytest.mark.spec("V8")
async def test_long_headers_and_silence_are_answered():
    async with running(Hosts(), limits=ProxyLimits(head_seconds=0.3)) as proxy:
        flood = b"CONNECT a.example:443 HTTP/1.1\r\n" + b"X: y\r\n" * 200_000
        assert b"32,768 bytes" in await proxy.say(flood)
        assert b"within 0.3 seconds" in await proxy.say(b"CONNECT a.example:443 HTTP/1.1\r\nX: ")
    assert proxy.asked == []


@pytest.mark.spec("V8")
async def test_the_oldest_that_says_nothing_makes_room():
    async with running(Hosts(), limits=ProxyLimits(connections=4)) as proxy:

        def crowd() -> tuple[bytes, bytes]:
            with contextlib.ExitStack() as stack:
                idle = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)) for _ in range(4)
                ]
                answer = say(proxy.port, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
                gone = drain(idle[0])
                idle[3].sendall(b"CONNECT b.example:443 HTTP/1.1\r\n\r\n")
                return gone, answer + drain(idle[3])

        gone, answers = await anyio.to_thread.run_sync(crowd)
    assert gone == b"" and answers.count(b"HTTP/1.1 403") == 2


@pytest.mark.spec("V8")
async def test_a_silent_tunnel_is_closed_and_a_half_closed_one_is_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        port = server.getsockname()[1]

        def tunnel(proxy: int) -> socket.socket:
            client = socket.create_connection(("127.0.0.1", proxy), PATIENCE)
            client.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\nearly ".encode())
            assert client.recv(200).startswith(b"HTTP/1.1 200")
            return client

        def half_close(proxy: int) -> tuple[bytes, bytes]:
            with tunnel(proxy) as client, server.accept()[0] as far:
                client.sendall(b"bye")
                client.shutdown(socket.SHUT_WR)
                heard = drain(far)
                far.sendall(b"after the end")
                far.shutdown(socket.SHUT_WR)
                return heard, drain(client)

        def silent(proxy: int) -> bytes:
            with tunnel(proxy) as client, server.accept()[0] as far:
                return drain(client) + drain(far)

        async with running(Hosts((f"localhost:{port}",))) as proxy:
            assert await anyio.to_thread.run_sync(half_close, proxy.port) == (b"early bye", b"after the end")
        async with running(Hosts((f"localhost:{port}",)), limits=ProxyLimits(silence_seconds=0.3)) as proxy:
            assert await anyio.to_thread.run_sync(silent, proxy.port) == b"early "


@pytest.mark.spec("V8")
async def test_ten_megabytes_each_way_arrive_as_they_were():
    data = bytes(range(256)) * 40_000
    with site(data) as there:
        async with running(Hosts((f"localhost:{there.port}",))) as proxy:
            length = f"Content-Length: {len(data)}\r\n"
            answer = await proxy.say(get(there.port, "/big", length, "localhost") + data)
    assert answer.partition(b"\r\n\r\n")[2] == data and there.seen[0][2] == data
