"""Checkpoints of files before agents change them, so that a driving program can restore them."""

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.to_thread
import msgspec
from msgspec import Struct

from teamwright.core.data.message import ToolCall
from teamwright.core.errors import UsageError
from teamwright.core.ids import AgentId, line_uuid
from teamwright.core.permissions.consent import Allow, Decision
from teamwright.core.permissions.rules import EDITING
from teamwright.osfiles.private import make_dir, open_file, write_all
from teamwright.store.files import transcripts
from teamwright.store.files.paths import SessionFiles
from teamwright.store.tables.state import now_ms

SWITCH = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
MOST_BYTES = 20_000_000  # of one file; a larger one is not kept
Ask = Callable[[AgentId, ToolCall], Awaitable[Decision]]


class Checkpoint(Struct, frozen=True, omit_defaults=True):
    """One file before a change. Without `copy` it was not there; `lost`: it was too large, or could not be read."""

    at: int
    path: str
    copy: str = ""
    mode: int = 0o644
    lost: bool = False


def folder_of(files: SessionFiles) -> Path:
    return files.dir / "checkpoints"


def guarded(ask: Ask, folder: Path) -> Ask:
    """A gate that keeps a copy of what it lets be changed."""

    async def keep_and_ask(agent: AgentId, call: ToolCall) -> Decision:
        decision = await ask(agent, call)
        if isinstance(decision, Allow) and call.name in EDITING:
            for path in decision.paths.values():
                await anyio.to_thread.run_sync(_keep, folder, path)
        return decision

    return keep_and_ask


def _keep(folder: Path, path: str) -> None:
    make_dir(folder)
    kept = Checkpoint(now_ms(), path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        pass
    except OSError:
        kept = Checkpoint(now_ms(), path, lost=True)
    else:
        kept = _copy(folder, path, handle)
    index = open_file(folder / "index.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        write_all(index, msgspec.json.encode(kept) + b"\n")
    finally:
        os.close(index)


def _copy(folder: Path, path: str, handle: int) -> Checkpoint:
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return Checkpoint(now_ms(), path, lost=True)
        data = file.read(MOST_BYTES)
    name = os.urandom(8).hex()
    copy = open_file(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(copy, data)
    finally:
        os.close(copy)
    return Checkpoint(now_ms(), path, name, stat.S_IMODE(found.st_mode))


def rewind(transcript: Path, message: str) -> list[str]:
    """Every file that was changed since that prompt as it was before; the paths. Blocks."""
    agent = AgentId(transcript.stem)
    since = next((line.at for n, line in transcripts.read(transcript) if line_uuid(agent, n) == message), None)
    if since is None:
        raise UsageError(f"there is no message {message} in this session; --replay-user-messages prints their ids")
    folder = folder_of(SessionFiles(transcript))
    first: dict[str, Checkpoint] = {}
    for kept in _read(folder / "index.jsonl"):
        if kept.at >= since:
            first.setdefault(kept.path, kept)
    lost = [kept.path for kept in first.values() if kept.lost]
    if lost:
        raise UsageError(f"no copy was kept of {', '.join(lost)}; nothing was changed")
    for kept in first.values():
        _restore(folder, kept)
    return list(first)


def _read(index: Path) -> list[Checkpoint]:
    if not index.is_file():
        return []
    return [msgspec.json.decode(line, type=Checkpoint) for line in index.read_bytes().splitlines() if line]


def _restore(folder: Path, kept: Checkpoint) -> None:
    path = Path(kept.path)
    try:
        if not kept.copy:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(path, flags, kept.mode)
        with os.fdopen(handle, "wb") as file:
            file.write((folder / kept.copy).read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be brought back: {error.strerror or error}") from None
