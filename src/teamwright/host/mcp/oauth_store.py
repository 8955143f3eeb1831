"""Stores OAuth grants for MCP servers, one private file per address."""

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from msgspec import Struct
from pydantic import ValidationError

from teamwright.osfiles.private import make_dirs, replace_file

_MOST = 1 << 20  # bytes


class Grant(Struct, omit_defaults=True):
    """Grant data as JSON objects of the protocol package, which alone knows their fields."""

    url: str
    client: dict[str, Any] | None = None
    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    server: dict[str, Any] | None = None  # metadata for renewing tokens
    resource: dict[str, Any] | None = None


class TokenFile:
    """Token storage for the package. Only a sign-in may change the registration."""

    def __init__(self, folder: Path, url: str, *, signing_in: bool = False) -> None:
        self.path = token_path(folder, url)
        self._url, self._signing_in = url, signing_in
        self._grant = Grant(url)

    async def load(self) -> Grant | None:
        """None if there is no readable grant."""
        if self._signing_in:
            return None
        data = await anyio.to_thread.run_sync(self._read)
        try:
            found = msgspec.json.decode(data, type=Grant)
            OAuthToken.model_validate(found.tokens)
            OAuthClientInformationFull.model_validate(found.client)
        except (msgspec.DecodeError, UnicodeDecodeError, ValidationError):
            return None
        if found.url != self._url:
            return None
        self._grant = found
        return found

    async def get_tokens(self) -> OAuthToken | None:
        found = await self.load()  # another process may have renewed it
        return None if found is None or found.tokens is None else OAuthToken.model_validate(found.tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._grant.tokens = tokens.model_dump(mode="json", exclude_none=True)
        self._grant.expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = None if self._signing_in else self._grant.client
        return None if client is None else OAuthClientInformationFull.model_validate(client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self._signing_in:
            self._grant.client = client_info.model_dump(mode="json", exclude_none=True)

    async def set_places(self, server: OAuthMetadata | None, resource: ProtectedResourceMetadata | None) -> None:
        self._grant.server = None if server is None else server.model_dump(mode="json", exclude_none=True)
        self._grant.resource = None if resource is None else resource.model_dump(mode="json", exclude_none=True)
        await self._save()

    async def _save(self) -> None:
        await anyio.to_thread.run_sync(self._write, msgspec.json.encode(self._grant))

    def _read(self) -> bytes:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return b""
        with os.fdopen(handle, "rb") as file:
            return file.read(_MOST)

    def _write(self, data: bytes) -> None:
        """Replaces the file atomically; it is never readable by others."""
        make_dirs(self.path.parent)
        replace_file(self.path, data)


def token_path(folder: Path, url: str) -> Path:
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def forget(folder: Path, url: str) -> bool:
    """Returns False if there was nothing to forget."""
    path = token_path(folder, url)
    there = path.exists()
    path.unlink(missing_ok=True)
    return there
