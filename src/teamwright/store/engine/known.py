"""Remembers which space this machine knew at which address of an engine; needs no client."""

import contextlib
import sqlite3
from pathlib import Path

import msgspec

from teamwright.osfiles.private import write_file
from teamwright.store.engine.port import EngineError


def read_known(engines: Path) -> dict[str, str]:
    """Address -> space."""
    try:
        return msgspec.json.decode((engines / "known.json").read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def check_known(engines: Path, address: str, space: str) -> None:
    """Check that the space known at an address is still there; remember a new one."""
    known = read_known(engines)
    before = known.get(address, space)
    if before != space and (engines / before).is_dir():
        raise EngineError(
            f"The engine at {address} is not the one that this machine knew there: it lacks everything that "
            f"{engines / before} holds. Nothing was changed. Restore the engine's own backup; or, if it was made "
            "anew on purpose, remove that directory."
        )
    if known.get(address) != space:
        write_file(engines / "known.json", msgspec.json.encode(known | {address: space}))


def last_heard(database: Path) -> int:
    """When the last entry that is applied there was stored, in milliseconds; 0 if there is none."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        return db.execute("SELECT at FROM space").fetchone()[0]
