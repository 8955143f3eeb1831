"""Small JSON files of ours that a person's commands change: one process at a time, replaced as a whole."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from teamwright.core.errors import SettingsError, StoreError

LOCK_SECONDS = 5.0


@contextmanager
def alone_with(file: Path, state: Path) -> Generator[None]:
    """No other process changes this file meanwhile. What goes wrong inside is told as a fault of the file."""
    try:
        for path in (state, file.parent, state / "run"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(state / "run" / f"{file.stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait_for(lock, file)
            yield
        finally:
            os.close(lock)
    except SettingsError as error:
        raise StoreError(f"{error}. Nothing was changed; repair or remove that file.") from None
    except OSError as error:
        raise StoreError(f"{file} cannot be changed: {error.strerror or error}") from None


def replace(file: Path, value: object) -> None:
    draft = file.with_name(f".{file.name}.{os.urandom(6).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
            opened.flush()
            os.fsync(handle)
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _wait_for(lock: int, file: Path) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StoreError(f"{file}: another process is changing it; try again") from None
            time.sleep(0.01)
        else:
            return
