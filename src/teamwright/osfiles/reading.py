"""Reads files of unknown origin: regular files only, bounded, never blocking."""

import os
import stat
from pathlib import Path

from teamwright.core.errors import SettingsError


def read_plain(path: Path | str, most: int, *, follow: bool = True) -> bytes | None:
    """Up to `most` bytes of a regular file; None if it does not exist. `follow`: may the last component be a symlink?

    Raises SettingsError for anything but a readable regular file.
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


def read_whole(path: Path | str, most: int, *, follow: bool = True) -> bytes | None:
    """A whole regular file; None if it does not exist. Also raises SettingsError if it is larger than `most`."""
    data = read_plain(path, most + 1, follow=follow)
    if data is not None and len(data) > most:
        raise SettingsError(f"{path}: larger than {most:,} bytes")
    return data


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
