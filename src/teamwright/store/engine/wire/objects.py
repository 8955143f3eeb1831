"""Files in the engine, in the form of NATS's own object store: pieces under a random name, then a record that names
them. Whoever is killed in between leaves pieces that nobody finds, never half a file."""

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from teamwright.osfiles.private import write_file
from teamwright.store.engine.port import EngineError, Objects
from teamwright.store.engine.wire.connection import AWAY, PAUSE, Connection, accepted, refusal, words

_PIECE = 128 * 1024  # bytes
_BATCH = 32  # pieces that are fetched at once


class NatsObjects:
    def __init__(self, connection: Connection, patience: float, *, of: str = "") -> None:
        """`of`: a bucket of its own, for those who have the right to it."""
        self._connection, self._patience = connection, patience
        self._bucket = f"tw_{connection.address.space}{of and f'_{of}'}"

    async def prepare(self) -> None:
        config = {
            "name": self._stream,
            "subjects": [f"$O.{self._bucket}.C.>", f"$O.{self._bucket}.M.>"],
            "storage": "file",
            "num_replicas": self._connection.address.replicas,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "allow_direct": True,
        }
        await self._connection.need_stream(config)

    async def put(self, name: str, path: Path) -> None:
        """One of the same name is replaced."""
        nuid, size, pieces, digest = os.urandom(11).hex(), 0, 0, hashlib.sha256()
        async with await anyio.open_file(path, "rb") as file:
            while piece := await file.read(_PIECE):
                await self._publish(f"$O.{self._bucket}.C.{nuid}", piece, {})
                size, pieces = size + len(piece), pieces + 1
                digest.update(piece)
        about = {"name": name, "bucket": self._bucket, "nuid": nuid, "size": size, "chunks": pieces}
        about["digest"] = "SHA-256=" + base64.urlsafe_b64encode(digest.digest()).decode()
        await self._publish(self._record(name), json.dumps(about).encode(), {"Nats-Rollup": "sub"})

    async def get(self, name: str, path: Path) -> bool:
        """Whole, or not at all. False if there is none."""
        about = await self._about(name)
        if about is None:
            return False
        draft = path.with_name(path.name + ".part")
        digest = await self._fetch(about["nuid"], about["chunks"], draft)
        if about["digest"] != "SHA-256=" + base64.urlsafe_b64encode(digest).decode():
            await anyio.Path(draft).unlink()
            raise EngineError(f"{name} in the engine at {self._connection.address} is damaged.")
        await anyio.Path(draft).replace(path)
        return True

    async def has(self, name: str) -> bool:
        return await self._about(name) is not None

    async def remove(self, name: str) -> None:
        """Its pieces and its record. Needs a lead's rights."""
        about = await self._about(name)
        if about is not None:
            for subject in (self._record(name), f"$O.{self._bucket}.C.{about['nuid']}"):
                await self._connection.purge(self._stream, subject)

    async def _about(self, name: str) -> dict[str, Any] | None:
        found = await self._connection.get(self._stream, {"last_by_subj": self._record(name)})
        about = None if found is None else json.loads(found.data)
        return None if about is None or about.get("deleted") else about

    async def _fetch(self, nuid: str, pieces: int, draft: Path) -> bytes:
        """All pieces, into a file; their digest."""
        subject, digest, got, after = f"$O.{self._bucket}.C.{nuid}", hashlib.sha256(), 0, 0
        fd = await anyio.to_thread.run_sync(_open_draft, draft)
        async with await anyio.open_file(fd, "wb") as file:
            while got < pieces:
                found = await self._connection.fetch_again(self._stream, subject, after + 1, _BATCH)
                if not found:
                    raise EngineError(f"The engine at {self._connection.address} lacks a part of what it stores.")
                for message in found:
                    await file.write(message.data)
                    digest.update(message.data)
                got, after = got + len(found), int((found[-1].headers or {})["Nats-Sequence"])
        return digest.digest()

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """Repeated while the engine is away; under an id, so that no piece is there twice."""
        headers, why = headers | {"Nats-Msg-Id": os.urandom(12).hex()}, "it does not answer"
        with anyio.move_on_after(self._patience):
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
        raise EngineError(f"The engine at {self._connection.address} took nothing for {self._patience:g} s: {why}.")

    def _record(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    @property
    def _stream(self) -> str:
        return f"OBJ_{self._bucket}"


async def get_bytes(objects: Objects, name: str, scratch: Path) -> bytes | None:
    """A short one; None if there is none. `scratch` is a directory for files that are on their way."""
    file = scratch / f"get-{os.urandom(8).hex()}"
    try:
        return await anyio.Path(file).read_bytes() if await objects.get(name, file) else None
    finally:
        await anyio.Path(file).unlink(missing_ok=True)


async def put_bytes(objects: Objects, name: str, data: bytes, scratch: Path) -> None:
    file = scratch / f"put-{os.urandom(8).hex()}"
    await anyio.to_thread.run_sync(write_file, file, data)
    try:
        await objects.put(name, file)
    finally:
        await anyio.Path(file).unlink(missing_ok=True)


def _open_draft(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
