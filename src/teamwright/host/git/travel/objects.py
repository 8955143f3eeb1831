"""Files in the engine named by their content: what you get under a name is what was stored under it."""

import hashlib
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from teamwright.core.data.code import OBJECT, Parcel
from teamwright.core.errors import ToolError
from teamwright.core.text import shown
from teamwright.osfiles.private import make_dir

Known = Callable[[str], Awaitable[Sequence[Parcel]]]
"""Looks up the parcels of a project that the engine has."""


class Objects(Protocol):
    async def put(self, name: str, path: Path) -> None: ...

    async def put_bytes(self, name: str, data: bytes) -> None: ...

    async def get(self, name: str, path: Path) -> bool: ...

    async def has(self, name: str) -> bool: ...


async def put_code(objects: Objects, path: Path, *, new: bool = False) -> str:
    """Stores a file and returns its name in the engine. Existing content is not sent again; `new`: it cannot exist
    yet."""
    name = f"code/{await anyio.to_thread.run_sync(_digest, path)}"
    if new or not await objects.has(name):
        await objects.put(name, path)
    return name


async def put_small(objects: Objects, data: bytes) -> str:
    """Like `put_code`, for little that the engine cannot have yet."""
    name = f"code/{hashlib.sha256(data).hexdigest()}"
    await objects.put_bytes(name, data)
    return name


async def get_code(objects: Objects, name: str, path: Path) -> None:
    """Raises ToolError if the engine lacks it, or has something else under its name."""
    if not OBJECT.fullmatch(name):
        raise ToolError(f"`{shown(name, 80)}` is not the name of code in the engine.")
    if not await objects.get(name, path):
        raise ToolError(f"The engine has no {name}, which holds code that is needed here.")
    if f"code/{await anyio.to_thread.run_sync(_digest, path)}" != name:
        raise ToolError(f"What the engine has as {name} is something else. Nothing of it was used.")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@asynccontextmanager
async def draft(folder: Path) -> AsyncGenerator[Path]:
    """A path for one temporary file, removed afterwards."""
    await anyio.to_thread.run_sync(make_dir, folder)
    with tempfile.TemporaryDirectory(prefix="code-", dir=folder, ignore_cleanup_errors=True) as made:
        yield Path(made) / "bundle"
