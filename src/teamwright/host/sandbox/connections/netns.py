"""The network of one root: a namespace with only a loopback, held open by a small program inside it.

Boxes enter it with `nsenter`. The program passes us sockets opened in there, and our event loop serves them.
"""

import contextlib
import os
import socket
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from teamwright.core.errors import ToolError
from teamwright.core.text import shown

_HELPER = Path(__file__).with_name("net_helper.py")
_NSENTER = ("/usr/bin/nsenter", "/bin/nsenter", "/usr/local/bin/nsenter")
_START_SECONDS = 10.0
_ORDER_SECONDS = 5.0
_END_SECONDS = 2.0


class NamespaceEntry(Struct, frozen=True):
    """How a box enters: `argv` goes before bwrap's, `fds` are inherited, `bwrap` are arguments that close them."""

    argv: tuple[str, ...]
    fds: tuple[int, ...]
    bwrap: tuple[str, ...]


def find_nsenter() -> str | None:
    """The system's own program, never one found through PATH."""
    return next((path for path in _NSENTER if _is_trusted(path)), None)


class Namespace:
    """Made by `open_namespace`."""

    def __init__(self, process: subprocess.Popen[bytes], orders: socket.socket, nsenter: str) -> None:
        self._process, self._orders, self._nsenter = process, orders, nsenter
        self._one_at_a_time = anyio.Lock()
        self._place = -1  # handle of its directory of namespaces, since its pid may be reused

    @property
    def alive(self) -> bool:
        """Checks the connection, which closes as soon as the helper ends."""
        if self._orders.fileno() < 0:
            return False
        try:
            return bool(self._orders.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))  # an answer that is on its way
        except BlockingIOError:
            return True
        except OSError:
            return False

    def entry(self) -> NamespaceEntry:
        """Valid while this object lives. Afterwards `nsenter` fails; it never enters another network."""
        place = f"/proc/self/fd/{self._place}"
        user = () if os.geteuid() == 0 else (f"--user={place}/user", "--preserve-credentials")
        argv = (self._nsenter, *user, f"--net={place}/net", "--")
        # bwrap reads one byte from a block-fd, which fails for this kind of handle, and closes it before it starts
        # anything: no program in the box inherits a way to our side.
        return NamespaceEntry(argv, (self._place,), ("--block-fd", str(self._place)))

    async def listen(self, port: int = 0) -> socket.socket:
        """A listener on the loopback in there. Raises OSError if the port is taken."""
        return await self._order(f"L {port}")

    async def connect(self, port: int) -> socket.socket:
        """A connection to a listener in there. Raises OSError if there is none."""
        return await self._order(f"C {port}")

    async def ready(self) -> None:
        with anyio.fail_after(_START_SECONDS):
            self._place = await self._answer()

    async def close(self) -> None:
        """Ends the helper and releases the namespace; programs in boxes keep running."""
        self._orders.close()
        if self._place >= 0:
            os.close(self._place)
            self._place = -1
        self._process.kill()
        wait = partial(self._process.wait, _END_SECONDS)
        with anyio.CancelScope(shield=True), contextlib.suppress(subprocess.TimeoutExpired):
            await anyio.to_thread.run_sync(wait)

    async def _order(self, text: str) -> socket.socket:
        async with self._one_at_a_time:
            with anyio.CancelScope(shield=True):  # an unread answer would be taken for that of the next order
                try:
                    with anyio.fail_after(_ORDER_SECONDS):
                        self._orders.send(text.encode())
                        return socket.socket(fileno=await self._answer())
                except (TimeoutError, BrokenPipeError, ConnectionError):
                    self._orders.close()
                    raise ConnectionError("the program that holds the sandbox's network has ended") from None
            raise AssertionError("nobody cancels this scope")

    async def _answer(self) -> int:
        while True:
            try:
                told, handles, _, _ = socket.recv_fds(self._orders, 256, 1, socket.MSG_CMSG_CLOEXEC)
                break
            except BlockingIOError:
                await anyio.wait_readable(self._orders)
        if handles:
            return handles[0]
        if not told:
            raise ConnectionResetError("it has ended")
        raise OSError(told.decode(errors="replace").removeprefix("no "))


async def open_namespace(bwrap: str, nsenter: str, python: str = sys.executable) -> Namespace:
    """Starts the program that holds the namespace. Call it on the event loop's thread: the program ends with its
    thread.

    Raises ToolError if it cannot be made.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = os.memfd_create("words")
    try:
        with theirs:
            process = _start(bwrap, python, theirs.fileno(), words)
        ours.settimeout(0)
        made = Namespace(process, ours, nsenter)
        try:
            await made.ready()
        except BaseException as error:
            await made.close()
            if isinstance(error, OSError):  # includes TimeoutError
                said = shown(os.pread(words, 400, 0).decode(errors="replace").strip())
                raise _not_made(said or str(error) or "it did not answer in time") from None
            raise
        return made
    except OSError as error:
        ours.close()
        raise _not_made(shown(error.strerror or str(error))) from None
    finally:
        os.close(words)


def _start(bwrap: str, python: str, fd: int, words: int) -> subprocess.Popen[bytes]:
    user = [] if os.geteuid() == 0 else ["--unshare-user"]
    # No --dev: bwrap would then add a second user namespace, which cannot be entered.
    fence = ["--dev-bind", "/", "/", "--unshare-net", *user, "--die-with-parent"]
    rights = ["--cap-drop", "ALL", "--cap-add", "CAP_NET_BIND_SERVICE"]  # for ports below 1024, in there alone
    return subprocess.Popen(
        [bwrap, *fence, *rights, "--", python, "-I", "-S", str(_HELPER), str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=words,
        cwd="/",
        env={},
        pass_fds=(fd,),
        start_new_session=True,  # so that a terminal's interrupt does not reach it
    )


def _not_made(why: str) -> ToolError:
    return ToolError(
        f"The sandbox's network could not be made: {why}. `teamwright doctor` says what is missing on this machine."
    )


def _is_trusted(path: str) -> bool:
    try:
        found = Path(path).stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
