"""Transcripts in the engine: one message holds the lines of one sync, and each agent has a subject of its own.

A writer names the last message of its agent that it knows. If there is a later one, another process has written, and
the late writer has lost the agent: the engine refuses, so two can never continue the same transcript.
"""

import hashlib
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from nats.aio.msg import Msg

from teamwright.core.data.team import ProcessId
from teamwright.core.errors import Fenced
from teamwright.core.ids import AgentId
from teamwright.osfiles.private import create_file, fault, make_dir, open_file, sync_dir, write_all
from teamwright.store.engine.holders import Holders, Sieve, is_batch
from teamwright.store.engine.port import MOST_BYTES, EngineError
from teamwright.store.engine.wire.connection import AWAY, PAUSE, accepted, refusal, sequence, words
from teamwright.store.engine.wire.nats import NatsLog
from teamwright.store.engine.wire.objects import NatsObjects

_BATCH = 500  # messages fetched at once
_SILENCE = 15.0  # seconds without a push, after which the stream itself is read
PROMPT = re.compile(rb'"prompt":"([0-9a-f]{32})"')
_CODE = re.compile(rb"code/[0-9a-f]{64}")
_CHANGED = (10071, 10164)  # error codes of the engine for: there is a later message


class Place(Struct, frozen=True):
    """How far the transcript of an agent is in the engine."""

    seq: int = 0  # of its last message; 0: none
    lines: int = 0


class Lines:
    def __init__(
        self, log: NatsLog, objects: NatsObjects, name: str, scratch: Path, holders: Holders | None = None
    ) -> None:
        """`scratch` is a directory for temporary files. Without `holders` everybody's lines count."""
        self._connection, self._objects, self._scratch, self._patience = log.connection, objects, scratch, log.patience
        self._space = log.address.space
        self._subject = f"tw.{self._space}.lines.{log.role}.{name}"
        self._role, self._name, self._holders = log.role, name, holders
        self._sieves: dict[AgentId, Sieve] = {}  # of transcripts that were read or are written

    async def prepare(self) -> None:
        space = self._space
        config: dict[str, Any] = {
            "name": self._stream,
            "subjects": [f"tw.{space}.lines.*.*.*"],
            "storage": "file",
            "num_replicas": self._connection.address.replicas,
            "duplicate_window": 120 * 10**9,
            "allow_direct": True,
            "republish": {"src": f"tw.{space}.lines.>", "dest": f"tw.{space}.out.lines.>"},
        }
        await self._connection.need_stream(config)

    # --- writing

    async def append(self, agent: AgentId, process: ProcessId, rows: Sequence[bytes], at: Place) -> Place:
        """Append after `at`, durable on return. Raises Fenced if somebody else has written since."""
        for message in _messages(rows):
            headers, data = await self._pack(message)
            headers |= {"Tw-Process": process, "Tw-First": str(at.lines + 1)}
            at = Place(await self._append(agent, data, headers, at), at.lines + len(message))
            await self._sieve(agent).wrote(at.seq, (self._role, self._name, process))
        return at

    def _sieve(self, agent: AgentId) -> Sieve:
        return self._sieves.setdefault(agent, Sieve(agent, self._holders))

    async def _pack(self, rows: Sequence[bytes]) -> tuple[dict[str, str], bytes]:
        """A line too long for a message becomes an object, which the message names."""
        data = b"".join(rows)
        headers = {"Tw-Lines": str(len(rows))}
        if len(data) <= MOST_BYTES:
            return headers, data
        name = hashlib.sha256(data).hexdigest()
        await self.put(f"part/{name}", data)
        return headers | {"Tw-Part": name}, b""

    async def _append(self, agent: AgentId, data: bytes, headers: dict[str, str], at: Place) -> int:
        expected = {"Nats-Expected-Last-Subject-Sequence-Subject": self._all_of(agent)}
        after, why = at.seq, "it does not answer"
        with self._connection.outwait(self._patience):
            while True:
                if not await self._connection.is_same():
                    await anyio.sleep(PAUSE)
                    continue
                expected["Nats-Expected-Last-Subject-Sequence"] = str(after)
                try:
                    said = await self._connection.publish(f"{self._subject}.{agent}", data, headers | expected)
                except AWAY as error:
                    why = words(error)
                else:
                    if seq := accepted(said):
                        return seq
                    code = said.get("error", {}).get("err_code")
                    if code in _CHANGED:
                        last = await self._look_after(agent, after, data, headers)
                        if isinstance(last, Msg):
                            return sequence(last)
                        if last > after:
                            after = last
                            continue
                    why = refusal(said)
                await anyio.sleep(PAUSE)
        raise self._connection.took_nothing(self._patience, why)

    async def _look_after(self, agent: AgentId, after: int, data: bytes, headers: dict[str, str]) -> Msg | int:
        """After a refusal, look at what was stored meanwhile. Returns our own message, if the answer to an earlier
        attempt was lost; else the number of the last one that does not count, after which to go on."""
        while found := await self._fetch(agent, after + 1):
            for message in await self._sieve(agent).keep(found):
                told = message.headers or {}
                if all(told.get(name) == value for name, value in headers.items()) and message.data == data:
                    return message
                raise Fenced(
                    f"Another process has continued agent {agent}: its transcript has lines that are not from here. "
                    "Nothing more is stored from here for it."
                )
            after = sequence(found[-1])
        return after

    # --- reading

    async def pull(self, agent: AgentId, path: Path, heard: Callable[[bytes], None] = lambda _: None) -> Place:
        """Write the whole transcript to a file, replacing what was there: only what the engine has was ever
        acknowledged.

        If there is none, no file stays. It is never in memory as a whole; `heard` gets each part.
        """
        draft, place = self._scratch / f"pull-{os.urandom(8).hex()}", Place()
        sieve = Sieve(agent, self._holders)
        try:
            while found := await self._fetch(agent, place.seq + 1):
                kept = await sieve.keep(found)
                parts = [await self._unpack(message) for message in kept]
                for part in parts:
                    heard(part)
                await anyio.to_thread.run_sync(_lengthen, draft, parts)
                lines = sum(int((message.headers or {})["Tw-Lines"]) for message in kept)
                place = Place(sequence(found[-1]), place.lines + lines)
            self._sieves[agent] = sieve
            if place.lines:
                await anyio.to_thread.run_sync(_settle, draft, path)
            else:  # lines of a process that was killed before it sent any: nobody was told of them
                _drop(path)
        finally:
            _drop(draft)
        return place

    async def follow(self, agent: AgentId, at: Place, heard: Callable[[bytes, Place], Awaitable[None]]) -> None:
        """Hand over what comes after `at`, each line once and in order, until it is cancelled.

        The server pushes what it has stored; after a gap, a reconnect or a long silence the stream is read.
        """
        pushed = _PushedLines()
        subscription = await self._connection.subscribe(f"tw.{self._space}.out.lines.*.*.{agent}", pushed.put)
        self._connection.wakes.add(pushed.wake)
        try:
            while True:
                try:
                    at = await self.catch_up(agent, at, heard)
                    at = await self._take_pushed(pushed, agent, at, heard)
                except (*AWAY, EngineError):
                    await anyio.sleep(PAUSE)
        finally:
            self._connection.wakes.discard(pushed.wake)
            await self._connection.unsubscribe(subscription)

    async def catch_up(self, agent: AgentId, at: Place, heard: Callable[[bytes, Place], Awaitable[None]]) -> Place:
        """Hand over what there is after `at` now."""
        while found := await self._fetch(agent, at.seq + 1):
            for message in await self._sieve(agent).keep(found):
                at = await self._hand_over(message, at, heard)
            at = Place(sequence(found[-1]), at.lines)
        return at

    async def _take_pushed(
        self, pushed: "_PushedLines", agent: AgentId, at: Place, heard: Callable[[bytes, Place], Awaitable[None]]
    ) -> Place:
        """Take what is pushed, until a line is missing or nothing came for a while."""
        renewals = self._connection.renewals
        while renewals == self._connection.renewals and (message := await pushed.next(_SILENCE)) is not None:
            if sequence(message) <= at.seq:
                continue
            if not is_batch(message) or int((message.headers or {})["Tw-First"]) != at.lines + 1:
                break
            if await self._sieve(agent).keep([message]):
                at = await self._hand_over(message, at, heard)
        return at

    async def _hand_over(self, message: Msg, at: Place, heard: Callable[[bytes, Place], Awaitable[None]]) -> Place:
        lines = int((message.headers or {})["Tw-Lines"])
        at = Place(sequence(message), at.lines + lines)
        await heard(await self._unpack(message), at)
        return at

    async def purge(self, agent: AgentId) -> None:
        """Needs a lead's rights."""
        await self._connection.purge(self._stream, self._all_of(agent))

    async def counts(self) -> dict[AgentId, int]:
        """All agents that have a transcript in the engine, with its number of messages."""
        counts = dict[AgentId, int]()
        for (_, _, agent), many in (await self.written()).items():
            counts[agent] = counts.get(agent, 0) + many
        return counts

    async def written(self) -> dict[tuple[str, str, AgentId], int]:
        """Numbers of messages by role and name of the writer, and agent."""
        found = await self._connection.api(
            "STREAM.INFO", self._stream, {"subjects_filter": f"tw.{self._space}.lines.>"}
        )
        subjects: dict[str, int] = found.get("state", {}).get("subjects") or {}
        counts = dict[tuple[str, str, AgentId], int]()
        for subject, many in subjects.items():
            role, name, agent = subject.split(".")[3:6]
            counts[role, name, AgentId(agent)] = many
        return counts

    async def named(self) -> dict[AgentId, set[str]]:
        """Objects that lines name, by agent. Reads every line of the space."""
        found, after = dict[AgentId, set[str]](), 0
        while messages := await self._connection.fetch_again(
            self._stream, f"tw.{self._space}.lines.>", after + 1, _BATCH
        ):
            after = sequence(messages[-1])
            for message in messages:
                headers, data = message.headers or {}, message.data
                names = found.setdefault(AgentId(headers["Nats-Subject"].rpartition(".")[2]), set())
                if part := headers.get("Tw-Part"):
                    names.add(f"part/{part}")
                    data = await self.get(f"part/{part}") or b""
                names |= {f"prompt/{hash.decode()}" for hash in PROMPT.findall(data)}
                names |= {name.decode() for name in _CODE.findall(data)}
        return found

    async def _fetch(self, agent: AgentId, first: int) -> list[Msg]:
        return await self._connection.fetch_again(self._stream, self._all_of(agent), first, _BATCH)

    async def _unpack(self, message: Msg) -> bytes:
        name = (message.headers or {}).get("Tw-Part")
        if not name:
            return message.data
        data = await self.get(f"part/{name}")
        if data is None or hashlib.sha256(data).hexdigest() != name:
            what = "lacks a part" if data is None else "has something else in place of a part"
            raise EngineError(f"The engine at {self._connection.address} {what} of a transcript ({name}).")
        return data

    # --- objects that belong to them

    async def put_prompt(self, hash: str, data: bytes) -> None:
        if not await self._objects.has(f"prompt/{hash}"):
            await self.put(f"prompt/{hash}", data)

    async def get_prompt(self, hash: str, path: Path) -> None:
        await anyio.to_thread.run_sync(make_dir, path.parent)
        await self._objects.get(f"prompt/{hash}", path)

    async def get(self, name: str) -> bytes | None:
        """A short object; None if there is none."""
        return await self._objects.get_bytes(name)

    async def put(self, name: str, data: bytes) -> None:
        await self._objects.put_bytes(name, data)

    def _all_of(self, agent: AgentId) -> str:
        return f"tw.{self._space}.lines.*.*.{agent}"

    @property
    def _stream(self) -> str:
        return f"TW_{self._space}_LINES"


class _PushedLines:
    """Lines that the server pushed, until they are taken."""

    def __init__(self) -> None:
        self._messages, self._news = deque[Msg](), anyio.Event()

    async def put(self, message: Msg) -> None:
        self._messages.append(message)
        self._news.set()

    def wake(self) -> None:
        """End a wait."""
        self._news.set()

    async def next(self, limit: float) -> Msg | None:
        """The next message; None if none came within so many seconds, or somebody called `wake`."""
        if not self._messages:
            self._news = anyio.Event()
            with anyio.move_on_after(limit):
                await self._news.wait()
        return self._messages.popleft() if self._messages else None


def _messages(rows: Sequence[bytes]) -> list[list[bytes]]:
    """Lines in groups that fit into one message; a line that is too long stays alone."""
    groups, room = list[list[bytes]](), 0
    for row in rows:
        if len(row) > room or not groups:
            groups.append([])
            room = MOST_BYTES
        groups[-1].append(row)
        room -= len(row)
    return groups


def _drop(path: Path) -> None:
    path.unlink(missing_ok=True)


def _lengthen(path: Path, parts: Sequence[bytes]) -> None:
    file = create_file(path, os.O_WRONLY | os.O_APPEND)
    try:
        for part in parts:
            write_all(file, part)
    except OSError as error:
        raise fault("write", path, error) from error
    finally:
        os.close(file)


def _settle(draft: Path, path: Path) -> None:
    """Give the file its name once it is whole on the disk."""
    make_dir(path.parent)
    file = open_file(draft, os.O_RDONLY)
    try:
        os.fsync(file)
        draft.replace(path)
        sync_dir(path.parent)
    except OSError as error:
        raise fault("write", path, error) from error
    finally:
        os.close(file)
