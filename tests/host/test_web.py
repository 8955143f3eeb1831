"""Fetching: no access to this machine, where redirects lead, and limits on size and time."""

import gzip
import shutil
import ssl
import subprocess
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from yarl import URL

from teamwright.core.errors import ToolError
from teamwright.host.web import fetch as product
from teamwright.host.web.addresses import Address
from teamwright.host.web.fetch import MOST_BYTES, WebPage, fetch

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http{'s' if tls else ''}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def anywhere(_: Address) -> bool:
    return True


async def get(url: str, **more: Any) -> WebPage:
    return await fetch(url, **{"allowed": anywhere, "env": {}, **more})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "１２７.0.0.1",
    ],
)
async def test_no_way_to_this_machine(host: str) -> None:
    reached: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        reached.append(request.path)
        return web.Response(text="secret")

    async with serving(handler) as base:
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(f"http://{host}:{base.rpartition(':')[2]}/", env={})
    assert reached == []


async def test_one_private_address_among_several_is_enough_to_refuse() -> None:
    judged: list[Address] = []

    def some(address: Address) -> bool:
        judged.append(address)
        return False

    with pytest.raises(ToolError, match="public internet"):
        await get("http://localhost:1/", allowed=some)
    assert judged


async def test_the_connection_goes_to_the_addresses_that_were_vetted() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text=f"{request.host} {request.remote}")

    judged: set[Address] = set()

    def note(address: Address) -> bool:
        judged.add(address)
        return True

    async with serving(handler) as base:
        port = base.rpartition(":")[2]
        page = await get(f"http://localhost:{port}/", allowed=note)
    assert page.body == f"localhost:{port} 127.0.0.1".encode() and IPv4Address("127.0.0.1") in judged
    resolver = product._resolver([IPv4Address("192.0.2.7"), IPv6Address("2001:db8::7")])
    rows = await resolver.resolve("localhost", 80)  # whatever the name resolves to by now
    assert [row["host"] for row in rows] == ["192.0.2.7", "2001:db8::7"]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://example.com/", "javascript:alert(1)", "data:text/html,x", "", "example.com",
        "//x/", "http://", "http:///x", "http://user:pw@example.com/", "http://@example.com/", "http://a b/",
        "http://a\\@b/",
        "http://exa\x00mple.com/", "http://x/\r\nHost: y", "http://x/\u202e", "http://x:99999/", "http://[::1/",
        "http://" + "a" * 5000,
    ],
)  # fmt: skip
async def test_only_plain_web_addresses_are_fetched(url: str) -> None:
    with pytest.raises(ToolError) as caught:
        await get(url)
    assert str(caught.value).isprintable()


async def test_a_page_with_its_type_and_charset() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip, deflate" and "Cookie" not in request.headers
        return web.Response(
            body=b"caf\xe9", headers={"Content-Type": "text/plain; charset=latin-1", "Set-Cookie": "a=b"}
        )

    async with serving(handler) as base:
        page = await get(f"{base}/x?q=1#frag")
    assert (page.status, page.reason, page.media_type, page.charset) == (200, "OK", "text/plain", "latin-1")
    assert page.url == f"{base}/x?q=1" and page.body == b"caf\xe9" and not page.cut and page.moved_to is None


async def test_redirects_of_one_host_are_followed_and_vetted_each_time() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        n = int(request.path[1:])
        return web.Response(status=302, headers={"Location": f"/{n - 1}"}) if n else web.Response(text="there")

    vetted: list[Address] = []

    def note(address: Address) -> bool:
        vetted.append(address)
        return True

    async with serving(handler) as base:
        assert (await get(f"{base}/5", allowed=note)).body == b"there"
        assert len(vetted) == 6
        with pytest.raises(ToolError, match="more than 5 times"):
            await get(f"{base}/6")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_host_is_told_not_followed(status: int) -> None:
    reached: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        reached.append(request.host)
        port = request.host.rpartition(":")[2]
        return web.Response(status=status, headers={"Location": f"http://localhost:{port}/next"})

    async with serving(handler) as base:
        page = await get(f"{base}/")
        assert page.moved_to == f"http://localhost:{base.rpartition(':')[2]}/next"
    assert len(reached) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://example.com/a", "https://www.example.com/b", True),
        ("https://www.example.com/", "https://example.com/", True),
        ("https://example.com/", "http://example.com/", False),
        ("https://example.com/", "https://example.com:8443/", False),
        ("https://example.com/", "https://evil.example.com/", False),
        ("https://example.com/", "https://example.com.evil.org/", False),
        ("http://example.com:8080/", "http://example.com:8080/x", True),
    ],
)
def test_what_counts_as_the_same_host(one: str, other: str, same: bool) -> None:
    assert product._same_site(URL(one), URL(other)) is same


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://u:p@127.0.0.1/", "http://[", "\tjavascript:x"])
async def test_a_redirect_to_nonsense_is_an_error(location: str) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": location})

    async with serving(handler) as base:
        with pytest.raises(ToolError):
            await get(f"{base}/")


PACKED = {
    "gzip": gzip.compress(b"hello " * 1000),
    "x-gzip": gzip.compress(b"hello " * 400) + gzip.compress(b"hello " * 600) + b"\0\0",
    "deflate": zlib.compress(b"hello " * 1000),
    "DEFLATE": zlib.compress(b"hello " * 1000, wbits=-15),
    "identity": b"hello " * 1000,
}


@pytest.mark.parametrize("encoding", PACKED)
async def test_packed_pages_are_unpacked(encoding: str) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(body=PACKED[encoding], headers={"Content-Encoding": encoding})

    async with serving(handler) as base:
        assert (await get(f"{base}/")).body == b"hello " * 1000


@pytest.mark.parametrize(("encoding", "body"), [("br", b"x"), ("gzip", b"not gzip"), ("deflate", b"\xff\xff\xff")])
async def test_a_page_that_cannot_be_unpacked_is_an_error(encoding: str, body: bytes) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    async with serving(handler) as base:
        with pytest.raises(ToolError, match="packed"):
            await get(f"{base}/")


@pytest.mark.spec("A5")
async def test_a_bomb_is_cut_and_never_large_in_memory() -> None:
    press = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(press.compress(bytes(1_000_000)) for _ in range(150)), press.flush()])

    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    async with serving(handler) as base:
        await get(f"{base}/")  # imports and caches
        tracemalloc.start()
        try:
            page = await get(f"{base}/")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert page.cut and len(page.body) == MOST_BYTES and peak < 4 * MOST_BYTES


@pytest.mark.spec("A5")
async def test_an_endless_page_is_cut() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 100_000)
        except ConnectionError:
            pass
        return response

    async with serving(handler) as base:
        page = await get(f"{base}/")
    assert page.cut and len(page.body) == MOST_BYTES


async def test_silence_ends_at_the_time_limit() -> None:
    gone = anyio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await gone.wait()
        return response

    async with serving(handler) as base:
        with anyio.fail_after(10), pytest.raises(ToolError, match=r"within 0\.2 seconds"):
            await get(f"{base}/", seconds=0.2)
        gone.set()


async def test_a_server_that_is_down_or_breaks_off_is_told() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(handler) as base:
        with pytest.raises(ToolError, match="could not be fetched"):
            await get(f"{base}/")
    with pytest.raises(ToolError, match="could not be fetched"):
        await get(f"{base}/")
    with pytest.raises(ToolError, match="no address for the host"):
        await get("http://no-such-host.invalid/")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
async def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subprocess.run([*make, "-subj", "/CN=x", "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=30)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)

    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(text="secret")

    async with serving(handler, tls) as base:
        with pytest.raises(ToolError, match="certificate"):
            await get(f"{base}/")


# --- behind a proxy


@pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY"])
async def test_behind_a_proxy_the_name_goes_to_the_proxy_and_local_ones_nowhere(name: str) -> None:
    asked: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        asked.append(str(request.url))
        return web.Response(text="by proxy")

    async with serving(handler) as proxy:
        env = {name: proxy, "NO_PROXY": "direct.example,127.0.0.1"}
        page = await fetch("http://no-such-host.example.invalid/x", env=env)
        assert page.body == b"by proxy" and asked == ["http://no-such-host.example.invalid/x"]
        for host in (
            "10.0.0.1",
            "169.254.169.254",
            "2130706433",
            "localhost",
            "db",
            "x.internal",
            "[::1]",
            "127.0.0.1",
        ):
            with pytest.raises(ToolError, match="not on the public internet"):
                await fetch(f"http://{host}/", env=env)
    assert len(asked) == 1


async def test_a_kind_of_proxy_that_cannot_be_used_is_an_error_that_names_it() -> None:
    with pytest.raises(ToolError, match=r"socks5 proxy; only http and https proxies can be used[.]$"):
        await fetch("http://no-such-host.example.invalid/x", env={"ALL_PROXY": "socks5://p:1"})
