"""A proxy on loopback, servers that record what came in, and clients that send what they are told."""

import base64
import contextlib
import http.server
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct, field

from teamwright.core.sandbox.hosts import Hosts, HostVerdict, host_verdict
from teamwright.host.sandbox.connections.proxy import Proxy, ProxyLimits, ProxyRules, RefusedHost
from teamwright.host.web.addresses import Address, is_public

PATIENCE = 20.0
NONE = Hosts()


class Site(Struct):
    """A web server: its port, and the requests that it got."""

    port: int
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [line.split(" ")[1] for line, _, _ in self.seen]


def _handler(site: Site, body: bytes) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE

        def do_GET(self) -> None:
            sent = self._body()
            site.seen.append((self.requestline, {k.lower(): v for k, v in self.headers.items()}, sent))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that go away are the point of some tests


@contextlib.contextmanager
def site(body: bytes = b"from-site", *, certificate: Path | None = None) -> Iterator[Site]:
    found = Site(0)
    server = _Server(("127.0.0.1", 0), _handler(found, body))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


def make_certificate(path: Path, name: str) -> Path:
    """Self-signed, with its key, for this host."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return path


class Running(Struct):
    """A running proxy, with everything that it asked and reported."""

    proxy: Proxy
    port: int
    asked: list[tuple[str, str, int]]
    refused: list[RefusedHost]
    looked_up: list[str]

    async def say(self, data: bytes) -> bytes:
        """Send these bytes and return everything that comes back."""
        return await anyio.to_thread.run_sync(say, self.port, data)


def say(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
        return drain(client)


def drain(client: socket.socket) -> bytes:
    """Read until the other side closes or is gone."""
    client.settimeout(PATIENCE)
    whole = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65_536):
            whole += piece
    return whole


def everywhere(address: Address) -> bool:
    """An address check for tests in which a name must lead to a server of this machine."""
    return True


@contextlib.asynccontextmanager
async def running(
    hosts: Hosts = NONE,
    names: dict[str, Sequence[str]] | None = None,
    *,
    named_only: bool = False,
    verdict: Any = None,
    **rules: Any,
) -> AsyncIterator[Running]:
    """Only names in `names` resolve. With it, addresses are vetted only if `allowed` says how."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked, refused, looked_up = list[tuple[str, str, int]](), list[RefusedHost](), list[str]()

    async def decide(call: str, host: str, port: int) -> HostVerdict:
        asked.append((call, host, port))
        return await verdict(call, host, port) if verdict else host_verdict(hosts, host, port)

    async def resolve(host: str, port: int) -> Sequence[Address]:
        looked_up.append(host)
        if host not in (names or {}):
            raise OSError("no such name")
        return [ip_address(text) for text in (names or {})[host]]

    rules = {"allowed": is_public, "limits": ProxyLimits()} | rules
    proxy = Proxy(ProxyRules(decide=decide, refused=refused.append, resolve=resolve, **rules))
    with anyio.fail_after(3 * PATIENCE):
        async with anyio.create_task_group() as group:

            async def serve() -> None:
                await proxy.serve(listener, named_only=named_only)

            group.start_soon(serve)
            yield Running(proxy, listener.getsockname()[1], asked, refused, looked_up)
            group.cancel_scope.cancel()


def credentials(token: str) -> str:
    return "Proxy-Authorization: Basic " + base64.b64encode(f"box:{token}".encode()).decode() + "\r\n"
