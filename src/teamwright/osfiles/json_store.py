"""Small JSON files that commands change under a lock and replace atomically."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from teamwright.core.errors import SettingsError, StoreError
from teamwright.osfiles.locks import hold
from teamwright.osfiles.private import make_dirs, replace_file

LOCK_SECONDS = 5.0


@contextmanager
def alone_with(file: Path, state: Path) -> Generator[None]:
    """Locks the file against changes by other processes. Errors inside are reported as errors of the file."""
    try:
        for path in (state, file.parent, state / "run"):
            make_dirs(path)
        lock = hold(state / "run" / f"{file.stem}.lock", wait=LOCK_SECONDS)
        if lock is None:
            raise StoreError(f"{file}: another process is changing it; try again")
        try:
            yield
        finally:
            lock.release()
    except SettingsError as error:
        raise StoreError(f"{error}. Nothing was changed; repair or remove that file.") from None
    except OSError as error:
        raise StoreError(f"{file} cannot be changed: {error.strerror or error}") from None


def replace(file: Path, value: object) -> None:
    replace_file(file, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
