"""One connection to a NATS server with JetStream: the calls that log, transcripts and objects are made of.

nats-py has tasks of its own and is not made for cancellation. So every wait has a limit, and a call that is under way
when its caller is cancelled ends by itself.
"""

import contextlib
import json
import logging
import math
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from teamwright.core.network_words import network_words
from teamwright.store.engine.port import EngineError, ForbiddenError, Guard, UnopenedSpaceError
from teamwright.store.engine.wire.address import Address

Value = TypeVar("Value")
OLDEST = (2, 12)  # supported version of the server
WAIT = 5.0  # seconds for one answer
_SHORT = 2.0  # with several nodes: a question to a dead one is soon repeated to its successor
PAUSE = 0.2  # seconds before an attempt is repeated
AWAY = (nats.errors.Error, OSError, TimeoutError)
NO_STREAM = 10059
_CONNECT = 5  # seconds
_PING = 4  # seconds; a dead connection is given up after three pings
_TRIES = 12
_MOST_BYTES = 8 * 2**20  # fetched at once, or of one message
_VIOLATION = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)


class Connection:
    def __init__(self, client: Client, address: Address) -> None:
        self.client, self.address = client, address
        self._refused = set[str]()  # subjects without rights, as the server writes them
        self.guard: Guard | None = None
        self._guarded = 0  # renewals when the guard last looked
        self.patience = 0.0  # seconds for which a question without an answer is repeated
        self._wait = _SHORT if address.replicas > 1 else WAIT
        self.wakes: set[Callable[[], None]] = set()  # called when the server was found again
        self.renewals = 0  # times that the server was lost and found again: it may be another one since
        self._asking = set[anyio.CancelScope]()  # questions that have no answer yet
        self._most = math.inf  # seconds for which anything waits for the server
        self._waits = set[anyio.CancelScope]()

    @property
    def version(self) -> str:
        """The server's version."""
        found = self.client.connected_server_version
        return f"{found.major}.{found.minor}.{found.patch}"

    def hurry(self, seconds: float) -> None:
        """This process is to end: nothing waits longer than this for a server that is away."""
        self._most = min(self._most, seconds)
        for scope in self._waits:
            scope.deadline = min(scope.deadline, anyio.current_time() + seconds)

    @contextlib.contextmanager
    def outwait(self, seconds: float) -> Generator[None]:
        """Leaves the block once the server has been waited for so long."""
        with anyio.move_on_after(min(seconds, self._most)) as scope:
            self._waits.add(scope)
            try:
                yield
            finally:
                self._waits.discard(scope)

    def took_nothing(self, seconds: float, why: str) -> EngineError:
        return EngineError(f"The engine at {self.address} took nothing for {min(seconds, self._most):g} s: {why}.")

    async def heed(self, error: Exception) -> None:
        """Note what the server refuses: it says so separately, and the caller only gets no answer."""
        if found := _VIOLATION.search(str(error)):
            self._refused.add(found[1].lower())

    def check_rights(self, subject: str) -> None:
        """Call this when there was no answer. Raises if that was for want of rights."""
        if subject.lower() in self._refused:
            raise ForbiddenError(
                f"The engine at {self.address} refuses: the identity {self.address.user!r} has no right to publish "
                f"{subject}. A lead needs an address for leads, a worker one for workers."
            )

    async def renewed(self) -> None:
        self.renewals += 1
        for question in tuple(self._asking):
            question.cancel()
        for wake in tuple(self.wakes):
            wake()

    async def _answer(self, ask: Callable[[], Awaitable[Value]]) -> Value:
        """Wait for an answer. If the server is lost and found again meanwhile, none comes: it has to be asked again."""
        with anyio.CancelScope() as question:
            self._asking.add(question)
            try:
                return await ask()
            finally:
                self._asking.discard(question)
        raise TimeoutError("the server was lost before it answered")

    async def is_same(self) -> bool:
        """Whether a server that was found again is the same one. Before that is known nothing is exchanged with it.

        False: not known yet. Raises if it is another one.
        """
        renewals = self.renewals
        if renewals != self._guarded and self.guard is not None:
            if not await self.guard():
                return False
            self._guarded = renewals
        return True

    async def api(self, what: str, stream: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One call of JetStream's own JSON interface."""
        answer = await self._ask(f"$JS.API.{what}.{stream}", body or {})
        return json.loads(answer.data)

    async def _ask(self, subject: str, body: Mapping[str, Any]) -> Msg:
        async def once() -> Msg:
            with anyio.fail_after(WAIT * 2):
                try:
                    data = json.dumps(body).encode()
                    return await self._answer(partial(self.client.request, subject, data, timeout=self._wait))
                except AWAY:
                    self.check_rights(subject)
                    raise

        return await self._repeat(once)

    async def _repeat(self, once: Callable[[], Awaitable[Value]]) -> Value:
        """Repeat while patience lasts; with several nodes a few times at least, as they may be about to elect a
        leader."""
        tries, began = _TRIES if self.address.replicas > 1 else 1, time.monotonic()
        while True:
            tries -= 1
            try:
                return await once()
            except AWAY as error:
                waited = time.monotonic() - began
                if waited > self._most or (tries <= 0 and waited > self.patience):
                    raise self.silent(error) from error
                await anyio.sleep(PAUSE)

    async def need_stream(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Make a stream if it is missing; returns what the server says of it."""
        name = str(config["name"])
        found = await self.api("STREAM.INFO", name)
        if found.get("error", {}).get("err_code") == NO_STREAM:
            try:
                await self.api("STREAM.CREATE", name, config)
            except ForbiddenError:
                raise UnopenedSpaceError(
                    f"No lead has opened the space at {self.address} yet, and {self.address.user!r} may not."
                ) from None
            found = await self.api("STREAM.INFO", name)
        if error := found.get("error"):
            raise EngineError(f"The engine at {self.address} refuses: {error.get('description', error)}.")
        return found

    async def purge(self, stream: str, subject: str) -> None:
        """Delete what is stored under these subjects. Needs a lead's rights."""
        said = await self.api("STREAM.PURGE", stream, {"filter": subject})
        if error := said.get("error"):
            raise EngineError(f"The engine at {self.address} refuses: {error.get('description', error)}.")

    async def publish(self, subject: str, data: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """One attempt; returns what the server says. Raises one of `AWAY`."""
        answer = await self._answer(partial(self.client.request, subject, data, timeout=self._wait, headers=headers))
        return json.loads(answer.data)

    async def subscribe(self, subject: str, put: Callable[[Msg], Awaitable[None]] | None = None) -> Subscription:
        """`put` is given each message; without it they must be asked for."""
        return await self.client.subscribe(subject, cb=put)  # pyright: ignore[reportUnknownMemberType] -- a bare Future in it

    async def get(self, stream: str, body: Mapping[str, Any]) -> Msg | None:
        """One stored message; None if there is none."""
        found = await self._ask(f"$JS.API.DIRECT.GET.{stream}", body)
        return found if is_stored(found) else None

    async def fetch(self, stream: str, subject: str, first: int, batch: int) -> list[Msg]:
        """Stored messages of a subject from this number on, at most `batch`. Raises one of `AWAY`."""
        body = json.dumps({"seq": first, "batch": batch, "max_bytes": _MOST_BYTES, "next_by_subj": subject})
        inbox, found = self.client.new_inbox(), list[Msg]()
        answers = await self.subscribe(inbox)
        try:
            await self.client.publish(f"$JS.API.DIRECT.GET.{stream}", body.encode(), reply=inbox)
            while is_stored(message := await self._answer(partial(answers.next_msg, timeout=self._wait))):
                found.append(message)
        finally:
            await self.unsubscribe(answers)
        return found

    async def fetch_again(self, stream: str, subject: str, first: int, batch: int) -> list[Msg]:
        """Like `fetch`, but repeated while nobody answers; raises EngineError in the end."""
        return await self._repeat(lambda: self.fetch(stream, subject, first, batch))

    async def unsubscribe(self, subscription: Subscription) -> None:
        with anyio.move_on_after(WAIT, shield=True), contextlib.suppress(*AWAY):
            await subscription.unsubscribe()

    def silent(self, error: BaseException) -> EngineError:
        return EngineError(f"The engine at {self.address} does not answer: {words(error)}.")

    async def close(self) -> None:
        with anyio.move_on_after(WAIT, shield=True):
            await _close(self.client)


def accepted(said: dict[str, Any]) -> int | None:
    """The number that a published message got; None if it was refused, which has the number 0."""
    return None if "error" in said else said.get("seq") or None


def refusal(said: dict[str, Any]) -> str:
    return said.get("error", {}).get("description", "it gave no number")


def is_stored(message: Msg) -> bool:
    """Whether this is a stored message, and none of the server's own. Writers can set any header but those that it
    adds."""
    return "Nats-Sequence" in (message.headers or {})


def sequence(message: Msg) -> int:
    return int((message.headers or {})["Nats-Sequence"])


async def connect(address: Address, name: str) -> Connection:
    """Raises EngineError in one sentence if the server cannot be reached or refuses."""
    client = Client()
    connection, heard = Connection(client, address), list[str]()

    async def heed(error: Exception) -> None:
        heard.append(words(error))
        heard.sort(key=lambda said: "uthorization" in said)  # the others only follow from it
        del heard[:-1]
        if isinstance(error, ssl.SSLCertVerificationError):  # retrying does not help
            limit.deadline = -math.inf
        await connection.heed(error)

    options: dict[str, Any] = {"tls": _trust(address)} if address.scheme == "tls" else {}
    options |= _identity(address)
    try:
        with anyio.fail_after(_CONNECT * 2) as limit:
            await client.connect(
                address.servers,
                name=f"teamwright {name}",
                error_cb=heed,
                reconnected_cb=connection.renewed,
                connect_timeout=_CONNECT,
                reconnect_time_wait=0,
                max_reconnect_attempts=2,
                allow_reconnect=True,
                ping_interval=_PING,
                max_outstanding_pings=2,
                **options,
            )
    except (*AWAY, ssl.SSLError) as error:
        await _close(client)
        why = heard[-1] if heard else words(error)
        raise EngineError(f"The engine at {address} cannot be reached: {why}.") from error
    client.options["max_reconnect_attempts"] = -1  # from now on wait for the server
    client.options["reconnect_time_wait"] = PAUSE
    try:
        _check_version(client, address)
    except BaseException:
        await _close(client)
        raise
    return connection


async def _close(client: Client) -> None:
    """Closing tries to send what is still queued. If the server is gone, that is lost."""
    with contextlib.suppress(*AWAY):
        await client.close()


def _identity(address: Address) -> dict[str, Any]:
    if not address.creds:
        return {"user": address.user or None, "password": address.password or None}
    from teamwright.store.engine.wire.creds import read_creds  # noqa: PLC0415  # seldom needed

    return read_creds(address.creds)


def _trust(address: Address) -> ssl.SSLContext:
    """Verify certificates by the system's authorities or by the engine's own."""
    logging.getLogger("asyncio").addFilter(_is_ours)
    try:
        return ssl.create_default_context(cafile=address.authority or None)
    except (OSError, ssl.SSLError) as error:
        raise EngineError(f"The certificates in {address.authority} cannot be read: {error}.") from error


def _is_ours(record: logging.LogRecord) -> bool:
    """Drops asyncio's complaint about how the client ends encrypted connections."""
    return "eof_received" not in record.getMessage()


def _check_version(client: Client, address: Address) -> None:
    version = client.connected_server_version
    if (version.major, version.minor) < OLDEST:
        raise EngineError(
            f"The engine at {address} is nats-server {version.major}.{version.minor}; "
            f"{OLDEST[0]}.{OLDEST[1]} or newer is needed."
        )


def words(error: BaseException) -> str:
    return network_words(error) or str(error).removeprefix("nats: ") or type(error).__name__
