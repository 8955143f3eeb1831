"""The log of an engine on NATS JetStream: one stream for each space.

The server pushes what it has stored to plain subscribers (`republish`): that is the entry and its wake-up in one. After
a number that is not the next one, a reconnect, or a second of silence the stream itself is read, so no gap can be
missed, and the server keeps no state of ours.
"""

import uuid
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import anyio
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from teamwright.core.policies.authority import Role
from teamwright.store.engine.entry import FORMAT
from teamwright.store.engine.port import EngineError, Entry, Extent, Guard
from teamwright.store.engine.wire.address import Address
from teamwright.store.engine.wire.connection import (
    AWAY,
    NO_STREAM,
    PAUSE,
    Connection,
    accepted,
    connect,
    refusal,
    sequence,
    words,
)

_LOOK = 1.0  # seconds without a push, after which the stream itself is read
_BATCH = 256  # entries fetched at once


class NatsLog:
    def __init__(self, connection: Connection, role: Role, name: str, patience: float) -> None:
        self.connection, self.role, self.name, self.patience = connection, role, name, patience
        self.address = connection.address
        self._subject = f"tw.{self.address.space}.log.{role}.{name}"
        self.space = ""

    def watch_over(self, guard: Guard) -> None:
        self.connection.guard = guard

    # --- making

    async def prepare(self) -> None:
        """Make the stream if it is missing, and check that this program knows its format."""
        found = await self.connection.need_stream(self._config())
        about = found["config"].get("metadata", {})
        if about.get("teamwright.format") != str(FORMAT):
            theirs = about.get("teamwright.format", "unknown")
            now = "Update the program."
            if theirs.isdecimal() and int(theirs) < FORMAT:
                now = "Only earlier versions can use it. Another name at the end of the address begins a new space."
            raise EngineError(
                f"The space at {self.address} has format {theirs}; this version of teamwright knows {FORMAT}. {now}"
            )
        self.space = about["teamwright.space"]

    def _config(self) -> dict[str, Any]:
        space = self.address.space
        return {
            "name": self._stream,
            "subjects": [f"tw.{space}.log.*.*"],
            "storage": "file",
            "num_replicas": self.address.replicas,
            "duplicate_window": 120 * 10**9,
            "deny_delete": True,
            "allow_direct": True,
            "republish": {"src": f"tw.{space}.log.>", "dest": f"tw.{space}.out.log.>"},
            "metadata": {"teamwright.format": str(FORMAT), "teamwright.space": str(uuid.uuid4())},
        }

    @property
    def _stream(self) -> str:
        return f"TW_{self.address.space}_LOG"

    async def extent(self) -> Extent:
        """Which space this is now, and which entries it has."""
        found = await self.connection.api("STREAM.INFO", self._stream)
        gone = found.get("error", {}).get("err_code") == NO_STREAM
        # it was there when this process began; with several nodes one may not know it yet
        if gone and self.address.replicas == 1:
            return Extent("", 1, 0, 1)
        if error := found.get("error"):
            raise EngineError(f"The engine at {self.address} refuses: {error.get('description', error)}.")
        state, config = found["state"], found["config"]
        space = config.get("metadata", {}).get("teamwright.space", "")
        leader = str(found.get("cluster", {}).get("leader", ""))
        return Extent(space, state["first_seq"], state["last_seq"], config["num_replicas"], leader)

    # --- writing

    async def append(self, entry: bytes, id: str) -> int:
        """Repeated under the same id while the engine is away, so that it is stored once."""
        why = "it does not answer"
        with self.connection.outwait(self.patience):
            while True:
                if not await self.connection.is_same():
                    await anyio.sleep(PAUSE)
                    continue
                try:
                    said = await self.connection.publish(self._subject, entry, {"Nats-Msg-Id": id})
                except AWAY as error:
                    self.connection.check_rights(self._subject)
                    why = words(error)
                else:
                    if seq := accepted(said):
                        return seq
                    why = refusal(said)
                await anyio.sleep(PAUSE)
        raise self.connection.took_nothing(self.patience, why)

    # --- reading

    async def entries(self, after: int) -> AsyncGenerator[list[Entry]]:
        pushed = await self.connection.subscribe(f"tw.{self.address.space}.out.log.>")
        try:
            while True:
                while (found := await self._fetch(after + 1)) and await self.connection.is_same():
                    yield found
                    after = found[-1].seq
                while found := _following(after, await self._pushed(pushed)):
                    if not await self.connection.is_same():
                        break
                    yield found
                    after = found[-1].seq
                if not await self.connection.is_same():
                    await anyio.sleep(PAUSE)
        finally:
            await self.connection.unsubscribe(pushed)

    async def entry(self, seq: int) -> Entry | None:
        found = await self.connection.get(self._stream, {"seq": seq})
        return None if found is None else _entry(found)

    async def _pushed(self, pushed: Subscription) -> list[Entry]:
        """Entries pushed so far; none after a silence, in which a push may have been lost."""
        found = list[Entry]()
        try:
            found.append(_entry(await pushed.next_msg(timeout=_LOOK)))
            while pushed.pending_msgs and len(found) < _BATCH:
                found.append(_entry(await pushed.next_msg(timeout=_LOOK)))
        except (*AWAY, KeyError, ValueError):  # KeyError, ValueError: somebody pushed what is no entry
            return found
        return found

    async def _fetch(self, first: int) -> list[Entry]:
        """At most a batch from this number on; nothing while the engine is away."""
        subject = f"tw.{self.address.space}.log.>"
        try:
            return [_entry(found) for found in await self.connection.fetch(self._stream, subject, first, _BATCH)]
        except AWAY:
            await anyio.sleep(PAUSE)
            return []

    async def close(self) -> None:
        await self.connection.close()


async def open_log(address: Address, role: Role, name: str, *, patience: float = 600) -> NatsLog:
    """Raises EngineError in one sentence if the engine cannot be reached or refuses."""
    connection = await connect(address, f"{role} {name}")
    log = NatsLog(connection, role, name, patience)
    try:
        await log.prepare()
    except BaseException:
        await log.close()
        raise
    return log


def _following(after: int, found: list[Entry]) -> list[Entry]:
    """Entries right after that number; none if there is a gap, which the stream itself has to fill."""
    new = [entry for entry in found if entry.seq > after]
    return [entry for n, entry in enumerate(new, after + 1) if entry.seq == n]


def _entry(message: Msg) -> Entry:
    headers = message.headers or {}
    role, name = headers["Nats-Subject"].split(".")[3:5]
    stamp = _milliseconds(headers["Nats-Time-Stamp"])
    return Entry(sequence(message), stamp, "worker" if role == "worker" else "lead", name, message.data)


def _milliseconds(stamp: str) -> int:
    """Milliseconds of an RFC 3339 time with up to nine decimals: cut to three, never through a float."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * 1000 + int((rest + "000")[:3])
