"""`teamwright web`: runs the hub, and manages its links."""

import ipaddress
import os
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from teamwright.core.errors import UsageError
from teamwright.osfiles.locks import Lock, hold
from teamwright.osfiles.private import write_file
from teamwright.store.files.paths import Home, home_from, one_session
from teamwright.surfaces.web.server.keys import MOST_HOURS, Link, Links, is_valid

if TYPE_CHECKING:
    import ssl

PORT = 7433
TRIES = 20  # ports tried after the wanted one
READ_ONLY_HOURS = 24.0


class Running(Struct, frozen=True):
    """How the hub of this home is reached."""

    base: str
    port: int
    pid: int = 0


def run_web(parser: ArgumentParser, args: Sequence[str]) -> int:
    _add_options(parser)
    found = parser.parse_args(list(args))
    if found.action != "link" and (found.read_only or found.hours is not None):
        parser.error("--read-only and --hours belong to `web link`")
    if found.action != "revoke" and found.id:
        parser.error(f"unexpected: {found.id}; only revoke takes the id of a link")
    home = home_from(os.environ)
    links = Links(home.root / "web" / "links.json")
    match found.action:
        case "link":
            return _print_link(home, links, found)
        case "links":
            return _list(links, as_json=found.json)
        case "revoke":
            if not found.id:
                raise UsageError("web revoke: give the id of a link; `teamwright web links` lists them")
            if not links.revoke(found.id):
                raise UsageError(f"there is no link {found.id}; `teamwright web links` lists them")
            sys.stdout.write("revoked\n")
            return 0
        case _:
            return _start(home, links, found)


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("start", "link", "links", "revoke"), default="start")
    parser.add_argument("id", nargs="?", metavar="LINK", help="with revoke: the id of a link")
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help=f"port (default: {PORT}; 0: any free port)")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    parser.add_argument("--read-only", action="store_true", help="with link: the page can look, and do nothing")
    parser.add_argument("--session", metavar="ID", help="open the page at this session; with link: show it alone")
    parser.add_argument(
        "--hours", type=_hours, metavar="N", help="with link: valid for N hours; 0: no end (with --read-only: 24)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDR",
        help="address to listen on (default: 127.0.0.1); any other but loopback needs --remote",
    )
    parser.add_argument(
        "--remote", action="store_true", help="let other machines in: with --cert and --key, or --plain-http"
    )
    parser.add_argument("--cert", metavar="FILE", help="certificate for TLS")
    parser.add_argument("--key", metavar="FILE", help="its private key")
    parser.add_argument("--plain-http", action="store_true", help="without TLS: others on the network can read it")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a host name that leads here, for a tunnel"
    )


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not is_valid(hours):
        raise ArgumentTypeError(f"must be a number of hours up to {MOST_HOURS:,}; 0: no end")
    return hours


# --- links


def _print_link(home: Home, links: Links, found: Namespace) -> int:
    running = _running(home)
    if running is None:
        raise UsageError("no hub is running: `teamwright web` starts one and prints its link")
    session = _session(home, found)
    hours = found.hours if found.hours is not None else READ_ONLY_HOURS if found.read_only else 0
    _print(
        running,
        *links.create(role="read" if found.read_only else "full", session=session, hours=hours),
        as_json=found.json,
    )
    return 0


def _session(home: Home, found: Namespace) -> str:
    return one_session(home, found.session).stem if found.session else ""


def _print(running: Running, link: Link, token: str, *, as_json: bool, session: str = "") -> str:
    shown = link.session or session
    place = f"/s/{shown}/a/{shown}" if shown else "/"
    url = f"{running.base}{place}#t={token}"
    if as_json:
        told = {"url": url, "port": running.port, "token": token, "expires": link.expires, "id": link.id}
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    else:
        sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    return url


def _list(links: Links, *, as_json: bool) -> int:
    found = links.all()
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "id": link.id,
                "role": link.role,
                "session": link.session or None,
                "created": link.created,
                "expires": link.expires,
                "last_used": link.last_used or None,
            }
            for link in found
        ]
        sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
        return 0
    for link in found:
        used = f"used {_time(link.last_used)}" if link.last_used else "not opened yet"
        scope = f"session {link.session[:8]}" if link.session else "all sessions"
        sys.stdout.write(f"{link.id}  {link.role:4}  {scope:16}  {used}  until {_time(link.expires)}\n")
    if not found:
        sys.stdout.write("no links\n")
    return 0


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


# --- the hub


def _note(home: Home) -> Path:
    return home.run / "web.json"


def _running(home: Home) -> Running | None:
    """The hub that runs now: its lock proves it, its note says where it is."""
    lock = hold(home.run / "web.lock")
    if lock is not None:
        lock.release()
        return None
    try:
        return msgspec.json.decode(_note(home).read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError):
        return None


def _start(home: Home, links: Links, found: Namespace) -> int:
    _check_address(found)
    session = _session(home, found)
    lock = hold(home.run / "web.lock")
    if lock is None:
        return _ask_for_link(home, links, found, session)
    try:
        tls = _tls(found)
        listening = _listen(found)
        port = listening.getsockname()[1]
        if found.port not in (0, port):
            sys.stderr.write(f"teamwright: port {found.port} is taken by another program: {port} is used\n")
        scheme = "https" if found.cert else "http"
        running = Running(f"{scheme}://{_shown_host(found)}:{port}", port, os.getpid())
        write_file(_note(home), msgspec.json.encode(running), synced=False)
        url = _print(running, *links.create(), as_json=found.json, session=session)
        if found.remote:
            what = "its traffic is encrypted" if found.cert else "its traffic is NOT encrypted"
            sys.stderr.write(f"teamwright: other machines can reach the hub at {found.host}:{port}; {what}\n")
        import anyio  # noqa: PLC0415  # after the link is printed

        return anyio.run(_serve, home, links, listening, tls, found, lock, url)
    finally:
        lock.release()


def _ask_for_link(home: Home, links: Links, found: Namespace, session: str) -> int:
    running = _running(home)
    if running is None:
        raise UsageError("a hub is just starting or ending: try again")
    url = _print(running, *links.create(), as_json=found.json, session=session)
    if not found.no_open:
        _open(url)
    return 0


def _check_address(found: Namespace) -> None:
    if not 0 <= found.port <= 65_535:
        raise UsageError("--port must be from 0 to 65535")
    if bool(found.cert) != bool(found.key):
        raise UsageError("--cert and --key belong together")
    try:
        loopback = ipaddress.ip_address(found.host.strip("[]")).is_loopback
    except ValueError:
        loopback = found.host == "localhost"
    if loopback:
        return
    if not found.remote:
        raise UsageError(f"{found.host} is reached by other machines: that needs --remote")
    if not found.cert and not found.plain_http:
        raise UsageError("--remote needs --cert and --key, or --plain-http for traffic that others can read")


def _shown_host(found: Namespace) -> str:
    host = found.host.strip("[]")
    if host in ("0.0.0.0", "::"):  # noqa: S104 -- compared with, not listened on
        return found.allow_host[0] if found.allow_host else "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _listen(found: Namespace) -> socket.socket:
    """Listen at the wanted port, or at the next free one."""
    host = found.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for port in [0] if found.port == 0 else range(found.port, min(found.port + TRIES, 65_536)):
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(128)
        except OSError as error:
            listening.close()
            last = error
            continue
        return listening
    raise UsageError(f"cannot listen on {found.host}:{found.port}: {last.strerror if last else 'no port'}")


def _tls(found: Namespace) -> "ssl.SSLContext | None":
    """Read before the link is printed: without its certificate the hub does not start."""
    if not found.cert:
        return None
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(found.cert, found.key)
    except OSError as error:  # also ssl.SSLError
        raise UsageError(f"the certificate {found.cert} and its key {found.key} cannot be used: {error}") from None
    return context


async def _serve(
    home: Home,
    links: Links,
    listening: socket.socket,
    tls: "ssl.SSLContext | None",
    found: Namespace,
    lock: Lock,
    url: str,
) -> int:
    from anyio import to_thread  # noqa: PLC0415

    from teamwright.surfaces.web.run import serve  # noqa: PLC0415  # the link is printed before aiohttp is imported

    del lock  # held until here
    if not found.no_open:
        await to_thread.run_sync(_open, url)
    names = [*found.allow_host, *([found.host] if found.remote else [])]
    await serve(home, dict(os.environ), links, listening, names=names, tls=tls)
    return 0


def _open(url: str) -> None:
    """Pass the address to the browser as data. Without a browser the line on the terminal is enough."""
    import webbrowser  # noqa: PLC0415

    from teamwright.tools.bounds import visible  # noqa: PLC0415

    try:
        webbrowser.open(url)
    except webbrowser.Error as error:
        sys.stderr.write(f"teamwright: no browser was opened: {visible(str(error))}\n")
