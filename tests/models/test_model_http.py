"""The HTTP client: bodies, connections, proxies, certificates, and the words for network failures."""

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from streams import ASKED, said

from fake_api import HANG, FakeApi, answer, events, stream
from teamwright.core.data.message import Delta, Image, Message, Reply, Request, Retrying, Text, user
from teamwright.core.errors import ModelError
from teamwright.models.http import HttpClient
from teamwright.models.providers import Providers
from teamwright.models.retry import Brake, Patience, Reach
from teamwright.models.wires.anthropic import Anthropic

MODEL = "anthropic/claude-x"
PEM = Path(__file__).with_name("localhost.pem")
HI = stream(events(said("hi")))


async def at_once(_seconds: float) -> None:
    pass


async def ask(
    base: str, env: dict[str, str] | None = None, *, retries: int = 10, messages: Any = ASKED
) -> tuple[Reply, list[Delta]]:
    http, deltas = HttpClient(env or {}, silence=5), list[Delta]()
    try:
        model = Anthropic(http, Reach(base, patience=Patience(retries, at_once)))
        return await model.reply(Request(MODEL, (), (), messages), deltas.append), deltas
    finally:
        await http.aclose()


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


@pytest.mark.anyio
async def test_a_body_of_five_megabytes_is_sent_whole_and_again() -> None:
    image = Message("user", (Image("image/png", "A" * 5_000_000), Text("see")))
    async with FakeApi([answer(500, {}), HI]) as api:
        reply, _ = await ask(api.url, messages=(image, *(user(f"line {n}") for n in range(1000))))
    assert reply.message.text == "hi"
    one, two = api.asked
    assert one.body == two.body and len(one.body) > 5_000_000
    assert "transfer-encoding" not in one.headers
    (sent,) = one.json["messages"]
    assert len(sent["content"]) == 1002 and sent["content"][-1]["text"] == "line 999"


@pytest.mark.spec("B9")
@pytest.mark.anyio
async def test_a_server_that_stops_reading_is_silent() -> None:
    """The body does not fit into the socket's buffers, and nobody reads it."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        http = HttpClient({}, silence=0.3)
        model = Anthropic(http, Reach(f"http://127.0.0.1:{deaf.getsockname()[1]}", patience=Patience(0)))
        image = Message("user", (Image("image/png", "A" * 30_000_000),))
        with anyio.fail_after(10), pytest.raises(ModelError) as caught:
            await model.reply(Request(MODEL, (), (), (image,)), lambda _: None)
        await http.aclose()
    assert caught.value.fault == "silence"


@pytest.mark.anyio
async def test_the_time_until_the_first_answer_is_used_once() -> None:
    heard, go_on, deltas = list[int](), asyncio.Event(), list[Delta]()

    def meanwhile() -> None:
        heard.append(len(deltas))
        go_on.set()

    async with FakeApi([[go_on, *stream(events(said("hi")), size=100)]]) as api:
        http = HttpClient({}, meanwhile=meanwhile)
        model = Anthropic(http, Reach(api.url))
        with anyio.fail_after(20):
            for _ in range(2):
                await model.reply(Request(MODEL, (), (), ASKED), deltas.append)
        await http.aclose()
    assert len(api.asked) == 2
    assert heard == [0] and deltas  # once, and the answer need not have begun


@pytest.mark.anyio
async def test_connections_are_used_again() -> None:
    async with FakeApi([HI]) as api:
        http = HttpClient({})
        model = Anthropic(http, Reach(api.url))
        for _ in range(5):
            await model.reply(Request(MODEL, (), (), ASKED), lambda _: None)
        await http.aclose()
        assert (len(api.asked), api.connections) == (5, 1)


@pytest.mark.anyio
async def test_a_connection_whose_stream_ends_a_little_late_is_used_again() -> None:
    heard = asyncio.Event()
    async with FakeApi([[*HI[:-1], heard, HI[-1]]]) as api:
        http = HttpClient({})
        model = Anthropic(http, Reach(api.url))
        for _ in range(2):
            heard.clear()
            await model.reply(Request(MODEL, (), (), ASKED), lambda _: heard.set())
        await http.aclose()
        assert (len(api.asked), api.connections) == (2, 1)


@pytest.mark.anyio
async def test_a_stream_that_is_left_open_after_its_end_does_not_hold_up_the_reply() -> None:
    async with FakeApi([[*HI[:-1], HANG]]) as api:
        with anyio.fail_after(3):
            reply, _ = await ask(api.url)
    assert reply.message.text == "hi"


@pytest.mark.anyio
async def test_many_at_once_need_no_turns() -> None:
    gate = asyncio.Event()
    async with FakeApi([[gate, *HI]]) as api:
        http, done = HttpClient({}), list[str]()
        model = Anthropic(http, Reach(api.url))

        async def one() -> None:
            reply = await model.reply(Request(MODEL, (), (), ASKED), lambda _: None)
            done.append(reply.message.text)

        async with anyio.create_task_group() as group:
            for _ in range(150):
                group.start_soon(one)
            with anyio.fail_after(10):
                while len(api.asked) < 150:
                    api.arrived.clear()
                    await api.arrived.wait()
            gate.set()
        await http.aclose()
    assert done == ["hi"] * 150


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_the_brake_holds_requests_that_have_not_started() -> None:
    """The server tells one request to wait; another, started after that, is only sent when the time is over."""
    waited, released, now = list[float](), asyncio.Event(), [0.0]

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await released.wait()
        now[0] = 100.0

    async with FakeApi([answer(429, {}, retry_after="60"), HI]) as api:
        http, brake = HttpClient({}), Brake()
        patience = Patience(3, sleep, lambda: now[0], lambda: 0.0)
        one, two = (Anthropic(http, Reach(api.url, patience=patience, brake=brake)) for _ in range(2))
        told = asyncio.Event()

        def watch(delta: Delta) -> None:
            if isinstance(delta, Retrying):
                told.set()

        async with anyio.create_task_group() as group:
            group.start_soon(one.reply, Request(MODEL, (), (), ASKED), watch)
            with anyio.fail_after(5):
                await told.wait()
            group.start_soon(two.reply, Request(MODEL, (), (), ASKED), watch)
            with anyio.fail_after(5):
                while len(waited) < 2:
                    await anyio.lowlevel.checkpoint()
            assert len(api.asked) == 1
            released.set()
        await http.aclose()
        assert (len(api.asked), waited) == (3, [60, 60])


# --- the network


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    deltas: list[Delta] = []
    http = HttpClient({})
    model = Anthropic(http, Reach(f"http://127.0.0.1:{port}", patience=Patience(10, at_once)))
    with pytest.raises(ModelError, match="Is the server running") as caught:
        await model.reply(Request(MODEL, (), (), ASKED), deltas.append)
    await http.aclose()
    assert f"127.0.0.1:{port}" in str(caught.value) and "HTTPS_PROXY" in str(caught.value)
    assert caught.value.fault == "network" and len(deltas) == 3


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_there_is_no_such_host() -> None:
    with pytest.raises(ModelError, match=r"no-such-host\.invalid") as caught:
        await ask("http://no-such-host.invalid", retries=1)
    assert caught.value.fault == "network"


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_a_connection_that_is_dropped_is_tried_again() -> None:
    async with FakeApi([["cut"], ["close"], [b"HTTP/1.1 200"], [b"nonsense\r\n\r\n", "close"], HI]) as api:
        api.plays[2] = [*api.plays[2], "cut"]
        reply, deltas = await ask(api.url)
    assert reply.message.text == "hi"
    assert [d.fault for d in deltas if isinstance(d, Retrying)] == ["network"] * 4


@pytest.mark.anyio
async def test_a_redirect_is_not_followed_with_the_key() -> None:
    async with FakeApi([HI]) as other, FakeApi([answer(307, b"", location=f"{other.url}/v1/messages")]) as api:
        with pytest.raises(ModelError, match="redirect"):
            await ask(api.url)
        assert not other.asked


@pytest.mark.anyio
async def test_a_private_authority_is_trusted_when_it_is_named() -> None:
    async with FakeApi([HI], tls=tls()) as api:
        reply, _ = await ask(api.url, {"SSL_CERT_FILE": str(PEM)})
    assert reply.message.text == "hi"


@pytest.mark.spec("A7")
@pytest.mark.anyio
async def test_a_certificate_that_nobody_vouches_for_ends_it_at_once() -> None:
    async with FakeApi([HI], tls=tls()) as api:
        with pytest.raises(ModelError, match="SSL_CERT_FILE") as caught:
            await ask(api.url)
        assert not api.asked
    assert caught.value.fault == "network" and "attempts" not in str(caught.value)


@pytest.mark.anyio
async def test_a_certificate_file_that_is_not_there() -> None:
    with pytest.raises(ModelError, match=r"no-such\.pem") as caught:
        await ask("https://127.0.0.1:9", {"SSL_CERT_FILE": "/no-such.pem"})
    assert caught.value.fault == "config"


@pytest.mark.anyio
async def test_https_to_a_server_that_speaks_http() -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    with pytest.raises(ModelError, match="TLS") as caught:
        await ask(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", retries=0)
    server.close()
    assert caught.value.fault == "network"


# --- proxies


@pytest.mark.anyio
async def test_a_proxy_is_used_for_plain_http() -> None:
    async with FakeApi([HI]) as proxy:
        reply, _ = await ask("http://api.invalid", {"HTTP_PROXY": f"http://me:pw@{proxy.host}"})
    assert reply.message.text == "hi"
    assert proxy.asked[0].path == "http://api.invalid/v1/messages"
    assert proxy.asked[0].headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.anyio
async def test_a_proxy_is_asked_to_connect_for_https() -> None:
    async with FakeApi([answer(407, b"")]) as proxy:
        with pytest.raises(ModelError, match="HTTPS_PROXY") as caught:
            await ask("https://api.invalid", {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(PEM)})
    assert (proxy.asked[0].method, proxy.asked[0].path) == ("CONNECT", "api.invalid:443")
    assert caught.value.status == 407 and len(proxy.asked) == 1


@pytest.mark.anyio
async def test_a_proxy_that_is_down() -> None:
    with pytest.raises(ModelError, match="Cannot connect to the proxy"):
        await ask("http://api.invalid", {"http_proxy": "127.0.0.1:1"}, retries=0)


async def test_a_kind_of_proxy_that_cannot_be_used() -> None:
    with pytest.raises(ModelError, match="socks5"):
        await ask("https://a.example", {"HTTPS_PROXY": "socks5://p"}, retries=0)


# --- start


def test_aiohttp_is_loaded_late_and_without_the_certificates() -> None:
    """Opening Providers imports nothing heavy; the environment is as it was after the import."""
    code = """
import os, sys, json
import teamwright.models.providers as p
early = [m for m in ("aiohttp", "ssl") if m in sys.modules]
before = dict(os.environ)
p.Providers({"ANTHROPIC_API_KEY": "k"}).open("anthropic")
import aiohttp.connector as c
print(json.dumps([early, dict(os.environ) == before, len(c._SSL_CONTEXT_VERIFIED.get_ca_certs())]))
"""
    env = {**os.environ, "SSL_CERT_FILE": str(PEM)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(out.stdout) == [[], True, 0]


@pytest.mark.anyio
async def test_closing_twice_and_unused_is_fine() -> None:
    providers = Providers({"ANTHROPIC_API_KEY": "k"})
    providers.open("anthropic")
    await providers.aclose()
    await providers.aclose()
