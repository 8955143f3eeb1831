"""Files in the engine: pieces under a random name, then a record that names them.

A kill in between leaves pieces that nobody finds, never half a file. Each identity has subjects of its own, and of
several records of a name the first counts, so nobody can replace or remove what another has stored.
"""

import base64
import hashlib
import io
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from teamwright.osfiles.private import write_all
from teamwright.store.engine.port import EngineError
from teamwright.store.engine.wire.connection import AWAY, PAUSE, accepted, refusal, words
from teamwright.store.engine.wire.nats import NatsLog

_PIECE = 128 * 1024  # bytes
_BATCH = 32  # pieces fetched at once


class NatsObjects:
    def __init__(self, log: NatsLog, patience: float, *, leads: bool = False) -> None:
        """`leads`: the bucket that only leads may write, in which the last record of a name counts."""
        self._connection, self._patience, self._leads = log.connection, patience, leads
        self._bucket = f"tw_{log.address.space}{'_lead' if leads else ''}"
        self._owner = f"{log.role}.{log.name}"

    async def prepare(self) -> None:
        config = {
            "name": self._stream,
            "subjects": [f"$O.{self._bucket}.C.>", f"$O.{self._bucket}.M.>"],
            "storage": "file",
            "num_replicas": self._connection.address.replicas,
            "discard": "new",
            "allow_rollup_hdrs": self._leads,
            "allow_direct": True,
        }
        await self._connection.need_stream(config)

    async def put(self, name: str, path: Path) -> None:
        """An object of the same name is replaced in the bucket of leads; elsewhere it stays."""
        async with await anyio.open_file(path, "rb") as file:
            await self._put(name, file.read)

    async def put_bytes(self, name: str, data: bytes) -> None:
        """Like `put`, for short data."""
        file = io.BytesIO(data)

        async def read(size: int) -> bytes:
            return file.read(size)

        await self._put(name, read)

    async def _put(self, name: str, read: Callable[[int], Awaitable[bytes]]) -> None:
        nuid, size, pieces, digest = os.urandom(11).hex(), 0, 0, hashlib.sha256()
        while piece := await read(_PIECE):
            await self._publish(f"$O.{self._bucket}.C.{self._owner}.{nuid}", piece, {})
            size, pieces = size + len(piece), pieces + 1
            digest.update(piece)
        about = {"name": name, "nuid": nuid, "size": size, "chunks": pieces, "digest": _words_of(digest.digest())}
        headers = {"Nats-Rollup": "sub"} if self._leads else {}
        await self._publish(self._record(name, self._owner), json.dumps(about).encode(), headers)

    async def get(self, name: str, path: Path) -> bool:
        """Fetch it whole, or not at all. False if there is none."""
        about = await self._about(name)
        if about is None:
            return False
        draft = path.with_name(path.name + ".part")
        fd = await anyio.to_thread.run_sync(_open_draft, draft)
        try:
            await self._take(about, fd)
            await anyio.to_thread.run_sync(draft.replace, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        return True

    async def _take(self, about: dict[str, Any], fd: int) -> None:
        digest = hashlib.sha256()
        async for pieces in self._pieces(about):
            for piece in pieces:
                digest.update(piece)
            await anyio.to_thread.run_sync(_write, fd, pieces)
        self._check(about, digest.digest())

    async def get_bytes(self, name: str) -> bytes | None:
        """Like `get`, for short data; None if there is none."""
        about = await self._about(name)
        if about is None:
            return None
        data = b"".join([piece async for pieces in self._pieces(about) for piece in pieces])
        self._check(about, hashlib.sha256(data).digest())
        return data

    def _check(self, about: dict[str, Any], digest: bytes) -> None:
        if about["digest"] != _words_of(digest):
            raise EngineError(f"{about['name']} in the engine at {self._connection.address} is damaged.")

    async def has(self, name: str) -> bool:
        return await self._about(name) is not None

    async def remove(self, name: str) -> None:
        """Delete its pieces and its record. Needs a lead's rights."""
        while (about := await self._about(name)) is not None:
            for subject in (about["record"], about["pieces"]):
                await self._connection.purge(self._stream, subject)

    async def _about(self, name: str) -> dict[str, Any] | None:
        wanted = self._record(name)
        first = {"seq": 1, "next_by_subj": wanted}
        found = await self._connection.get(self._stream, {"last_by_subj": wanted} if self._leads else first)
        if found is None:
            return None
        record = (found.headers or {})["Nats-Subject"]
        owner, about = ".".join(record.split(".")[3:5]), json.loads(found.data)
        return about | {"record": record, "pieces": f"$O.{self._bucket}.C.{owner}.{about['nuid']}"}

    async def _pieces(self, about: dict[str, Any]) -> AsyncGenerator[list[bytes]]:
        """All pieces in order, in the batches in which they are fetched."""
        subject, left, after = about["pieces"], about["chunks"], 0
        while left > 0:
            found = await self._connection.fetch_again(self._stream, subject, after + 1, _BATCH)
            if not found:
                raise EngineError(f"The engine at {self._connection.address} lacks a part of what it stores.")
            yield [message.data for message in found]
            left, after = left - len(found), int((found[-1].headers or {})["Nats-Sequence"])

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """Repeated while the engine is away, under an id, so that no piece is there twice."""
        headers, why = headers | {"Nats-Msg-Id": os.urandom(12).hex()}, "it does not answer"
        with self._connection.outwait(self._patience):
            while True:
                if not await self._connection.is_same():
                    await anyio.sleep(PAUSE)
                    continue
                try:
                    said = await self._connection.publish(subject, data, headers)
                except AWAY as error:
                    self._connection.check_rights(subject)
                    why = words(error)
                else:
                    if accepted(said):
                        return
                    why = refusal(said)
                await anyio.sleep(PAUSE)
        raise self._connection.took_nothing(self._patience, why)

    def _record(self, name: str, owner: str = "*.*") -> str:
        return f"$O.{self._bucket}.M.{owner}.{base64.urlsafe_b64encode(name.encode()).decode()}"

    @property
    def _stream(self) -> str:
        return f"OBJ_{self._bucket}"


def _words_of(digest: bytes) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(digest).decode()


def _open_draft(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _write(fd: int, pieces: list[bytes]) -> None:
    for piece in pieces:
        write_all(fd, piece)
