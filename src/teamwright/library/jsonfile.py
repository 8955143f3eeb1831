"""Reads files that people wrote without trusting them: regular files only, bounded, never blocking."""

import os
import stat
from pathlib import Path
from typing import Any

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import decode_object

MOST_JSON = 4_000_000


def read_plain(path: Path | str, most: int, *, follow: bool = True) -> bytes | None:
    """At most `most` bytes of a regular file; None if there is none. `follow`: may its last part be a link?

    Raises SettingsError for anything else than a regular file that can be read.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read: {_why(error)}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SettingsError(f"{path}: not a regular file")
        data = b""
        while len(data) < most and (piece := os.read(handle, most - len(data))):
            data += piece
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {_why(error)}") from None
    finally:
        os.close(handle)
    return data


def read_json(path: Path, problems: list[str] | None = None) -> dict[str, Any] | None:
    """The JSON object in a file, None if there is no file. Raises SettingsError with file, line and column.

    `problems` as for `decode_object`.
    """
    data = read_plain(path, MOST_JSON + 1)
    if data is None:
        return None
    if len(data) > MOST_JSON:
        raise SettingsError(f"{path}: larger than {MOST_JSON:,} bytes")
    return decode_object(data, str(path), problems)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
